"""Builds fields of pods and containers from the job file, and adds placement, resources and secure defaults.

The defaults meet Pod Security's level "restricted" if the job file names a user that is not root.
"""

from __future__ import annotations

from typing import Any

from k8sel.facts import fields
from k8sel.jobfile.complete import CompleteSpec
from k8sel.jobfile.defaults import is_root
from k8sel.jobfile.quantity import text
from k8sel.jobfile.spec import Spec
from k8sel.planning.plan import Devices, Fragment

GRACE_SECONDS = 60  # torchrun gives its processes 30 to end
MEBIBYTE = 2**20
HOST_NETWORK = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
LAUNCHER_RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}}  # mpirun and ssh: quotas want a number
# Path in the job file -> attribute of CompleteSpec. JobPlan has fields of its own for those of scheduling.
_ATTRIBUTES = {
    f"spec.{key}": ours for key, ours in zip(Spec.__struct_encode_fields__, Spec.__struct_fields__, strict=True)
}


def pod(spec: CompleteSpec, devices: Devices) -> Fragment:
    """Returns the pod-level fields of the nodes' pods."""
    return _pod(spec, _with_labels(spec.affinity, _labels(devices)), devices)


def launcher_pod(spec: CompleteSpec, devices: Devices) -> Fragment:
    """Returns the pod-level fields of a launcher, which runs on any node that the job file allows."""
    return _pod(spec, spec.affinity, devices)


def container(spec: CompleteSpec, devices: Devices, capabilities: tuple[str, ...] = ()) -> Fragment:
    """Returns the container-level fields of the nodes' containers."""
    return _container(spec, _resources(spec, devices), capabilities)


def launcher_container(spec: CompleteSpec) -> Fragment:
    """Returns the container-level fields of a launcher, which has no device."""
    return _container(spec, LAUNCHER_RESOURCES, ())


def quantity(value: float | str | None) -> str | None:
    """Returns ``value`` as a string: a resource's schema accepts no fraction as a number."""
    return None if value is None else text(value)


def _pod(spec: CompleteSpec, affinity: Fragment, devices: Devices) -> Fragment:
    own = {
        "automountServiceAccountToken": None if spec.service_account_name else False,
        "enableServiceLinks": False,  # true adds *_PORT variables for each service of the namespace
        **(HOST_NETWORK if spec.host_network else {}),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": _pod_security(spec),
        "affinity": affinity,
        "tolerations": _tolerations(spec, devices),
        "volumes": list(spec.volumes),
    }
    return fields.in_order("pod", _given(own) | _given(_copied("pod", spec)))


def _container(spec: CompleteSpec, resources: Fragment, capabilities: tuple[str, ...]) -> Fragment:
    own = {
        "resources": resources,
        "volumeMounts": list(spec.volume_mounts),
        "securityContext": _security(spec, capabilities),
    }
    return fields.in_order("container", _given(own) | _given(_copied("container", spec)))


def _copied(place: str, spec: CompleteSpec) -> dict[str, Any]:
    """Returns the fields of ``place`` that the job file sets unchanged."""
    paths = fields.copied(place).items()
    values = {name: getattr(spec, _ATTRIBUTES[path]) for name, path in paths if path in _ATTRIBUTES}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _resources(spec: CompleteSpec, devices: Devices) -> Fragment:
    amounts = {name: str(quantity(amount)) for name, amount in spec.resources.items()}
    if devices.resource_name:
        amounts[devices.resource_name] = str(devices.count)
    return {"limits": amounts, "requests": dict(amounts)} if amounts else {}


def _pod_security(spec: CompleteSpec) -> Fragment:
    given = spec.pod_security_context
    non_root: dict[str, Any] = {} if is_root(spec) else {"runAsNonRoot": True}
    profile = {} if "seccompProfile" in given else {"seccompProfile": {"type": "RuntimeDefault"}}
    return {**non_root, **given, **profile}


def _security(spec: CompleteSpec, capabilities: tuple[str, ...]) -> Fragment:
    given = spec.security_context
    if given.get("privileged"):
        return given  # it has all rights; the API refuses some other settings with it
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    merged = _over(own, given)
    added = [*capabilities, *(name for name in merged["capabilities"].get("add", ()) if name not in capabilities)]
    return {**merged, "capabilities": {**merged["capabilities"], "add": added}} if added else merged


def _over(own: dict[str, Any], given: Fragment) -> dict[str, Any]:
    """Returns ``own``, overridden by the keys of ``given``, one level deep."""
    merged = dict(own)
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(own.get(key), dict)
        merged[key] = {**own[key], **value} if both else value
    return merged


def _tolerations(spec: CompleteSpec, devices: Devices) -> list[Fragment]:
    given = list(spec.tolerations)
    return given + [toleration for toleration in devices.tolerations if toleration not in given]


def _labels(devices: Devices) -> list[Fragment]:
    """Returns the requirements on a node's labels for its devices."""
    wanted: list[Fragment] = []
    if devices.product and devices.product_label:
        wanted += [{"key": devices.product_label, "operator": "In", "values": list(devices.product)}]
    if devices.memory is not None and devices.memory_label:
        # The label is in MiB, rounded down, and Gt means "more than". It is the whole card's memory; a slice has less.
        below = max(devices.memory // MEBIBYTE - 1, 0)
        wanted += [{"key": devices.memory_label, "operator": "Gt", "values": [str(below)]}]
    return wanted


def _with_labels(affinity: Fragment, wanted: list[Fragment]) -> Fragment:
    """Returns ``affinity`` with the labels in every term, because terms are alternatives."""
    if not wanted:
        return affinity
    node = affinity.get("nodeAffinity", {})
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = [
        {**term, "matchExpressions": [*term.get("matchExpressions", []), *wanted]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    required = {**required, "nodeSelectorTerms": terms}
    return {**affinity, "nodeAffinity": {**node, "requiredDuringSchedulingIgnoredDuringExecution": required}}


def _given(made: dict[str, Any]) -> dict[str, Any]:
    """Returns ``made`` without fields that are None, an empty mapping or an empty list."""
    return {name: value for name, value in made.items() if value is not None and value not in ({}, [])}
