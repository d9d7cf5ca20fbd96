"""The GPU tests themselves, on a machine with stand-ins for its driver and nvidia-smi: what they find, and skip.

Those by torch are left out: where it is installed, it needs a real driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import unavailable

from gpu import smi
from gpu.record import DATA

HERE = Path(__file__).parent
NVIDIA_SMI = """#!/bin/sh
for minor in {minors}; do
  echo "GPU-00000000-0000-0000-0000-00000000000$minor, 00000000:$((8 - minor))0:00.0, {name}, 81920, 570.00.00, {mig}"
done
"""


def test_nvidia_smis_answer() -> None:
    text = (
        "GPU-1b5e01c1-2c0f-4d9e-8d2c-5a4f1e1d7c11, 00000000:C1:00.0, NVIDIA H200, 143771, 570.86.15, Disabled\n"
        "GPU-7f0e2d33-9c55-4f60-9a39-1c9f3f6f9b55, 00010000:3B:00.0, Tesla T4, 15360, 570.86.15, [N/A]\n\n"
    )
    assert smi.parse(text) == [
        smi.Card("GPU-1b5e01c1-2c0f-4d9e-8d2c-5a4f1e1d7c11", "0000:c1:00.0", "NVIDIA H200", 143771, "570.86.15", False),
        smi.Card("GPU-7f0e2d33-9c55-4f60-9a39-1c9f3f6f9b55", "10000:3b:00.0", "Tesla T4", 15360, "570.86.15", False),
    ]


def gpu_run(tmp_path: Path, library: Path, minors: str, mig: str = "Disabled", **env: str) -> tuple[int, str]:
    """`make gpu` on a machine with these stand-ins: its exit status and what it prints."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvidia-ml.so.1").symlink_to(library)
    _compile(HERE / "fakecuda.c", tmp_path / "lib" / "libcuda.so.1")
    (tmp_path / "dev").mkdir()
    for minor in minors.split():
        (tmp_path / "dev" / f"nvidia{minor}").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(
        NVIDIA_SMI.format(minors=minors, mig=mig, name="NVIDIA H100 80GB HBM3")
    )
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "K8SEL"))}
    machine = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "K8SEL_ROOT": str(tmp_path),
        "FAKE_NVML_DEV": str(tmp_path / "dev"),
        "LD_LIBRARY_PATH": str(tmp_path / "lib"),
        "K8SEL_RECORD_GPU": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "-k", "not torch", str(HERE)]
    done = subprocess.run(command, env={**own, **machine, **env}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _compile(source: Path, library: Path) -> None:
    compiler = shutil.which("cc")
    if not compiler:
        unavailable("no C compiler: apt-get install gcc libc6-dev")
    strict = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "-shared", "-fPIC", "-o", library, source], check=True)


@pytest.mark.parametrize("minors", ["5", "6 2 0"])
def test_they_pass_on_what_they_describe(minors: str, tmp_path: Path, fake_nvml: Path) -> None:
    before = DATA.read_bytes()
    status, printed = gpu_run(tmp_path, fake_nvml, minors, K8SEL_REQUIRE_GPU="1")
    assert status == 0, printed
    assert " passed" in printed
    assert "skipped" not in printed
    assert "NVIDIA H100 80GB HBM3: a checked start " in printed
    assert DATA.read_bytes() == before, "a machine that is laid out is no hardware"


@pytest.mark.parametrize(
    ("broken", "failing"),
    [
        ("FAKE_CUDA_NO_MASK", ("sees_each_device_alone", "in_the_files_order", "without_devices", "k8sel_run[node]")),
        ("FAKE_NVML_DEV", ("that_nvidia_smi_names", "sees_each_device_alone", "is_right_starts", "k8sel_run[process]")),
    ],
)
def test_they_fail_where_it_is_not_so(broken: str, failing: tuple[str, ...], tmp_path: Path, fake_nvml: Path) -> None:
    """A driver that reads no mask, and one that does not have the GPUs that nvidia-smi names."""
    status, printed = gpu_run(tmp_path, fake_nvml, "6 2", **{broken: "/nowhere"})
    assert status == 1
    failed = [line for line in printed.splitlines() if line.startswith("FAILED")]
    for name in failing:
        assert any(name in line for line in failed), printed


def test_partitioned_gpus_are_no_silent_success(tmp_path: Path, fake_nvml: Path) -> None:
    status, printed = gpu_run(tmp_path, fake_nvml, "5", mig="Enabled", K8SEL_REQUIRE_GPU="1")
    assert status == 1
    assert "this machine's GPUs are partitioned (MIG)" in printed


def test_without_a_gpu_they_are_skipped_unless_required(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "-k", "not torch", str(HERE)]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "K8SEL"))}
    path = {"PATH": str(tmp_path), "K8SEL_REQUIRE_ALL": "1"}  # as CI runs, where there is none
    skipped = subprocess.run(command, env={**own, **path}, capture_output=True, text=True, check=False)
    assert skipped.returncode == 0, skipped.stdout
    assert "this machine has no NVIDIA GPU" in skipped.stdout
    required = subprocess.run(
        command, env={**own, **path, "K8SEL_REQUIRE_GPU": "1"}, capture_output=True, text=True, check=False
    )
    assert required.returncode == 1
    assert "K8SEL_REQUIRE_GPU=1, and this machine has no NVIDIA GPU" in required.stdout
