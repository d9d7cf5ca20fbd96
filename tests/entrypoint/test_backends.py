"""The backend that a program asks for, and the libraries that it will import: what goes together, as tables."""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from entrypoint.machines import Box, End, script
from entrypoint.packages import environment, library, torch, version
from k8sel.entrypoint import tables
from k8sel.entrypoint.checks import backends, elf, libraries
from k8sel.facts.backends import BACKENDS

ASKED = ("--ddp_backend", "ccl")
GLOO = "use gloo, which any torch has"

# name: backend, packages, what torch is built with, words of the command, the message (None: it starts, and no note)
PAIRS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str | None]] = {
    "as the guide has it": ("ccl", ("torch-1.13.0", "oneccl_bind_pt-1.13.0"), (), (), None),
    "the last ones": ("ccl", ("torch-2.8.0", "oneccl_bind_pt-2.8.0+cpu"), (), (), None),
    "Intel's own torch": ("ccl", ("torch-2.1.0.post2+cxx11.abi", "oneccl_bind_pt-2.1.300+xpu"), (), (), None),
    "torch's own build": ("ccl", ("torch-2.7.0+cpu", "oneccl_bind_pt-2.7.0+cpu"), (), (), None),
    "a torch between two releases": ("ccl", ("torch-2.1.0a0+cxx11.abi", "oneccl_bind_pt-2.1.100+xpu"), (), (), None),
    "a later torch of the same two numbers": ("ccl", ("torch-2.5.1", "oneccl_bind_pt-2.5.0"), (), (), None),
    "the guide's tip": ("ccl", ("torch-1.12.1", "oneccl_bind_pt-1.12.100"), (), (), None),
    "against the guide's tip": (
        "ccl",
        ("torch-1.12.1", "oneccl_bind_pt-1.12.0"),
        (),
        (),
        "backend ccl needs oneccl_bind_pt of torch's version; "
        f"the command's Python has torch 1.12.1 and oneccl_bind_pt 1.12.0, which is for torch 1.12.0: {GLOO}",
    ),
    "the tip the other way round": (
        "ccl",
        ("torch-1.12.0", "oneccl_bind_pt-1.12.100"),
        (),
        (),
        "has torch 1.12.0 and oneccl_bind_pt 1.12.100, which is for torch 1.12.1: ",
    ),
    "bindings of another torch": (
        "ccl",
        ("torch-2.8.0", "oneccl_bind_pt-2.7.0+xpu"),
        (),
        ASKED,
        f"has torch 2.8.0 and oneccl_bind_pt 2.7.0+xpu, which is for torch 2.7: use --ddp_backend {GLOO[4:]}",
    ),
    "no bindings": (
        "ccl",
        ("torch-2.8.0",),
        (),
        (),
        "backend ccl needs oneccl_bind_pt of torch's version; "
        "the command's Python has torch 2.8.0 and no oneccl_bind_pt: use gloo",
    ),
    "a torch of today": (
        "ccl",
        ("torch-2.15.0+cpu", "transformers-4.57.6"),
        (),
        ASKED,
        "backend ccl needs torch 2.8 or older and oneccl_bind_pt of torch's version; "
        f"the command's Python has torch 2.15.0+cpu and no oneccl_bind_pt: use --ddp_backend {GLOO[4:]}",
    ),
    "a nightly": ("ccl", ("torch-2.9.0.dev20250801", "oneccl_bind_pt-2.8.0"), (), (), "needs torch 2.8 or older and "),
    "transformers that dropped the name": (
        "ccl",
        ("torch-2.8.0", "oneccl_bind_pt-2.8.0", "transformers-5.1.0"),
        (),
        ("--ddp_backend=ccl",),
        "backend ccl needs transformers 5.0 or older; "
        "the command's Python has transformers 5.1.0: use --ddp_backend gloo",
    ),
    "the last transformers with the name": (
        "ccl",
        ("torch-2.8.0", "oneccl_bind_pt-2.8.0", "transformers-5.0.0", "accelerate-1.12.0"),
        (),
        ("--ddp-backend", "ccl"),
        None,
    ),
    "accelerate that dropped the name": (
        "ccl",
        ("torch-2.8.0", "oneccl_bind_pt-2.8.0", "transformers-5.0.0", "accelerate-1.13.0"),
        (),
        ASKED,
        "backend ccl needs accelerate 1.12 or older; the command's Python has accelerate 1.13.0: ",
    ),
    "both beside a program that asks torch itself": (
        "ccl",
        ("torch-2.8.0", "oneccl_bind_pt-2.8.0", "transformers-5.1.0", "accelerate-1.13.0"),
        (),
        (),
        None,
    ),
    "xccl": ("xccl", ("torch-2.8.0+xpu",), ("xpu",), (), None),
    "xccl of today": ("xccl", ("torch-2.15.0", "transformers-5.2.0"), ("xpu",), ("--ddp_backend", "xccl"), None),
    "xccl too early": (
        "xccl",
        ("torch-2.7.1+xpu",),
        ("xpu",),
        (),
        "needs torch 2.8 or newer; the command's Python has torch 2.7",
    ),
    "xccl without XPU": (
        "xccl",
        ("torch-2.9.0",),
        ("cuda",),
        (),
        "needs a torch that was built with XPU; "
        "the command's Python has torch 2.9.0, which was built without: use an image that has it",
    ),
    "xccl that transformers does not know yet": (
        "xccl",
        ("torch-2.9.0", "transformers-5.0.0"),
        ("xpu",),
        ("--ddp_backend", "xccl"),
        "backend xccl needs transformers 5.1 or newer; the command's Python has transformers 5.0.0: ",
    ),
    "nccl": ("nccl", ("torch-2.9.0",), ("cuda",), (), None),
    "nccl on ROCm": ("nccl", ("torch-2.9.0+rocm6.4",), ("hip",), (), None),
    "nccl without a GPU's torch": (
        "nccl",
        ("torch-2.9.0+cpu",),
        (),
        (),
        "needs a torch that was built with CUDA or ROCm; "
        "the command's Python has torch 2.9.0+cpu, which was built without: ",
    ),
    "mpi": (
        "mpi",
        ("torch-2.9.0",),
        (),
        (),
        "needs a torch that was built with MPI; the command's Python has torch 2.9.0, which",
    ),
    "gloo": ("gloo", ("torch-2.15.0", "transformers-5.2.0"), (), ("--ddp_backend", "gloo"), None),
    "gloo and no torch": ("gloo", (), (), (), None),
}


def start(box: Box, where: Path, backend: str, *words: str, **more: object) -> End:
    expect = {"accelerator": "cpu", "devices": [], "backend": backend, **more}
    return box.start("--", f"{where}/bin/python", "train.py", *words, expect=expect)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, box: Box, tmp_path: Path) -> None:
    backend, packages, built, words, message = PAIRS[name]
    torch(environment(tmp_path / "venv", *packages), *built)
    end = start(box, tmp_path / "venv", backend, *words)
    if message is None:
        assert (end.status, end.receipt["notChecked"]) == (0, []), end.err
        assert "note" not in end.err
        return
    assert (end.status, end.out) == (78, "")
    assert message in end.message
    assert len(end.message.splitlines()) == 1
    assert start(box, tmp_path / "venv", backend, *words, check="warn").status == 0


@pytest.mark.parametrize("mpi", ["libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_cxx.so.40"])
def test_a_torch_that_was_built_with_mpi(mpi: str, box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.9.0"), linked=("libc.so.6", mpi, "libm.so.6"))
    assert start(box, tmp_path / "venv", "mpi").receipt["notChecked"] == []


@pytest.mark.parametrize(
    ("backend", "packages", "why"),
    [
        ("ccl", (), "backend ccl cannot be checked: no torch is found beside {}/bin/python"),
        ("nccl", ("torch-2.9.0",), "backend nccl cannot be checked: the build settings of torch 2.9.0 cannot be read"),
        (
            "mpi",
            ("torch-2.9.0",),
            "backend mpi cannot be checked: the build settings of torch 2.9.0 cannot be read",
        ),
        ("ucc", ("torch-2.9.0",), "backend ucc cannot be checked: this version of k8sel does not know it"),
    ],
)
def test_what_cannot_be_known_is_said_and_no_stop(
    backend: str, packages: tuple[str, ...], why: str, box: Box, tmp_path: Path
) -> None:
    environment(tmp_path / "venv", *packages)
    end = start(box, tmp_path / "venv", backend)
    assert f"node box: note: {why.format(tmp_path / 'venv')}" in end.err
    assert (end.status, end.receipt["notChecked"]) == (0, ["backend"])
    assert start(box, tmp_path / "venv", backend, check="off").receipt["notChecked"] == ["backend"]


def test_a_shell_may_start_any_python(box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.15.0"))
    shutil.copy(tmp_path / "venv/bin/python", tmp_path / "venv/bin/sh")
    expect = {"accelerator": "cpu", "devices": [], "backend": "ccl"}
    end = box.start("--", f"{tmp_path}/venv/bin/sh", "train.sh", expect=expect)
    assert (end.status, end.receipt["notChecked"]) == (0, ["backend"])


def test_env_starts_the_python_behind_it(box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.15.0"))
    expect = {"accelerator": "cpu", "devices": [], "backend": "ccl"}
    end = box.start("--", "env", "A=1", f"{tmp_path}/venv/bin/python", "train.py", expect=expect)
    assert "needs torch 2.8 or older" in end.message


def test_a_launcher_is_of_the_python_beside_it(box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.15.0"))
    shutil.copy(tmp_path / "venv/bin/python", tmp_path / "venv/bin/torchrun")
    expect = {"accelerator": "cpu", "devices": [], "backend": "ccl", "launcher": "torchrun"}
    path = {"PATH": f"{tmp_path}/venv/bin:/bin:/usr/bin"}
    end = box.start("torchrun", "train.py", *ASKED, expect=expect, env=path)
    assert "needs torch 2.8 or older" in end.message


@pytest.mark.parametrize(
    "installed",
    [
        "oneccl_bind_pt-2.8.0+cpu-py3.11.egg-info",
        "oneccl_bind_pt-2.8.0+cpu-py3.11-linux-x86_64.egg/oneccl_bindings_for_pytorch",
        "oneccl_bindings_for_pytorch",
        "torch_ccl",
    ],
)
def test_bindings_that_were_not_installed_by_pip(installed: str, box: Box, tmp_path: Path) -> None:
    site = environment(tmp_path / "venv", "torch-2.8.0")
    (site / installed).mkdir(parents=True)
    end = start(box, tmp_path / "venv", "ccl")
    assert (end.status, end.receipt["notChecked"]) == (0, [])


@pytest.mark.parametrize("given", ["0", "-1", "one", "1.5", "9" * 5000])
def test_a_number_of_workers_that_ends_oneccl(given: str, box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.8.0", "oneccl_bind_pt-2.8.0"))
    command = ("--", f"{tmp_path}/venv/bin/python")
    for backend, status in (("ccl", 78), ("gloo", 0)):
        expect = {"accelerator": "cpu", "devices": [], "backend": backend}
        end = box.start(*command, expect=expect, env={"CCL_WORKER_COUNT": given})
        assert end.status == status
    expect = {"accelerator": "cpu", "devices": [], "backend": "ccl"}
    end = box.start(*command, expect=expect, env={"CCL_WORKER_COUNT": given})
    assert f"CCL_WORKER_COUNT={given}"[:4000] in end.message


def test_by_hand(box: Box, tmp_path: Path) -> None:
    torch(environment(tmp_path / "venv", "torch-2.15.0"))
    by_hand = {"K8SEL_ACCELERATOR": "cpu", "K8SEL_BACKEND": "ccl"}
    end = box.start("--", f"{tmp_path}/venv/bin/python", env=by_hand)
    assert "backend ccl needs torch 2.8 or older" in end.message


RANK = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
LOCAL = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
UNDER_MPI = {"accelerator": "cpu", "devices": [], "backend": "ccl", "launcher": "mpirun", "processesPerNode": 2}


@pytest.mark.parametrize("mode", ["gate", "node", "rank"])
def test_under_mpi_before_any_rank_exists_and_in_each(mode: str, box: Box, tmp_path: Path) -> None:
    """The image is the nodes' too: nobody has to be asked."""
    torch(environment(tmp_path / "venv", "torch-2.15.0"))
    mpirun, probe = (script(tmp_path / name, f"touch {tmp_path}/{name}.ran") for name in ("mpirun", "probe"))
    python = [f"{tmp_path}/venv/bin/python", "train.py", "--ddp_backend", "ccl"]
    command = python if mode == "rank" else [mpirun, "-n", "2", "k8sel-entrypoint", "rank", "--", *python]
    end = box.start(
        mode, "--", *command, expect={**UNDER_MPI, "probe": [probe], "rankCommand": len(python)}, env={**RANK, **LOCAL}
    )
    assert (end.status, end.out) == (78, "")
    assert "backend ccl needs torch 2.8 or older and oneccl_bind_pt of torch's version" in end.message
    assert not list(tmp_path.glob("*.ran"))


def test_under_mpi_the_nodes_program_may_not_be_here(box: Box, tmp_path: Path) -> None:
    mpirun = script(tmp_path / "mpirun", "echo started")
    command = [mpirun, "-n", "2", "k8sel-entrypoint", "rank", "--", "/data/venv/bin/python", "train.py"]
    end = box.start("node", "--", *command, expect={**UNDER_MPI, "rankCommand": 2})
    assert (end.status, end.out, end.receipt["notChecked"]) == (0, "started\n", [])


def test_every_row_says_what_is_read_of_it() -> None:
    for row in tables.backends().values():
        assert set(row["since"]) | set(row["until"]) <= {"torch", "transformers", "accelerate"}
        assert set(row["built"]) <= {"cuda", "hip", "xpu"}
        assert bool(row["bindings"]) == bool(row["modules"])
    moved = {name: row.accelerators for name, row in BACKENDS.items()}
    for name, row in tables.backends().items():
        assert row["instead"] is None or set(moved[name]) & set(moved[row["instead"]]), name
    assert tables.backends()["gloo"]["instead"] is None


@pytest.mark.parametrize("names", [(), ("libc.so.6",), ("libmpi.so.40", "libc.so.6", "libmpi.so.40")])
def test_what_a_library_needs(names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(library(*names))
    assert elf.needed(str(tmp_path / "lib.so")) == list(names)


def test_what_a_real_program_needs() -> None:
    found = elf.needed(os.path.realpath(sys.executable))
    assert found is not None
    assert any(name.startswith("libc.") for name in found)


def test_what_is_no_library(tmp_path: Path) -> None:
    whole = library("libc.so.6")
    files = [
        b"",
        b"\x7fELF",
        b"/* GNU ld script */" * 9,
        whole[:64],
        whole[:176],
        whole[:180],
        b"\x7fELF\x01" + whole[5:],
    ]
    far = bytearray(whole)
    struct.pack_into("<Q", far, 32, 2**63)
    nowhere = bytearray(whole)
    struct.pack_into("<Q", nowhere, 64 + 16, 1)  # the address that the file is loaded to
    for number, content in enumerate([*files, bytes(far), bytes(nowhere), whole[:64] + b"\xff" * 400]):
        (tmp_path / f"{number}").write_bytes(content)
        assert elf.needed(str(tmp_path / f"{number}")) in (None, []), number
    assert elf.needed(str(tmp_path)) is None
    assert elf.needed("/nowhere") is None


def test_a_version_file_that_says_nothing(box: Box, tmp_path: Path) -> None:
    version(environment(tmp_path / "venv", "torch-2.9.0"), "cuda\n= None\n\xff:")
    assert start(box, tmp_path / "venv", "nccl").receipt["notChecked"] == ["backend"]


def test_versions_are_those_of_the_first_folder(tmp_path: Path) -> None:
    environment(tmp_path / "a", "torch-1.13.0", "oneccl_bind_pt-1.13.0+cpu", "Torch-9", "torch_ccl-1.3.0")
    environment(tmp_path / "b", "torch-2.8.0")
    path = f"{tmp_path}/b/lib/python3.11/site-packages"
    command = ["env", "A=1", f"{tmp_path}/a/bin/python"]
    found = libraries.of(command, {"PYTHONPATH": path, "HOME": "/nowhere"})
    assert found.versions == {"torch": "2.8.0", "oneccl_bind_pt": "1.13.0+cpu", "torch_ccl": "1.3.0"}


TEXT = some.text(some.characters(exclude_characters="\0/", exclude_categories=["Cs"]), max_size=9)
VERSIONS = TEXT | some.from_regex(r"[0-9]{1,3}(\.[0-9a-z+]{0,4}){0,4}", fullmatch=True) | some.just("9" * 5000)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    backend=some.sampled_from(sorted(tables.backends())) | TEXT,
    versions=some.dictionaries(some.sampled_from(["torch", "oneccl_bind_pt", "transformers", "accelerate"]), VERSIONS),
    said=some.binary(max_size=60) | some.just(b"cuda: Optional[str] = None\nxpu = 'x'\nhip\n"),
    linked=some.binary(max_size=200) | some.just(library("libmpi.so.12")),
    words=some.lists(some.sampled_from(["--ddp_backend", "--ddp-backend=", "ccl"]), max_size=2),
    workers=TEXT,
)
def test_a_message_or_none(
    backend: str, versions: dict[str, str], said: bytes, linked: bytes, words: list[str], workers: str
) -> None:
    """Whatever the folders are called and the files hold: text, in time, and a problem only where all was read."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "torch/lib").mkdir(parents=True)
        (Path(root) / "torch/version.py").write_bytes(said)
        for name in ("libtorch_cpu.so", "libtorch_python.so"):
            (Path(root) / "torch/lib" / name).write_bytes(linked)
        program = libraries.Libraries("python3", words, [root], versions)
        problems = backends.problems(backend, program, {"CCL_WORKER_COUNT": workers})
        unknown = backends.unknown(backend, program)
    assert all(text.startswith(("backend ", "CCL_WORKER_COUNT=")) for text in [*problems, *unknown])
    if backend not in tables.backends() or "torch" not in versions:
        assert not [text for text in problems if text.startswith("backend ")]
