"""A Docker daemon of the tests' own: in a temporary folder and a network namespace, gone with the tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
HOOK = HERE / "nvidia-container-runtime-hook"
RUNTIME = HERE / "runtime"
SECONDS = 60
PROGRAMS = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "ip": "iproute2",
    "unshare": "util-linux",
    "iptables": "iptables",
}


def lacking() -> str:
    """Names the parts for a daemon that this machine lacks; empty if it has all."""
    if os.geteuid() != 0:
        return "it needs root"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=_path())})
    return f"apt-get install {' '.join(missing)}" if missing else ""


@contextmanager
def running(folder: Path, library: Path, *words: str, runtimes: tuple[str, ...]) -> Iterator[str]:
    """The address of a daemon that lives in ``folder``; the vendors' hook and ``runtimes`` are stand-ins."""
    hook = folder / "hook"
    hook.mkdir()
    for file in (HOOK, RUNTIME, library):
        shutil.copy(file, hook)
    registered = {name: {"path": str(hook / RUNTIME.name)} for name in runtimes}
    (folder / "daemon.json").write_text(json.dumps({"runtimes": registered}))
    address = f"unix://{folder}/sock"
    env = {**os.environ, "PATH": f"{hook}:{_path()}", "DOCKER_MIN_API_VERSION": "1.24"}  # Debian's client is older
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            _command(folder, address, *words),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        ) as daemon,
    ):
        try:
            _await(daemon, folder)
            yield address
        finally:
            _end(daemon, folder)


def _command(folder: Path, address: str, program: str, *options: str) -> list[str]:
    """Ends when the tests' process does, however that ends."""
    places = {"config-file": "daemon.json", "data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    flags = [f"--{name}={folder / place}" for name, place in places.items()]
    daemon = [program, *flags, "--group=root", f"--host={address}", *options]
    apart = ["setpriv", "--pdeathsig", "TERM", "unshare", "--net"]
    return [*apart, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *daemon]


def _await(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + SECONDS
    while not (folder / "sock").exists() or b"API listen on" not in (folder / "log").read_bytes():
        if daemon.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"dockerd does not start:\n{(folder / 'log').read_text()[-4000:]}")
        time.sleep(0.1)


def _end(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    daemon.terminate()
    try:
        daemon.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(daemon.pid, signal.SIGKILL)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = line.split()[1]
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(folder / "data", ignore_errors=True)


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
