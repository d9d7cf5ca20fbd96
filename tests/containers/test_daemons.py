"""A daemon that is slow, or goes away in the middle: stand-ins that answer so far and no further."""

from __future__ import annotations

import json
import signal
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from planning.jobs import plan

from containers.client import command, job
from k8sel.errors import ContainersError
from k8sel.machine.docker import containers, resolve

ANSWERS = {
    "/version": {"ApiVersion": "1.41", "Version": "20.10"},
    "/_ping": {},
    "/json": {"Id": "sha256:0", "Config": {"User": ""}},  # of an image
}


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Knows one image; what it is asked to do, it ``act``s on."""

    daemon_threads = True

    def __init__(self, path: Path, act: Callable[[], object]) -> None:
        super().__init__(str(path), Handler)
        self.act, self.asked = act, threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Daemon

    def do_GET(self) -> None:
        self.answer(next(answer for end, answer in ANSWERS.items() if self.path.partition("?")[0].endswith(end)))

    def do_POST(self) -> None:
        self.server.asked.set()
        self.server.act()

    def answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """No word of it among the tests'."""

    def address_string(self) -> str:
        return "unix"


@contextmanager
def daemon(act: Callable[[], object]) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="k8sel-") as folder:
        server = Daemon(Path(folder, "sock"), act)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
            server.server_close()


def test_a_daemon_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon(lambda: threading.Event().wait(30)) as server:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{server.server_address}")
        monkeypatch.setattr(containers, "ANSWER_SECONDS", 0.5)
        made = resolve.containers(plan({"type": "cpu"}, "docker"))
        with pytest.raises(ContainersError, match=r"did not answer for 0\.5 s: .* docker rm -f job-master-0"):
            containers.run(made, None, pull=None, quiet=True)


def test_a_daemon_that_goes_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon(lambda: None) as server:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{server.server_address}")
        made = resolve.containers(plan({"type": "cpu"}, "docker"))
        with pytest.raises(ContainersError, match="k8sel: the Docker daemon went away: "):
            containers.run(made, None, pull=None, quiet=True)


@pytest.mark.parametrize(
    ("pull", "interrupts"),
    [("Always", 1), ("Never", 3)],  # a pull is ours; what is being started may be the program's, up to the third time
)
def test_interrupts_end_it_whatever_the_daemon_does(pull: str, interrupts: int) -> None:
    with daemon(lambda: threading.Event().wait(60)) as server:
        env = {"DOCKER_HOST": f"unix://{server.server_address}", "HOME": str(Path.home())}
        pipe = subprocess.PIPE
        with subprocess.Popen(command("-q"), stdin=pipe, stdout=pipe, stderr=pipe, env=env) as child:
            assert child.stdin is not None
            child.stdin.write(job("echo", imagePullPolicy=pull).encode())
            child.stdin.close()
            child.stdin = None
            assert server.asked.wait(30)
            for _ in range(interrupts):
                child.send_signal(signal.SIGINT)
                await_taken(child.pid)
            _, complaints = child.communicate(timeout=30)
    assert (child.returncode, complaints) == (130, b"")


def await_taken(pid: int) -> None:
    """Until no signal waits for the process any more: two that come at once are one."""
    pending = "ShdPnd:\t"
    while (status := Path(f"/proc/{pid}/status")).exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith(pending)]
        if not lines or int(lines[0].removeprefix(pending), 16) == 0:
            return
