"""Converts mpirun's binding options to mpi.binding, where a value of that field does exactly the same.

Sources: open-mpi docs, mpirun(1); MPICH mpiexec.hydra -bind-to -help and -map-by -help (the map defaults to the
binding); Intel MPI Developer Reference, Process Pinning.
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
_OTHERWISE = "no value of mpi.binding does the same"
_OVER = "--oversubscribe"
_SOCKET = "(socket|package)"
_DOMAIN = "I_MPI_PIN_DOMAIN"
_UNBOUND = re.compile(r"(none|slot|node|ppr:[0-9]+:node)(:(?!PE=).*)?", re.IGNORECASE)


def _bound(to: str) -> str:
    """Returns the pattern of a --bind-to value: Open MPI binds to what it maps by.

    Open MPI 5 binds nothing where several ranks may share a core (run with 5.0.11).
    """
    return rf"({to}|(?!.*{_OVER}))"


class _Words(Struct, frozen=True):
    """The options or variables that set an MPI's binding, and the meaning of their values."""

    names: tuple[str, ...]
    bindings: Mapping[str, str]  # mpi.binding -> pattern of the values, joined by spaces; <cores>: of each rank
    default_note: str = ""  # its default binding, which a job does not have


_IMPLEMENTATIONS: Mapping[str, _Words] = MappingProxyType(
    {
        "OpenMPI": _Words(
            ("--bind-to", "--map-by", _OVER),
            {
                "none": r"none \S* \S*",
                "socket": rf"({_bound(_SOCKET)} {_SOCKET}|{_SOCKET} ppr:1:{_SOCKET}) \S*",
                "numa": rf"({_bound('numa')} numa|numa ppr:1:numa) \S*",
                "core": rf"{_bound('core')} (slot|ppr:[0-9]+:node):PE=(?P<cores>[0-9]{{1,9}}) \S*",
            },
            "Open MPI binds ranks by default, up to two of them to one core each; a job's ranks are not bound",
        ),
        "MPICH": _Words(
            ("--bind-to", "--map-by"),
            {
                "none": r"none \S*",
                "socket": r"socket (socket)?",
                "numa": r"numa (numa)?",
                "core": r"core(:(?P<cores>[0-9]{1,9}))? (core(:(?P=cores))?)?",
            },
        ),
        "Intel": _Words(
            (_DOMAIN, "I_MPI_PIN_CELL", "I_MPI_PIN"),
            {
                "none": r"\S* \S* (0|no|off|disable)",
                "socket": r"socket \S* (1|yes|on|enable)?",
                "numa": r"numa \S* (1|yes|on|enable)?",
                "core": r"(?P<cores>[0-9]{1,9})(:compact)? core (1|yes|on|enable)?",
            },
        ),
    }
)


def settle(draft: Draft) -> None:
    """Sets mpi.binding; notes options that bind in another way, and leaves such variables in env."""
    words = _IMPLEMENTATIONS.get(draft.implementation)
    _by_threads(draft)
    binding = _same(draft, words) if words else None
    if words and binding:
        place = next(word for name in words.names if (word := _word(draft, name)))
        draft.put(_BINDING, binding, place)
        for name in words.names:
            draft.env.pop(name, None)
        _capability(draft, binding, place)
        return
    if "--bind-to" not in draft.binds and words and words.default_note:
        draft.note(draft.sources[_MPI], words.default_note, "set mpi.binding to core, socket or numa to bind them")
    for option, value in draft.binds.values():
        if value is not option and not _UNBOUND.fullmatch(value.text):
            message = f"{option.text} {bare(value.text)} is not carried over: {_OTHERWISE}"
            draft.note(option, message, "set mpi.binding to core, socket or numa, and cpu.threadsPerProcess")


def _capability(draft: Draft, binding: str, place: Word) -> None:
    """Adds the capability that a container needs to bind ranks."""
    needed = MPIS[draft.implementation].binding_capability
    path: FieldPath = ("spec", "securityContext")
    if needed and binding != "none" and path not in draft.fields:
        draft.put(path, {"capabilities": {"add": [needed]}}, place)
        message = f"{draft.implementation} needs {needed} to bind ranks in a container, so the job adds it"
        draft.note(place, message, "set binding: none where the namespace does not allow it")


def _by_threads(draft: Draft) -> None:
    """Replaces `omp` by a number: Intel MPI reads OMP_NUM_THREADS earlier than a job sets it."""
    word, threads = draft.env.get(_DOMAIN), draft.fields.get(_THREADS)
    if word and threads and draft.implementation == "Intel" and word.text.partition(":")[0] == "omp":
        draft.env[_DOMAIN] = word.part(word.text.replace("omp", str(threads), 1))
        draft.note(
            word, f"{_DOMAIN}: omp becomes {threads}, because the job sets OMP_NUM_THREADS after ranks are bound"
        )


def _same(draft: Draft, words: _Words) -> str | None:
    """Returns the binding that does the same as the line."""
    given = [_word(draft, name) for name in words.names]
    text = " ".join(word.text if word else "" for word in given)
    for binding, pattern in words.bindings.items():
        match = re.fullmatch(pattern, text)
        if match and (binding != "core" or int(match["cores"] or 1) == _cores(draft)):
            return binding
    return None


def _word(draft: Draft, name: str) -> Word | None:
    """Returns the value of an option or a variable."""
    return draft.binds[name][1] if name in draft.binds else draft.env.get(name)


def _cores(draft: Draft) -> int | None:
    """Returns the cores that `core` gives each rank; None without a number of threads, which validation refuses."""
    threads: int | None = draft.fields.get(_THREADS)
    return threads + ccl.workers(draft) if threads else None
