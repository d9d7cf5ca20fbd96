"""Converts `docker run` and `podman run` to the job file's fields. Reads the command inside like any other line.

docker/cli docs/reference/commandline/container_run.md lists the options and their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from k8sel.adopt.line import masks
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.options import Given, Kept, Option, Style, read
from k8sel.adopt.line.words import Word
from k8sel.errors import FieldPath, Kind
from k8sel.facts.accelerators import ROWS, Row
from k8sel.wording import bare, quote

Program = Callable[[Draft, Sequence[Word]], None]

_STARTS = "k8sel starts the containers, watches them and removes them"
_NETWORK = "a pod has a network of its own"
_LIMITS = "the container runtime sets these limits"
_CLUSTER = "the cluster's administrator decides it"
TABLE = (
    *(Option(name, keep=True) for name in ("--gpus", "--device", "--runtime", "--image", "--entrypoint", "--name")),
    *(Option(name, keep=True) for name in ("--env -e", "--volume -v", "--mount", "--workdir -w", "--user -u")),
    *(Option(name, keep=True) for name in ("--shm-size", "--memory -m", "--cpus", "--cap-add", "--cap-drop", "--pull")),
    *(Option(name, 0, keep=True) for name in ("--privileged", "--read-only")),
    Option("--rm --interactive -i --tty -t --detach -d --init", takes=0),
    Option("--ipc", note="sharedMemory sizes /dev/shm for the processes of a node", hint="sharedMemory: 16Gi"),
    Option("--network --net", note=_NETWORK, hint="set hostNetwork: true to use the node's network"),
    Option("--publish -p", note=_NETWORK),
    Option("--publish-all -P", takes=0, note=_NETWORK),
    Option("--expose --hostname -h --add-host --dns --ip --network-alias --mac-address --link", note=_NETWORK),
    Option("--ulimit", note=_LIMITS, hint="set securityContext.capabilities.add: [IPC_LOCK] for memory locks"),
    Option("--memory-swap --memory-reservation --oom-score-adj --pids-limit --kernel-memory", note=_LIMITS),
    Option("--cpuset-cpus --cpuset-mems --cpu-shares --cpu-quota --cpu-period", note=_LIMITS, hint="set resources.cpu"),
    Option("--group-add", note="the pod sets its groups", hint="podSecurityContext: {supplementalGroups: [NUMBER]}"),
    Option("--security-opt --cgroupns --userns --uts --pid --sysctl --cgroup-parent --isolation", note=_CLUSTER),
    Option("--env-file", note="the content of that file is not in the line", hint="use env, or a Secret"),
    Option(
        "--tmpfs --volumes-from --volume-driver --storage-opt",
        note="it is a volume",
        hint="use volumes and volumeMounts",
    ),
    Option("--restart --stop-signal --stop-timeout --cidfile --detach-keys --attach -a", note=_STARTS),
    Option("--sig-proxy --no-healthcheck --quiet -q --oom-kill-disable", takes=0, note=_STARTS),
    Option("--health-cmd --health-interval --health-retries --health-timeout --log-driver --log-opt", note=_STARTS),
    Option("--label -l --label-file --annotation", note="metadata.labels names the job on a cluster"),
    Option("--platform", note="nodeSelector chooses nodes", hint="nodeSelector: {kubernetes.io/arch: amd64}"),
    Option("--help", takes=0, refuse="this only prints the options", hint="leave it out"),
)
_COPIED: dict[str, FieldPath] = {
    "--workdir": ("spec", "workingDir"),
    "--shm-size": ("spec", "sharedMemory"),
    "--cpus": ("spec", "resources", "cpu"),
    "--memory": ("spec", "resources", "memory"),
    "--name": ("metadata", "name"),
}
_SIZES = ("--shm-size", "--memory")
_SIZE = re.compile(r"([0-9]+)([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi"}
_PULL = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}


def run(draft: Draft, words: Sequence[Word], program: Program) -> None:
    """Reads ``words``, the arguments of `docker`; ``program`` reads the command in the container."""
    verbs = [word.text for word in words[:2]]
    skipped = 2 if verbs == ["container", "run"] else 1
    if "run" not in verbs[:skipped]:
        place = words[0] if words else Word(text="", start=len(draft.text), end=len(draft.text))
        draft.refuse(place, "only `docker run` starts a training", "write docker run IMAGE COMMAND")
        return
    kept = read(TABLE, words[skipped:], draft, Style(joins=True))
    outside, draft.env, draft.in_container = draft.env, {}, True
    for name, word in outside.items():
        draft.note(word, f"{name} is not carried over: it reaches docker, but not the container", f"add -e {name}")
    _env(draft, kept, outside)
    _devices(draft, kept)
    _fields(draft, kept)
    _image(draft, kept, words[0], program)


def _image(draft: Draft, kept: Kept, place: Word, program: Program) -> None:
    """Reads the image, and the command that runs in it."""
    if not kept.rest:
        draft.refuse(place, "the image is missing", "write docker run IMAGE COMMAND", Kind.REQUIRED)
        return
    image, *command = kept.rest
    if draft.known(image):
        draft.put(("spec", "image"), image.text, image)
    entrypoint = kept.last("--entrypoint")
    words = [entrypoint.value, *command] if entrypoint and entrypoint.value.text else command
    if words:
        program(draft, words)
    else:
        message = f"the program that {bare(image.text)} starts by default is not in the line"
        draft.refuse(image, message, "write the command after the image", Kind.REQUIRED)


def _env(draft: Draft, kept: Kept, outside: dict[str, Word]) -> None:
    """Reads -e NAME=VALUE, and -e NAME, which takes the shell's value."""
    for given in kept.all("--env"):
        name, joined, value = given.value.text.partition("=")
        if joined:
            draft.env[name] = given.value.part(value)
        elif name in outside:
            draft.env[name] = outside[name]
        else:
            draft.warn(
                given.value, f"{bare(name)} is not carried over: its value is not in the text", f"write -e {name}=VALUE"
            )


def _devices(draft: Draft, kept: Kept) -> None:
    """Reads the options that bring devices into the container: --gpus, a runtime, device nodes."""
    gpus, runtime, nodes = kept.last("--gpus"), kept.last("--runtime"), kept.all("--device")
    by_driver = next(row for row in ROWS.values() if row.docker_driver)
    if gpus:
        draft.row_hints.setdefault(by_driver.name, gpus.value)
        _gpus(draft, by_driver, gpus)
    if runtime:
        _runtime(draft, runtime)
    if nodes:
        _nodes(draft, nodes)


def _gpus(draft: Draft, row: Row, gpus: Given) -> None:
    """Reads `all`, a number, or `device=0,2`, beside capabilities; docker/cli opts/gpus.go."""
    text = gpus.value.text.strip("'\"")
    device = re.search(r"(?:^|,)\"?device=([^\"]*?)\"?(?:,[a-z]+=.*)?$", text)
    count = re.fullmatch(r"(?:count=)?([0-9]{1,4})(?:,.*)?", text)
    if device:
        masks.expose(draft, row, gpus.value.part(device[1]), "--gpus")
    elif count:
        draft.exposed_count = int(count[1])
    elif text.split(",")[0] not in ("all", "count=all", "count=-1", "-1"):
        draft.refuse(gpus.value, f"{quote(text)} chooses no devices", "write --gpus 2, or --gpus '\"device=0,2\"'")


def _runtime(draft: Draft, runtime: Given) -> None:
    """Reads the runtime; the accelerator table names the runtime of each type."""
    name = runtime.value.text
    for row in ROWS.values():
        if name in (row.docker_runtime, row.docker_driver):
            draft.row_hints.setdefault(row.name, runtime.value)
            return
    draft.note(runtime.value, f"runtime {bare(name)} is not carried over: {_CLUSTER}")


def _nodes(draft: Draft, nodes: Sequence[Given]) -> None:
    """Reads device nodes: they mean the row with the largest share of its nodes among them."""
    paths = [given.value.text.split(":")[0] for given in nodes]
    matches = {row.name: _matched(row, paths) for row in ROWS.values()}
    best = max(matches, key=lambda name: matches[name])
    if not matches[best]:
        message = f"{bare(paths[0])} is not carried over: it belongs to no accelerator"
        draft.note(nodes[0].value, message, "use a hostPath volume")
        return
    draft.row_hints.setdefault(best, nodes[0].value)
    whole = [path for path in paths if path.count("/") > 2]
    draft.note(
        nodes[0].value,
        "the list of device nodes is not carried over: k8sel finds the nodes of the job's devices",
        "set accelerator.count or devices" if whole else "",
    )


def _matched(row: Row, paths: Sequence[str]) -> float:
    """Returns the share of a row's device nodes that ``paths`` bring in; 0 without the row's first node."""
    patterns = [pattern.format(n="*") for pattern in row.docker_nodes]
    found = [any(_brings(path, pattern) for path in paths) for pattern in patterns]
    return sum(found) / len(found) + len(found) / 100 if found and found[0] else 0


def _brings(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or pattern.startswith(path.rstrip("/") + "/")


def _fields(draft: Draft, kept: Kept) -> None:
    """Reads the options that have a field in the job file."""
    for name, path in _COPIED.items():
        given = kept.last(name)
        if given and draft.known(given.value):
            draft.put(path, _size(draft, given) if name in _SIZES else given.value.text, given.value)
    _security(draft, kept)
    _volumes(draft, kept)
    pull = kept.last("--pull")
    if pull and pull.value.text in _PULL:
        draft.put(("spec", "imagePullPolicy"), _PULL[pull.value.text], pull.value)


def _size(draft: Draft, given: Given) -> str:
    """Converts a size of docker, in powers of 1024, to a quantity."""
    match = _SIZE.fullmatch(given.value.text)
    if match is None:
        draft.refuse(given.value, f"{quote(given.value.text)} is not a size", "write a size, for example 16g")
        return "1Gi"
    return match[1] + _UNITS[match[2].lower()]


def _security(draft: Draft, kept: Kept) -> None:
    for name, field in {"--privileged": "privileged", "--read-only": "readOnlyRootFilesystem"}.items():
        given = kept.last(name)
        if given:
            draft.put(("spec", "securityContext", field), True, given.value)
    for name, field in {"--cap-add": "add", "--cap-drop": "drop"}.items():
        all_of = kept.all(name)
        if all_of:
            names = [each.value.text.upper().removeprefix("CAP_") for each in all_of]
            draft.put(("spec", "securityContext", "capabilities", field), names, all_of[0].value)
    _user(draft, kept)


def _user(draft: Draft, kept: Kept) -> None:
    given = kept.last("--user")
    if given is None:
        return
    user, _, group = given.value.text.partition(":")
    if given.value.unknown or not re.fullmatch("[0-9]{1,9}", user) or not re.fullmatch("[0-9]{0,9}", group):
        message = f"user {bare(given.value.text)} is not carried over: a pod names users by number"
        draft.warn(given.value, message, "podSecurityContext: {runAsUser: 1000}")
        return
    draft.put(("spec", "securityContext", "runAsUser"), int(user), given.value)
    if group:
        draft.put(("spec", "securityContext", "runAsGroup"), int(group), given.value)


def _volumes(draft: Draft, kept: Kept) -> None:
    """Reads the host's folders; a named volume of docker does not exist on a cluster."""
    volumes: list[dict[str, object]] = []
    mounts: list[dict[str, object]] = []
    for given, source, target, read_only in _mounts(kept):
        if not target or given.value.unknown:
            _unnamed(draft, given)
            continue
        if not source.startswith("/"):
            message = f"{bare(given.value.text)} is not carried over: only a folder of the host can be mounted"
            draft.warn(given.value, message, "use a persistentVolumeClaim in volumes, and volumeMounts")
            continue
        name = f"volume-{len(volumes)}"
        volumes.append({"name": name, "hostPath": {"path": source}})
        mounts.append({"name": name, "mountPath": target, **({"readOnly": True} if read_only else {})})
        draft.put(("spec", "volumes"), volumes, given.value)
        draft.put(("spec", "volumeMounts"), mounts, given.value)
    if volumes:
        word = draft.sources[("spec", "volumes")]
        draft.note(
            word,
            "the host's folders become hostPath volumes, so each node must have them",
            "use a persistentVolumeClaim",
        )


def _mounts(kept: Kept) -> list[tuple[Given, str, str, bool]]:
    """Reads -v SOURCE:TARGET:ro and --mount type=bind,source=...,target=...,readonly."""
    found = []
    for given in kept.all("--volume"):
        source, _, rest = given.value.text.partition(":")
        target, _, options = rest.partition(":")
        found.append((given, source, target, "ro" in options.split(",")))
    for given in kept.all("--mount"):
        parts = dict(part.partition("=")[::2] for part in given.value.text.split(","))
        source = next((parts[name] for name in ("source", "src") if name in parts), "")
        target = next((parts[name] for name in ("target", "dst", "destination") if name in parts), "")
        found.append((given, source, target if source else "", "readonly" in parts or "ro" in parts))
    return found


def _unnamed(draft: Draft, given: Given) -> None:
    missing = (
        f": only the shell knows {quote(given.value.unknown[0])}" if given.value.unknown else ": it names no source"
    )
    draft.warn(given.value, f"{bare(given.value.text)} is not carried over{missing}", "use volumes and volumeMounts")
