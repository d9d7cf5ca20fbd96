"""MPI's gate: every node is asked before a rank exists."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from entrypoint.machines import Box, End, devices, script


def report(node: str, *problems: str, **more: object) -> str:
    return "k8sel-report: " + json.dumps({"node": node, "ok": not problems, "problems": problems, **more})


def gate(box: Box, tmp_path: Path, body: str, *, nodes: int = 2, **more: object) -> End:
    """The gate with a probe that runs ``body``, and ``echo training`` behind it."""
    probe = script(tmp_path / "mpirun", body)
    expect = devices(2, 0, launcher="mpirun", nodes=nodes, processesPerNode=2, probe=[probe, "-N", "1"], **more)
    return box.start("gate", "--", "echo", "training", expect=expect)


def test_all_nodes_agree(box: Box, tmp_path: Path) -> None:
    shown = {"how": "NVML", "devices": [["0000:3b:00.0", "GPU-1"]], "names": ["NVIDIA H100"]}
    body = f"echo noise; echo '[1,0]<stdout>: {report('w-0', **shown)}'; echo '{report('w-1', **shown)}'"
    end = gate(box, tmp_path, body)
    assert (end.status, end.out) == (0, "training\n")
    assert "node w-0: ok: NVIDIA H100 [0000:3b:00.0, GPU-1] (NVML)" in end.err
    assert "node w-1: ok" in end.err


def test_every_problem_of_every_node_is_in_the_launchers_message(box: Box, tmp_path: Path) -> None:
    body = f"echo '{report('w-1', 'A', 'B')}'; echo '{report('w-0', 'C')}'"
    end = gate(box, tmp_path, body)
    assert (end.status, end.out) == (78, "")
    assert end.message == "k8sel: node w-0: C\nk8sel: node w-1: A\nk8sel: node w-1: B\n"


def test_a_node_that_did_not_answer(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"echo '{report('w-0')}'; echo '{report('w-0')}'")
    assert (end.status, end.out) == (78, "")
    assert "2 nodes expected, 1 answered: w-0" in end.message


@pytest.mark.parametrize("line", ["{name}.rings.team.svc slots=2", "{name}.rings.team.svc:2"])
def test_a_node_that_did_not_answer_is_named_by_the_hostfile(line: str, box: Box, tmp_path: Path) -> None:
    names = "".join(line.format(name=name) + "\n" for name in ("w-0", "w-1"))
    (tmp_path / "hosts").write_text(f"# by the operator\n{names}")
    end = gate(box, tmp_path, f"echo '{report('w-0')}'", hostfile=str(tmp_path / "hosts"))
    assert end.message == "k8sel: 2 nodes expected, 1 answered: w-0 (no answer from w-1)\n"


def test_a_torn_report_is_a_missing_one(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"echo '{report('w-0')}'; echo 'k8sel-report: {{\"node\":'")
    assert end.status == 78
    assert "2 nodes expected, 1 answered" in end.message


def test_two_reports_that_became_one_line(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"printf '%s' 'noise {report('w-0')}[1,1]<stdout>:{report('w-1')} more'; echo bye")
    assert (end.status, end.out) == (0, "training\n"), end.err


def test_a_report_that_says_not_ok_and_nothing_else(box: Box, tmp_path: Path) -> None:
    body = f"""echo '{report("w-0")}'; echo 'k8sel-report: {{"node":"w-1","ok":false}}'"""
    end = gate(box, tmp_path, body)
    assert end.message == "k8sel: node w-1: not ok, without a reason\n"


@pytest.mark.parametrize(
    "wrong", ["[]", "1", "{}", '{"node":1}', '{"node":"w-1","devices":5}', '{"node":"w-1","problems":[1]}', "[" * 9999]
)
def test_what_is_no_report(wrong: str, box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"echo '{report('w-0')}'; echo 'k8sel-report: {wrong}'")
    assert end.message == "k8sel: 2 nodes expected, 1 answered: w-0\n"


def test_a_hundred_nodes(box: Box, tmp_path: Path) -> None:
    lines = [
        report(f"w-{number}", *(["A"] if number % 2 else []), *(["B"] if number == 50 else [])) for number in range(99)
    ]
    (tmp_path / "lines").write_text("\n".join(lines))
    end = gate(box, tmp_path, f"cat {tmp_path}/lines", nodes=100)
    assert end.message.splitlines() == [
        "k8sel: 100 nodes expected, 99 answered: w-0, w-1, w-2, w-3, w-4, w-5, w-6, w-7 and 91 more",
        "k8sel: 49 nodes (w-1, w-3, w-5, w-7, w-9, w-11, w-13, w-15, ...): A",
        "k8sel: node w-50: B",
    ]


def test_a_connection_that_outlives_mpirun_is_not_waited_for(box: Box, tmp_path: Path) -> None:
    start = time.monotonic()
    end = gate(box, tmp_path, f"echo '{report('w-0')}'; sleep 20 & exit 0", nodes=1)
    assert (end.status, end.out) == (0, "training\n")
    assert time.monotonic() - start < 10


def test_sigterm_between_two_attempts(box: Box, tmp_path: Path) -> None:
    probe = script(tmp_path / "mpirun", f"touch {tmp_path}/tried; exit 1")
    environ = box.environ(devices(0, probe=[probe]), {})
    started = subprocess.Popen([sys.executable, str(box.entrypoint / "entrypoint.pyz"), "gate", "true"], env=environ)
    while not (tmp_path / "tried").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    started.send_signal(signal.SIGTERM)
    assert started.wait(1) == 128 + signal.SIGTERM


def test_warn_goes_on(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"echo '{report('w-0', 'A')}'", check="warn")
    assert (end.status, end.out) == (0, "training\n")
    assert "node w-0: A (check: warn, continuing)" in end.err


def test_off_does_not_ask(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, "exit 1", check="off")
    assert (end.status, end.out) == (0, "training\n")


def test_mpirun_that_reaches_nobody(box: Box, tmp_path: Path) -> None:
    end = gate(box, tmp_path, f"echo try >>{tmp_path}/tries; echo 'ssh: connect to host w-0: refused' >&2; exit 255")
    assert (end.status, end.out) == (1, "")
    assert "could not check the nodes: exit status 255: ssh: connect to host w-0: refused" in end.message
    assert (tmp_path / "tries").read_text().count("try") == 3


INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\\nCopyright 2003-2026"
MPICH = "HYDRA build details:\\n    Version:                                 5.0.2"
OPEN_MPI = "mpirun (Open MPI) 5.0.11\\n\\nReport bugs to https://www.open-mpi.org/community/help/"


def with_mpi(box: Box, tmp_path: Path, version: str, mpi: str, **more: object) -> End:
    """The gate in front of an MPI whose ``--version`` prints that; its probe finds one node."""
    text = f'test "$1" = --version || exec echo training\n{version}'
    script(tmp_path / "mpiexec.hydra", text)
    probe = script(tmp_path / "probe", f"touch {tmp_path}/asked; echo '{report('w-0')}'")
    expect = {"accelerator": "cpu", "devices": [], "launcher": "mpirun", "mpi": mpi, "probe": [probe], **more}
    command = ("env", "HYDRA_LAUNCHER_EXTRA_ARGS=-p 2222", "mpiexec.hydra", "-n", "1")
    return box.start("gate", "--", *command, expect=expect, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})


@pytest.mark.parametrize(("mpi", "says"), [("Intel", INTEL), ("MPICH", MPICH), ("OpenMPI", OPEN_MPI)])
def test_the_mpi_of_the_image_is_the_jobs(mpi: str, says: str, box: Box, tmp_path: Path) -> None:
    end = with_mpi(box, tmp_path, f"printf '{says}'", mpi)
    assert (end.status, end.out) == (0, "training\n")
    assert "mpiexec.hydra" not in end.err


@pytest.mark.parametrize(
    ("mpi", "other", "says"),
    [("Intel", "MPICH", MPICH), ("MPICH", "Intel", INTEL), ("MPICH", "OpenMPI", OPEN_MPI), ("OpenMPI", "Intel", INTEL)],
)
def test_an_mpi_that_would_pass_over_the_jobs_settings(
    mpi: str, other: str, says: str, box: Box, tmp_path: Path
) -> None:
    end = with_mpi(box, tmp_path, f"printf '{says}'", mpi)
    assert (end.status, end.out) == (78, "")
    first = says.partition("\\n")[0]
    assert end.message == (
        f"k8sel: mpi.implementation is {mpi}, and mpiexec.hydra is {other}'s ({first}): "
        f"set mpi.implementation: {other}, or use an image with {mpi}'s MPI\n"
    )
    assert not (tmp_path / "asked").exists()
    end = with_mpi(box, tmp_path, f"printf '{says}'", mpi, check="warn")
    assert (end.status, "(check: warn, continuing)" in end.err) == (0, True)
    assert with_mpi(box, tmp_path, f"touch {tmp_path}/looked", mpi, check="off").status == 0
    assert not (tmp_path / "looked").exists()


@pytest.mark.parametrize(("body", "how"), [("echo MPI of our own", "exit status 0"), ("exit 9", "exit status 9")])
def test_an_mpi_that_does_not_say_which_one_it_is(body: str, how: str, box: Box, tmp_path: Path) -> None:
    end = with_mpi(box, tmp_path, body, "Intel")
    assert (end.status, end.out) == (0, "training\n")
    assert f"k8sel: mpiexec.hydra --version names no known MPI ({how})\n" in end.err


def test_a_worker_that_is_late_in_the_dns(box: Box, tmp_path: Path) -> None:
    body = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; exit 1; }}; echo '{report('w-0')}'"
    end = gate(box, tmp_path, body, nodes=1)
    assert (end.status, end.out) == (0, "training\n")


def test_a_probe_that_is_not_there(box: Box) -> None:
    end = box.start("gate", "true", expect=devices(0, probe=["/nowhere/mpirun"]))
    assert end.status == 78
    assert "/nowhere/mpirun cannot be executed" in end.message


def test_sigterm_ends_the_probe_too(box: Box, tmp_path: Path) -> None:
    probe = script(tmp_path / "mpirun", f"echo $$ >{tmp_path}/pid; exec sleep 60")
    environ = box.environ(devices(0, probe=[probe]), {})
    started = subprocess.Popen([sys.executable, str(box.entrypoint / "entrypoint.pyz"), "gate", "true"], env=environ)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.02)
    started.send_signal(signal.SIGTERM)
    assert started.wait(10) == 128 + signal.SIGTERM
    child = int((tmp_path / "pid").read_text())
    time.sleep(0.2)
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()


def test_check_reports_and_always_ends_with_0(nvml_box: Box) -> None:
    good = nvml_box.start("check", expect=devices(2, 0, count=3))
    found = json.loads(good.out.removeprefix("k8sel-report: "))
    assert (good.status, found["ok"], found["node"], found["how"]) == (0, True, "box", "NVML")
    assert [pci for pci, _ in found["devices"]] == ["0000:60:00.0", "0000:70:00.0", "0000:80:00.0"]
    bad = nvml_box.start("check", expect=devices(0, count=4))
    assert bad.status == 0
    assert "4 cuda devices expected, 3 found" in json.loads(bad.out.partition(": ")[2])["problems"][0]


@pytest.mark.parametrize("expect", [None, {"accelerator": "gpu", "devices": [0]}, {"devices": "x"}])
def test_check_reports_what_it_cannot_do(expect: dict[str, Any] | None, nvml_box: Box) -> None:
    end = nvml_box.start("check", expect=expect)
    found = json.loads(end.out.partition(": ")[2])
    assert (end.status, found["ok"], len(found["problems"]), len(end.out.splitlines())) == (0, False, 1, 1)


@pytest.fixture
def mpirun() -> str:
    found = shutil.which("mpirun")
    if not found:
        reason = "no mpirun: apt-get install openmpi-bin"
        if os.environ.get("K8SEL_REQUIRE_ALL") == "1":
            pytest.fail(f"required, and not there: {reason}", pytrace=False)
        pytest.skip(reason)
    return found


@pytest.mark.parametrize("count", [3, 4])
def test_a_real_mpirun(count: int, nvml_box: Box, mpirun: str) -> None:
    """Two ranks on this machine; the node's name is the machine's, so one node answers."""
    flags = [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    start = [sys.executable, "-I", "-S", str(nvml_box.entrypoint / "entrypoint.pyz")]
    expect = devices(
        2, 0, count=count, launcher="mpirun", processesPerNode=2, probe=[*flags, "-n", "1", *start, "check"]
    )
    command = [*flags, "-n", "2", *start, "rank", "--", "sh", "-c", "echo training $RANK $WORLD_SIZE $LOCAL_RANK"]
    end = nvml_box.start("gate", "--", *command, expect=expect, env={"HOME": "/tmp", "PATH": os.environ["PATH"]})
    if count == 3:
        assert end.status == 0, end.err
        assert sorted(end.out.splitlines()) == ["training 0 2 0", "training 1 2 1"]
    else:
        assert (end.status, end.out) == (78, "")
        assert "4 cuda devices expected, 3 found" in end.message


# What hydra's mpiexec does (src/pm/hydra/lib/tools/bootstrap/utils/bscu_wait.c): it waits for any child, and takes its
# end for that of one of its own.
WAITS = """
import os, time
end = time.monotonic() + 3
try:
    while time.monotonic() < end:
        if any(os.waitpid(-1, os.WNOHANG)):
            print("another's child")
        time.sleep(0.05)
except ChildProcessError:
    pass
print("waited")
"""


def test_what_a_probe_leaves_behind_is_no_child_of_the_real_mpirun(box: Box, tmp_path: Path) -> None:
    """As pid 1 it would be: an ssh to the second node when the first one's has failed."""
    probe = script(
        tmp_path / "mpirun",
        f"[ -e {tmp_path}/tried ] || {{ touch {tmp_path}/tried; (setsid sleep 1; exit 255) & exit 255; }}\n"
        f"echo '{report('w-0')}'",
    )
    expect = devices(0, launcher="mpirun", probe=[probe])
    adopt = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execv(sys.argv[1], sys.argv[1:])"
    entry = [sys.executable, "-I", "-S", str(box.entrypoint / "entrypoint.pyz"), "gate", "--"]
    done = subprocess.run(
        [sys.executable, "-c", adopt, *entry, sys.executable, "-c", WAITS],
        env=box.environ(expect, {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "waited\n"), done.stderr
    assert "reached no node" in done.stderr
