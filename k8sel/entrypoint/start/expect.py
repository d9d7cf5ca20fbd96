"""Reads the expectation from ``K8SEL_EXPECT``, or from the plain variables that a user writes by hand."""

from __future__ import annotations

from k8sel.entrypoint import protocol
from k8sel.entrypoint.protocol import CHECK, PLAIN, Expectation
from k8sel.entrypoint.record import replace
from k8sel.entrypoint.report import Stop


def read(environ: dict[str, str], command: list[str]) -> Expectation:
    """Reads the expectation in ``environ``. Raises Stop if there is none, if there are two, or if it is wrong."""
    plain = [name for name in PLAIN if environ.get(name)]
    if protocol.VARIABLE in environ:
        if plain:
            raise Stop([f"{protocol.VARIABLE} and {', '.join(plain)} say the same: give one or the other"])
        return _overridden(_parsed(environ[protocol.VARIABLE]), environ)
    if not plain and not environ.get(CHECK):
        raise Stop([f"nothing says what to find: set K8SEL_ACCELERATOR (see --help) or {protocol.VARIABLE}"])
    from k8sel.entrypoint.start import byhand

    return byhand.expectation(environ, command)


def handed_on(expectation: Expectation, environ: dict[str, str]) -> dict[str, str]:
    """Writes the changed check into K8SEL_EXPECT in ``environ``: ranks on other nodes get only that variable."""
    if protocol.VARIABLE not in environ or not environ.get(CHECK):
        return environ
    return {**environ, protocol.VARIABLE: expectation.to_json()}


def _overridden(expectation: Expectation, environ: dict[str, str]) -> Expectation:
    """Applies K8SEL_CHECK, which changes the check for this start only, and prints a line about it."""
    if not environ.get(CHECK):
        return expectation
    from k8sel.entrypoint import report
    from k8sel.entrypoint.start import byhand

    check = byhand.check(environ)
    if check != expectation.check:
        report.say(f"check: {check} by {CHECK}, where the job says {expectation.check}")
    return replace(expectation, check=check)


def _parsed(text: str) -> Expectation:
    try:
        return protocol.parse(text)
    except ValueError as error:
        raise Stop([str(error)]) from None
