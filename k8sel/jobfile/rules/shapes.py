"""Rules for the types of values in those Kubernetes fields that k8sel itself reads. The API server checks the rest."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.errors import FieldPath, Problem
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import Rule
from k8sel.wording import invalid

WORDS: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
}
EACH = "*"  # every item of a list
_TERMS = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_USER: dict[tuple[str, ...], type] = {
    ("runAsUser",): int,
    ("runAsGroup",): int,
    ("runAsNonRoot",): bool,
    ("seccompProfile",): dict,
    ("seccompProfile", "type"): str,
    ("appArmorProfile",): dict,
    ("appArmorProfile", "type"): str,
    ("appArmorProfile", "localhostProfile"): str,
    ("seLinuxOptions",): dict,
}
_POD: dict[tuple[str, ...], type] = {
    **_USER,
    ("fsGroup",): int,
    ("supplementalGroups",): list,
    ("supplementalGroups", EACH): int,
    ("sysctls",): list,
    ("sysctls", EACH): dict,
    ("sysctls", EACH, "name"): str,
    ("sysctls", EACH, "value"): str,
}
_CONTAINER: dict[tuple[str, ...], type] = {
    **_USER,
    ("privileged",): bool,
    ("allowPrivilegeEscalation",): bool,
    ("readOnlyRootFilesystem",): bool,
    ("capabilities",): dict,
    ("capabilities", "add"): list,
    ("capabilities", "add", EACH): str,
    ("capabilities", "drop"): list,
    ("capabilities", "drop", EACH): str,
}
_AFFINITY: dict[tuple[str, ...], type] = {
    _TERMS[:1]: dict,
    _TERMS[:2]: dict,
    _TERMS: list,
    (*_TERMS, EACH): dict,
    (*_TERMS, EACH, "matchExpressions"): list,
}


FORMS = {"podSecurityContext": _POD, "securityContext": _CONTAINER, "affinity": _AFFINITY}


def known_forms(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a value whose type is not the one that k8sel expects there."""
    spec = job.spec
    for field, whole in zip(FORMS, (spec.pod_security_context, spec.security_context, spec.affinity), strict=True):
        for form, wanted in FORMS[field].items():
            for path, value in _found(whole, form):
                if not _is(value, wanted):
                    yield invalid(("spec", field, *path), f"expected {WORDS[wanted]}")


def _is(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _found(value: object, form: tuple[str, ...]) -> Iterator[tuple[FieldPath, object]]:
    """Yields each path in ``value`` that matches ``form``, with its value."""
    if not form:
        yield (), value
    elif form[0] == EACH and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _below(index, item, form)
    elif isinstance(value, dict) and form[0] in value:
        yield from _below(form[0], value[form[0]], form)


def _below(part: str | int, value: object, form: tuple[str, ...]) -> Iterator[tuple[FieldPath, object]]:
    for path, found in _found(value, form[1:]):
        yield (part, *path), found


RULES: tuple[Rule, ...] = (known_forms,)
