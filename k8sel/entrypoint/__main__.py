"""The command ``k8sel-entrypoint``: reads its mode and environment, and becomes the user's command or stops."""

from __future__ import annotations

import gc
import os
import sys

from k8sel.entrypoint.lean import TYPE_CHECKING, signal
from k8sel.entrypoint.report import MISMATCH, Stop

if TYPE_CHECKING:
    from typing import NoReturn

    from k8sel.entrypoint.machine import Machine

MODES = ("node", "rank", "gate", "check")
HELP = """\
Usage: k8sel-entrypoint [MODE] [--] COMMAND...

Checks that this node has the devices that a job expects, makes them visible to COMMAND in the job's order, and becomes
COMMAND: same process id, same signals, same exit status.

Modes:
  node    (default) this node for all its processes: masks, threads, COMMAND
  rank    one process that mpirun or torchrun has started: its own mask, RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
  gate    MPI's launcher: checks each node once, by the expectation's probe command, then COMMAND (the real mpirun)
  check   checks this node, and prints a report as one line of JSON; the exit status is always 0

The expected devices are in K8SEL_EXPECT (JSON, written by k8sel). Set these variables instead to use it by hand:
  K8SEL_ACCELERATOR   a row of k8sel's table: cuda, rocm, xpu, hpu, cpu, ...
  K8SEL_COUNT         devices that this node must have, exactly
  K8SEL_DEVICES       positions of the devices for local ranks 0, 1, ...: 2,0 (default: all of K8SEL_COUNT, else 0)
  K8SEL_ORDER         how positions are counted: pci (default) or fastest (the driver's own)
  K8SEL_PRODUCT       allowed products in the node label's spelling, separated by commas
  K8SEL_MEMORY        memory that each device must have, at least: 40Gi
  K8SEL_BACKEND       backend of torch.distributed that COMMAND uses; the libraries beside COMMAND must have it

Also read:
  K8SEL_CHECK            enforce (default), warn (print the problems and continue), off (no check; masks by position);
                         beside K8SEL_EXPECT it overrides the job's check for this start, and a line reports it
  OMP_NUM_THREADS        kept if it is set; else each process gets its share of the cores, less oneCCL's workers
  CCL_WORKER_COUNT       oneCCL's workers: threads of each process that need cores of their own
  K8SEL_NODE             this node's name in messages (default: the host's name)
  K8SEL_TERMINATION_LOG  file for the message of a stop (default: /dev/termination-log, if it exists)

Exit status: the command's own; 78 when the command was not started (a mismatch, a wrong expectation, no such program);
1 when the gate's mpirun could not reach any node.
"""


def main(arguments: list[str] | None = None, root: str = "") -> NoReturn:
    """Becomes the command, or exits; never shows a traceback. ``root``: the folder of a machine made by a test."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # nothing here lives long enough to be collected
    words = sys.argv[1:] if arguments is None else arguments
    environ = dict(os.environ)
    try:
        sys.exit(run(words, environ, root))
    except Stop as stop:
        _end(stop.messages, environ)
        sys.exit(stop.status)
    except Exception as error:
        _end([_lacking(error) or f"internal error: {_brief(error)}: report it as a bug of k8sel"], environ)
        sys.exit(MISMATCH)


def run(words: list[str], environ: dict[str, str], root: str = "") -> int:
    """Runs the mode that ``words`` name. Returns only if there is no command to start."""
    if words[:1] in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        return 0
    if words[:1] == ["--version"]:
        from k8sel import __version__

        sys.stdout.write(f"k8sel-entrypoint {__version__}\n")
        return 0
    mode, command = split(words)
    from k8sel.entrypoint import start

    environ = start.with_container(environ)
    if mode != "check":
        _start(mode, command, environ, root)
    return _check(environ, root)


def split(words: list[str]) -> tuple[str, list[str]]:
    """Returns mode and command; a command named like a mode needs ``--`` first. Raises Stop for an unknown option."""
    mode, rest = (words[0], words[1:]) if words and words[0] in MODES else ("node", words)
    if rest and rest[0] == "--":
        return mode, rest[1:]
    if rest and rest[0].startswith("-"):
        usage = f"k8sel-entrypoint [{'|'.join(MODES)}] [--] COMMAND..."
        raise Stop([f"unknown option {rest[0]}: write {usage}, or see --help"])
    return mode, rest


def _start(mode: str, command: list[str], environ: dict[str, str], root: str) -> NoReturn:
    from k8sel.entrypoint import launch, start

    if not command or _is_turned_off(environ):
        launch.become(launch.find(command, environ), command, environ)
    here, expectation = _machine(environ, root), start.expectation(environ, command)
    environ = start.for_ranks(expectation, environ)
    if expectation.backend or expectation.mpi:
        from k8sel.entrypoint.start import setvars

        environ = setvars.sourced(expectation, here, mode, command, environ)
    program = launch.find(command, environ)
    if mode == "gate":
        from k8sel.entrypoint.start import gate

        gate.wait_for_all(expectation, environ, command)
    else:
        from k8sel.entrypoint.start import node

        begin = node.start_rank if mode == "rank" else node.start_node
        environ = begin(expectation, here, environ, command)
    if mode == "node" and expectation.nodes > 1:
        from k8sel.entrypoint.start import first_node

        if first_node.is_here(expectation, environ):
            first_node.run(program, command, environ, expectation.nodes)
    launch.become(program, command, environ)


def _is_turned_off(environ: dict[str, str]) -> bool:
    """Reports if K8SEL_CHECK=off is the only variable: the user turns off the entrypoint of an image."""
    given = [name for name in environ if name.startswith("K8SEL_")]
    return given == ["K8SEL_CHECK"] and environ["K8SEL_CHECK"] == "off"


def _machine(environ: dict[str, str], root: str) -> Machine:
    """Returns this machine, or a test's below ``root``. Raises Stop if K8SEL_ROOT is set, which only tests used."""
    if environ.get("K8SEL_ROOT") and not root:
        raise Stop(
            [
                "K8SEL_ROOT is set, and the entrypoint ignores it: it always checks this machine. "
                "Remove the variable from the image's ENV and from spec.env"
            ]
        )
    from k8sel.entrypoint import machine

    return machine.under(root)


def _check(environ: dict[str, str], root: str) -> int:
    """Prints this node's report, also after an error."""
    from k8sel.entrypoint import report, start
    from k8sel.entrypoint.start import gate

    try:
        answer = gate.check_here(start.expectation(environ, []), _machine(environ, root), environ)
    except Stop as stop:
        answer = gate.failed(environ, stop.messages)
    except Exception as error:
        answer = gate.failed(environ, [f"internal error: {_brief(error)}: report it as a bug of k8sel"])
    report.node_report(answer)
    return 0


def _end(messages: list[str], environ: dict[str, str]) -> None:
    from k8sel.entrypoint import report

    report.stop(messages, environ)


def _lacking(error: Exception) -> str:
    """Returns how to get a missing module of Python's own: Debian's python3-minimal has a part of them. Else empty."""
    if not isinstance(error, ImportError) or not error.name or error.name.partition(".")[0] == "k8sel":
        return ""
    return (
        f"the Python of this image ({sys.executable}) lacks {error.name}, a part of Python's standard library: "
        "install the whole Python, for example by apt-get install python3 in place of python3-minimal"
    )


def _brief(error: Exception) -> str:
    """Returns the kind, text and place of an error, in one line."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}{place}"


if __name__ == "__main__":
    main()
