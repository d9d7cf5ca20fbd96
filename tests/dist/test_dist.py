"""Tests each part that `make dist` makes, without the rest of k8sel."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from entrypoint.test_zipapp import PYTHONS
from helm.rendering import CHART, comparable, rendered

from dist.building import ROOT, builder
from k8sel import __version__
from k8sel.jobfile import yamlio
from k8sel.bundle import zipapp

pytestmark = pytest.mark.xdist_group("dist")

EXAMPLE = ROOT / "examples" / "ordered-torchrun.yaml"
WHEEL, SDIST = f"k8sel-{__version__}-py3-none-any.whl", f"k8sel-{__version__}.tar.gz"
CHART_FILE, ARCHIVE = f"k8sel-{__version__}.tgz", "entrypoint.pyz"
BILL = f"k8sel-{__version__}.cdx.json"
TIME = 1_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the one build."""
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, and what it says that it needs."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    install(folder / "bin", "--require-hashes", "-r", ROOT / "constraints.txt")
    install(folder / "bin", "--no-deps", made / WHEEL)
    done = run(folder / "bin" / "python", "-m", "pip", "check")
    assert (done.returncode, done.stdout) == (0, "No broken requirements found.\n")
    return folder / "bin"


def built(out: Path, **env: str) -> Path:
    """Builds the release in ``out`` with these variables, and returns the folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SOURCE_DATE_EPOCH": str(TIME), **env}.items():
            patch.setenv(name, value)
        builder().build(out)
    return out


def install(programs: Path, *words: str | Path) -> None:
    pip = ("-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check")
    done = subprocess.run([programs / "python", *pip, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Far from the sources, and without their path."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=False)


def expected() -> str:
    """Returns the rendering of the sources."""
    return yamlio.dump(rendered(EXAMPLE.read_text()))


def test_another_persons_build_gives_equal_bytes(made: Path, tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        built(tmp_path, TZ="Pacific/Auckland", LC_ALL="C")
    finally:
        os.umask(mask)
    names = {WHEEL, SDIST, CHART_FILE, ARCHIVE, BILL, "SECURITY.md", "SHA256SUMS"}
    assert {file.name for file in made.iterdir()} == {file.name for file in tmp_path.iterdir()} == names
    assert [name for name in names if (made / name).read_bytes() != (tmp_path / name).read_bytes()] == []
    for line in (made / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert digest == hashlib.sha256((made / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("program", ["k8sel", "kubectl-k8sel"])
def test_the_wheel_renders(installed: Path, program: str) -> None:
    done = run(installed / program, "render", "-q", EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected()
    assert run(installed / program, "--version").stdout == f"k8sel {__version__}\n"


def test_the_wheel_says_all_that_it_needs(installed: Path) -> None:
    done = run(installed / "k8sel", "status", "none", "--context", "none")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)  # the cluster's client is there
    done = run(installed / "k8sel-entrypoint", "--help")
    assert (done.returncode, "K8SEL_DEVICES" in done.stdout) == (0, True)


def test_the_bill_of_materials_has_what_the_wheel_needs(made: Path, installed: Path) -> None:
    """Each component is a pin of constraints.txt, and the wheel imports with no other package."""
    bill = json.loads((made / BILL).read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2001-09-09T01:46:40Z"
    assert bill["metadata"]["component"]["version"] == __version__
    listed = {each["name"]: each["version"] for each in bill["components"]}
    pinned = dict(re.findall(r"^(\S+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert listed.keys() >= {"kubernetes", "docker", "msgspec", "pyyaml", "typer"}
    assert not listed.keys() & {"pytest", "mypy", "k8sel"}
    assert {name: version for name, version in listed.items() if pinned[name] != version} == {}
    refs = {each["bom-ref"] for each in (*bill["components"], bill["metadata"]["component"])}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} < refs


def test_the_images_get_what_the_wheel_needs_and_no_more(made: Path, tmp_path: Path) -> None:
    builder().install(made / WHEEL, tmp_path / "site", tmp_path / "pins.txt")
    found = {each.metadata["Name"].lower() for each in distributions(path=[str(tmp_path / "site")])}
    assert {"k8sel", "kubernetes", "docker"} <= found
    assert not found & {"pytest", "mypy", "ruff"}


def test_every_pin_has_hashes() -> None:
    blocks = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text().strip())[2:]
    assert len(blocks) > 60
    assert [block.split()[0] for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []


def test_the_images_base_is_named_by_its_digest() -> None:
    bases = re.findall(r"^(?:ARG BASE=|FROM )(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert [base for base in bases if base != "${BASE}" and not re.search("@sha256:[0-9a-f]{64}$", base)] == []
    assert len(bases) > 3


def test_the_sdist_renders_too(made: Path, installed: Path) -> None:
    install(installed, "--force-reinstall", "--no-deps", "--no-build-isolation", made / SDIST)
    assert run(installed / "k8sel", "render", "-q", EXAMPLE).stdout == expected()


def test_files_have_the_time_that_is_given(made: Path) -> None:
    for name in (SDIST, CHART_FILE):
        with tarfile.open(made / name) as archive:
            assert {member.mtime for member in archive} == {TIME}
    with zipfile.ZipFile(made / WHEEL) as wheel:
        assert {entry.date_time for entry in wheel.infolist()} == {(2001, 9, 9, 1, 46, 40)}


def test_neither_has_anything_beside_the_package(made: Path) -> None:
    with zipfile.ZipFile(made / WHEEL) as wheel:
        assert {name.split("/")[0] for name in wheel.namelist()} == {"k8sel", f"k8sel-{__version__}.dist-info"}
    with tarfile.open(made / SDIST) as sdist:
        folders = {name.split("/")[1] for name in sdist.getnames() if name.count("/") > 1}
    assert folders == {"k8sel", "k8sel.egg-info"}


@pytest.mark.parametrize("version", PYTHONS)
def test_the_zipapp_runs_on(made: Path, version: str) -> None:
    done = run(PYTHONS[version], made / ARCHIVE, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "K8SEL_DEVICES" in done.stdout


def test_every_part_has_the_same_zipapp(made: Path) -> None:
    archive = (made / ARCHIVE).read_bytes()
    with zipfile.ZipFile(made / WHEEL) as wheel:
        assert wheel.read("k8sel/bundle/entrypoint.pyz") == archive
    with tarfile.open(made / CHART_FILE) as chart:
        packed = chart.extractfile("k8sel/files/entrypoint.pyz")
        assert packed is not None
        assert packed.read() == archive
    assert archive == zipapp.build()


def test_the_packed_chart_is_the_folder(made: Path, helm: Path) -> None:
    linted = run(helm, "lint", "--strict", made / CHART_FILE, "-f", EXAMPLE)
    assert (linted.returncode, linted.stderr) == (0, "")
    packed, folder = (
        run(helm, "template", "release", chart, "-f", EXAMPLE, "--skip-tests") for chart in (made / CHART_FILE, CHART)
    )
    assert packed.stderr == ""
    assert comparable(list(yaml.safe_load_all(packed.stdout))) == comparable(list(yaml.safe_load_all(folder.stdout)))
    assert list(yaml.safe_load_all(packed.stdout)) == rendered(EXAMPLE.read_text())


def test_helm_finds_the_same_files_in_it_as_it_would_pack(made: Path, helm: Path, tmp_path: Path) -> None:
    done = run(helm, "package", CHART, "-d", tmp_path)
    assert done.returncode == 0, done.stderr
    with tarfile.open(made / CHART_FILE) as ours, tarfile.open(tmp_path / CHART_FILE) as theirs:
        assert sorted(ours.getnames()) == sorted(theirs.getnames())


def test_outside_of_a_clone_it_says_so(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "release", tmp_path / "release")
    done = subprocess.run(
        [sys.executable, tmp_path / "release" / "build.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "release/build.py: git does not list the sources: run it in a clone of the repository\n"
