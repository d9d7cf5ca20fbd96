"""Reads torch.distributed's backend and oneCCL's settings from the command and its variables."""

from __future__ import annotations

import re

import msgspec

from k8sel.adopt.line.draft import Draft
from k8sel.facts.backends import BACKENDS, VARIABLES, named, uses_oneccl
from k8sel.facts.launchers import MPIS
from k8sel.jobfile.spec import CCL_WORKERS, Ccl

_MODULES = {
    module: name for name, row in BACKENDS.items() for module in row.modules
}  # module of the bindings -> backend
# The bindings' own script, below the folder of such a module: intel/torch-ccl README.md.
_OF_BINDINGS = re.compile(rf"\b({'|'.join(_MODULES)})\b.*/env/setvars\.sh")
_IMAGES = "do it in the image, by its entrypoint or ENV"


def look(draft: Draft) -> None:
    """Sets the backend that the command names, and oneCCL's settings."""
    index, name = named([word.text for word in draft.command]) or (0, "")
    if name in BACKENDS:
        draft.put(("spec", "backend"), name, draft.command[index])
        draft.serves = BACKENDS[name].accelerators
    if uses_oneccl(name):
        _settings(draft)


def workers(draft: Draft) -> int:
    """Returns the number of oneCCL's threads per process; 0 for a backend without oneCCL."""
    given: int = draft.fields.get(("spec", "ccl", "workers"), CCL_WORKERS)
    return given if uses_oneccl(draft.fields.get(("spec", "backend"))) else 0


def _settings(draft: Draft) -> None:
    """Moves variables to the fields of ccl; a value that the field does not take stays a variable."""
    for field, name in VARIABLES.items():
        word = draft.env.get(name)
        try:
            value = msgspec.convert({field: word.text}, Ccl, strict=False) if word and not word.unknown else Ccl()
        except msgspec.ValidationError:
            continue
        for path, setting in msgspec.to_builtins(value).items():
            draft.put(("spec", "ccl", path), setting, draft.env.pop(name))


def prepares(text: str) -> bool:
    """Reports whether the script at ``text`` puts Intel MPI on PATH."""
    return bool(_OF_BINDINGS.search(text)) or text in MPIS["Intel"].setvars


def sourced(draft: Draft) -> None:
    """Notes the scripts that the line sources; the entrypoint reads some of them itself."""
    for text, word in draft.sourced:
        by_mpi = draft.implementation in MPIS and text in MPIS[draft.implementation].setvars
        match = _OF_BINDINGS.search(text)
        backend = _MODULES[match[1]] if match else ""
        message = f"{word.text} is not carried over"
        if by_mpi or (backend and draft.fields.get(("spec", "backend")) == backend):
            draft.note(word, f"{message}: the entrypoint reads it itself, where the job runs")
        else:
            draft.note(word, message, f"set backend: {backend}, and the entrypoint reads it" if backend else _IMAGES)
