"""Jobs whose security contexts say all sorts of things, and the first Pod Security level that refuses them.

The API server's own verdicts: tests/e2e/test_namespace_levels.py asks it.
"""

from __future__ import annotations

import json
from typing import Any

from k8sel import api

USER = {"podSecurityContext": {"runAsUser": 1000}}
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "user": USER,
    "user of the container": {"securityContext": {"runAsUser": 1000}},
    "some user": {"podSecurityContext": {"runAsNonRoot": True}},
    "root": {"podSecurityContext": {"runAsUser": 0}},
    "root overridden": {"podSecurityContext": {"runAsUser": 0}, "securityContext": {"runAsUser": 1000}},
    "maybe root": {"podSecurityContext": {"runAsUser": 1000, "runAsNonRoot": False}},
    "maybe root overridden": {"podSecurityContext": {"runAsNonRoot": False}, "securityContext": {"runAsNonRoot": True}},
    "two nodes": {**USER, "nodes": 2},
    "mpirun": {"launcher": "mpirun", "nodes": 2},
    "mpirun of a user": {**USER, "launcher": "mpirun", "nodes": 2},
    "host network": {**USER, "hostNetwork": True},
    "host path": {**USER, "volumes": [{"name": "v", "hostPath": {"path": "/data"}}]},
    "nfs": {**USER, "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
    "claim": {**USER, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "privileged": {**USER, "securityContext": {"privileged": True}},
    "escalation": {**USER, "securityContext": {"allowPrivilegeEscalation": True}},
    "lock memory": {**USER, "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},
    "change owner": {**USER, "securityContext": {"capabilities": {"add": ["CHOWN"]}}},
    "low ports": {**USER, "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}},
    "drops one": {**USER, "securityContext": {"capabilities": {"drop": ["NET_RAW"]}}},
    "unconfined": {**USER, "securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    "unconfined overridden": {
        "podSecurityContext": {"runAsUser": 1000, "seccompProfile": {"type": "Unconfined"}},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    },
    "own profile": {
        "podSecurityContext": {
            "runAsUser": 1000,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/train.json"},
        },
    },
    "safe sysctl": {
        "podSecurityContext": {"runAsUser": 1000, "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}
    },
    "unsafe sysctl": {
        "podSecurityContext": {"runAsUser": 1000, "sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}
    },
    "SELinux user": {"podSecurityContext": {"runAsUser": 1000, "seLinuxOptions": {"user": "root"}}},
    "SELinux level": {"podSecurityContext": {"runAsUser": 1000, "seLinuxOptions": {"level": "s0:c1,c2"}}},
    "AppArmor off": {**USER, "securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    "AppArmor of the runtime": {**USER, "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
}
# Level -> what it refuses, beside what the levels before it refuse.
REFUSES: dict[str, set[str]] = {
    "privileged": set(),
    "baseline": {
        "host network",
        "host path",
        "privileged",
        "lock memory",
        "unconfined",
        "unconfined overridden",
        "unsafe sysctl",
        "SELinux user",
        "AppArmor off",
    },
    "restricted": {
        "root",
        "root overridden",
        "maybe root",
        "maybe root overridden",
        "plain",
        "two nodes",
        "mpirun",
        "nfs",
        "escalation",
        "change owner",
        "drops one",
    },
}


def refused_by(level: str) -> set[str]:
    """The titles of the jobs that ``level`` refuses."""
    levels = list(REFUSES)
    return set().union(*(REFUSES[each] for each in levels[: levels.index(level) + 1]))


def loaded(spec: dict[str, Any]) -> api.Job:
    fields = {
        "image": "img",
        "command": ["python", "-c", "pass"],
        "launcher": "torchrun",
        "accelerator": {"type": "cpu"},
    }
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}}
    (found,) = api.load(json.dumps({**file, "spec": {**fields, **spec}}).encode(), "job.yaml")
    return found
