"""Measures the time until the entrypoint becomes the command, against a bare ``python3 -c pass``.

Run: python bench/entrypoint_start.py [PYTHON]. Whole processes, interleaved, medians in milliseconds. The GPUs are fake
(tests/fakenvml): what the driver itself takes is not in it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from k8sel.bundle import files

TESTS = Path(__file__).parent.parent / "tests"
FAKE = TESTS / "fakenvml" / "nvml.c"
EXPECT = {
    "version": 1,
    "accelerator": "cuda",
    "devices": [2, 0],
    "count": 3,
    "launcher": "torchrun",
    "processesPerNode": 2,
}


def main(rounds: int = 40) -> None:
    """Prints one line a command."""
    python = sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/python3"
    with tempfile.TemporaryDirectory() as folder:
        environ = _machine(Path(folder), python)
        script, archive = str(Path(folder, files.SCRIPT)), str(Path(folder, files.ARCHIVE))
        cuda = {**environ, "K8SEL_EXPECT": json.dumps(EXPECT)}
        cpu = {**environ, "K8SEL_ACCELERATOR": "cpu", "K8SEL_ROOT": str(Path(folder, "plain"))}
        rocm = {**environ, "K8SEL_ACCELERATOR": "rocm"}
        commands = {
            "python3 -c pass": ([python, "-c", "pass"], environ),
            "cuda by NVML, script": (["/bin/sh", script, "true"], cuda),
            "cuda by NVML, zipapp": ([python, "-I", "-S", archive, "true"], cuda),
            "cpu, script": (["/bin/sh", script, "true"], cpu),
            "rocm by KFD, script": (["/bin/sh", script, "true"], rocm),
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, (command, env) in commands.items():
                taken[name].append(_milliseconds(command, env))
    bare = statistics.median(taken["python3 -c pass"])
    for name, times in taken.items():
        median = statistics.median(times)
        print(f"{name:22} {median:6.1f} ms  (+{median - bare:.1f})")


def _machine(folder: Path, python: str) -> dict[str, str]:
    """A machine of four fake GPUs and the entrypoint in ``folder``; the environment in which it is found."""
    for name in ("dev", "lib", "bin"):
        (folder / name).mkdir()
    for path in ("dev/nvidia0", "dev/nvidia1", "dev/nvidia2", "plain/dev/null"):  # plain: a container without devices
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    _one_of_another_vendor(folder)
    library = folder / "lib" / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    (folder / "bin" / "python3").symlink_to(python)
    (folder / files.ARCHIVE).write_bytes(_archive())
    (folder / files.SCRIPT).write_text(files.script(), encoding="utf-8")
    path = f"{folder / 'bin'}:{os.defpath}"
    return {"PATH": path, "K8SEL_ROOT": str(folder), "FAKE_NVML_DEV": str(folder / "dev")}


def _archive() -> bytes:
    """The zipapp with the tests' start, which looks for devices below a folder."""
    sys.path.insert(0, str(TESTS))
    from entrypoint import rooted

    return rooted.archive()


def _one_of_another_vendor(folder: Path) -> None:
    """A GPU that is found in /sys instead of by a library."""
    for path, text in {
        "dev/kfd": "",
        "dev/dri/renderD128": "",
        "sys/class/drm/renderD128/device/uevent": "PCI_SLOT_NAME=0000:c1:00.0\n",
        "sys/class/kfd/kfd/topology/nodes/1/gpu_id": "51140\n",
        "sys/class/kfd/kfd/topology/nodes/1/properties": "drm_render_minor 128\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _milliseconds(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
