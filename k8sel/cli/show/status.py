"""Shows a job's status. Decides nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from k8sel.cli.show import plan

if TYPE_CHECKING:
    from k8sel.cluster import PodStatus, Status

PODS_HEADER = ("NODE", "ROLE", "HOST", "PHASE", "RESTARTS", "EXIT", "REASON")


def status(found: Status, output: str) -> None:
    """Prints ``found`` as `table` or `json`."""
    from k8sel.cluster.status import removal

    if output == "json":
        print(json.dumps(asdict(found), indent=2))
        return
    print(plan.bold(line(found)))
    if found.conditions:
        print()
        plan.table(
            ("CONDITION", "STATUS", "SINCE", "MESSAGE"),
            [(each.type, each.status, each.since, each.message) for each in found.conditions],
        )
    if found.pods:
        print()
        plan.table(PODS_HEADER, [_pod(each) for each in found.pods])
    gone = removal(found.kind, found.removed, len(found.pods) + len(found.removed))
    if gone:
        print(f"\n{gone}")
    for each in found.pods:
        if each.message and each.message not in found.reason:
            print(f"\n{each.node}: {each.message}")


def line(found: Status) -> str:
    """The status in one line."""
    ready = sum(pod.phase in ("Running", "Succeeded") for pod in found.pods)
    pods = "" if found.finished else f", {ready} of {len(found.pods)} pods started"
    why = found.reason.strip(": ")
    return f"{found.kind} {found.namespace}/{found.name} {found.phase}{pods}" + (f": {why}" if why else "")


def failure(found: Status) -> str:
    """The message for a failed job, with the first failed pod's own message."""
    if found.failure is None:
        return f"k8sel: {found.name} failed{': ' + found.reason if found.reason else ''}"
    failed = found.failure
    status_text = "" if failed.exit_code is None else f" with exit status {failed.exit_code}"
    heading = f"k8sel: {found.name} failed: node {failed.node} ended{status_text} ({failed.reason})"
    return f"{heading}\n{failed.message}".rstrip()


def _pod(pod: PodStatus) -> tuple[str, ...]:
    exit_code = "" if pod.failure is None or pod.failure.exit_code is None else str(pod.failure.exit_code)
    return (pod.node, pod.role, pod.host, pod.phase, str(pod.restarts), exit_code, pod.reason)
