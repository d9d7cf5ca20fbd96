"""Turns a server's refusal into problems of the job file: the server's own message, at the job file's field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from k8sel.cluster import policy
from k8sel.cluster.mapping import to_field
from k8sel.cluster.rest import Cluster, Object, Refused, find
from k8sel.errors import ClusterError, FieldPath, Kind, Location, Problem

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
_KINDS = {
    "FieldValueRequired": Kind.REQUIRED,
    "FieldValueNotSupported": Kind.NOT_SUPPORTED,
    "FieldValueForbidden": Kind.FORBIDDEN,
    "FieldValueDuplicate": Kind.DUPLICATE,
    "Required value": Kind.REQUIRED,
    "Unsupported value": Kind.NOT_SUPPORTED,
    "Forbidden": Kind.FORBIDDEN,
    "Duplicate value": Kind.DUPLICATE,
}
# A field.Error as text: `spec.a[b].c: Required value: message`. No path starts inside a path, so the search is short
_FIELD_ERROR = re.compile(
    r"(?<!\w)(?<![\w\]]\.)((?:spec|metadata)(?:\.\w+|\[[^\]]*\])*): "
    r"(Required value|Unsupported value|Forbidden|Duplicate value|Invalid value|Too long|Too many|Internal error)"
)
_MENTIONED = re.compile(r"\b(?:spec|metadata)(?:\.\w+|\[[^\]]*\])+")
# https://github.com/kubernetes-sigs/structured-merge-diff: its errors are lines that start with a path
_TYPED = re.compile(r"^[ \t]*(?P<path>\.[^\n]*?(?:\w|\])): (?P<words>[^\n]*)", re.MULTILINE)
_TYPED_FRAME = re.compile(r"^failed to create typed patch object \([^)]*\): (?:errors:\n)?")
_NO_SUCH_FIELD = "field not declared in schema"


class Refusal(ClusterError):
    """The server's refusal of an object: each problem has a reason and, where known, the job file's field."""

    def __init__(self, heading: str, problems: Iterable[Problem], note: str = "") -> None:
        self.heading = heading
        self.problems = tuple(problems)
        self.note = note
        super().__init__("\n".join(text for text in (heading, *map(str, self.problems), note) if text))

    def located(self, locate: Callable[[FieldPath], Location]) -> Refusal:
        """A copy with each field's line in the job file; a problem without a field gets the line of the name."""
        placed = [replace(each, location=locate(each.path or ("metadata", "name"))) for each in self.problems]
        return Refusal(self.heading, placed, self.note)

    def with_note(self, note: str) -> Refusal:
        """A copy with one more line at the end."""
        return Refusal(self.heading, self.problems, f"{self.note}\n{note}".strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """The manifest that the server refused, and the job file's data."""

    manifest: Object
    job: Mapping[str, Any] | None

    def field(self, path: str) -> FieldPath:
        """The job file's field for a manifest path; () if no field made it."""
        return to_field(path, manifest=self.manifest, job=self.job) or ()

    @property
    def name(self) -> str:
        """Kind and name, for messages."""
        return f"{self.manifest['kind']} {self.manifest['metadata']['name']}"


def explain(cluster: Cluster, refused: Refused, sent: Sent) -> Refusal:
    """Explains the refusal of one object."""
    problems = _conflicts(refused, sent) or _typed(refused, sent) or _denied(cluster, refused, sent)
    problems = problems or _causes(refused, sent) or _words(refused.server_message, sent)
    return Refusal(f"{cluster.host} refused {sent.name}:", problems)


def _conflicts(refused: Refused, sent: Sent) -> list[Problem]:
    return [
        Problem(
            kind=Kind.FORBIDDEN,
            path=sent.field(cause.get("field", "")),
            message=f"{cause['message']}: {cause.get('field', '').lstrip('.')}",
            hint="overwrite the value with --force-conflicts, or put the cluster's value into the file",
        )
        for cause in refused.causes
        if cause.get("reason") == "FieldManagerConflict"
    ]


def _typed(refused: Refused, sent: Sent) -> list[Problem]:
    """Problems with fields that the cluster's CRD lacks or types differently: status 500, with paths in the text."""
    text, found = _TYPED_FRAME.subn("", refused.server_message)
    if not found:
        return []
    return [
        Problem(
            kind=Kind.UNKNOWN if _NO_SUCH_FIELD in match["words"] else Kind.INVALID,
            path=sent.field(match["path"]),
            message=f"{match['path'].lstrip('.')}: {match['words']}",
            hint="update the operator: its CRD may be older than the field" if _NO_SUCH_FIELD in match["words"] else "",
        )
        for match in _TYPED.finditer(text)
    ]


def _denied(cluster: Cluster, refused: Refused, sent: Sent) -> list[Problem]:
    """A ValidatingAdmissionPolicy's denials. They name no field, so k8sel reads the policy if it may."""
    texts = [cause.get("message", "") for cause in refused.causes] or [refused.server_message]
    return [_denial(cluster, text, *found, sent) for text in texts if (found := policy.denial(text))]


def _denial(cluster: Cluster, text: str, name: str, words: str, sent: Sent) -> Problem:
    fields = [sent.field(path) for path in (*policy.paths(_policy(cluster, name), words), *_MENTIONED.findall(words))]
    return Problem(kind=Kind.FORBIDDEN, path=max(fields, key=len, default=()), message=text)


def _policy(cluster: Cluster, name: str) -> Object | None:
    try:
        return find(cluster, _POLICIES + quote(name, safe=""))
    except ClusterError:  # few users may read policies; the message is enough then
        return None


def _causes(refused: Refused, sent: Sent) -> list[Problem]:
    """The server's validation errors. `<nil>` only notes that validation stopped; it is no problem of its own."""
    return [
        Problem(
            kind=_KINDS.get(cause.get("reason", ""), Kind.INVALID),
            path=sent.field(cause.get("field", "")),
            message=_with_path(cause, sent),
        )
        for cause in refused.causes
        if cause.get("message") and cause.get("field") != "<nil>"
    ]


def _with_path(cause: Object, sent: Sent) -> str:
    """The cause's message, with the manifest's path in front if it differs from the job file's field."""
    path = cause.get("field", "")
    same = ".".join(str(part) for part in sent.field(path)) == path
    return cause["message"] if same or not path else f"{path}: {cause['message']}"


def _words(message: str, sent: Sent) -> list[Problem]:
    """The problems in an answer of plain text, such as a webhook's: one for each field error."""
    errors = list(_FIELD_ERROR.finditer(message))
    if len(errors) <= 1:
        mentioned = errors[0][1] if errors else next(iter(_MENTIONED.findall(message)), "")
        kind = _KINDS.get(errors[0][2], Kind.INVALID) if errors else Kind.FORBIDDEN
        return [Problem(kind=kind, path=sent.field(mentioned), message=message)]
    ends = [*(error.start() for error in errors[1:]), len(message)]
    return [
        Problem(
            kind=_KINDS.get(error[2], Kind.INVALID),
            path=sent.field(error[1]),
            message=message[error.start() : end].rstrip(" ,]"),
        )
        for error, end in zip(errors, ends, strict=True)
    ]
