"""The command line: each command makes one library call and prints its result. Decides nothing about jobs.

Exit status: 0 done, 2 a wrong file or option, 1 another failure. `apply --wait` adds 124 (not done in time). `run` and
`docker` return the program's own status. `receipt diff` returns 1 for "different" and 2 for every failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k8sel import __version__
from k8sel.cli import options, streams
from k8sel.cli.options import Context, File, Files, Nodes, Quiet, choice, completed, formats, plans, read, rows, warn
from k8sel.errors import K8selError
from k8sel.facts.platforms import PLATFORMS

if TYPE_CHECKING:
    from k8sel.jobfile.load import Job


def main() -> None:
    """Runs the command line. A failure gives a message and an exit status, never a traceback."""
    streams.ready()
    try:
        _run()
    except K8selError as error:
        print(error, file=sys.stderr)
        sys.exit(max(error.exit_status, _failure()))
    except BrokenPipeError:  # the reader of our output has gone, as in `k8sel render ... | head`
        sys.stderr.close()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # a full disk, for example; file errors have messages of their own
        print(streams.lost(error), file=sys.stderr)
        sys.exit(_failure())
    except Exception as error:  # a fault of k8sel itself
        if "K8SEL_TRACEBACK" in os.environ:
            raise
        print(f"k8sel: a fault in k8sel itself: {type(error).__name__} in {_place(error)}", file=sys.stderr)
        print("Please report it with the output of `K8SEL_TRACEBACK=1 k8sel ...`.", file=sys.stderr)
        print("Read the output first: it can quote your files with their secrets.", file=sys.stderr)
        sys.exit(_failure())


def _place(error: Exception) -> str:
    """The last module and line of k8sel in the traceback. The error's own text may be secret."""
    from traceback import walk_tb

    places = [(frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__)]
    module, line = [place for place in places if place[0].startswith("k8sel")][-1]
    return f"{module}, line {line}"


def _failure() -> int:
    """The exit status of a failure: 1, or 2 for `receipt diff`, where 1 means "different"."""
    from k8sel.cli.receipt import DIFF, ERROR

    return ERROR if DIFF in sys.argv[2:] else 1


def _run() -> None:
    """Runs the command and flushes its output."""
    try:
        application(sys.argv[1:])()
    finally:
        sys.stdout.flush()


def _version(wanted: bool) -> None:
    if wanted:
        print(f"k8sel {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _launchers(incomplete: str) -> list[str]:
    from k8sel.facts.launchers import LAUNCHERS

    return completed(*LAUNCHERS)(incomplete)


def init(
    launcher: Annotated[
        str, typer.Option("-l", "--launcher", help="The job's launcher.", autocompletion=_launchers)
    ] = "torchrun",
    accelerator: Annotated[
        str | None,
        typer.Option(
            "-a", "--accelerator", help="A row of the accelerator table; default: its first.", autocompletion=rows
        ),
    ] = None,
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="[FILE]")] = Path("job.yaml"),
) -> None:
    """Write a commented starter file."""
    from k8sel.facts.accelerators import ROWS
    from k8sel.jobfile.template import starter

    row = accelerator or next(iter(ROWS))
    text = starter(launcher, row)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    options.write_new(file, text, "init ...")
    on = "" if ROWS[row].in_container else " --on run"
    print(f"{file} is written. Next: k8sel plan{on} {file}")


def schema() -> None:
    """Print the job file's JSON Schema, for editors."""
    import json

    from k8sel.jobfile.schema import schema as job_schema

    print(json.dumps(job_schema(), indent=2, ensure_ascii=False))


def validate(
    files: Files,
    namespace_policy: Annotated[
        str,
        typer.Option(
            help="Also check against a Pod Security level: restricted, baseline or privileged.",
            autocompletion=completed("restricted", "baseline", "privileged"),
        ),
    ] = "privileged",
    quiet: Quiet = False,
) -> None:
    """Check job files without a cluster. Print all problems at once."""
    from k8sel import api

    count = 0
    for job in read(files):
        warn(api.check(job, namespace_policy=namespace_policy), quiet)
        count += 1
    if not quiet:
        print(f"{count} {'job is' if count == 1 else 'jobs are'} valid")


def plan(
    files: Files,
    output: Annotated[str, formats("table", "json")] = "table",
    on: Annotated[
        str,
        typer.Option(
            help="Where the job would start: kubernetes, docker or run.", autocompletion=completed(*PLATFORMS)
        ),
    ] = "kubernetes",
    door: Annotated[str | None, typer.Option(hidden=True, help="The old name of --on.")] = None,
    nodes: Nodes = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Also compare with the cluster's nodes; needs a cluster.")
    ] = False,
    context: Context = None,
    quiet: Quiet = False,
) -> None:
    """Show every decision: node, rank, device, mask, threads."""
    from k8sel.cli.show import plan as show

    choice("-o", output, ("table", "json"))
    on = door or on
    choice("--on", on, tuple(PLATFORMS))
    jobs = read(files)
    job_plans = list(plans(jobs, quiet, platform=on, nodes=nodes))
    if cluster or context:
        from k8sel.cli import cluster as cli_cluster

        at = cli_cluster.connected(context)
        job_plans = [cli_cluster.compared(at, *each, quiet) for each in zip(jobs, job_plans, strict=True)]
    for job_plan in job_plans:
        show.plan(job_plan, output, PLATFORMS[on])


def run(
    file: File,
    nodes: Nodes = None,
    override_env: Annotated[
        bool, typer.Option("--override-env", help="Replace a mask that the shell has, for this job only.")
    ] = False,
    show_command: Annotated[
        bool, typer.Option("--print", help="Print the command and its variables; start nothing.")
    ] = False,
    show_plan: Annotated[bool, typer.Option("--plan", help="Show the plan first.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the job as processes on this machine. The exit status is the program's."""
    from k8sel.cli.show import plan as show
    from k8sel.machine import processes

    (job_plan,) = plans(_one(file, "run"), quiet, platform="run", nodes=nodes)
    command = processes.command(job_plan, override_env=override_env, started=not show_command)
    if show_command:
        streams.write(f"{command}\n")
        return
    if show_plan:
        show.plan(job_plan, "table", PLATFORMS["run"])
    sys.stdout.flush()
    processes.execute(command)


def docker(
    file: File,
    nodes: Nodes = None,
    cdi: Annotated[
        bool,
        typer.Option("--cdi", help="Expose the devices by CDI, as `--device VENDOR/CLASS=NAME`; Docker 25 or newer."),
    ] = False,
    show_command: Annotated[
        bool, typer.Option("--print", help="Print the `docker run` line; start nothing, need no daemon.")
    ] = False,
    show_plan: Annotated[bool, typer.Option("--plan", help="Show the plan first.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the job as containers on this machine, one for each node. The exit status is the program's."""
    from k8sel.cli.show import plan as show
    from k8sel.machine.docker import resolve
    from k8sel.machine.docker.emit import own_network
    from k8sel.machine.docker.line import lines

    (job_plan,) = plans(_one(file, "docker"), quiet, platform="docker", nodes=nodes)
    made, network = resolve.containers(job_plan, by_cdi=cdi), own_network(job_plan)
    if show_command:
        streams.write(f"{lines(made, network)}\n")
        return
    if show_plan:
        show.plan(job_plan, "table", PLATFORMS["docker"])
    sys.stdout.flush()
    from k8sel.machine.docker import containers

    needs, pull = resolve.needs(job_plan, by_cdi=cdi), job_plan.container.get("imagePullPolicy")
    sys.exit(containers.run(made, network, needs=needs, pull=pull, quiet=quiet))


def _one(file: str, command: str) -> list[Job]:
    jobs = read([file])
    if len(jobs) != 1:
        raise options.usage(f"{file} has {len(jobs)} jobs, and `{command}` starts one", "put one job into the file")
    return jobs


COMMANDS = {  # the function of each command; k8sel imports its module only to run the command
    "init": "k8sel.cli.main:init",
    "from": "k8sel.cli.adopt:from_",
    "schema": "k8sel.cli.main:schema",
    "validate": "k8sel.cli.main:validate",
    "plan": "k8sel.cli.main:plan",
    "render": "k8sel.cli.render:render",
    "run": "k8sel.cli.main:run",
    "docker": "k8sel.cli.main:docker",
    "devices": "k8sel.cli.devices:devices",
    "audit": "k8sel.cli.audit:audit",
    "apply": "k8sel.cli.apply:apply",
    "delete": "k8sel.cli.cluster:delete",
    "status": "k8sel.cli.cluster:status",
    "logs": "k8sel.cli.cluster:logs",
    "receipt": "k8sel.cli.receipt:receipt",
}


def application(words: Sequence[str]) -> typer.Typer:
    """The command line for ``words``: only the command that they start with, or all commands.

    To make the options of all commands takes as long as to render a job.
    """
    made = typer.Typer(
        name="k8sel",
        help="One job file names the accelerators that a training job uses, and in which order.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    for name in [name for name in COMMANDS if [name] == list(words[:1])] or COMMANDS:
        made.command(name)(_command(name))
    return made


def _command(name: str) -> Callable[..., None]:
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[..., None] = getattr(import_module(module), function)
    return found
