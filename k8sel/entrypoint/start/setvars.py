"""Sources the script that sets the variables of Intel's bindings or MPI, as a user of a shell does.

The entrypoint finds the script in the container. The shell gets its path as an argument, and the command gets the
variables that it exports.
"""

from __future__ import annotations

import os

from k8sel.entrypoint import report, start, tables
from k8sel.entrypoint.checks import libraries, survey
from k8sel.entrypoint.checks.libraries import Libraries
from k8sel.entrypoint.launch import on_path
from k8sel.entrypoint.lean import TYPE_CHECKING
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import Iterator

# bash, not sh: the bindings' script uses `source` (uxlfoundation/oneCCL cmake/setvars.sh.in). The script must not see
# our arguments, which it would take for its own. Its output must not mix with ours.
_SOURCE = 'k8sel_script=$1; shift; . "$k8sel_script" >&2 || exit; exec env -0'
# The image's own settings of bash: a script in BASH_ENV may end the shell, and an option may stop it at an error.
_BASHS = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE")
_OURS = ("K8SEL_", "BASH_FUNC_")  # prefixes: the expectation, and functions that replace `exec` and `env`
_IN_PACKAGE = "env/setvars.sh"  # of the bindings: intel/torch-ccl README.md
SECONDS = 60.0


def sourced(
    expectation: Expectation, here: Machine, mode: str, command: list[str], environ: dict[str, str]
) -> dict[str, str]:
    """Adds the variables of the backend's script, or else of the MPI's, to ``environ``. Raises Stop if it fails."""
    script = _script(expectation, here, command, environ)
    if not script:
        return environ
    try:
        found = _source(script, environ)
    except Stop as stop:
        survey.stop_or_warn(stop.messages, expectation.check)
        return environ
    if mode != "rank":  # one of many
        report.say(f"{script} was sourced")
    return found


def _script(expectation: Expectation, here: Machine, command: list[str], environ: dict[str, str]) -> str:
    """Returns the backend's script, or else the MPI's; empty if there is none, or if it was sourced already."""
    row, mpi = tables.backends().get(expectation.backend), tables.mpi().get(expectation.mpi)
    package = _package(row["modules"], expectation, command, environ) if row else ""
    if package:
        return "" if _is_searched(os.path.realpath(package), environ) else os.path.join(package, _IN_PACKAGE)
    # hydra always passes I_MPI_ROOT on to the ranks, but not LD_LIBRARY_PATH.
    if not mpi or _is_searched(environ.get("I_MPI_ROOT", ""), environ):
        return ""
    paths = (here.root + path for path in mpi["setvars"])
    return next((path for path in paths if os.path.isfile(path)), "")


def _package(modules: list[str], expectation: Expectation, command: list[str], environ: dict[str, str]) -> str:
    """Returns the folder of the bindings that has a script."""
    for program in _pythons(expectation, command, environ) if modules else ():
        for path in (libraries.package(program.folders, module) for module in modules):
            if path and os.path.isfile(os.path.join(path, _IN_PACKAGE)):
                return path
    return ""


def _pythons(expectation: Expectation, command: list[str], environ: dict[str, str]) -> Iterator[Libraries]:
    """Returns the libraries of the command's program, and of the Pythons that a shell would start."""
    ranks = libraries.of_ranks(expectation, command, environ)
    yield from [ranks] if ranks else []
    yield from (libraries.of(words, environ) for words in (command, ["python"], ["python3"]))


def _is_searched(root: str, environ: dict[str, str]) -> bool:
    """Reports if the loader already searches a folder below ``root``, as it does after both scripts."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(":")
    return bool(root) and any(folder == root or folder.startswith(f"{root}/") for folder in folders)


def _source(script: str, environ: dict[str, str]) -> dict[str, str]:
    """Returns the environment after the script."""
    from k8sel.entrypoint import child

    bash = on_path(["bash"], environ) or on_path(["/bin/bash"], environ)
    if not bash:
        raise Stop([f"{script} cannot be sourced: bash is not in the image: install it"])
    with child.Signals():
        seen = {name: value for name, value in environ.items() if not _is_hidden(name)}
        ended = child.run([bash, "-c", _SOURCE, "k8sel", os.path.abspath(script)], seen, SECONDS)
    found = dict(start.entries(ended.output))
    if ended.status != 0 or not found:
        raise Stop([f"{script} cannot be sourced: {ended.why()}"])
    own = {name: value for name, value in environ.items() if name in start.SHELLS or _is_hidden(name)}
    return {
        **{name: value for name, value in found.items() if name not in start.SHELLS and not _is_hidden(name)},
        **own,
    }


def _is_hidden(name: str) -> bool:
    """Reports if the script neither gets this variable nor may set it."""
    return name in _BASHS or name.startswith(_OURS)
