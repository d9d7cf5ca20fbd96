"""The commands that use a cluster: they turn options into one library call, and print its results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from k8sel.cli.options import Context, Files, Namespace, Quiet, choice, completed, formats, plans, read, warn
from k8sel.errors import Kind, Problem, SpecError

if TYPE_CHECKING:
    from k8sel.cluster import Applied, Cluster, JobRef, LogLine, Options, Outcome, Status
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
EXIT_BY_RESULT = {"succeeded": 0, "failed": 1, "timeout": 124}


def apply(
    files: Files,
    namespace: Namespace = None,
    context: Context = None,
    dry_run: Annotated[
        str | None,
        typer.Option(
            help="server: the cluster checks everything and stores nothing.", autocompletion=completed("server")
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the job; the exit status is its result.")] = False,
    timeout: Annotated[float | None, typer.Option(help="With --wait: end after so many seconds, with 124.")] = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that another manager has set.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Apply jobs to the cluster by server-side apply. A second apply changes nothing."""
    choice("--dry-run", dry_run or "server", ("server",))
    _no_wait_without_job(wait, timeout, dry_run)
    jobs = read(files)
    from k8sel import cluster

    at = connected(context, namespace)
    how = cluster.Options(
        namespace=namespace, dry_run=dry_run is not None, force=force_conflicts, progress=_progress(quiet)
    )
    applied = [_apply_one(at, job, how, quiet) for job in jobs]
    if wait:
        sys.exit(max(_wait(at, ref, timeout, quiet) for ref in applied))


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


def _no_wait_without_job(wait: bool, timeout: float | None, dry_run: str | None) -> None:
    if wait and dry_run:
        message, hint = "a dry run makes no job to wait for", "use --wait or --dry-run, not both"
    elif timeout is not None and not wait:
        message, hint = "--timeout has no effect without --wait", "add --wait"
    else:
        return
    path = "--wait" if dry_run else "--timeout"
    raise SpecError([Problem(kind=Kind.INVALID, path=(path,), message=message, hint=hint)])


def _apply_one(at: Cluster, job: Job, how: Options, quiet: bool) -> JobRef:
    from k8sel import api, cluster

    where = how.namespace or job.file.metadata.namespace or at.namespace
    _obey_policy(at, job, where, quiet)
    job_plan = compared(at, job, next(plans([job], quiet)), quiet)
    options = replace(how, job=job.document.data)
    for each in _located(lambda: cluster.apply(at, api.render(job_plan), options), job):
        _report(each, how.dry_run, quiet)
    return cluster.JobRef(name=job_plan.name, namespace=where, kind=job_plan.target)


def _obey_policy(at: Cluster, job: Job, namespace: str, quiet: bool) -> None:
    """Refuses at once a job whose pods the namespace's Pod Security would refuse later."""
    from k8sel import api, cluster

    level = cluster.pod_security(at, namespace)
    if level is not None:
        warn(api.check(job, namespace_policy=level), quiet)


def _located(call: Callable[[], Result], job: Job) -> Result:
    """Runs ``call``; adds the lines of the job file to the server's refusals."""
    from k8sel.cluster import Refusal

    try:
        return call()
    except Refusal as refusal:
        raise refusal.located(job.document.locate) from refusal


def _report(applied: Applied, dry_run: bool, quiet: bool) -> None:
    for warning in applied.warnings if not quiet else ():
        print(f"warning: {warning}", file=sys.stderr)
    note = " (dry run)" if dry_run else ""
    print(f"{applied.kind} {applied.namespace}/{applied.name} {applied.action}{note}", flush=True)
    if applied.ended and not quiet:
        way = f"k8sel delete {applied.name} -n {applied.namespace}, then apply"
        print(f"k8sel: the job has ended ({applied.ended}) and does not start again: {way}", file=sys.stderr)


def _progress(quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def _wait(at: Cluster, ref: JobRef, timeout: float | None, quiet: bool) -> int:
    """Follows one job to its end. Returns the exit status."""
    from k8sel import cluster
    from k8sel.cli.show import status as show_status

    outcome: Outcome = cluster.wait(at, ref, timeout=timeout, on_change=_states(quiet))
    if outcome.result == "failed":
        print(show_status.failure(outcome.status), file=sys.stderr)
    if outcome.result == "timeout":
        print(f"k8sel: {ref.name} is not done after {timeout:g} s: {show_status.line(outcome.status)}", file=sys.stderr)
    return EXIT_BY_RESULT[outcome.result]


def _states(quiet: bool) -> Callable[[Status], None]:
    """Returns a function that prints each new line of status once: not every change of a pod changes the line."""
    from k8sel.cli.show import status as show_status

    printed, show = [""], _progress(quiet)

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
    for ref in [ref for name in jobs for ref in refs(name, namespace, kind)]:
        for gone in cluster.delete(at, ref, missing_ok=ignore_not_found):
            if not quiet:
                print(f"{gone.kind} {gone.namespace}/{gone.name} deleted")


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
    """Print every node's log as it comes. While nothing comes, standard error gives the reason."""
    from k8sel import cluster

    at = connected(context, namespace)
    for ref in refs(job, namespace, kind):
        cluster.logs(at, ref, follow=follow, on_line=_print_line, on_change=_unless_running(_states(quiet)))


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
