"""The images of `make dist`: the built wheel in them, on the tests' own daemon."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from dist.building import builder

from containers.client import BASE, Docker, job
from k8sel import __version__

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]


@pytest.fixture(scope="module")
def names(docker_daemon: Docker, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The images."""
    release = builder()
    made: list[Path] = release.build(tmp_path_factory.mktemp("dist"))
    (wheel,) = [file for file in made if file.suffix == ".whl"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in docker_daemon.env.items():
            patch.setenv(name, value)
        return list(release.images(wheel, BASE))


def test_their_names_have_the_version(names: list[str]) -> None:
    assert names == [f"k8sel-entrypoint:{__version__}", f"k8sel:{__version__}"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("render", "-q", "-o", "json", "-")),
        # As an Argo CD plugin is run: docs/gitops.md.
        (("--user", "999", "--entrypoint", "sh"), ("-c", "python3 -m k8sel render -q -o json -")),
    ],
)
def test_the_command_line_renders(
    docker_daemon: Docker, names: list[str], options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert kinds(docker_daemon, job("echo"), *options, names[1], *words) == ["ConfigMap", "PyTorchJob"]


def test_the_command_line_is_a_krm_function(docker_daemon: Docker, names: list[str]) -> None:
    given = json.dumps({"kind": "ResourceList", "items": [json.loads(job("echo"))]})
    words = ("--network", "none", "--user", "65534", names[1], "render", "--krm", "-o", "json", "-")
    assert kinds(docker_daemon, given, *words) == ["ConfigMap", "PyTorchJob"]


def kinds(docker: Docker, given: str, *words: str) -> list[str]:
    """The kinds of what `docker run ...` prints for this standard input."""
    command = ["docker", "run", "-i", "--rm", *words]
    done = subprocess.run(command, input=given, env=docker.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [item["kind"] for item in json.loads(done.stdout)["items"]]


def test_the_entrypoint_checks(docker_daemon: Docker, names: list[str]) -> None:
    assert docker_daemon("run", "--rm", "-e", "K8SEL_ACCELERATOR=cpu", names[0], "echo", "up").stdout == "up\n"
    done = docker_daemon(
        "run", "--rm", "-e", "K8SEL_COUNT=2", "-e", "K8SEL_ACCELERATOR=cuda", names[0], "true", check=False
    )
    assert (done.returncode, "2 cuda devices expected, 0 found" in done.stderr) == (78, True), done.stderr
