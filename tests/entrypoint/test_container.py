"""Tests the environment of a process that sshd started: it gets the container's variables."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from entrypoint.machines import Box, Gpu, devices
from k8sel.entrypoint import start
from k8sel.planning import mpi

RANK = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
CPU = {**devices(), "accelerator": "cpu", "launcher": "mpirun", "mpi": "MPICH"}
SHOW = ("rank", "--", "/usr/bin/env", "-0")


def written(folder: Path, *entries: str) -> dict[str, str]:
    """Returns the environment that sshd gives to sessions, for the container's ``entries`` in the kernel's form."""
    file = folder / "environ"
    file.touch(0o600)
    file.write_bytes(b"".join(entry.encode() + b"\0" for entry in entries))
    return {"K8SEL_ENVIRON": str(file)}


def shown(out: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in out.split("\0") if entry)


def test_a_rank_gets_what_its_session_does_not_say(box: Box, tmp_path: Path) -> None:
    given = written(tmp_path, "FROM_IMAGE=a b\n'c\"=d", "EMPTY=", "GRÖSSE=大", "OMP_NUM_THREADS=7", "PATH=/no", "torn")
    end = box.start(*SHOW, expect=CPU, env={**RANK, **given, "EXPORTED": "by mpirun"})
    found = shown(end.out)
    seen = {name: found.get(name) for name in ("FROM_IMAGE", "EMPTY", "GRÖSSE", "OMP_NUM_THREADS", "PATH", "EXPORTED")}
    assert seen == {
        "FROM_IMAGE": "a b\n'c\"=d",
        "EMPTY": "",
        "GRÖSSE": "大",
        "OMP_NUM_THREADS": "7",
        "PATH": os.defpath,
        "EXPORTED": "by mpirun",
    }
    assert "FROM_IMAGE" not in end.err


def test_what_a_shell_or_the_entrypoint_is_told_stays_where_it_was(box: Box, tmp_path: Path) -> None:
    given = written(tmp_path, "PWD=/elsewhere", "SHLVL=3", "K8SEL_CHECK=off", "K8SEL_DEVICES=7")
    end = box.start(*SHOW, expect=CPU, env={**RANK, **given})
    assert end.status == 0, end.err
    assert not {"PWD", "SHLVL", "K8SEL_CHECK", "K8SEL_DEVICES", "K8SEL_ENVIRON"} & set(shown(end.out))


@pytest.mark.parametrize("mode", ["check", "rank"])
def test_a_mask_of_the_image_counts_as_it_does_without_ssh(box: Box, tmp_path: Path, mode: str) -> None:
    box.gpus(Gpu(0, "0000:10:00.0"))
    env = {**RANK, **written(tmp_path, "CUDA_VISIBLE_DEVICES=3")}
    end = box.start(mode, *(["env"] if mode == "rank" else []), expect=devices(0), env=env)
    assert "CUDA_VISIBLE_DEVICES=3 is set, GPU-00000000-0000-0000-0000-000000000000 expected" in end.out + end.err


@pytest.mark.parametrize("file", ["", "/nowhere/environ", "/etc", "/dev/null"])
def test_a_file_that_is_not_there_is_none(box: Box, file: str) -> None:
    end = box.start(*SHOW, expect=CPU, env={**RANK, "K8SEL_ENVIRON": file})
    assert end.status == 0, end.err
    assert "K8SEL_ENVIRON" not in shown(end.out)


def test_another_users_file_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = {"PATH": "/bin"}
    own = written(tmp_path, "LD_PRELOAD=/tmp/other.so")
    assert "LD_PRELOAD" in start.with_container({**session, **own})
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert start.with_container({**session, **own}) == session


SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


def set_env(shell: str, folder: Path, env: dict[str, str]) -> dict[str, str]:
    """Returns the variables that a node's sshd gets, read as sshd does: argv_split in OpenSSH's misc.c."""
    text = mpi.SSHD.replace("/dev/shm", str(folder)).replace("exec /usr/sbin/sshd", "printf '%s\\n'")
    done = subprocess.run([f"/bin/{shell}", "-c", text, "sshd", "-De"], env=env, capture_output=True, check=True)
    dashes, option, setting = done.stdout.decode().splitlines()
    assert (dashes, option, done.stderr) == ("-De", "-o", b"")
    return dict(word.split("=", 1) for word in shlex.split(setting.removeprefix("SetEnv=")))


PATHS = [
    "/usr/bin:/bin",
    "/my tools/bin:/usr/bin:/bin",
    '/usr/bin:/bin:/"\\a\\\\b" LD_PRELOAD=/x',
    "/usr/bin:/bin:/$(id)`id`*'",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_path_is_one_word_for_sshd(shell: str, path: str, tmp_path: Path) -> None:
    found = set_env(shell, tmp_path, {"PATH": path})
    assert (found.pop("PATH"), set(found)) == (path, {"K8SEL_ENVIRON"})
    found = set_env(shell, tmp_path, {"PATH": path, "LD_LIBRARY_PATH": path})
    assert (found["PATH"], found["LD_LIBRARY_PATH"], len(found)) == (path, path, 3)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_nodes_environment_is_in_a_new_private_file(shell: str, tmp_path: Path) -> None:
    """Whatever the umask is, and beside the file of another job on the same node."""
    env = {"PATH": "/usr/bin:/bin", "TOKEN": "secret"}
    before = os.umask(0)
    try:
        files = [Path(set_env(shell, tmp_path, env)["K8SEL_ENVIRON"]) for _ in range(2)]
    finally:
        os.umask(before)
    assert sorted(files) == sorted(tmp_path.iterdir())
    for file in files:
        assert (file.stat().st_mode & 0o777, b"TOKEN=secret\0" in file.read_bytes()) == (0o600, True)
        assert start.with_container({"K8SEL_ENVIRON": str(file)})["TOKEN"] == "secret"


def test_a_node_without_a_place_for_the_file_starts(tmp_path: Path) -> None:
    assert set_env("dash", tmp_path / "none", {"PATH": "/bin"}) == {"PATH": "/bin", "K8SEL_ENVIRON": ""}
