"""Images that are not here yet: pulled by a real daemon from a registry, with a bar on a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import machine
from containers import registry as registry_program
from containers.client import Docker, Done, command, job
from containers.registry import digest, manifest_of

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

ARCHIVE = machine.CACHE / "images" / "nopython.tar"
PROGRAM = ("sh", "-c", "echo pulled")


@pytest.fixture(scope="module")
def registry(docker_daemon: Docker) -> Iterator[str]:
    """The name of the registry's image, without a tag, as the daemon knows it: it has a network of its own."""
    pid = Path(docker_daemon.address.removeprefix("unix://")).with_name("pid").read_text()
    program = [sys.executable, str(registry_program.__file__), str(ARCHIVE)]
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net", *program]
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"{server.stdout.readline().strip()}/box/pulled"
        server.kill()


@pytest.fixture
def image(docker_daemon: Docker, registry: str) -> Iterator[str]:
    """It, not here yet."""
    yield registry
    known = docker_daemon("images", "-q", registry).stdout.split()
    if known:
        docker_daemon("rmi", "-f", *dict.fromkeys(known))


def of(image: str, **spec: object) -> str:
    return job(*PROGRAM, image=image, entrypoint={"mode": "none"}, **spec)


def said(done: Done) -> list[str]:
    """Its own lines, without the file's warnings."""
    return [line for line in done.stderr.splitlines() if line.startswith("k8sel: ")]


@pytest.mark.parametrize("by_digest", [False, True])
def test_an_image_that_is_not_here_is_pulled(docker_daemon: Docker, image: str, by_digest: bool) -> None:
    name = f"{image}@{digest(manifest_of(ARCHIVE)[0])}" if by_digest else f"{image}:1"
    done = docker_daemon.k8sel(text=of(name))
    assert (done.returncode, done.stdout, said(done)) == (0, "pulled\n", [f"k8sel: pulling {name}"]), done.stderr
    assert said(docker_daemon.k8sel(text=of(name))) == []
    assert said(docker_daemon.k8sel(text=of(name, imagePullPolicy="Always"))) == [f"k8sel: pulling {name}"]
    assert docker_daemon.k8sel("-q", text=of(name, imagePullPolicy="Always")).stderr == ""


def test_a_terminal_shows_how_far_it_is(docker_daemon: Docker, image: str) -> None:
    master, terminal = os.openpty()
    env = {**docker_daemon.env, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=terminal, env=env) as child:
        os.close(terminal)
        said, _ = child.communicate(of(f"{image}:1").encode())
    assert (child.returncode, said) == (0, b"pulled\n")
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert f"k8sel: pulling {image}:1" in shown
    assert re.search(r"[0-9.]+/[0-9.?]+ .*(bytes|kB|MB)", shown)  # rich's DownloadColumn


@pytest.mark.parametrize(("tag", "said"), [(":2", "manifest unknown"), (":torn", "cannot be pulled: "), (":stuck", "")])
def test_what_does_not_come_is_named(docker_daemon: Docker, image: str, tag: str, said: str) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(command(), stdin=pipe, stdout=pipe, stderr=pipe, env=docker_daemon.env) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write(of(image + tag).encode())
        child.stdin.close()
        child.stdin = None
        assert f"k8sel: pulling {image}{tag}\n".encode() in iter(child.stderr.readline, b"")
        if tag == ":stuck":
            child.send_signal(signal.SIGINT)
        out, complaints = child.communicate()
    assert (child.returncode, out) == (130 if tag == ":stuck" else 1, b"")
    assert said in complaints.decode()
    assert b"Traceback" not in complaints
