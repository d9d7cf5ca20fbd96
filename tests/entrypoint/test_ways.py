"""The ways of an image around the check: each row of the table in docs/entrypoint.md has a test here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from planning import goldens

from entrypoint.machines import Box, End, devices, script, uuid
from entrypoint.packages import environment, lay_out, torch
from k8sel import api
from k8sel.bundle import files, zipapp
from k8sel.receipts.collect import collect
from k8sel.receipts.lines import Line

PAGE = Path(__file__).parents[2] / "docs" / "entrypoint.md"
HEAD = "| way | result | shows in |\n|---|---|---|\n"
RIGHT = devices(0, count=3)
WRONG = devices(0, count=4)
EMPTIED = {"K8SEL_CHECK": "", "K8SEL_NODE": "", "K8SEL_TERMINATION_LOG": ""}
CCL = {"accelerator": "cpu", "devices": [], "backend": "ccl"}
Way = Callable[["Image"], None]


@dataclass(frozen=True)
class Image:
    """An image's file system and the machine that its container runs on."""

    box: Box
    folder: Path

    def script(self, *words: str, env: dict[str, str], expect: dict[str, Any] = RIGHT) -> End:
        """Starts the entrypoint by its script, which looks for a python3."""
        command = ["/bin/sh", str(self.box.entrypoint / files.SCRIPT), *(words or ("env",))]
        environ = self.box.environ(expect, env)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        return End(done.returncode, done.stdout, done.stderr, "")

    def production(self, env: dict[str, str]) -> End:
        """Starts the archive of a release, which has no test's root, on this machine."""
        archive = self.folder / files.ARCHIVE
        archive.write_bytes(zipapp.build())
        given = {**self.box.environ(RIGHT, {}), **env}
        environ = {name: value for name, value in given.items() if name != "K8SEL_ROOT" or name in env}
        words = [sys.executable, "-I", "-S", str(archive), "env"]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)
        return End(done.returncode, done.stdout, done.stderr, "")

    def python(self, text: str = "") -> dict[str, str]:
        """Returns a PATH with a ``python3`` of the image: this Python, or the shell program ``text``."""
        program = self.folder / "bin" / "python3"
        program.parent.mkdir()
        if text:
            script(program, text)
        else:
            program.symlink_to(sys.executable)
        return {"PATH": f"{program.parent}:{os.defpath}"}

    def bindings(self, text: str) -> str:
        """Lays out a Python with oneCCL's bindings, whose setvars.sh is ``text``; returns the Python."""
        site = environment(self.folder / "venv", "torch-2.8.0", "oneccl_bind_pt-2.8.0+cpu")
        torch(site)
        lay_out(site / "oneccl_bindings_for_pytorch", {"env/setvars.sh": text})
        return f"{self.folder}/venv/bin/python"


@pytest.fixture
def image(nvml_box: Box, tmp_path: Path) -> Image:
    return Image(nvml_box, tmp_path)


def rendered() -> list[dict[str, str]]:
    """Returns the variables of each container that starts through the entrypoint, in the pods of every case."""
    found: list[dict[str, str]] = []
    for case in goldens.NAMES:
        for item in api.render(goldens.plan(case)):
            specs = item.get("spec", {})
            for replica in {**specs.get("pytorchReplicaSpecs", {}), **specs.get("mpiReplicaSpecs", {})}.values():
                (container,) = replica["template"]["spec"]["containers"]
                entries = {entry["name"]: entry.get("value", "") for entry in container.get("env", ())}
                found += [entries] if "K8SEL_EXPECT" in entries else []
    return found


def root(image: Image) -> None:
    end = image.production({"K8SEL_ROOT": str(image.box.root)})
    assert (end.status, end.out) == (78, "")
    assert end.err.startswith("k8sel: K8SEL_ROOT is set, and the entrypoint ignores it")


def by_hand(image: Image) -> None:
    end = image.box.start(expect=WRONG, env={"K8SEL_COUNT": "3"})
    assert end.message == "k8sel: K8SEL_EXPECT and K8SEL_COUNT are both set: remove one or the other\n"


def expectation(image: Image) -> None:
    assert all(entries["K8SEL_EXPECT"].startswith("{") for entries in rendered())


def empty_in_pods() -> None:
    for entries in rendered():
        assert EMPTIED.items() <= entries.items()


def check(image: Image) -> None:
    empty_in_pods()
    assert image.box.start(expect=WRONG, env=EMPTIED).status == 78
    end = image.box.start(expect=WRONG, env={"K8SEL_CHECK": "off"})
    assert "k8sel: check: off (K8SEL_CHECK overrides enforce of the job)\n" in end.err
    assert (end.receipt["check"], end.receipt["notChecked"]) == ("off", ["devices"])


def node(image: Image) -> None:
    empty_in_pods()
    own = image.box.start(expect=RIGHT, env=EMPTIED).receipt
    assert (own["node"], set(own["variables"])) == (os.uname().nodename, {"K8SEL_ROOT"})
    other = image.box.start(expect=RIGHT, env={"K8SEL_NODE": "first-worker-1"}).receipt
    assert (other["node"], other["variables"]["K8SEL_NODE"]) == ("first-worker-1", "first-worker-1")


def termination_log(image: Image) -> None:
    empty_in_pods()
    log = str(image.folder / "log")
    assert "4 cuda devices expected" in image.box.start(expect=WRONG, env={"K8SEL_TERMINATION_LOG": log}).err
    shown = image.box.start(expect=RIGHT, env={"K8SEL_TERMINATION_LOG": log}).receipt["variables"]
    assert shown["K8SEL_TERMINATION_LOG"] == log


def another_variable(image: Image) -> None:
    assert image.box.start(expect=RIGHT, env={"K8SEL_NEW": "1"}).receipt["variables"]["K8SEL_NEW"] == "1"


def library(image: Image) -> None:
    end = image.production({"LD_LIBRARY_PATH": str(image.box.root / "lib")})
    file = (image.box.root / "lib" / "libnvidia-ml.so.1").resolve()
    assert (end.status, end.receipt["how"]) == (0, "NVML"), end.err
    assert end.receipt["library"] == {"path": str(file), "sha256": sha256(file.read_bytes()).hexdigest()}
    assert image.box.start(expect=RIGHT).receipt["library"]["path"] == str(file)


def preload(image: Image) -> None:
    file = str((image.box.root / "lib" / "libnvidia-ml.so.1").resolve())
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        assert image.box.start(expect=RIGHT, env={name: file}).receipt["preloaded"] == [file]


def preload_file(image: Image) -> None:
    image.box.write("etc/ld.so.preload", "/opt/fake.so\n/opt/other.so\n")
    assert image.box.start(expect=RIGHT).receipt["preloaded"] == ["/opt/fake.so", "/opt/other.so"]


def another_python(image: Image) -> None:
    found = image.script(env=image.python()).receipt
    assert (found["pythonPath"], found["isolated"]) == (os.path.realpath(sys.executable), True)


def python_variables(image: Image) -> None:
    shadow = "import os\nos.write(2, b'shadowed')\nos._exit(0)\n"
    names = ("sitecustomize.py", "usercustomize.py", "ctypes.py", "start.py", "k8sel/__init__.py")
    lay_out(image.folder / "shadow", dict.fromkeys(names, shadow))
    env = {"PYTHONPATH": str(image.folder / "shadow"), "PYTHONHOME": "/nowhere", "PYTHONSTARTUP": "/nowhere"}
    end = image.script(env={**image.python(), **env})
    assert (end.status, "shadowed" in end.err, end.receipt["isolated"]) == (0, False, True)


def image_mode(image: Image) -> None:
    program = image.folder / "k8sel-entrypoint"
    program.write_text(
        f"#!{sys.executable}\nfrom k8sel.entrypoint.__main__ import main\nmain(root={str(image.box.root)!r})\n"
    )
    program.chmod(0o755)
    env = image.box.environ(RIGHT, {})
    del env["K8SEL_ROOT"]
    done = subprocess.run([str(program), "env"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert End(done.returncode, done.stdout, done.stderr, "").receipt["isolated"] is False


def setvars(image: Image) -> None:
    python = image.bindings("export FOUND=1 K8SEL_EXPECT='{}' K8SEL_CHECK=off; unset K8SEL_NODE")
    end = image.box.start(
        "--",
        "/usr/bin/env",
        "sh",
        "-c",
        f"env; : {python}",
        expect=CCL,
        env={"PATH": f"{Path(python).parent}:/usr/bin:/bin"},
    )
    assert (end.env["FOUND"], end.env["K8SEL_NODE"], "K8SEL_CHECK" in end.env) == ("1", "box", False)
    assert json.loads(end.env["K8SEL_EXPECT"])["backend"] == "ccl"


def bash(image: Image) -> None:
    python = image.bindings("export FOUND=1")
    lay_out(image.folder, {"rc": "exit 0"})
    hostile = {
        "BASH_ENV": str(image.folder / "rc"),
        "SHELLOPTS": "noexec",
        "CDPATH": "/",
        "BASH_FUNC_exec%%": "() { :; }",
        "BASH_FUNC_env%%": "() { :; }",
    }
    end = image.box.start(
        "--", "/usr/bin/env", expect=CCL, env={"PATH": f"{Path(python).parent}:/usr/bin:/bin", **hostile}
    )
    assert end.env["FOUND"] == "1"
    assert hostile.items() <= end.env.items()


def environ_file(image: Image) -> None:
    file = image.folder / "environ"
    file.write_bytes(b"CUDA_VISIBLE_DEVICES=1\0")
    file.chmod(0o644)
    link, pipe = image.folder / "link", image.folder / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    for path in (file, link, pipe):
        end = image.box.start(expect=RIGHT, env={"K8SEL_ENVIRON": str(path)})
        assert end.mask == uuid(2)
        assert f"k8sel: {path} is not a private file of this user, and is not read" in end.err
    file.chmod(0o600)
    assert image.box.start(expect=RIGHT, env={"K8SEL_ENVIRON": str(file)}).status == 78  # another mask is set


def forged(image: Image) -> None:
    text = image.box.start(expect=RIGHT).err.splitlines()[-1]
    end = image.script(env=image.python(f"echo '{text}' >&2"), expect=WRONG)
    found = collect([Line(text=line) for line in end.err.splitlines()])
    assert found is not None
    assert (end.status, found.notes()) == (0, [])


def own_mask(image: Image) -> None:
    end = image.box.start("/bin/sh", "-c", "CUDA_VISIBLE_DEVICES=1; env", expect=RIGHT)
    assert (end.mask, end.receipt["mask"]["CUDA_VISIBLE_DEVICES"]) == ("1", uuid(2))


WAYS: dict[str, Way] = {
    "`ENV K8SEL_ROOT`": root,
    "`ENV K8SEL_COUNT`, or another variable by hand": by_hand,
    "`ENV K8SEL_EXPECT`": expectation,
    "`ENV K8SEL_CHECK=off`": check,
    "`ENV K8SEL_NODE`": node,
    "`ENV K8SEL_TERMINATION_LOG`": termination_log,
    "another `K8SEL_` variable": another_variable,
    "a `libnvidia-ml.so.1` in LD_LIBRARY_PATH or a folder of the loader": library,
    "`ENV LD_PRELOAD` or `LD_AUDIT`": preload,
    "`/etc/ld.so.preload`": preload_file,
    "another `python3` first on PATH": another_python,
    "PYTHONPATH, PYTHONHOME, `sitecustomize`": python_variables,
    "the same with `entrypoint.mode: image`": image_mode,
    "a `setvars.sh` that exports `K8SEL_` variables": setvars,
    "BASH_ENV, SHELLOPTS or functions for the bash of `setvars.sh`": bash,
    "a file for `K8SEL_ENVIRON` that another user can write or read": environ_file,
    "`python3`, `/bin/sh` or `k8sel-entrypoint` is a program that prints a receipt": forged,
    "the program changes its own mask": own_mask,
}


def rows() -> list[str]:
    """Returns the first cell of each row of the table."""
    table = PAGE.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]


def test_each_row_of_the_table_has_a_test() -> None:
    assert rows() == list(WAYS)


@pytest.mark.parametrize("way", rows())
def test_a_way_around_the_check(way: str, image: Image) -> None:
    WAYS[way](image)


@pytest.mark.parametrize("isolation", ["node", "process"])
def test_receipts_of_a_node_and_its_ranks_agree(isolation: str, nvml_box: Box) -> None:
    """As under torchrun, whose processes start in the environment of the node; one of them starts twice."""
    expect = devices(2, 0, launcher="torchrun", processesPerNode=2, isolation=isolation, job="first", rankCommand=1)
    node = nvml_box.start(expect=expect)
    printed = [node.err]
    for local in ("0", "1", "1"):
        torchrun = {"LOCAL_RANK": local, "LOCAL_WORLD_SIZE": "2", "RANK": local, "WORLD_SIZE": "2"}
        env = {**node.env, **torchrun, "TORCHELASTIC_RUN_ID": "none"}
        printed.append(nvml_box.start("rank", "--", "env", expect=expect, env=env).err)
    found = collect(Line(text=line) for line in "".join(printed).split("\n"))
    assert found is not None
    assert ([each.rank for each in found.processes], found.contradictions) == ([0, 1], ())
    assert found.notes() == ["node box was started 2 times: the last one is shown"]
