"""A KRM function: it replaces each job in a ResourceList by the job's objects. Pure; needs no cluster.

The form: kubernetes-sigs/kustomize cmd/config/docs/api-conventions/functions-spec.md; its results as in
kyaml/fn/framework/result.go. An orchestrator's annotations: kyaml/kio/kioutil/kioutil.go and kustomize's
api/internal/utils/annotations.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from k8sel import api
from k8sel.errors import Kind, Problem, SpecError, format_path
from k8sel.jobfile import limits, yamlio
from k8sel.jobfile.spec import API_VERSION
from k8sel.jobfile.spec import KIND as JOB

Object = dict[str, Any]

KIND = "ResourceList"
GROUP = API_VERSION.partition("/")[0] + "/"
JOB_FILES = 20  # a list may be this many times as large as a job file
MAX_BYTES = JOB_FILES * limits.MAX_BYTES
SEVERITIES = {Kind.WARNING: "warning", Kind.NOTE: "info"}  # every other kind is an error
PREFIXES = ("config.kubernetes.io/", "internal.config.kubernetes.io/", "config.k8s.io/", "kustomize.config.k8s.io/")
LOCAL = "config.kubernetes.io/local-config"  # marks objects that are not for the cluster, such as a generator's config
PATH = ("internal.config.kubernetes.io/path", "config.kubernetes.io/path")
INDEX = ("internal.config.kubernetes.io/index", "config.kubernetes.io/index")


class Finding(Struct, frozen=True, kw_only=True):
    """A problem of one job in the list."""

    job: Object
    problem: Problem

    @property
    def severity(self) -> str:
        return SEVERITIES.get(self.problem.kind, "error")

    def __str__(self) -> str:
        file = _annotation(self.job, PATH)
        return f"{file}: {self._name()}: {self.problem}" if file else f"{self._name()}: {self.problem}"

    def _name(self) -> str:
        return f"{JOB} {_metadata(self.job).get('name', '')}".rstrip()

    def result(self) -> Object:
        """The finding as a result of a ResourceList."""
        hint = f" Hint: {self.problem.hint}" if self.problem.hint else ""
        metadata, file, index = _metadata(self.job), _annotation(self.job, PATH), _annotation(self.job, INDEX)
        return {
            "message": f"{self.problem.kind.value}: {self.problem.message}.{hint}",
            "severity": self.severity,
            "resourceRef": {
                **{key: self.job[key] for key in ("apiVersion", "kind")},
                **{key: metadata[key] for key in ("name", "namespace") if key in metadata},
            },
            **({"field": {"path": format_path(self.problem.path)}} if self.problem.path else {}),
            **(
                {"file": {"path": file, **({"index": int(index)} if re.fullmatch("[0-9]{1,9}", index) else {})}}
                if file
                else {}
            ),
        }


class Answer(Struct, frozen=True, kw_only=True):
    """The function's output."""

    resource_list: Object
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


def answer(text: bytes, file: str) -> Answer:
    """Makes the output for the ResourceList ``text``. An error in any job leaves all items unchanged.

    Raises SpecError if ``text`` is no ResourceList.
    """
    given = _parsed(text, file)
    config = given.get("functionConfig")
    items: list[Object] = []
    findings: list[Finding] = []
    for item in [*given["items"], *([config] if _is_job(config) else [])]:
        if _is_job(item) and (item is config or not _annotation(item, (LOCAL,))):
            items += _objects(item, findings)
        else:
            items.append(item)
    made = Answer(resource_list={**given, "items": items, **_results(findings)}, findings=tuple(findings))
    return replace(made, resource_list={**made.resource_list, "items": given["items"]}) if made.failed else made


def _parsed(text: bytes, file: str) -> Object:
    """The ResourceList in ``text``, with a list of items."""
    documents = yamlio.parse(text, file, times=JOB_FILES)
    given = documents[0].data
    items = given.get("items") or []
    if len(documents) > 1 or given.get("kind") != KIND:
        raise _refused(documents[0], (), f"this is not a {KIND}", "use --krm as a kustomize function: docs/gitops.md")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _refused(documents[0], ("items",), "expected a list of objects", "leave out other values")
    return {**given, "items": items}


def _refused(document: yamlio.Document, path: tuple[str, ...], message: str, hint: str) -> SpecError:
    problem = Problem(kind=Kind.INVALID, path=path, message=message, hint=hint, location=document.locate(path))
    return SpecError([problem])


def _is_job(item: object) -> bool:
    """Reports if ``item`` is a job of any version. An unknown version becomes one of the findings."""
    return isinstance(item, dict) and item.get("kind") == JOB and str(item.get("apiVersion")).startswith(GROUP)


def _objects(item: Object, findings: list[Finding]) -> list[Object]:
    """The objects of a job. Appends its problems to ``findings``."""
    try:
        (job,) = api.load(yamlio.dump([_own(item)]).encode(), "")
        plan = api.plan(job)
    except SpecError as error:
        findings += _found(item, error.problems)
        return []
    findings += _found(item, plan.warnings)
    return api.render(plan)


def _found(item: Object, problems: Iterable[Problem]) -> list[Finding]:
    """The problems as findings, without line numbers: no person wrote the list."""
    return [Finding(job=item, problem=replace(problem, location=None)) for problem in problems]


def _own(item: Object) -> Object:
    """The job without the annotations that an orchestrator added."""
    noted = _annotations(item)
    if not noted:
        return item
    own = {key: value for key, value in noted.items() if not key.startswith(PREFIXES)}
    rest = {key: value for key, value in _metadata(item).items() if key != "annotations"}
    return {**item, "metadata": {**rest, **({"annotations": own} if own else {})}}


def _results(findings: list[Finding]) -> Object:
    return {"results": [finding.result() for finding in findings]} if findings else {}


def _annotation(item: Object, names: Iterable[str]) -> str:
    """The first of these annotations that the item has."""
    return next((str(_annotations(item)[name]) for name in names if name in _annotations(item)), "")


def _annotations(item: Object) -> Object:
    found = _metadata(item).get("annotations")
    return found if isinstance(found, dict) else {}


def _metadata(item: Object) -> Object:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}
