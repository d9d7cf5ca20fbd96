"""The scripts that Intel's bindings and MPI bring: found in the container, sourced, and gone on with."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.client import await_
from entrypoint.machines import Box, End, left_over, script
from entrypoint.packages import environment, lay_out, torch
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.report import Stop
from k8sel.entrypoint.start import setvars

# As oneCCL's own (uxlfoundation/oneCCL cmake/setvars.sh.in and vars.sh.in): it refuses to be executed, finds itself by
# BASH_SOURCE, sources a second file by a word that only bash has, and hands its arguments on to that.
SETVARS = """\
#!/bin/bash
if [ "setvars.sh" = "$(basename -- "$0")" ]; then echo "must be sourced" >&2; return 255 2>/dev/null || exit 255; fi
CCL_ROOT="$(cd "$(dirname -- "${BASH_SOURCE}")/../"; pwd -P)"; export CCL_ROOT
export I_MPI_ROOT="${CCL_ROOT}/opt/mpi"
export SETVARS_CALL=1
source ${CCL_ROOT}/env/vars.sh ${1:-}
LD_LIBRARY_PATH="${I_MPI_ROOT}/lib:${LD_LIBRARY_PATH:-}"; export LD_LIBRARY_PATH
PATH="${I_MPI_ROOT}/bin:${PATH}"; export PATH
echo ":: initializing"
unset -v SETVARS_CALL
"""
VARS = """\
for argument in $*; do export ARGUMENT="$argument"; done
LD_LIBRARY_PATH="${CCL_ROOT}/lib:${LD_LIBRARY_PATH:-}"; export LD_LIBRARY_PATH
"""
MODULES = ["oneccl_bindings_for_pytorch", "torch_ccl"]
CPU = {"accelerator": "cpu", "devices": [], "backend": "ccl"}


def bindings(where: Path, module: str = MODULES[0], text: str = SETVARS) -> Path:
    """An environment with torch and the bindings, in which there is a script; its package."""
    site = environment(where, "torch-2.8.0", "oneccl_bind_pt-2.8.0+cpu")
    torch(site)
    lay_out(site / module, {"env/setvars.sh": text, "env/vars.sh": VARS})
    return site / module


def start(box: Box, where: Path, *, env: dict[str, str] | None = None, **more: object) -> End:
    path = {"PATH": "/usr/bin:/bin"}
    return box.start("--", f"{where}/bin/python", "train.py", expect={**CPU, **more}, env={**path, **(env or {})})


@pytest.mark.parametrize("module", MODULES)
def test_the_bindings_script(module: str, box: Box, tmp_path: Path) -> None:
    package = bindings(tmp_path / "venv", module)
    end = start(box, tmp_path / "venv", env={"KEPT": "a\nb", "SHLVL": "7", "PWD": "/x"})
    assert end.env["CCL_ROOT"] == str(package)
    assert end.env["LD_LIBRARY_PATH"] == f"{package}/opt/mpi/lib:{package}/lib:"
    assert end.env["PATH"] == f"{package}/opt/mpi/bin:/usr/bin:/bin"
    assert (end.env["KEPT"], end.env["SHLVL"], end.env["K8SEL_NODE"]) == ("a", "7", "box")
    assert not {"SETVARS_CALL", "ARGUMENT", "OLDPWD", "k8sel_script"} & set(end.env)
    assert f"k8sel: {package}/env/setvars.sh was sourced\n" in end.err
    assert ":: initializing" not in end.out + end.err


def test_not_twice(box: Box, tmp_path: Path) -> None:
    package = bindings(tmp_path / "venv")
    end = start(box, tmp_path / "venv", env={"LD_LIBRARY_PATH": f"/x:{package}/lib"})
    assert end.env["LD_LIBRARY_PATH"] == f"/x:{package}/lib"
    assert "was sourced" not in end.err


def test_only_where_the_backend_needs_it(box: Box, tmp_path: Path) -> None:
    bindings(tmp_path / "venv")
    assert "CCL_ROOT" not in start(box, tmp_path / "venv", backend="gloo").env
    assert "CCL_ROOT" not in start(box, tmp_path / "venv", backend="").env


def test_a_path_that_is_shell_text(box: Box, tmp_path: Path) -> None:
    where = tmp_path / "a $(touch pwned) '\" ; b"
    package = bindings(where, text="export FOUND=1")
    end = start(box, where)
    assert end.env["FOUND"] == "1"
    assert f"{package}/env/setvars.sh was sourced" in end.err
    assert not list(Path.cwd().glob("pwned"))


FAILURES = {
    "a status": ("echo no oneAPI here >&2; return 3", "exit status 3: no oneAPI here"),
    "an exit": ("exit 0", "exit status 0: nothing on stderr"),
    "a signal": ("kill -KILL $$", "ended by SIGKILL: nothing on stderr"),
    "no PATH": ("export PATH=/nowhere", "exit status 127: "),
    "no shell text": ("if then", "exit status "),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_script_that_fails(name: str, box: Box, tmp_path: Path) -> None:
    text, message = FAILURES[name]
    package = bindings(tmp_path / "venv", text=text)
    end = start(box, tmp_path / "venv")
    assert (end.status, end.out) == (78, "")
    assert end.message.startswith(f"k8sel: {package}/env/setvars.sh cannot be sourced: {message}")
    for check in ("warn", "off"):
        end = start(box, tmp_path / "venv", check=check)
        assert end.status == 0
        assert f"(check: {check}, continuing)" in end.err


def test_an_image_without_bash(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = bindings(tmp_path / "venv")
    monkeypatch.setattr(setvars, "on_path", lambda command, environ: "" if command[0].endswith("bash") else command[0])
    with pytest.raises(Stop, match=f"{package}/env/setvars.sh cannot be sourced: bash is not in the image: install it"):
        setvars.sourced(Expectation("cpu", (), backend="ccl"), Machine(), "node", [f"{tmp_path}/venv/bin/python"], {})


def test_a_script_that_hangs(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bindings(tmp_path / "venv", text="sleep 71.25 & sleep 71.25")
    monkeypatch.setattr(setvars, "SECONDS", 0.2)
    command = [f"{tmp_path}/venv/bin/python"]
    with pytest.raises(Stop, match=r"cannot be sourced: no end in 0\.2 s"):
        setvars.sourced(Expectation("cpu", (), backend="ccl"), Machine(), "node", command, {"PATH": "/usr/bin:/bin"})
    await_(lambda: not left_over(["sleep", "71.25"]), what="end of what the script had started")


def test_sigterm_while_it_runs_ends_both(box: Box, tmp_path: Path) -> None:
    bindings(tmp_path / "venv", text=f"touch {tmp_path}/begun; exec sleep 72.25")
    words = [sys.executable, "-I", "-S", str(box.entrypoint / "entrypoint.pyz"), "--", f"{tmp_path}/venv/bin/python"]
    started = subprocess.Popen(words, env=box.environ(CPU, {"PATH": "/usr/bin:/bin"}), stderr=subprocess.DEVNULL)
    await_((tmp_path / "begun").exists, what="start of the script")
    started.terminate()
    assert started.wait(10) == 128 + signal.SIGTERM
    await_(lambda: not left_over(["sleep", "72.25"]), what="end of the script")


MPI = {"accelerator": "cpu", "devices": [], "backend": "ccl", "launcher": "mpirun", "mpi": "Intel"}
ONE_RANK = {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}


def mpirun(package: Path) -> None:
    """The MPI that the bindings bring."""
    (package / "opt/mpi/bin").mkdir(parents=True)
    script(package / "opt/mpi/bin/mpiexec.hydra", 'test "$1" = --version && echo "Intel(R) MPI Library" || exec env')


@pytest.mark.parametrize("mode", ["node", "gate"])
def test_mpirun_may_be_the_bindings_own(mode: str, box: Box, tmp_path: Path) -> None:
    """So it is looked for behind the script; the Python is that of the ranks."""
    package = bindings(tmp_path / "venv")
    mpirun(package)
    rank = ["k8sel-entrypoint", "rank", "--", f"{tmp_path}/venv/bin/python", "train.py"]
    command = ["env", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-p 22", "mpiexec.hydra", "-n", "2", *rank]
    end = box.start(mode, "--", *command, expect={**MPI, "rankCommand": 2}, env={"PATH": "/usr/bin:/bin"})
    assert end.env["I_MPI_ROOT"] == f"{package}/opt/mpi"
    assert f"{package}/env/setvars.sh was sourced" in end.err


def test_each_rank_sources_it_and_keeps_quiet(box: Box, tmp_path: Path) -> None:
    """hydra hands I_MPI_ROOT on by itself, and LD_LIBRARY_PATH not."""
    package = bindings(tmp_path / "venv")
    env = {**ONE_RANK, "PATH": "/usr/bin:/bin", "I_MPI_ROOT": f"{package}/opt/mpi"}
    end = box.start("rank", "--", f"{tmp_path}/venv/bin/python", expect=MPI, env=env)
    assert end.env["LD_LIBRARY_PATH"] == f"{package}/opt/mpi/lib:{package}/lib:"
    assert "was sourced" not in end.err


def test_a_shell_script_as_command_and_python_on_path(box: Box, tmp_path: Path) -> None:
    package = bindings(tmp_path / "venv")
    script(tmp_path / "train.sh", "exec env")
    env = {"PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin"}
    end = box.start("--", f"{tmp_path}/train.sh", expect=CPU, env=env)
    assert end.env["CCL_ROOT"] == str(package)


ONEAPI = "opt/intel/oneapi/setvars.sh"


def test_the_mpis_own_script(box: Box, tmp_path: Path) -> None:
    root = "/opt/intel/oneapi/mpi/latest"
    box.write(ONEAPI, f"export I_MPI_ROOT={root} LD_LIBRARY_PATH={root}/lib")
    command = [script(tmp_path / "mpiexec.hydra", "exec env"), "-n", "1"]
    end = box.start("node", "--", *command, expect={**MPI, "backend": "gloo"}, env={"PATH": "/usr/bin:/bin"})
    assert end.env["I_MPI_ROOT"] == root
    assert f"k8sel: {box.root}/{ONEAPI} was sourced\n" in end.err
    again = {"PATH": "/usr/bin:/bin", "I_MPI_ROOT": root, "LD_LIBRARY_PATH": f"{root}/lib"}
    for expect, env in (({**MPI, "backend": ""}, again), ({**MPI, "backend": "", "mpi": "MPICH"}, {})):
        end = box.start("node", "--", *command, expect=expect, env={"PATH": "/usr/bin:/bin", **env})
        assert "was sourced" not in end.err


def test_the_bindings_script_comes_before_the_mpis(box: Box, tmp_path: Path) -> None:
    package = bindings(tmp_path / "venv")
    box.write(ONEAPI, "export BOTH=1")
    mpirun(package)
    rank = ["k8sel-entrypoint", "rank", "--", f"{tmp_path}/venv/bin/python"]
    end = box.start(
        "node", "--", "mpiexec.hydra", *rank, expect={**MPI, "rankCommand": 1}, env={"PATH": "/usr/bin:/bin"}
    )
    assert (end.env["CCL_ROOT"], "BOTH" in end.env) == (str(package), False)


def test_a_node_that_only_looks_sources_nothing(box: Box, tmp_path: Path) -> None:
    box.write(ONEAPI, f"touch {tmp_path}/ran")
    assert box.start("check", expect=MPI).status == 0
    assert not (tmp_path / "ran").exists()


def test_a_missing_mpirun_is_said_at_the_gate_whatever_stands_before_it(box: Box, tmp_path: Path) -> None:
    probe = script(tmp_path / "probe", f"touch {tmp_path}/asked")
    script(tmp_path / "env", 'exec /usr/bin/env "$@"')
    for words, name in (
        (["env", "HYDRA_LAUNCHER_EXTRA_ARGS=-p 22 -o X=y", "mpiexec.hydra", "-n", "1"], "mpiexec.hydra"),
        (["mpirun", "--hostfile", "/etc/mpi/hostfile"], "mpirun"),
    ):
        expect = {**MPI, "backend": "", "mpi": "MPICH", "probe": [probe]}
        end = box.start("gate", "--", *words, "python", expect=expect, env={"PATH": str(tmp_path)})
        assert (end.status, end.out) == (78, "")
        assert f"no program {name} on PATH ({tmp_path}): " in end.message
        assert not (tmp_path / "asked").exists()
