"""Rules for names, labels and annotations: Kubernetes accepts them, and neither k8sel nor an operator writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from k8sel.errors import FieldPath, Kind, Problem
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import mpi_of
from k8sel.facts.names import LONGEST
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import LABEL_NAME, LABEL_RULE, LABEL_VALUE, SUBDOMAIN, SUBDOMAIN_RULE, rules_in
from k8sel.wording import forbidden, invalid, quote, warning

# Prefix of a key that the file may not set -> what sets it.
OWNED = {
    "k8sel.dev/": "k8sel sets it",
    "app.kubernetes.io/managed-by": "k8sel sets it",
    "training.kubeflow.org/": "the operator sets it",
    "kueue.x-k8s.io/queue-name": "scheduling.queue sets it",
    "scheduling.x-k8s.io/pod-group": "scheduling.gang sets it",
    "scheduling.k8s.io/group-name": "scheduling.gang sets it",
    "volcano.sh/task-spec": "scheduling.gang sets it",
}


def pod_names_fit(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a job's name that makes a pod's name too long: a pod's name is also its host name."""
    name = job.metadata.name
    pod = JOB_KINDS[job.spec.target].longest(name, job.spec.nodes)
    if len(pod) > LONGEST:
        message = f"the pod name {pod} has {len(pod)} characters, but at most {LONGEST} are allowed"
        yield invalid(("metadata", "name"), message, f"use at most {LONGEST - len(pod) + len(name)} characters")


def mpi_takes_the_hosts_names(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a host name whose part before its first digit is too long for some versions of an MPI.

    These versions copy that part into a field of fixed size.
    """
    mpi, name = job.spec.mpi.implementation, job.metadata.name
    row = mpi_of(job.spec.launcher, mpi)
    longest_prefix = row.longest_prefix if row else None
    host = JOB_KINDS[job.spec.target].first_pod(name)
    prefix = re.split("[0-9]", host)[0]
    if not platform.over_ssh or longest_prefix is None or len(host) > LONGEST:
        return
    if len(prefix) > longest_prefix:
        message = f"some versions of {mpi} abort if a host name has {len(prefix)} characters before its first digit"
        hint = f"use at most {longest_prefix - len(prefix) + len(name)} characters, or put a digit early in the name"
        yield warning(("metadata", "name"), message, hint)


def no_line_break(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a line break at the end of a name: Python's `$` also matches before a final line break."""
    texts: dict[FieldPath, str | None] = {
        ("metadata", "name"): job.metadata.name,
        ("metadata", "namespace"): job.metadata.namespace,
    }
    texts |= {("spec", "env", index, "name"): entry.name for index, entry in enumerate(job.spec.env)}
    for path, text in texts.items():
        if text and text.endswith("\n"):
            yield invalid(path, "the text ends with a line break", "write it on one line, without |")


def label_keys(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses keys that Kubernetes does not accept, and keys that k8sel or an operator writes."""
    yield from _keys(("metadata", "labels"), job.metadata.labels)
    yield from _keys(("metadata", "annotations"), job.metadata.annotations)
    for key in job.spec.node_selector:
        yield from _key(("spec", "nodeSelector", key), key)


def _keys(path: FieldPath, entries: Mapping[str, str]) -> Iterator[Problem]:
    for key in entries:
        yield from _key((*path, key), key)
        reason = next((reason for start, reason in OWNED.items() if key.startswith(start)), None)
        if reason:
            yield forbidden((*path, key), reason, "leave it out")


def _key(path: FieldPath, key: str) -> Iterator[Problem]:
    prefix, slash, name = key.rpartition("/")
    if not re.fullmatch(LABEL_NAME, name):
        message = (
            "a key's name has at most 63 letters, digits, '-', '_', '.', and starts and ends with a letter or digit"
        )
        yield invalid(path, message, "write for example team or example.org/team")
    elif slash and not re.fullmatch(SUBDOMAIN, prefix):
        message = f"{quote(prefix)} before the slash is not allowed: {SUBDOMAIN_RULE}"
        yield invalid(path, message, "write for example example.org/team")


def label_values(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses values that cannot be a label's: those of labels, of the node selector and of the queue."""
    values: dict[FieldPath, str | None] = {("spec", "scheduling", "queue"): job.spec.scheduling.queue}
    values |= {("metadata", "labels", key): value for key, value in job.metadata.labels.items()}
    values |= {("spec", "nodeSelector", key): value for key, value in job.spec.node_selector.items()}
    for path, value in values.items():
        if value is not None and not re.fullmatch(LABEL_VALUE, value):
            yield invalid(path, LABEL_RULE)


def object_names(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses names that no object can have: service account, runtime or priority class, scheduler, secret."""
    spec = job.spec
    values: dict[FieldPath, str | None] = {
        ("spec", "serviceAccountName"): spec.service_account_name,
        ("spec", "runtimeClassName"): spec.runtime_class_name,
        ("spec", "scheduling", "priorityClassName"): spec.scheduling.priority_class_name,
        ("spec", "scheduling", "schedulerName"): spec.scheduling.scheduler_name,
    }
    values |= {
        ("spec", "imagePullSecrets", index, "name"): entry.get("name", "")
        for index, entry in enumerate(spec.image_pull_secrets)
    }
    for path, value in values.items():
        if value is not None and not re.fullmatch(SUBDOMAIN, value):
            yield invalid(path, SUBDOMAIN_RULE if value else "a secret's name is missing")


def pull_secrets(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses fields of a pull secret other than its name."""
    for index, entry in enumerate(job.spec.image_pull_secrets):
        for key in entry.keys() - {"name"}:
            path: FieldPath = ("spec", "imagePullSecrets", index, key)
            yield Problem(kind=Kind.UNKNOWN, path=path, message="no such field here", hint="use name")


RULES = rules_in(globals())
