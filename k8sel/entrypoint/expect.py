"""Where the expectation comes from: ``K8SEL_EXPECT``, or by hand the plain variables that say the same."""

from __future__ import annotations

from k8sel.entrypoint import protocol
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.stop import Stop

PLAIN = ("K8SEL_ACCELERATOR", "K8SEL_COUNT", "K8SEL_DEVICES", "K8SEL_ORDER", "K8SEL_PRODUCT", "K8SEL_CHECK")


def read(environ: dict[str, str], command: list[str]) -> Expectation:
    """The expectation in ``environ``. Raises Stop when there is none, two, or one that cannot be read."""
    plain = [name for name in PLAIN if environ.get(name)]
    if protocol.VARIABLE in environ:
        if plain:
            raise Stop([f"{protocol.VARIABLE} and {', '.join(plain)} say the same: give one or the other"])
        return _parsed(environ[protocol.VARIABLE])
    if not plain:
        raise Stop([f"nothing says what to find: set K8SEL_ACCELERATOR (see --help) or {protocol.VARIABLE}"])
    from k8sel.entrypoint import byhand

    return byhand.expectation(environ, command)


def _parsed(text: str) -> Expectation:
    try:
        return protocol.parse(text)
    except ValueError as error:
        raise Stop([str(error)]) from None
