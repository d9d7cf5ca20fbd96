"""`k8sel from`: a command line in, a job file out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    manifest = Path(__file__).parents[1] / "audit" / "cases" / "no-shared-memory" / "clean.yaml"
    by_name, piped = k8sel("from", "-f", str(manifest)), k8sel("from", "-f", "-", text=manifest.read_text())

    assert (by_name.returncode, by_name.stderr) == (0, "")
    assert "launcher: torchrun\n  nodes: 4\n" in by_name.stdout
    assert piped.stdout == by_name.stdout
    assert k8sel("validate", "-", text=by_name.stdout).returncode == 0


def test_a_line_and_a_manifest_are_one_too_many() -> None:
    result = k8sel("from", "-f", "job.yaml", LINE)

    assert (result.returncode, "a line and a manifest are two jobs" in result.stderr) == (2, True)


def test_a_manifests_problem_is_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nspec:\n  containers:\n  - command: [torchrun, --nproc-per-node=x, t.py]\n")
    result = k8sel("from", "-f", str(file))

    assert result.returncode == 2
    assert result.stderr.startswith(f'{file}:4:25: invalid: --nproc-per-node is "x", not a number from 1 on')
    assert result.stderr.split("\n")[2].index("^") == 28


def test_an_unknown_accelerator_is_refused_with_the_known_ones() -> None:
    result = k8sel("from", "-a", "cuda2", LINE)

    assert result.returncode == 2
    assert 'not supported: "cuda2" is not one of cuda, xpu' in result.stderr
