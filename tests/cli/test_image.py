"""An image that begins with dashes would be an option of `docker run`: no command takes it."""

from __future__ import annotations

import json
from pathlib import Path

import limits
import pytest

from k8sel.jobfile import yamlio

IMAGE = "--volume=/:/host"
SAID = f'"{IMAGE}" is not a reference to an image'
SPEC = {"image": IMAGE, "command": ["python", "t.py"], "launcher": "python", "accelerator": {"type": "cpu"}}
JOB = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "a"}, "spec": SPEC}
CONTAINER = {"name": "c", "image": IMAGE, "command": ["python", "t.py"]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}}
LIST = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [JOB]}


@pytest.mark.parametrize(
    ("command", "document"),
    [
        *((words.split(), JOB) for words in ("validate", "plan", "render", "docker --print", "run --print")),
        (["render", "--krm"], LIST),
        (["from", "-f"], POD),
    ],
    ids=["validate", "plan", "render", "docker", "run", "krm", "from -f"],
)
def test_a_file_with_an_option_for_an_image(command: list[str], document: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps(document) if command[0] == "from" else yamlio.dump([document]))
    done = limits.k8sel(*command, file)
    assert done.returncode in (1, 2)
    assert SAID in done.stderr
    assert IMAGE not in done.stdout or "items:" in done.stdout  # a function hands on what it refuses


@pytest.mark.parametrize("line", [["docker run -- --volume=/:/host python t.py"], ["python t.py", f"--image={IMAGE}"]])
def test_a_line_with_an_option_for_an_image(line: list[str]) -> None:
    done = limits.k8sel("from", *line)
    assert (done.returncode, done.stdout) == (2, "")
    assert SAID in done.stderr
