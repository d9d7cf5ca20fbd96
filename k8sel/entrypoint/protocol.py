"""The expectation: the devices that the entrypoint must find, as JSON with a version in ``K8SEL_EXPECT``.

Both sides use this definition: ``plan`` writes it, the entrypoint reads it. Standard library only, Python >= 3.9.
The JSON is compact, with sorted camelCase keys. Readers parse it and do not compare its bytes.
"""

from __future__ import annotations

from k8sel.entrypoint.lean import TYPE_CHECKING, dumps, loads, record

if TYPE_CHECKING:
    from typing import Any, Callable

VERSION = 1
VARIABLE = "K8SEL_EXPECT"
PLAIN = (  # the variables that a user writes by hand instead
    "K8SEL_ACCELERATOR",
    "K8SEL_COUNT",
    "K8SEL_DEVICES",
    "K8SEL_ORDER",
    "K8SEL_PRODUCT",
    "K8SEL_MEMORY",
    "K8SEL_BACKEND",
)
CHECK = "K8SEL_CHECK"  # overrides the check of the job at this start
NODE = "K8SEL_NODE"
TERMINATION_LOG = "K8SEL_TERMINATION_LOG"
EMPTIED = (CHECK, NODE, TERMINATION_LOG)  # rendered pods set them empty: an image's ENV could set them otherwise
ENVIRON = "K8SEL_ENVIRON"  # the file with a container's own environment, of a process that came over ssh


@record(frozen=True)
class Expectation:
    """The devices that each node of one job must find."""

    accelerator: str  # a row of the accelerator table
    devices: tuple[int, ...]  # positions among the devices found, in `order`: local rank r gets devices[r]
    count: int | None = None  # devices the node must hold, exactly; None: at least max(devices) + 1
    order: str = "pci"  # how positions are counted: pci | fastest
    product: tuple[str, ...] = ()  # product names allowed, in the spelling of the vendor's node label; () is any
    memory: int | None = None  # bytes that each device must have, at least
    shared_memory: int | None = None  # bytes that /dev/shm must hold
    isolation: str = "node"  # node: a rank sees all of `devices`; process: only its own consecutive share
    launcher: str = "python"  # torchrun | accelerate | deepspeed | mpirun | python
    mpi: str = ""  # OpenMPI | Intel | MPICH, where the launcher is mpirun
    backend: str = ""  # torch.distributed's, where the job file says which the command uses
    nodes: int = 1
    processes_per_node: int = 1
    threads_per_process: int | None = None  # None: counted from the cores of the container
    check: str = "enforce"  # enforce | warn | off
    job: str = ""
    job_file: str = ""  # sha256 of the job file, for the receipt
    probe: tuple[str, ...] = ()  # MPI only: the command that starts one check on each node
    hostfile: str = ""  # MPI only: the file that lists the nodes
    rank_command: int = 0  # number of words at the command's end that mode rank starts; 0: no rank uses that mode

    def to_json(self) -> str:
        """Returns compact JSON with sorted keys, without fields at their default."""
        default = Expectation("", ())
        fields = {
            _camel(name): value
            for name, value in vars(self).items()
            if name in _REQUIRED or value != getattr(default, name)
        }
        return dumps({"version": VERSION, **fields})


MOST = 65536  # limit of every number: a larger one is a typing error
MOST_BYTES = 2**63 - 1
_SHOWN = 100  # characters of a wrong value in its message
_REQUIRED = ("accelerator", "devices")
_INTEGERS = ("count", "nodes", "processes_per_node", "threads_per_process", "rank_command")
_BYTES = ("memory", "shared_memory")
_WORDS = {"order": ("pci", "fastest"), "isolation": ("node", "process"), "check": ("enforce", "warn", "off")}


def parse(text: str) -> Expectation:
    """Reads the expectation in ``text``. Raises ValueError, with a message for people, if it is wrong."""
    try:
        return _parsed(text)
    except RecursionError:
        raise ValueError(f"{VARIABLE} is nested too deeply") from None


def _parsed(text: str) -> Expectation:
    try:
        fields: Any = loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE} is not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.pop("version", None) != VERSION:
        raise ValueError(f"{VARIABLE} is not of version {VERSION}: use the entrypoint and k8sel of one release")
    known = {_camel(name): name for name in Expectation.__annotations__}
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ValueError(f"{VARIABLE} has unknown fields: {', '.join(unknown)}")
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise ValueError(f"{VARIABLE} lacks: {', '.join(missing)}")
    for key, value in fields.items():
        if not _fits(known[key], value):
            raise ValueError(f"{VARIABLE}: {key} cannot be {_shortened(value)}")
    values: dict[str, Any] = {known[key]: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
    return Expectation(**values)


def _shortened(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _fits(name: str, value: Any) -> bool:
    """Reports if ``value`` has the field's type. JSON's true is not a number, although Python's is."""
    if name in _LISTS:
        return isinstance(value, list) and all(_LISTS[name](item) for item in value)
    if name in (*_INTEGERS, *_BYTES):
        if value is None:
            return name in _OPTIONAL
        most = MOST_BYTES if name in _BYTES else MOST
        return type(value) is int and (0 if name == "count" else 1) <= value <= most
    return isinstance(value, str) and value in _WORDS.get(name, (value,))


def _is_position(item: Any) -> bool:
    return type(item) is int and 0 <= item < MOST


def _is_text(item: Any) -> bool:
    return isinstance(item, str)


_OPTIONAL = ("count", "threads_per_process", *_BYTES)
_LISTS: dict[str, Callable[[Any], bool]] = {"devices": _is_position, "product": _is_text, "probe": _is_text}


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)
