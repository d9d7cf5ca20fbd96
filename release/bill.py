"""The packages that k8sel needs at run time: the pins of constraints.txt, and the release's bill of materials."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from k8sel import __version__

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_PURL = "pkg:pypi/{name}@{version}"
_PIN = re.compile(r"^(\S+)==(\S+)(?: ; (.*?))? \\\n((?:    --hash=\S+(?: \\)?\n?)+)", re.MULTILINE)


def needed(name: str = "k8sel", known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the names of all distributions that ``name`` needs on this Python, without itself."""
    found = list(known)
    for each in _direct(distribution(name)):
        if each not in found:
            found = [*needed(each, (*found, each))]
    return tuple(found)


def _direct(of: Distribution) -> Iterator[str]:
    """Yields the distributions that ``of`` needs on this Python, without its extras."""
    for text in of.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield _normal(requirement.name)


def _normal(name: str) -> str:
    """PEP 503's form of a name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(names: Iterable[str]) -> str:
    """Returns the lines of constraints.txt for these distributions, with their hashes."""
    wanted = set(names)
    return "".join(match[0] for match in _PIN.finditer(_text()) if _normal(match[1]) in wanted)


def _text() -> str:
    return CONSTRAINTS.read_text(encoding="utf-8")


def bill(time: int) -> str:
    """Returns a CycloneDX document of k8sel and of what it needs: https://cyclonedx.org/docs/1.6/json."""
    names = needed()
    components = [_component(name) for name in sorted(names)]
    own = {"type": "application", **_described("k8sel", __version__)}
    dependencies = [
        {"ref": _reference(name), "dependsOn": sorted(map(_reference, set(_direct(distribution(name)))))}
        for name in ("k8sel", *sorted(names))
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {"timestamp": f"{datetime.fromtimestamp(time, timezone.utc):%Y-%m-%dT%H:%M:%SZ}", "component": own},
        "components": components,
        "dependencies": dependencies,
    }
    return json.dumps(document, indent=2) + "\n"


def _component(name: str) -> Mapping[str, Any]:
    found = distribution(name)
    licences = [found.metadata[key] for key in ("License-Expression", "License") if key in found.metadata]
    named = {"licenses": [{"license": {"name": name}} for name in licences[:1] if "\n" not in name]}
    return {"type": "library", **_described(name, found.version), **named}


def _described(name: str, version: str) -> Mapping[str, str]:
    purl = _PURL.format(name=name, version=version)
    return {"bom-ref": purl, "name": name, "version": version, "purl": purl}


def _reference(name: str) -> str:
    version = __version__ if name == "k8sel" else distribution(name).version
    return _PURL.format(name=name, version=version)
