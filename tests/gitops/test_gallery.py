"""manifests/ is what today's k8sel makes of its job files, and a cluster takes and runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from scripts import loaded

from cluster.client import Cluster, await_
from k8sel import api
from k8sel.bundle import files

ROOT = Path(__file__).parents[2]
GALLERY, COMPONENT = ROOT / "manifests", ROOT / "charts" / "k8sel" / "files"
FOLDERS = sorted(file.parent.name for file in GALLERY.glob("*/job.yaml"))
HINT = "run: python manifests/generate.py"


def generator() -> ModuleType:
    """manifests/generate.py, which is in no package."""
    return loaded("manifests/generate.py")


def test_generated_files_are_current() -> None:
    written = generator().files()
    assert [name for name, content in written.items() if (GALLERY / name).read_bytes() != content] == [], HINT
    there = {str(file.relative_to(GALLERY)) for file in GALLERY.rglob("*") if file.is_file()}
    own = {"generate.py", "rbac/viewer.yaml", "rbac/submitter.yaml", *(f"{name}/job.yaml" for name in FOLDERS)}
    assert {name for name in there if "__pycache__" not in name} == own | {name for name in written if name[:2] != ".."}


def test_the_entrypoint_is_committed_once() -> None:
    copies = [file for folder in ("charts", "manifests") for file in (ROOT / folder).rglob("*.pyz")]
    assert copies == [COMPONENT / files.ARCHIVE]


def copied(folder: Path) -> Path:
    """A copy of manifests/ in ``folder``, with the component that each of its folders takes from the chart."""
    shutil.copytree(COMPONENT, folder / COMPONENT.relative_to(ROOT))
    return shutil.copytree(GALLERY, folder / "manifests")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_called_as_its_job_and_its_page_has_five_lines(name: str) -> None:
    page = (GALLERY / name / "README.md").read_text()
    assert yaml.safe_load((GALLERY / name / "job.yaml").read_text())["metadata"]["name"] == name
    assert len(page.splitlines()) == 5
    assert f"| [{name}]({name}) |" in (GALLERY / "README.md").read_text()


@pytest.mark.parametrize("name", FOLDERS)
def test_kustomize_makes_of_a_folder_what_render_makes_of_its_job_file(kustomize: Path, name: str) -> None:
    done = subprocess.run([kustomize, "build", GALLERY / name], capture_output=True, text=True, check=True)
    config_map, job = yaml.safe_load_all(done.stdout)
    (loaded,) = api.load((GALLERY / name / "job.yaml").read_bytes(), "job.yaml")
    own_map, own = api.render(api.plan(loaded))
    own_name, shared = own_map["metadata"]["name"], config_map["metadata"]["name"]
    assert json.dumps(own).count(own_name) == json.dumps(job).count(shared) > 0
    assert job == json.loads(json.dumps(own).replace(own_name, shared))
    assert config_map["data"] == own_map["data"]
    archive = b64decode(config_map["binaryData"][files.ARCHIVE])
    assert (config_map["immutable"], archive) == (True, (COMPONENT / files.ARCHIVE).read_bytes())


def test_the_config_maps_name_changes_with_its_content(kustomize: Path, tmp_path: Path) -> None:
    copy = copied(tmp_path)

    def named() -> set[str]:
        done = subprocess.run([kustomize, "build", copy / "mpi-on-cpu"], capture_output=True, text=True, check=True)
        return set(re.findall(r"k8sel-entrypoint\S*", done.stdout))

    before = named()
    (tmp_path / COMPONENT.relative_to(ROOT) / "entrypoint.sh").write_text("#!/bin/sh\n")
    assert len(before) == len(named()) == 1
    assert before != named()


@pytest.mark.cluster
@pytest.mark.parametrize("name", FOLDERS)
def test_the_server_accepts_every_folder_strictly(cluster: Cluster, namespace: str, name: str) -> None:
    strict = ("--dry-run=server", "--validate=strict", "-n", namespace)
    done = cluster.kubectl("apply", "-k", str(GALLERY / name), *strict)
    assert done.stdout.count(" created (server dry run)\n") == 2
    assert done.stderr == ""


@pytest.mark.cluster
def test_a_folder_runs_to_its_end_and_its_entrypoint_checks(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    copy = copied(tmp_path) / "no-accelerator"
    job = yaml.safe_load((copy / "pytorchjob.yaml").read_text())
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    container.update(image=cluster.images.base, command=[*container["command"][:3], "true"], resources={})
    (copy / "pytorchjob.yaml").write_text(yaml.safe_dump(job))
    cluster.kubectl("apply", "-k", str(copy), "-n", namespace)

    def ended() -> str:
        conditions = (
            cluster.get("pytorchjob", "no-accelerator", "-n", namespace).get("status", {}).get("conditions", [])
        )
        return next((each["type"] for each in conditions if each["type"] in ("Succeeded", "Failed")), "")

    assert await_(ended, 90, "end of the job") == "Succeeded"
    logs = cluster.kubectl("logs", "no-accelerator-master-0", "-n", namespace).stdout
    assert "k8sel: node no-accelerator-master-0: local rank 0 -> no device; " in logs
