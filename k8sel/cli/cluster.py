"""The commands that use a cluster: they turn options into one library call, and print its results."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from k8sel.cli import several
from k8sel.cli.options import Context, Namespace, Quiet, choice, completed, formats, read, warn

if TYPE_CHECKING:
    from k8sel.cluster import Cluster, JobRef, LogLine, Status
    from k8sel.jobfile.load import Job
    from k8sel.planning.plan import JobPlan

Result = TypeVar("Result")

JobKind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="PyTorchJob or MPIJob, if both have the name.",
        autocompletion=completed("PyTorchJob", "MPIJob"),
    ),
]
Target = Annotated[str, typer.Argument(help="A job's name, or its file.", metavar="JOB|FILE")]


def given(namespace: str | None, context: str | None, others: Sequence[str] = ()) -> list[str]:
    """The options of a command, to repeat them."""
    named = {"-n": namespace, "--context": context}
    return [word for name, value in named.items() if value for word in (name, value)] + list(others)


def connected(context: str | None, namespace: str | None = None) -> Cluster:
    """The cluster that the options or the kubeconfig name."""
    from k8sel import cluster

    return cluster.connect(context, namespace)


def compared(at: Cluster, job: Job, job_plan: JobPlan, quiet: bool) -> JobPlan:
    """Compares a plan with the cluster's nodes. Prints the new warnings and adds them to the plan."""
    from msgspec import structs

    from k8sel.cluster import capacity, nodes
    from k8sel.jobfile import load

    devices = job_plan.devices
    sizes = nodes.sizes(at, devices.resource_name) if devices.resource_name else None
    found = load.locate(job.document, capacity.warnings(devices, len(job_plan.nodes), sizes))
    warn(found, quiet)
    return structs.replace(job_plan, warnings=(*job_plan.warnings, *found))


def progress(quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def goes_on(follow: Callable[[JobRef], Result], ref: JobRef, at: Cluster, context: str | None, quiet: bool) -> Result:
    """Follows a job. Ctrl-C says that the job goes on, how to follow it and how to end it."""
    try:
        return follow(ref)
    except KeyboardInterrupt:
        where = shlex.join([ref.name, *given(ref.place(at), context)])
        ways = f"Follow it: k8sel logs {where}. End it: k8sel delete {where}"
        progress(quiet)(f"k8sel: stopped following; the job {ref.name} goes on. {ways}")
        raise


def states(quiet: bool) -> Callable[[Status], None]:
    """Returns a function that prints each new line of status once: not every change of a pod changes the line."""
    from k8sel.cli.show import status as show_status

    printed, show = [""], progress(quiet)

    def each(status: Status) -> None:
        text = show_status.line(status)
        if text != printed[-1]:
            show(text)
        printed[-1] = text

    return each


def delete(
    jobs: Annotated[list[str], typer.Argument(help="Jobs' names, or their files.", metavar="JOB|FILE...")],
    namespace: Namespace = None,
    context: Context = None,
    kind: JobKind = None,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Accept that a job does not exist.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Delete jobs, their pods and their ConfigMaps."""
    from k8sel import cluster

    at = connected(context, namespace)

    def one(ref: JobRef) -> None:
        for gone in cluster.delete(at, ref, missing_ok=ignore_not_found):
            if not quiet:
                print(f"{gone.kind} {gone.namespace}/{gone.name} deleted", flush=True)

    named = [ref for name in jobs for ref in refs(name, namespace, kind)]
    several.one_by_one(named, one, _deleting(context, kind, ignore_not_found))


def _deleting(context: str | None, kind: str | None, ignore_not_found: bool) -> several.Words[JobRef]:
    """The words about deleted jobs; the command leaves out the jobs that are gone."""
    others = [*(["--kind", kind] if kind else []), *(["--ignore-not-found"] if ignore_not_found else [])]

    def command(left: Sequence[JobRef]) -> str:
        by_place = {ref.namespace: [each.name for each in left if each.namespace == ref.namespace] for ref in left}
        lines = (["k8sel", "delete", *given(place, context, others), *names] for place, names in by_place.items())
        return " && ".join(map(shlex.join, lines))

    return several.Words(done="deleted", missed="not tried", name=lambda ref: ref.name, command=command)


def status(
    job: Target,
    namespace: Namespace = None,
    context: Context = None,
    kind: JobKind = None,
    output: Annotated[str, formats("table", "json")] = "table",
) -> None:
    """Show a job's conditions and pods. If it waits or failed, show the reason. The exit status is 0."""
    from k8sel import cluster
    from k8sel.cli.show import status as show_status

    choice("-o", output, ("table", "json"))
    at = connected(context, namespace)
    for ref in refs(job, namespace, kind):
        found: Status = cluster.status(at, ref)
        show_status.status(found, output)


def logs(
    job: Target,
    namespace: Namespace = None,
    context: Context = None,
    kind: JobKind = None,
    follow: Annotated[bool, typer.Option("-f/-F", "--follow/--no-follow", help="Follow until the job's end.")] = True,
    quiet: Quiet = False,
) -> None:
    """Print every node's log as it comes. While nothing comes, standard error gives the reason.

    It gives up when the API server or a node does not answer for 60 seconds.
    """
    from k8sel import cluster

    at = connected(context, namespace)
    changed = _unless_running(states(quiet))

    def read_logs(ref: JobRef) -> None:
        cluster.logs(at, ref, follow=follow, on_line=_print_line, on_change=changed, on_notice=progress(quiet))

    for ref in refs(job, namespace, kind):
        goes_on(read_logs, ref, at, context, quiet)


def _unless_running(show: Callable[[Status], None]) -> Callable[[Status], None]:
    """Shows no status of a job that runs without trouble."""
    return lambda status: None if status.phase in ("Running", "Succeeded") and not status.reason else show(status)


def _print_line(line: LogLine) -> None:
    from k8sel.cli import streams

    streams.write(f"{line.node} | {line.text}\n")
    sys.stdout.flush()


def refs(name: str, namespace: str | None, kind: str | None) -> list[JobRef]:
    """The job of this name, or each job in the file of this name."""
    from pathlib import Path

    from k8sel.cluster import JobRef

    looks_like_file = "/" in name or Path(name).suffix in (".yaml", ".yml", ".json")  # no job can have such a name
    if name != "-" and not looks_like_file and not Path(name).is_file():
        return [JobRef(name=name, namespace=namespace, kind=kind)]
    return [
        JobRef(name=job.file.metadata.name, namespace=namespace or job.file.metadata.namespace, kind=kind)
        for job in read([name])
    ]
