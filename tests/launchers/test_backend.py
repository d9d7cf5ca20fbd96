"""torch.distributed's backend and the real torch: what it does not have ends at the entrypoint, before a launcher."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from conftest import unavailable
from entrypoint.machines import Box
from matrix.vendors import HOSTS

from launchers.starting import SHOW, job, ranks, run, start

pytestmark = pytest.mark.torch

CPU: dict[str, Any] = {"launcher": "torchrun", "accelerator": {"type": "cpu"}}
XPU: dict[str, Any] = {"launcher": "torchrun", "accelerator": {"type": "xpu", "count": 2}}


@pytest.fixture
def cards(box: Box) -> None:
    """Four cards of Intel's on the machine."""
    HOSTS["xpu"].lay_out(box, range(4))


# The job, and what is said of the backend.
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "ccl": (CPU | {"backend": "ccl"}, (), ("ccl needs torch 2.8 or older", "has torch 2.15.0 and no oneccl_bind_pt")),
    "ccl of the command": (
        CPU,
        ("--ddp_backend", "ccl"),
        ("ccl needs torch 2.8 or older and accelerate 1.12 or older", "torch 2.15.0 and accelerate 1.15.0"),
    ),
    "ccl by accelerate": (CPU | {"launcher": "accelerate"}, ("--ddp_backend=ccl",), ("ccl needs torch 2.8 or older",)),
    "xccl": (XPU | {"backend": "xccl"}, (), ("xccl needs a torch that was built with XPU", "which was built without")),
}


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("case", REFUSED)
def test_a_backend_that_this_torch_does_not_have_ends_it_before_its_launcher(env: dict[str, str], case: str) -> None:
    spec, words, said = REFUSED[case]
    done = run(job(SHOW, *words, **spec), env)
    assert (done.returncode, done.stdout) == (78, "")
    (message,) = done.stderr.splitlines()  # and nothing of torch's
    assert all(text in message for text in said), message
    assert message.endswith("use an image that has it" if case == "xccl" else "gloo, which any torch has")


def test_mpi_of_a_torch_without_it_ends_it_before_a_rank(env: dict[str, str]) -> None:
    if not shutil.which("mpirun"):
        unavailable("no mpirun: apt-get install openmpi-bin")
    text = job(SHOW, launcher="mpirun", processesPerNode=2, accelerator={"type": "cpu"}, backend="mpi")
    done = run(text, env)
    assert (done.returncode, done.stdout) == (78, "")
    assert "backend mpi needs a torch that was built with MPI; the command's Python has torch 2.15.0" in done.stderr


def test_a_backend_of_the_command_that_torch_has_runs(env: dict[str, str]) -> None:
    """And the word stays in the command: the program reads it, too."""
    words = ("--ddp_backend", "gloo", "--use_cpu")
    (seen,) = ranks(run(job(SHOW, *words, launcher="torchrun", accelerator={"type": "cpu"}), env))
    assert seen["words"] == list(words)


def test_the_check_says_what_torch_says_of_itself(installed: dict[str, str]) -> None:
    known = ("gloo", "mpi", "nccl", "xccl", "ccl")
    ask = f"import json, torch.distributed as d; print(json.dumps({{n: d.is_backend_available(n) for n in {known}}}))"
    has = json.loads(start(["python3", "-c", ask], installed).stdout)

    checked = {}
    for name in known:
        by_hand = {**installed, "K8SEL_ACCELERATOR": "cpu", "K8SEL_BACKEND": name}
        checked[name] = start(["k8sel-entrypoint", "--", "python3", "-c", "print('started')"], by_hand).stdout
    assert checked == {name: "started\n" if there else "" for name, there in has.items()}


@pytest.mark.parametrize("launcher", ["accelerate", "deepspeed"])
def test_a_library_that_is_not_installed_is_named(
    env: dict[str, str], torch_env: dict[str, str], launcher: str
) -> None:
    """Both are started through torchrun here, which is there."""
    bare = {**env, "PYTHONPATH": torch_env["PYTHONPATH"]}
    done = run(job(SHOW, launcher=launcher, accelerator={"type": "cpu"}), bare)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{launcher} is not installed beside torch 2.15.0: run pip install {launcher}" in done.stderr
