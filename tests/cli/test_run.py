"""`k8sel run`: the job file as processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "examples" / "hello.yaml"
MASKS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
CLEAN = {name: value for name, value in os.environ.items() if name not in MASKS}


def run(*args: str, env: dict[str, str] | None = None, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "k8sel", "run", *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=env or CLEAN, cwd=ROOT)


def job(*command: str, **spec: object) -> str:
    fields = {"command": command, "launcher": "python", "accelerator": {"type": "cpu"}, **spec}
    meta = {"name": "local"}
    return json.dumps({"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": meta, "spec": fields})


@pytest.mark.torch
def test_the_shipped_example_runs(torch_env: dict[str, str]) -> None:
    result = run("--plan", str(HELLO), env=torch_env)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "hello: on this machine, 1 x 2 processes by torchrun, no device"
    assert sorted(line for line in lines if line.startswith("rank ") and "add up" in line)[1].endswith("add up to 1")


@pytest.mark.parametrize("status", [0, 1, 7, 78])
def test_the_exit_status_is_the_programs(status: int) -> None:
    assert run("-", text=job("python3", "-c", f"raise SystemExit({status})")).returncode == status


def test_a_signal_reaches_the_program() -> None:
    program = "import os, signal; print('up', flush=True); signal.pause()"
    command = [sys.executable, "-m", "k8sel", "run", "-q", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=CLEAN
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(job("python3", "-c", program).encode())
        child.stdin.close()
        assert child.stdout.readline() == b"up\n"
        child.send_signal(signal.SIGTERM)
    assert child.returncode == -signal.SIGTERM


def test_a_stale_mask_is_named_and_can_be_overridden() -> None:
    stale = {**CLEAN, "CUDA_VISIBLE_DEVICES": "2"}
    refused = run(str(HELLO), env=stale)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "k8sel: this shell already sets CUDA_VISIBLE_DEVICES=2, and `devices` would count inside that. "
        "Unset it (unset CUDA_VISIBLE_DEVICES), or go on with --override-env, which replaces it for this job alone.\n"
    )
    show = job("python3", "-c", "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert run("--override-env", "-", env=stale, text=show).stdout == "''\n"


def test_a_missing_launcher_is_named(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    text = job("python", "train.py", launcher="accelerate", processesPerNode=1, accelerator={"type": "cuda"})
    result = run("-", env={**CLEAN, "PATH": str(tmp_path)}, text=text)
    assert result.returncode == 1
    assert result.stderr == (
        "k8sel: accelerate is not on this machine's PATH, and launcher accelerate needs it. "
        "Install it into this environment (pip install accelerate), or activate the one that has it.\n"
    )


def test_the_printed_line_can_be_pasted() -> None:
    text = job("python3", "-c", "import sys, os; print(sys.argv[1], os.environ['GREETING'])", "$HOME; `id`",
               env=[{"name": "GREETING", "value": "it's \"me\""}])  # fmt: skip
    printed = run("-q", "--print", "-", text=text).stdout
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pasted = subprocess.run(
        ["bash", "-c", printed], capture_output=True, text=True, check=False, env={**CLEAN, "PATH": path}
    )
    assert pasted.stdout == '$HOME; `id` it\'s "me"\n'


def test_a_command_is_printed_also_where_its_launcher_is_not(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    text = job("python", "train.py", launcher="accelerate", accelerator={"type": "cuda", "count": 2})
    result = run("-q", "--print", "-", env={**CLEAN, "PATH": str(tmp_path)}, text=text)
    assert result.returncode == 0
    assert "accelerate launch " in result.stdout


def test_a_working_directory_that_is_not_here_is_named() -> None:
    result = run("-", text=job("python3", "-c", "pass", workingDir="/no/such/folder"))
    assert result.returncode == 1
    assert "spec.workingDir is /no/such/folder, which this machine cannot enter: No such file" in result.stderr


def test_several_nodes_need_a_word() -> None:
    text = job("python3", "-c", "print('ran')", nodes=2)
    refused = run("-", text=text)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--nodes 1" in refused.stderr
    assert run("--nodes", "1", "-", text=text).stdout == "ran\n"


def test_a_value_from_the_cluster_is_refused() -> None:
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    result = run("-", text=job("python3", "-c", "pass", env=[secret]))
    assert result.returncode == 1
    assert "env TOKEN comes from the cluster (valueFrom)" in result.stderr
