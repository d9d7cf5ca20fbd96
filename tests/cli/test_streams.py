"""Standard streams as a shell can leave them: closed, full, of another encoding, a terminal. Never a traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import IO

import pytest

from cli.test_cli import EXAMPLES, JOB
from cluster.client import await_

K8SEL = f"{sys.executable} -m k8sel"
ASCII = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FOREIGN = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: a-name-that-is-longer-than-terminals-have-room}
spec:
  image: reg/x:1
  command: [python, -c, "print('größe €')"]
  launcher: torchrun
  accelerator: {type: cuda, count: 8}
  sharedMemory: 1Gi
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(FOREIGN, encoding="utf-8")
    return file


def shell(command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", command], capture_output=True, check=False, env=env)


def test_closed_standard_input_is_a_message() -> None:
    done = shell(f"{K8SEL} plan - <&-")
    assert (done.returncode, done.stderr.decode()) == (
        2,
        "invalid: standard input is closed. Hint: name a file, or use `k8sel ... - < FILE`\n",
    )


@pytest.mark.parametrize("command", ["plan", "render", "render -o json", "validate"])
def test_closed_output_is_what_the_caller_wanted(command: str) -> None:
    done = shell(f"{K8SEL} {command} -q {JOB} >&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_warnings_for_a_closed_stream_do_not_go_into_the_manifest() -> None:
    alone = shell(f"{K8SEL} render -q {JOB}").stdout
    assert shell(f"{K8SEL} render {JOB} 2>&-").stdout == alone


@pytest.mark.parametrize("command", ["plan -q", "render -q", "schema", "--help"])
def test_a_full_disk_is_a_message(command: str) -> None:
    file = JOB if command.endswith("-q") else ""
    done = shell(f"{K8SEL} {command} {file} > /dev/full")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "k8sel: standard output cannot be written: No space left on device. The output is incomplete\n",
    )


def test_manifests_are_utf_8_in_every_locale(foreign: Path) -> None:
    for command in ("render", "render -o json"):
        done = shell(f"{K8SEL} {command} {foreign}", ASCII)
        assert (done.returncode, done.stderr) == (0, b"")
        assert "print('größe €')" in done.stdout.decode()


def test_what_a_terminal_cannot_show_is_escaped(foreign: Path) -> None:
    done = shell(f"{K8SEL} plan {foreign}", ASCII)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"""print('gr\xf6\xdfe \u20ac')""" in done.stdout


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_of_any_width_shows_whole_names(foreign: Path, columns: int) -> None:
    shown = in_terminal([*K8SEL.split(), "plan", str(foreign)], columns)
    rows = [line.split() for line in shown.splitlines() if line.startswith("a-name-that-is-longer-than")][1:]
    assert [row[:5] for row in rows] == [
        ["a-name-that-is-longer-than-terminals-have-room-master-0", str(rank), str(rank), str(rank),
         "0,1,2,3,4,5,6,7"] for rank in range(8)
    ]  # fmt: skip


def in_terminal(command: list[str], columns: int) -> str:
    """Returns the output of ``command`` on a pseudo-terminal."""
    own, its = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=env) as child:
        os.close(its)
        shown = b""
        while chunk := _read(own):
            shown += chunk
    os.close(own)
    assert child.returncode == 0
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other side has ended
        return b""


def _unread(pipe: IO[str] | None) -> int:
    """The bytes in a pipe that nobody has read yet."""
    assert pipe is not None
    (number,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(number)


def test_ctrl_c_while_it_reads_is_130() -> None:
    command = [*K8SEL.split(), "plan", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        child.stdin.write("apiVersion: ")
        child.stdin.flush()
        await_(lambda: not _unread(child.stdin), what="read of standard input")
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == 130
        assert child.stderr is not None
        assert child.stderr.read() == ""


def test_no_home_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k8sel", "plan", "-q", EXAMPLES / "hello.yaml"], env={}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("k8sel ren", ["render"]),
        ("k8sel plan --on", ["--on"]),
        ("k8sel render -o ", ["yaml", "json"]),
        ("k8sel init --launcher m", ["mpirun"]),
        ("k8sel init -a cu", ["cuda"]),
        ("k8sel devices --type cu", ["cuda"]),
        ("k8sel receipt -o ", ["table", "json"]),
        ("k8sel validate --namespace-policy re", ["restricted"]),
    ],
)
def test_bash_completes(words: str, offered: list[str]) -> None:
    index = len(words.split(" ")) - 1
    env = {**os.environ, "_K8SEL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    done = subprocess.run([Path(sys.executable).parent / "k8sel"], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == offered


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    # The shell is found among the parent processes, so there has to be one: bash alone would become the program.
    command = ["bash", "-c", f"{Path(sys.executable).parent / 'k8sel'} --install-completion; exit $?"]
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"k8sel: {tmp_path / 'home'}")
    assert "standard output" not in done.stderr
