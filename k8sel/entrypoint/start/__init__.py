"""The inputs of a start, from its environment: the container's own variables, and the expectation.

sshd starts processes with a clean environment, without the variables of the image's ENV. So a node writes its
environment to a file before it starts sshd, and sshd gives each session the name of that file
(``k8sel.planning.mpi``).
"""

from __future__ import annotations

import errno
import os
import stat

from k8sel.entrypoint import protocol
from k8sel.entrypoint.lean import replace
from k8sel.entrypoint.protocol import CHECK, ENVIRON, PLAIN, VARIABLE, Expectation
from k8sel.entrypoint.report import Stop

_OTHERS = stat.S_IRWXG | stat.S_IRWXO  # rights of other users
SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")  # variables that a shell sets for itself


def with_container(environ: dict[str, str]) -> dict[str, str]:
    """Adds the container's own variables to ``environ``; values from mpirun and ssh override them."""
    if ENVIRON not in environ:
        return environ
    session = {name: value for name, value in environ.items() if name != ENVIRON}
    own = entries(_read(environ[ENVIRON]))
    return {**{name: value for name, value in own if not _is_left_out(name)}, **session}


def _is_left_out(name: str) -> bool:
    """Reports if a variable is a shell's own, or k8sel's, which only mpirun's command may set."""
    return name in SHELLS or name.startswith("K8SEL_")


def entries(text: bytes) -> list[tuple[str, str]]:
    """Reads variables in the kernel's format: ``NAME=value``, with a zero byte after each."""
    pairs = [entry.partition(b"=") for entry in text.split(b"\0")]
    return [(os.fsdecode(name), os.fsdecode(value)) for name, equals, value in pairs if name and equals]


def _read(path: str) -> bytes:
    """Reads the file; empty, with a line about it, if another user may have written it or may read it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            private = found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and not found.st_mode & _OTHERS
            return file.read() if private else _refused(path)
    except OSError as error:
        return b"" if error.errno == errno.ENOENT else _refused(path)


def _refused(path: str) -> bytes:
    from k8sel.entrypoint import report

    report.say(f"{path} is not a private file of this user, and is not read: variables of the image's ENV are missing")
    return b""


def expectation(environ: dict[str, str], command: list[str]) -> Expectation:
    """Reads the expectation in ``environ``. Raises Stop if there is none, if there are two, or if it is wrong."""
    plain = [name for name in PLAIN if environ.get(name)]
    if VARIABLE in environ:
        if plain:
            raise Stop([f"{VARIABLE} and {', '.join(plain)} are both set: remove one or the other"])
        return _overridden(_parsed(environ[VARIABLE]), environ)
    if not plain and not environ.get(CHECK):
        raise Stop([f"no expected devices are set: set K8SEL_ACCELERATOR (see --help) or {VARIABLE}"])
    from k8sel.entrypoint.start import byhand

    return byhand.expectation(environ, command)


def _parsed(text: str) -> Expectation:
    try:
        return protocol.parse(text)
    except ValueError as error:
        raise Stop([str(error)]) from None


def _overridden(expectation: Expectation, environ: dict[str, str]) -> Expectation:
    """Applies K8SEL_CHECK, which changes the check for this start only, and prints a line about it."""
    if not environ.get(CHECK):
        return expectation
    from k8sel.entrypoint import report
    from k8sel.entrypoint.start import byhand

    check = byhand.check(environ)
    if check != expectation.check:
        report.say(f"check: {check} ({CHECK} overrides {expectation.check} of the job)")
    return replace(expectation, check=check)


def for_ranks(expectation: Expectation, environ: dict[str, str]) -> dict[str, str]:
    """Writes the changed check into K8SEL_EXPECT in ``environ``: ranks on other nodes get only that variable."""
    if VARIABLE not in environ or not environ.get(CHECK):
        return environ
    return {**environ, VARIABLE: expectation.to_json()}
