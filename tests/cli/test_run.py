"""`k8sel run`: the job file as processes on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import unavailable
from entrypoint import rooted
from entrypoint.machines import Box, Gpu, uuid
from entrypoint.trees import Card, amd, drm, gaudi, kfd

from k8sel.facts.accelerators import owned_env

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "examples" / "hello.yaml"
CLEAN = {name: value for name, value in os.environ.items() if name not in owned_env()}
# What a rank sees, in one write: several share the output.
SHOW = """
import json, os
names = ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "HIP_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES")
os.write(1, ("shown " + json.dumps({name: os.environ.get(name) for name in names}) + "\\n").encode())
"""


def run(
    *args: str, env: dict[str, str] | None = None, text: str | None = None, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    command = [python, *rooted.K8SEL, "run", *args]
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
        "k8sel: this shell already sets CUDA_VISIBLE_DEVICES=2, which would renumber `devices`. "
        "Unset it (unset CUDA_VISIBLE_DEVICES), or use --override-env, which replaces it for this job only.\n"
    )
    show = job("python3", "-c", "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert run("--override-env", "-", env=stale, text=show).stdout == "''\n"


def test_a_missing_launcher_is_named(tmp_path: Path, plain_python: str) -> None:
    text = job("python", "train.py", launcher="accelerate", processesPerNode=1, accelerator={"type": "cuda"})
    result = run("-", env={**CLEAN, "PATH": str(tmp_path)}, text=text, python=plain_python)
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


SHOW_CCL = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[:4] in ('CCL_', 'FI_P')}))"


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """Four cards of one vendor, whose minors go against PCI order, and two or more of each of three others."""
    made = Box(tmp_path / "machine", tmp_path)
    made.write("uname", "Linux x86_64\n")
    made.gpus(*(Gpu(3 - number, f"0000:{number + 1}a:00.0") for number in range(4)))
    drm(made, Card(140, "0000:91:00.0"), Card(141, "0000:92:00.0"), *amd((150, "c1"), (151, "0a")))
    kfd(made, (0, "0"), (150, "1"), (151, "2"))
    gaudi(made, (0, 5), (1, 4), (2, 7))
    return made


def ranks(box: Box, env: dict[str, str], **spec: object) -> list[dict[str, Any]]:
    """Returns the devices that each rank of a job on ``box`` saw, by local rank."""
    (box.root / "show.py").write_text(SHOW)
    text = job("python3", str(box.root / "show.py"), **spec)
    done = run("-q", "-", env=rooted.environ(box.root, env), text=text)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line.removeprefix("shown ")) for line in done.stdout.splitlines() if line.startswith("shown ")]
    return sorted(seen, key=lambda rank: int(rank["LOCAL_RANK"] or 0))


MASKS: dict[str, tuple[dict[str, Any], str, str]] = {
    "cuda": ({"devices": [2, 0]}, "CUDA_VISIBLE_DEVICES", f"{uuid(1)},{uuid(3)}"),
    "xpu": ({"count": 2}, "ZE_AFFINITY_MASK", "0,1"),
    "rocm": ({"devices": [1, 0]}, "HIP_VISIBLE_DEVICES", "0,1"),  # HIP's numbers: c1 is 0, 0a is 1
    "hpu": ({"devices": [2, 0]}, "HABANA_VISIBLE_MODULES", "7,4"),
    "cpu": ({}, "CUDA_VISIBLE_DEVICES", ""),
}


@pytest.mark.parametrize("kind", MASKS)
def test_the_program_sees_the_files_devices_in_its_order(box: Box, kind: str) -> None:
    asked, variable, mask = MASKS[kind]
    (seen,) = ranks(box, CLEAN, accelerator={"type": kind, **asked})
    assert seen[variable] == mask


ISOLATED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "cuda": ({"devices": [2, 0, 3]}, "CUDA_VISIBLE_DEVICES", [uuid(1), uuid(3), uuid(0)]),
    "xpu": ({"devices": [1, 0]}, "ZE_AFFINITY_MASK", ["1", "0"]),  # an order that one mask cannot write
}


@pytest.mark.torch
@pytest.mark.parametrize("kind", ISOLATED)
def test_by_torchrun_each_process_sees_its_own_device_alone(box: Box, torch_env: dict[str, str], kind: str) -> None:
    asked, variable, masks = ISOLATED[kind]
    env = {name: value for name, value in torch_env.items() if name not in owned_env()}
    seen = ranks(box, env, launcher="torchrun", accelerator={"type": kind, "isolation": "process", **asked})
    assert [(rank["LOCAL_RANK"], rank[variable]) for rank in seen] == [(str(n), mask) for n, mask in enumerate(masks)]


@pytest.mark.parametrize("kind", ISOLATED)
def test_by_mpirun_each_process_sees_its_own_device_alone(box: Box, kind: str) -> None:
    if not shutil.which("mpirun"):
        unavailable("no mpirun: apt-get install openmpi-bin")
    asked, variable, masks = ISOLATED[kind]
    seen = ranks(box, CLEAN, launcher="mpirun", accelerator={"type": kind, "isolation": "process", **asked})
    assert [(rank["LOCAL_RANK"], rank[variable]) for rank in seen] == [(str(n), mask) for n, mask in enumerate(masks)]


def test_auto_says_what_it_picked_and_why(box: Box) -> None:
    show = job("python3", "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])", accelerator={"type": "auto"})
    done = run("-", env=rooted.environ(box.root, CLEAN), text=show)
    assert done.stdout == f"{uuid(3)}\n"
    assert done.stderr.splitlines()[0].endswith(
        "spec.accelerator.type: note: auto is cuda on this machine: 4 cuda devices by /proc/driver/nvidia; "
        "2 xpu devices by /dev/dri, 3 hpu devices by /dev/accel, 2 rocm devices by KFD would be another choice."
    )


def test_auto_is_the_cpu_where_nothing_else_is(tmp_path: Path) -> None:
    env = rooted.environ(tmp_path, CLEAN)
    done = run("-", env=env, text=job("python3", "-c", "pass", accelerator={"type": "auto"}))
    assert done.returncode == 0
    assert "note: auto is cpu on this machine: no device of any kind is here.\n" in done.stderr
    refused = run("-", env=env, text=job("python3", "-c", "pass", accelerator={"type": "auto", "count": 2}))
    assert refused.returncode == 2
    assert "note: auto is cpu on this machine" in refused.stderr
    assert "forbidden: type cpu has no devices, but the file requests 2 devices" in refused.stderr


def test_a_macs_own_device(box: Box, tmp_path: Path) -> None:
    mac = Box(tmp_path / "mac", tmp_path)
    mac.write("uname", "Darwin arm64\n")
    for kind in ("auto", "mps"):
        done = run("-", env=rooted.environ(mac.root, CLEAN), text=job("echo", "ran", accelerator={"type": kind}))
        assert (done.returncode, done.stdout) == (0, "ran\n")
        assert "local rank 0 -> the machine's own mps device; OMP_NUM_THREADS=" in done.stderr
        assert ("note: auto is mps on this machine: 1 mps device by uname." in done.stderr) == (kind == "auto")

    elsewhere = rooted.environ(box.root, CLEAN)
    text = job("echo", "ran", accelerator={"type": "mps"})
    refused = run("-", env=elsewhere, text=text)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "k8sel: this machine (Linux x86_64) has no Apple GPU (MPS), which type mps needs. "
        "Set type: auto to use the devices of each machine; `k8sel devices` lists them.\n"
    )
    assert run("--print", "-", env=elsewhere, text=text).returncode == 0


@pytest.mark.parametrize("part", ["socket", "numa"])
def test_a_process_is_started_for_each_part_that_this_process_may_use(tmp_path: Path, part: str) -> None:
    made = Box(tmp_path / "machine", tmp_path)
    own = sorted(os.sched_getaffinity(0))
    others = (max(own) + 1, max(own) + 2)
    for number, cpu in enumerate((*own, *others)):  # each CPU a socket and a NUMA node of its own
        made.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{number}\n")
        made.write(f"sys/devices/system/node/node{number}/cpulist", f"{cpu}\n")
    text = job("python3", "train.py", launcher="torchrun", cpu={"processPer": part})
    result = run("-q", "--print", "-", env=rooted.environ(made.root, CLEAN), text=text)

    assert f"--nproc-per-node {len(own)} train.py" in result.stdout


def test_oneccl_is_told_on_this_machine_too() -> None:
    text = job(
        "python3", "-c", SHOW_CCL, backend="ccl", ccl={"workers": 2, "provider": "tcp"}, entrypoint={"mode": "none"}
    )
    result = run("-q", "-", text=text)

    assert json.loads(result.stdout) == {
        "CCL_ATL_TRANSPORT": "ofi",
        "CCL_LOCAL_RANK": "0",
        "CCL_LOCAL_SIZE": "1",
        "CCL_PROCESS_LAUNCHER": "none",
        "CCL_WORKER_COUNT": "2",
        "FI_PROVIDER": "tcp",
    }
