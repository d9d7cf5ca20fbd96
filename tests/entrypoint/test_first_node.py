"""The first node of a PyTorchJob ends last: the operator removes pods that still run, with their logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from entrypoint.machines import Box, devices, left_over
from k8sel.entrypoint.start.first_node import SECONDS

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "PET_NODE_RANK": "0"}


def popen(box: Box, script: str, env: dict[str, str] = POD, nodes: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", str(box.entrypoint / "entrypoint.pyz"), "--", "sh", "-c", script]
    expect = devices(0, nodes=nodes, launcher="torchrun", check="off")
    return subprocess.Popen(
        command, env=box.environ(expect, env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def is_itself(process: subprocess.Popen[str]) -> bool:
    """Tells whether the entrypoint became the command, which printed its process id."""
    out, _ = process.communicate(timeout=30)
    return int(out) == process.pid


def test_it_waits_after_its_command_and_has_the_commands_status(box: Box) -> None:
    start = time.monotonic()
    started = [popen(box, script) for script in ("exit 0", "exit 3", "kill -9 $$")]
    ended = [process.communicate(timeout=60) for process in started]
    assert time.monotonic() - start >= SECONDS
    assert [process.returncode for process in started] == [0, 3, 128 + signal.SIGKILL]
    assert all(f"the first node of 2 ends in {SECONDS} s, so that" in err for _, err in ended)


@pytest.mark.parametrize(
    ("env", "nodes"),
    [
        ({**POD, "PET_NODE_RANK": "1"}, 2),
        ({"PET_NODE_RANK": "0"}, 2),  # k8sel docker: nobody removes a container
        (POD, 1),
    ],
)
def test_other_nodes_and_other_places_become_their_command(env: dict[str, str], nodes: int, box: Box) -> None:
    assert is_itself(popen(box, "echo $$", env, nodes))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_reaches_the_command(name: str, box: Box) -> None:
    seconds = f"40.{int(getattr(signal, name))}"  # tests beside this one have other processes
    with popen(box, f"echo up; exec sleep {seconds}") as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.send_signal(getattr(signal, name))
        if name == "SIGUSR1":  # after it the pod goes on, and so the wait
            assert process.stderr
            assert any("ends in" in line for line in process.stderr)
            process.terminate()
        start = time.monotonic()
        assert process.wait(60) == 128 + getattr(signal, name)
        assert time.monotonic() - start < SECONDS
    assert not left_over([f"sleep {seconds}"])


def test_a_signal_ends_the_wait(box: Box) -> None:
    with popen(box, "exit 4") as process:
        assert process.stderr
        assert any("ends in" in line for line in process.stderr)
        start = time.monotonic()
        process.terminate()
        assert process.wait(60) == 4
        assert time.monotonic() - start < SECONDS


def test_processes_that_the_command_left_are_reaped(box: Box) -> None:
    """As pid 1 it is their parent: a zombie would stay as long as the pod."""
    script = (
        "import os, sys; from k8sel.entrypoint.start import first_node;"
        "os.fork() or os._exit(0);"  # ends before the command does
        "first_node.run('/bin/sh', ['sh', '-c', 'sleep 1; ps -o stat= --ppid $PPID; exit 7'], dict(os.environ), 2, 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 7
    assert "Z" not in done.stdout
