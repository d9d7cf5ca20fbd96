"""Shows the findings of an audit as text, as JSON, and as SARIF for code hosts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from k8sel import __version__
from k8sel.audit import TRAPS, Finding, Trap
from k8sel.errors import format_path
from k8sel.wording import one_line

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def text(findings: Iterable[Finding]) -> str:
    """A line for each finding, and three lines of explanation."""
    return "".join(_paragraph(finding) for finding in findings)


def as_json(findings: Iterable[Finding]) -> str:
    """The findings as a JSON list."""
    return json.dumps([_item(finding) for finding in findings], indent=2, ensure_ascii=False) + "\n"


def sarif(findings: Sequence[Finding]) -> str:
    """The findings as SARIF 2.1.0: one run, with a rule for each trap."""
    ids = {finding.trap.id for finding in findings}
    traps = [trap for trap in TRAPS if trap.id in ids]
    places = {trap.id: index for index, trap in enumerate(traps)}
    driver = {"name": "k8sel", "version": __version__, "rules": [_rule(trap) for trap in traps]}
    results = [_result(finding, places[finding.trap.id]) for finding in findings]
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _paragraph(finding: Finding) -> str:
    trap = finding.trap
    return (
        f"{one_line(str(finding.location))}: {trap.id}: {one_line(finding.found)} ({one_line(finding.object)})\n"
        f"    then: {trap.consequence}\n"
        f"    fix:  {trap.fix}\n"
        f"    from: {trap.source}\n"
    )


def _item(finding: Finding) -> dict[str, Any]:
    place = finding.location
    return {
        "id": finding.trap.id,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "object": finding.object,
        "field": format_path(finding.field),
        "found": finding.found,
        "consequence": finding.trap.consequence,
        "fix": finding.trap.fix,
        "source": finding.trap.source,
    }


def _rule(trap: Trap) -> dict[str, Any]:
    return {
        "id": trap.id,
        "shortDescription": {"text": trap.looks_at},
        "fullDescription": {"text": trap.consequence},
        "help": {"text": f"{trap.fix}. Source: {trap.source}"},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    place = finding.location
    region = {"startLine": place.line, "startColumn": place.column}
    artifact = {"uri": _uri(place.file)}
    return {
        "ruleId": finding.trap.id,
        "ruleIndex": rule,
        "level": "warning",
        "message": {"text": f"{finding.found}: {finding.trap.consequence}. Fix: {finding.trap.fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }


def _uri(file: str) -> str:
    """A file's name as a URI, for SARIF; a relative name gives a relative URI."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
