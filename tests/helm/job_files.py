"""Valid job files at random, drawn from the models.

Every field of the models is drawn, by its type; VALUES has those of which a type allows too much to be worth drawing.
What the rules refuse of it is then taken out, so a new field and a new rule count from the day they are there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import reject
from hypothesis import strategies as st
from msgspec import inspect

from k8sel.errors import FieldPath
from k8sel.facts.accelerators import ROWS, without_devices
from k8sel.facts.backends import BACKENDS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.jobfile import validate
from k8sel.jobfile.defaults import default
from k8sel.jobfile.spec import Ccl, JobFile, Mpi, decode

Strategy = st.SearchStrategy[Any]
Data = dict[str, Any]

EXACT = 2**53  # Helm's values are doubles
UNITS = ("m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
REPAIRS = 40

_SAID = ("CCL_WORKER_COUNT", "CCL_KVS_IFACE", "CCL_PROCESS_LAUNCHER", "I_MPI_PIN_DOMAIN")  # by a field, too

_CHARACTERS = st.characters(exclude_categories=["Cs"])
_text = st.text(_CHARACTERS, max_size=8)
_word = _text | st.sampled_from(
    [
        "python",
        "python3",
        "-m",
        "--",
        "-",
        "train.py",
        "$",
        "$$",
        "$(A)",
        "$$(A)",
        "$local_rank",
        "${local_rank}",
        "1e-3",
    ]
)
_option = st.sampled_from(["--ddp_backend {}", "--ddp-backend {}", "--ddp_backend={}", "--ddp-backend={}"])
_named = st.sampled_from([*BACKENDS, "other"])
_words = st.lists(
    _word.map(lambda word: [word]) | st.builds(lambda text, name: text.format(name).split(), _option, _named),
    max_size=4,
).map(lambda parts: [word for part in parts for word in part])
_program = st.sampled_from(["python", "python3", "run.sh"]) | _text.filter(str.strip)
_label = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", fullmatch=True)
_key = st.sampled_from(["team", "example.org/team", "topology.kubernetes.io/zone", "A_b.c"])
_name = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
_volume = st.sampled_from(["data", "cache"])
_number = st.integers(-EXACT, EXACT) | st.floats(allow_nan=False, allow_infinity=False)
_quantity = st.one_of(
    st.builds("{}{}".format, st.sampled_from([1, 2, 0.3, 16, 1.5, "7.", ".25"]), st.sampled_from(["", *UNITS])),
    st.integers(1, EXACT),
    st.floats(1e-9, EXACT),
    st.sampled_from(["1e3", "2E-2", "40960Mi"]),
)
_any = st.recursive(
    st.none() | st.booleans() | _number | _text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_text, inner, max_size=2),
    max_leaves=4,
)
_opaque = st.dictionaries(_text, _any, max_size=2)


def _some(**fields: Strategy) -> Strategy:
    """Mappings with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_term = _some(matchExpressions=st.lists(_opaque, max_size=2), matchFields=st.lists(_opaque, max_size=1))
_required = _some(nodeSelectorTerms=st.lists(_term, max_size=2))
_user = {
    "runAsUser": st.sampled_from([0, 1000]),
    "runAsGroup": st.just(1000),
    "runAsNonRoot": st.booleans(),
    "seccompProfile": st.just({"type": "Unconfined"}),
}
_capabilities = st.lists(st.sampled_from(["IPC_LOCK", "NET_BIND_SERVICE", "SYS_NICE"]), max_size=3)

# field -> values worth drawing
VALUES: dict[str, Strategy] = {
    "name": _name,
    "namespace": _name,
    "labels": st.dictionaries(_key, _label, max_size=2),
    "annotations": st.dictionaries(_key, _text, max_size=2),
    "image": st.sampled_from(["img", "registry.example/train:1"]),
    "command": st.builds(lambda program, words: [program, *words], _program, _words),
    "nodes": st.integers(1, 5),
    "processesPerNode": st.integers(1, 8),
    "type": st.sampled_from([row.name for row in ROWS.values() if row.in_container]),
    "count": st.integers(0, 9),
    "devices": st.lists(st.integers(0, 8), unique=True, max_size=5),
    "product": st.lists(_label, max_size=2),
    "resource": st.sampled_from(
        [*filter(None, (row.resource_name for row in ROWS.values())), "nvidia.com/mig-1g.10gb"]
    ),
    "backend": st.sampled_from([*BACKENDS]),
    "workers": st.integers(1, 3),
    "workerAffinity": st.sampled_from(["auto", "0", "0,24", "0-3", "010-9,3-1"]),
    "provider": st.sampled_from(["tcp", "verbs;ofi_rxm"]),
    "interface": st.sampled_from(["eth0", "ib0.8001"]),
    "resources": st.dictionaries(
        st.sampled_from(["cpu", "memory", "rdma/hca", "hugepages-2Mi"]), _quantity, max_size=3
    ),
    "memory": _quantity,
    "sharedMemory": _quantity,
    "env": st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["A", "B", "PYTHONUNBUFFERED", "HF_HOME", "a.b", *_SAID])},
            optional={"value": _word, "valueFrom": st.just({"fieldRef": {"fieldPath": "metadata.name"}})},
        ),
        max_size=4,
    ),
    "volumes": st.lists(
        st.fixed_dictionaries({"name": _volume}, optional={"emptyDir": _opaque, "hostPath": _opaque}), max_size=2
    ),
    "volumeMounts": st.lists(
        st.fixed_dictionaries({"name": _volume, "mountPath": st.sampled_from(["/data", "/tmp/", "/a b"])}), max_size=2
    ),
    "imagePullSecrets": st.lists(st.just({"name": "registry"}), max_size=1),
    "serviceAccountName": _name,
    "runtimeClassName": _name,
    "securityContext": _some(
        **_user,
        privileged=st.booleans(),
        allowPrivilegeEscalation=st.booleans(),
        readOnlyRootFilesystem=st.booleans(),
        capabilities=_some(add=_capabilities, drop=_capabilities),
        other=_any,
    ),
    "podSecurityContext": _some(**_user, fsGroup=st.just(1000), other=_any),
    "nodeSelector": st.dictionaries(_key, _label, max_size=2),
    "affinity": _some(
        nodeAffinity=_some(requiredDuringSchedulingIgnoredDuringExecution=_required, other=_any), other=_opaque
    ),
    "tolerations": st.lists(
        _opaque | st.just({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}), max_size=2
    ),
    "sshAuthMountPath": st.sampled_from(["/root/.ssh", "/home/mpiuser/.ssh", "/keys"]),
    "queue": _label,
    "priorityClassName": _name,
    "schedulerName": st.sampled_from(["volcano", "other"]),
}
ALWAYS = ("image",)  # optional in the model, since one platform needs none


def job_files() -> Strategy:
    """Valid job files as plain data."""
    return drafts().map(_repaired)


def drafts() -> Strategy:
    """Job files that are right in form, as plain data."""
    each = _typed(inspect.type_info(JobFile))
    return each | st.builds(lambda draft, spec: {**draft, "spec": {**draft["spec"], **spec}}, each, _by_oneccl())


def _by_oneccl() -> Strategy:
    """Fields that seldom fit each other where each is drawn for itself: processes on CPUs, connected by oneCCL."""
    kind = without_devices().name
    fields = {
        "accelerator": st.just({"type": kind}),
        "launcher": st.sampled_from(["mpirun", *LAUNCHERS]),
        "backend": st.sampled_from([name for name, row in BACKENDS.items() if row.oneccl and row.connects(kind)]),
        "ccl": _whole(Ccl),
        "cpu": st.fixed_dictionaries({"threadsPerProcess": st.integers(1, 64)}),
        "mpi": _whole(Mpi),
        "securityContext": VALUES["securityContext"],
    }
    return st.fixed_dictionaries(fields)


def _whole(model: type[Ccl | Mpi]) -> Strategy:
    """Mappings with all fields of a model, of which each is optional."""
    info = inspect.type_info(model)
    assert isinstance(info, inspect.StructType)
    return st.fixed_dictionaries({f.encode_name: _field(f.encode_name, f.type) | st.none() for f in info.fields})


def _model(info: inspect.StructType) -> Strategy:
    """The mapping of one model."""
    fields = {field.encode_name: _field(field.encode_name, field.type) for field in info.fields}
    needed = {f.encode_name for f in info.fields if f.required or f.encode_name in ALWAYS}
    nullable = {f.encode_name for f in info.fields if _takes_null(f.type) and f.encode_name not in ALWAYS}
    drawn = {name: values | st.none() if name in nullable else values for name, values in fields.items()}
    return st.fixed_dictionaries(
        {name: values for name, values in drawn.items() if name in needed},
        optional={name: values for name, values in drawn.items() if name not in needed},
    )


def _takes_null(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.UnionType) and kind.includes_none


def _field(name: str, kind: inspect.Type) -> Strategy:
    return VALUES[name] if name in VALUES else _typed(kind)


def _typed(kind: inspect.Type) -> Strategy:
    """Values of a type that has few enough."""
    if isinstance(kind, inspect.Metadata):
        return _typed(kind.type)
    if isinstance(kind, inspect.UnionType):
        return st.one_of([_typed(each) for each in kind.types if not isinstance(each, inspect.NoneType)])
    for each, values in TYPES.items():
        if isinstance(kind, each):
            return values(kind)
    raise TypeError(f"VALUES has to have values for a field of {kind}")


TYPES: dict[type[inspect.Type], Callable[[Any], Strategy]] = {
    inspect.StructType: _model,
    inspect.LiteralType: lambda kind: st.sampled_from(kind.values),
    inspect.IntType: lambda kind: st.integers(kind.ge, kind.le),
    inspect.BoolType: lambda _: st.booleans(),
    inspect.StrType: lambda kind: st.text(_CHARACTERS, min_size=kind.min_length or 0, max_size=8),
}


def _repaired(drawn: Data) -> Data:
    """``drawn`` without what the rules refuse; given up where that leaves no job file."""
    data = copy.deepcopy(drawn)
    for _ in range(REPAIRS):
        path = _refused(data)
        if path is None:
            break
        _take_out(data, path)
    else:
        reject()
    return data


def _refused(data: Data) -> FieldPath | None:
    """The place of the first thing that is wrong."""
    try:
        job = default(decode(data))
    except msgspec.ValidationError:
        reject()
    problems = validate.errors(validate.validate(job))
    return problems[0].path if problems else None


def _take_out(whole: Data, path: FieldPath) -> None:
    """Removes what is at ``path``, or the nearest part around it that is there."""
    around: Any = None
    inner: Any = whole
    for part in path:
        if not _has(inner, part):
            break
        around, last, inner = inner, part, inner[part]
    del around[last]


def _has(data: object, part: str | int) -> bool:
    return part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
