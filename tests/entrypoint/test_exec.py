"""The entrypoint becomes the command: same process, same signals, same exit status, nothing left behind."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoint.machines import Box, devices
from k8sel import entrypoint


def popen(box: Box, *command: str, **more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-I", "-S", str(box.entrypoint / "entrypoint.pyz"), "--", *command]
    environ = box.environ(devices(0, count=3), more)
    return subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("status", [0, 1, 2, 77, 78, 126, 127, 137, 255])
def test_exit_status(status: int, nvml_box: Box) -> None:
    assert nvml_box.start("sh", "-c", f"exit {status}", expect=devices(0)).status == status


def test_death_by_a_signal(nvml_box: Box) -> None:
    assert nvml_box.start("sh", "-c", "kill -9 $$", expect=devices(0)).status == -signal.SIGKILL


def test_same_process(nvml_box: Box) -> None:
    process = popen(nvml_box, "sh", "-c", "echo $$")
    out, _ = process.communicate(timeout=20)
    assert int(out) == process.pid


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGPIPE"])
def test_a_signal_reaches_the_command(name: str, nvml_box: Box) -> None:
    process = popen(nvml_box, "sh", "-c", "echo up; exec sleep 30")
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    process.send_signal(getattr(signal, name))
    assert process.wait(10) == -getattr(signal, name)
    process.stdout.close()


def test_no_signal_is_ignored_or_blocked_in_the_command(nvml_box: Box) -> None:
    """But for those that were ignored before: Python's own two are put back."""
    out = nvml_box.start("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", expect=devices(0)).out
    pythons = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    before = signals(Path("/proc/self/status").read_text())
    assert signals(out) == {"SigBlk:": 0, "SigIgn:": before["SigIgn:"] & ~pythons}


def signals(status: str) -> dict[str, int]:
    """The masks of blocked and ignored signals in a process's status."""
    lines = [line.split() for line in status.splitlines() if line.startswith(("SigBlk:", "SigIgn:"))]
    return {name: int(mask, 16) for name, mask in lines}


def test_the_command_has_no_other_file_open(nvml_box: Box) -> None:
    assert len(nvml_box.start("ls", "/proc/self/fd", expect=devices(0)).out.split()) == 4  # ls itself opens the fourth


def test_the_command_has_no_child(nvml_box: Box) -> None:
    out = nvml_box.start("sh", "-c", "cat /proc/$$/task/$$/children", expect=devices(0)).out
    assert len(out.split()) <= 1  # cat


def test_the_users_environment_arrives(nvml_box: Box) -> None:
    mine = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "PYTHONSTARTUP": "/nowhere", "LC_ALL": "C", "A": "b c"}
    env = nvml_box.start(expect=devices(0), env=mine).env
    assert {name: env[name] for name in mine} == mine


def test_bytes_that_are_no_text_arrive(nvml_box: Box) -> None:
    archive = str(nvml_box.entrypoint / "entrypoint.pyz")
    words: list[str | bytes] = [sys.executable, "-I", "-S", archive, "--", "printf", "%s", b"\xff\xfe"]
    environ = nvml_box.environ(devices(0), {})
    done = subprocess.run(words, env=environ, capture_output=True, check=True)
    assert done.stdout == b"\xff\xfe"


def test_a_program_with_an_interpreter_that_is_not_there(nvml_box: Box, tmp_path: Path) -> None:
    program = tmp_path / "train"
    program.write_text("#!/nowhere/python\n")
    program.chmod(0o755)
    end = nvml_box.start(str(program), expect=devices(0))
    assert end.status == 78
    assert "cannot be executed: No such file or directory" in end.message


def test_only_the_standard_library_is_imported() -> None:
    folder = Path(os.path.dirname(entrypoint.__file__))  # noqa: PTH120
    imported = set()
    for source in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    own = {name for name in imported if name.split(".")[0] == "k8sel"}
    assert {name.split(".")[0] for name in imported - own} <= {*sys.stdlib_module_names, "_sha2"}  # of Python 3.12
    assert all(name == "k8sel" or name.startswith("k8sel.entrypoint") for name in own)


@pytest.mark.parametrize("expect", [devices(0), None])
def test_heavy_modules_are_not_imported_at_a_start(expect: dict[str, object] | None, nvml_box: Box) -> None:
    names = _imported(nvml_box, nvml_box.environ(expect, {} if expect else {"K8SEL_ACCELERATOR": "cuda"}))
    assert "ctypes" in names
    heavy = {"typing", "dataclasses", "inspect", "argparse", "subprocess", "pathlib", "json", "re", "enum", "signal"}
    assert not names & heavy
    assert {name for name in names if name.startswith("k8sel.entrypoint.discovery.")} == {
        f"k8sel.entrypoint.discovery.{name}" for name in ("cuda", "forked", "nvml")
    }


def test_a_start_without_devices_imports_no_vendors_module(box: Box, tmp_path: Path) -> None:
    plain = Box(tmp_path / "plain", box.entrypoint)
    for name in ("null", "shm", "tty", "termination-log"):
        plain.write(f"dev/{name}", "")
    names = _imported(plain, plain.environ(devices(accelerator="cpu"), {}))
    folder = Path(os.path.dirname(entrypoint.__file__), "discovery")  # noqa: PTH120
    assert "k8sel.entrypoint.discovery" in names
    assert not {f"k8sel.entrypoint.discovery.{file.stem}" for file in folder.glob("[a-z]*.py")} & names


def _imported(box: Box, environ: dict[str, str]) -> set[str]:
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); import start"  # as the script starts it, without runpy
    words = [
        sys.executable,
        "-I",
        "-S",
        "-X",
        "importtime",
        "-c",
        start,
        str(box.entrypoint / "entrypoint.pyz"),
        "true",
    ]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize(("pod", "receipts"), [({}, 0), ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, 1)])
def test_a_persons_terminal_gets_the_summary_without_the_receipt(
    pod: dict[str, str], receipts: int, nvml_box: Box
) -> None:
    own, terminal = os.openpty()
    words = [sys.executable, "-I", "-S", str(nvml_box.entrypoint / "entrypoint.pyz"), "--", "true"]
    subprocess.run(words, env=nvml_box.environ(devices(0, count=3), pod), stderr=terminal, check=True)
    os.close(terminal)
    shown = os.read(own, 2**16).decode()
    os.close(own)
    assert "local rank 0 -> cuda device 0 of 3" in shown
    assert shown.count("k8sel-receipt: ") == receipts
