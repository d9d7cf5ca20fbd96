"""Finds the fields in a ValidatingAdmissionPolicy's CEL expressions: its denials name no field. Pure.

This is no CEL interpreter: it follows `object.a.b[0].c` through macros and variables, which is enough to find a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_CHAIN = re.compile(r"(?<![\w.'\"])(variables\.\w+|[A-Za-z_]\w*)((?:\s*\.\??\s*[A-Za-z_]\w*|\[\??[^\]]*\])*)")
_CALL = re.compile(r"\s*\(\s*(?:([A-Za-z_]\w*)\s*,)?")
_MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_DENIED_BY = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)", re.DOTALL)
_FAILED = "failed expression: "


def denial(message: str) -> tuple[str, str] | None:
    """The policy's name and its message, if ``message`` is a policy's denial; else None."""
    match = _DENIED_BY.search(message)
    return (match[1], match[2]) if match else None


def paths(policy: Mapping[str, Any] | None, words: str) -> list[str]:
    """The manifest paths in the failed validation of ``policy``; ``words`` is the denial's message."""
    if words.startswith(_FAILED):  # a policy without a message: the denial quotes the expression
        return list(paths_in(words.removeprefix(_FAILED), _variables(policy)))
    if policy is None:
        return []
    expressions = _failed(policy["spec"].get("validations", []), words)
    return [path for expression in expressions for path in paths_in(expression, _variables(policy))]


def _failed(validations: list[dict[str, Any]], words: str) -> list[str]:
    """The expressions with this message; if an expression makes the message, all candidates."""
    exact = [each for each in validations if each.get("message") == words]
    made = [each for each in validations if each.get("messageExpression")]
    return [each["expression"] for each in exact or made or validations]


def _variables(policy: Mapping[str, Any] | None) -> dict[str, str]:
    """Each ``variables.x`` of the policy, with the path that it stands for."""
    found: dict[str, str] = {}
    for variable in (policy or {}).get("spec", {}).get("variables", []):
        last = max(paths_in(variable["expression"], found), key=len, default="")
        if last:
            found[f"variables.{variable['name']}"] = last
    return found


def paths_in(expression: str, variables: Mapping[str, str] | None = None) -> Iterable[str]:
    """Each ``spec...`` or ``metadata...`` path in an expression, with the variables of macros resolved."""
    roots = {"object": "", **(variables or {})}
    for match in _CHAIN.finditer(expression):
        root, rest = match[1], re.sub(r"\s|\?", "", match[2])
        if root not in roots:
            continue
        call = _CALL.match(expression, match.end())
        if call:
            rest, _, method = rest.rpartition(".")
            if method in _MACROS and call[1]:
                roots[call[1]] = f"{roots[root]}{rest}[*]"
        path = f"{roots[root]}{rest}".removeprefix(".")
        if path and (rest or root.startswith("variables.")):  # a bare name is a macro's declaration
            yield path
