"""What mpirun binds ranks to, as mpi.binding: only where k8sel's own words for that (data/mpi.json) do the same.

Sources: open-mpi docs, mpirun(1); MPICH mpiexec.hydra -bind-to -help and -map-by -help, where the map is that of the
binding unless it is given; Intel MPI Developer Reference, Process Pinning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from k8sel.adopt.line import ccl
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.errors import FieldPath
from k8sel.facts.launchers import MPIS
from k8sel.wording import bare

_MPI: FieldPath = ("spec", "mpi", "implementation")
_BINDING: FieldPath = ("spec", "mpi", "binding")
_THREADS: FieldPath = ("spec", "cpu", "threadsPerProcess")
_OTHERWISE = "mpi.binding says what ranks are bound to, and none of its words does the same"
_OVER = "--oversubscribe"
_SOCKET = "(socket|package)"
_DOMAIN = "I_MPI_PIN_DOMAIN"
_UNBOUND = re.compile(r"(none|slot|node|ppr:[0-9]+:node)(:(?!PE=).*)?", re.IGNORECASE)


def _bound(to: str) -> str:
    """Open MPI binds to what it maps by, but 5 binds nothing where it may give a core to several: run with 5.0.11."""
    return rf"({to}|(?!.*{_OVER}))"


class _Words(Struct, frozen=True):
    """Where an MPI is told: options or variables, and what they mean, one behind the other."""

    names: tuple[str, ...]
    bindings: Mapping[str, str]  # mpi.binding -> the values, as a pattern; <cores>: of each rank
    unasked: str = ""  # what it does of itself, and a job does not


_SAID: Mapping[str, _Words] = MappingProxyType(
    {
        "OpenMPI": _Words(
            ("--bind-to", "--map-by", _OVER),
            {
                "none": r"none \S* \S*",
                "socket": rf"({_bound(_SOCKET)} {_SOCKET}|{_SOCKET} ppr:1:{_SOCKET}) \S*",
                "numa": rf"({_bound('numa')} numa|numa ppr:1:numa) \S*",
                "core": rf"{_bound('core')} (slot|ppr:[0-9]+:node):PE=(?P<cores>[0-9]+) \S*",
            },
            "Open MPI binds ranks by itself, up to two of them to one core each, and a job's are bound to nothing",
        ),
        "MPICH": _Words(
            ("--bind-to", "--map-by"),
            {
                "none": r"none \S*",
                "socket": r"socket (socket)?",
                "numa": r"numa (numa)?",
                "core": r"core(:(?P<cores>[0-9]+))? (core(:(?P=cores))?)?",
            },
        ),
        "Intel": _Words(
            (_DOMAIN, "I_MPI_PIN_CELL", "I_MPI_PIN"),
            {
                "none": r"\S* \S* (0|no|off|disable)",
                "socket": r"socket \S* (1|yes|on|enable)?",
                "numa": r"numa \S* (1|yes|on|enable)?",
                "core": r"(?P<cores>[0-9]+)(:compact)? core (1|yes|on|enable)?",
            },
        ),
    }
)


def settle(draft: Draft) -> None:
    """mpi.binding; options that bind otherwise are named, variables stay what they are."""
    said = _SAID.get(draft.implementation)
    _by_threads(draft)
    binding = _same(draft, said) if said else None
    if said and binding:
        place = next(word for name in said.names if (word := _word(draft, name)))
        draft.put(_BINDING, binding, place)
        for name in said.names:
            draft.env.pop(name, None)
        _capability(draft, binding, place)
        return
    if "--bind-to" not in draft.binds and said and said.unasked:
        draft.note(draft.sources[_MPI], said.unasked, "mpi.binding: core, socket or numa, where they are to be bound")
    for option, value in draft.binds.values():
        if value is not option and not _UNBOUND.fullmatch(value.text):
            message = f"{option.text} {bare(value.text)} is not carried over: {_OTHERWISE}"
            draft.note(option, message, "mpi.binding: core, socket or numa, and cpu.threadsPerProcess")


def _capability(draft: Draft, binding: str, place: Word) -> None:
    """What a container needs in order to bind so."""
    needed = MPIS[draft.implementation].binding_capability
    path: FieldPath = ("spec", "securityContext")
    if needed and binding != "none" and path not in draft.fields:
        draft.put(path, {"capabilities": {"add": [needed]}}, place)
        message = f"{draft.implementation} binds in a container with {needed} alone, and so it has it here"
        draft.note(place, message, "binding: none, where a namespace does not allow it")


def _by_threads(draft: Draft) -> None:
    """Intel MPI would read OMP_NUM_THREADS before it starts ranks, and a job writes it where they start."""
    word, threads = draft.env.get(_DOMAIN), draft.fields.get(_THREADS)
    if word and threads and draft.implementation == "Intel" and word.text.partition(":")[0] == "omp":
        draft.env[_DOMAIN] = word.part(word.text.replace("omp", str(threads), 1))
        draft.note(word, f"{_DOMAIN}: omp is {threads} here, as OMP_NUM_THREADS is written after ranks are bound")


def _same(draft: Draft, said: _Words) -> str | None:
    """The binding whose words do what the line's do."""
    words = [_word(draft, name) for name in said.names]
    text = " ".join(word.text if word else "" for word in words)
    for binding, pattern in said.bindings.items():
        match = re.fullmatch(pattern, text)
        if match and (binding != "core" or int(match["cores"] or 1) == _cores(draft)):
            return binding
    return None


def _word(draft: Draft, name: str) -> Word | None:
    """What an option or a variable says."""
    return draft.binds[name][1] if name in draft.binds else draft.env.get(name)


def _cores(draft: Draft) -> int | None:
    """Those that `core` gives to each rank; without a number of threads it is refused."""
    threads: int | None = draft.fields.get(_THREADS)
    return threads + ccl.workers(draft) if threads else None
