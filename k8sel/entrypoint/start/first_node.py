"""The first node of a PyTorchJob ends some seconds after its command, so that the other nodes end before it.

The job has succeeded when its Master has, and the operator then removes each pod that still runs, with its log:
kubeflow/training-operator v1.9, pkg/controller.v1/common/job.go (DeletePodsAndServices). torch's agents end together
(torch/distributed/elastic/agent/server/api.py, _exit_barrier), and the Master is often the first that is reported.
"""

from __future__ import annotations

import os

from k8sel.entrypoint import launch, report
from k8sel.entrypoint.lean import TYPE_CHECKING, signal

if TYPE_CHECKING:
    from typing import Iterable, NoReturn

    from k8sel.entrypoint.protocol import Expectation

SECONDS = 10  # the kubelet reports a pod's end in one or two
_ENDS = ("SIGTERM", "SIGINT", "SIGQUIT")  # after these, the whole pod ends, and nothing waits
_PASSED_ON = (*_ENDS, "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")


def is_here(expectation: Expectation, environ: dict[str, str]) -> bool:
    """Reports if this is the Master of several pods. `k8sel docker` sets PET_NODE_RANK too, but removes nothing."""
    return expectation.nodes > 1 and environ.get("PET_NODE_RANK") == "0" and "KUBERNETES_SERVICE_HOST" in environ


def run(program: str, command: list[str], environ: dict[str, str], nodes: int, seconds: float = SECONDS) -> NoReturn:
    """Runs the command as a child that gets this process's signals, waits, and ends with the command's status."""
    numbers, ends = ({getattr(signal, name) for name in names} for names in (_PASSED_ON, _ENDS))
    # Blocked signals stay until sigwait takes them, also in pid 1: Linux kernel/signal.c, sig_ignored
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*numbers, signal.SIGCHLD})
    child = os.fork()
    if not child:
        _become(program, command, environ, before)
    status, received = _end_of(child, numbers)
    if not received & ends:
        report.say(
            f"the first node of {nodes} ends in {seconds:g} s, so that the others end before it and keep their logs"
        )
        signal.sigtimedwait(ends, seconds)
    os._exit(status)


def _become(program: str, command: list[str], environ: dict[str, str], mask: Iterable[int]) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        launch.become(program, command, environ)
    except report.Stop as stop:
        report.stop(stop.messages, environ)
        os._exit(stop.status)


def _end_of(child: int, numbers: set[int]) -> tuple[int, set[int]]:
    """Passes signals on until the child has ended. Returns its exit status, as a shell counts it, and the signals."""
    received: set[int] = set()
    while (status := _reaped().get(child)) is None:
        number = signal.sigwait({*numbers, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            received.add(number)
            os.kill(child, number)
    return status, received


def _reaped() -> dict[int, int]:
    """Reaps every child that has ended, with its exit status: as pid 1, this process also gets those of others."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended[pid] = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
