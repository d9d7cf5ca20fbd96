"""`k8sel from`: a command line in, a job file out."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

MANIFEST = Path(__file__).parents[1] / "audit" / "cases" / "no-shared-memory" / "clean.yaml"
LINE = "CUDA_VISIBLE_DEVICES=2,0 torchrun --nproc_per_node=2 train.py --bf16"
MADE = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata:
  name: train
spec:
  image: "registry.example/train:1"
  command:
  - python
  - train.py
  - "--bf16"
  launcher: torchrun
  accelerator:
    type: cuda
    count: 3
    devices:
    - 2
    - 0
"""


def k8sel(*args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "k8sel", *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_the_file_is_printed_and_the_remarks_stand_apart() -> None:
    result = k8sel("from", LINE)

    assert (result.returncode, result.stdout) == (0, MADE)
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        ["<line>:1:1", "note"],
        ["<line>:1:54", "note"],
    ]


def test_quiet_is_quiet() -> None:
    assert k8sel("from", "-q", LINE).stderr == ""


def test_several_lines_come_from_standard_input() -> None:
    result = k8sel("from", text="export CUDA_VISIBLE_DEVICES=2,0\ntorchrun --nproc_per_node=2 \\\n  train.py --bf16\n")

    assert (result.returncode, result.stdout) == (0, MADE)
    assert result.stderr.startswith("<stdin>:1:8: note: ")


def test_a_file_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    first, second = k8sel("from", "-q", "-o", str(file), LINE), k8sel("from", "-q", "-o", str(file), LINE)

    assert (first.returncode, first.stdout, file.read_text()) == (0, "", MADE)
    assert (second.returncode, "exists already" in second.stderr) == (2, True)
    assert k8sel("validate", str(file)).returncode == 0


def test_a_refusal_is_a_message_and_status_2() -> None:
    result = k8sel("from", "torchrun --nproc_per_node=$N train.py")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith('<line>:1:10: invalid: only the shell that runs the line knows "$N"')
    assert result.stderr.endswith("\n             ^\n")


def test_a_manifest_is_read_from_a_file_or_from_standard_input() -> None:
    by_name, piped = k8sel("from", "-f", str(MANIFEST)), k8sel("from", "-f", "-", text=MANIFEST.read_text())

    assert (by_name.returncode, by_name.stderr) == (0, "")
    assert "launcher: torchrun\n  nodes: 4\n" in by_name.stdout
    assert piped.stdout == by_name.stdout
    assert k8sel("validate", "-", text=by_name.stdout).returncode == 0


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: c, user: u, namespace: team-a}}]
clusters: [{name: c, cluster: {server: "SERVER"}}]
users: [{name: u, user: {token: t}}]
"""


def stored(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with what a server adds to it."""
    own = {"namespace": "team-a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", **manifest, "metadata": {**own, **manifest["metadata"]}}


class OneJob(BaseHTTPRequestHandler):
    """An API server that has one PyTorchJob and one Pod, and no more."""

    PATHS: ClassVar = {
        "/apis/kubeflow.org/v1/namespaces/team-a/pytorchjobs/finetune-7b": stored(yaml.safe_load(MANIFEST.read_text())),
        "/api/v1/namespaces/team-a/pods/x": stored(
            {
                "kind": "Pod",
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "a", "command": ["python", "t.py"]}]},
            }
        ),
    }

    def do_GET(self) -> None:
        found = self.PATHS.get(self.path)
        status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found or status).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", 0), OneJob) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(KUBECONFIG.replace("SERVER", f"http://127.0.0.1:{server.server_port}"))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield
        server.shutdown()


@pytest.mark.usefixtures("one_job")
def test_an_object_of_the_cluster_is_a_manifest_too() -> None:
    result = k8sel("from", "-f", "pytorchjob/finetune-7b")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == k8sel("from", "-f", str(MANIFEST)).stdout
    assert "launcher: python\n" in k8sel("from", "-q", "-f", "pods/x").stdout


@pytest.mark.usefixtures("one_job")
@pytest.mark.parametrize("name", ["pod/y", "job/y"])
def test_an_object_that_the_cluster_has_not_is_said(name: str) -> None:
    result = k8sel("from", "-f", name)

    assert result.returncode == 1
    assert f"no {name.split('/', maxsplit=1)[0]} named y in namespace team-a. See: kubectl get" in result.stderr


def test_a_line_and_a_manifest_are_one_too_many() -> None:
    result = k8sel("from", "-f", "job.yaml", LINE)

    assert (result.returncode, "a command line and a manifest are given" in result.stderr) == (2, True)


def test_a_manifests_problem_is_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nspec:\n  containers:\n  - command: [torchrun, --nproc-per-node=x, t.py]\n")
    result = k8sel("from", "-f", str(file))

    assert result.returncode == 2
    assert result.stderr.startswith(f'{file}:4:25: invalid: --nproc-per-node is "x", not a number of at least 1')
    assert result.stderr.split("\n")[2].index("^") == 28


def test_an_unknown_accelerator_is_refused_with_the_known_ones() -> None:
    result = k8sel("from", "-a", "cuda2", LINE)

    assert result.returncode == 2
    assert 'not supported: "cuda2" is not one of cuda, xpu' in result.stderr
