"""The command ``apply``: writes jobs to a cluster, and follows them if it is told to."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from k8sel.cli import several
from k8sel.cli.cluster import compared, connected, given, goes_on, progress, states
from k8sel.cli.options import Context, Files, Namespace, Quiet, choice, completed, plans, read, shown, warn
from k8sel.errors import Kind, Problem, SpecError

if TYPE_CHECKING:
    from k8sel.cluster import Applied, Cluster, JobRef, Options, Outcome
    from k8sel.jobfile.load import Job

Result = TypeVar("Result")

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
    timeout: Annotated[
        float | None, typer.Option(help="With --wait: end after so many seconds in all, with 124.")
    ] = None,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that another manager has set.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Apply jobs to the cluster by server-side apply. A second apply changes nothing.

    --wait gives up when the API server does not answer for 300 seconds.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    choice("--dry-run", dry_run or "server", ("server",))
    _no_wait_without_job(wait, timeout, dry_run)
    with _in_time(timeout):
        jobs = read(files)
        from k8sel import cluster

        at = connected(context, namespace)
        how = cluster.Options(
            namespace=namespace, dry_run=dry_run is not None, force=force_conflicts, progress=progress(quiet)
        )
        words = _applying(given(namespace, context, ["--wait"] if wait else []))
        applied = several.one_by_one(jobs, lambda job: _apply_one(at, job, how, quiet), words)
    if wait:
        words, each = replace(words, done="ended", missed="not followed"), iter(applied)
        follow = partial(_wait, at, timeout=timeout, quiet=quiet, ends=ends)
        sys.exit(max(several.one_by_one(jobs, lambda _: goes_on(follow, next(each), at, context, quiet), words)))


@contextmanager
def _in_time(timeout: float | None) -> Iterator[None]:
    """Ends the command with 124 if the block takes longer than ``timeout``."""
    try:
        with several.limit(timeout):
            yield
    except several.TimeUp:
        print(f"k8sel: not applied after {timeout:g} s", file=sys.stderr)
        sys.exit(EXIT_BY_RESULT["timeout"])


def _applying(options: Sequence[str]) -> several.Words[Job]:
    """The words about applied jobs; to apply one again changes nothing, so the command repeats its whole file."""

    def command(jobs: Sequence[Job]) -> str:
        files = dict.fromkeys("-" if job.document.file == shown("-") else job.document.file for job in jobs)
        return shlex.join(["k8sel", "apply", *options, *files])

    return several.Words(done="applied", missed="not tried", name=lambda job: job.file.metadata.name, command=command)


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


def _wait(at: Cluster, ref: JobRef, timeout: float | None, quiet: bool, ends: float | None = None) -> int:
    """Follows one job to its end, at most until ``ends``, ``timeout`` after the command began. Returns the status."""
    from k8sel import cluster
    from k8sel.cli.show import status as show_status

    left = timeout if ends is None else max(0.0, ends - time.monotonic())
    outcome: Outcome = cluster.wait(at, ref, timeout=left, on_change=states(quiet), on_notice=progress(quiet))
    if outcome.result == "failed":
        print(show_status.failure(outcome.status), file=sys.stderr)
    if outcome.result == "timeout":
        print(f"k8sel: {ref.name} is not done after {timeout:g} s: {show_status.line(outcome.status)}", file=sys.stderr)
    return EXIT_BY_RESULT[outcome.result]
