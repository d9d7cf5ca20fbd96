"""A release from its install to its end, by the real helm on the test cluster: the table in the chart's README."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.client import Cluster, Completed, await_
from helm.rendering import CHART

pytestmark = pytest.mark.cluster

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of one namespace."""

    helm: Path
    cluster: Cluster
    namespace: str

    def run(self, *arguments: str | Path, file: str | None = None, check: bool = True) -> Completed:
        """A helm that has ended; ``file``: the job file."""
        values = ("-f", "-") if file is not None else ()
        return self.cluster.run(self.helm, "-n", self.namespace, *arguments, *values, input=file, check=check)

    def install(self, release: str, file: str, check: bool = True) -> Completed:
        """`helm install`."""
        return self.run("install", release, CHART, file=file, check=check)

    def upgrade(self, release: str, file: str, check: bool = True) -> Completed:
        """`helm upgrade`."""
        return self.run("upgrade", release, CHART, file=file, check=check)

    def job(self, name: str, kind: str = "pytorchjob") -> dict[str, Any]:
        """The job's object."""
        return self.cluster.get(kind, name, "-n", self.namespace)

    def names(self, kind: str) -> set[str]:
        """The names of a kind's objects; without the namespace's own ConfigMap."""
        items = self.cluster.get(kind, "-n", self.namespace)["items"]
        return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}

    def end(self, name: str, kind: str = "pytorchjob") -> str:
        """Waits for the end of the job, and returns its last condition."""

        def ended() -> str | None:
            conditions = self.job(name, kind).get("status", {}).get("conditions", [])
            true = [each["type"] for each in conditions if each["status"] == "True"]
            return next((each for each in true if each in ENDED), None)

        return str(await_(ended, timeout=120, what=f"end of {name}"))


@pytest.fixture
def releases(helm: Path, cluster: Cluster, namespace: str) -> Releases:
    """Those of the test's own namespace."""
    return Releases(helm, cluster, namespace)


def job_file(name: str | None = None, **spec: Any) -> str:  # noqa: ANN401  # a job file's fields are of any type
    """A job of a second on one node, without devices; ``spec`` adds to it and overrides it."""
    fields = {
        "image": "docker.io/box/base:1",
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", "print('trained')"],
        "launcher": "python",
        "accelerator": {"type": "cpu"},
        **spec,
    }
    metadata = {"metadata": {"name": name}} if name else {}
    return json.dumps({"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", **metadata, "spec": fields})


def test_a_job_runs_to_its_end_and_goes_with_its_release(releases: Releases) -> None:
    notes = releases.install("train", job_file("first", policy={"cleanPodPolicy": "None"})).stdout
    assert "PyTorchJob first is made" in notes
    assert releases.end("first") == "Succeeded"
    assert "trained" in releases.cluster.k8sel("logs", "--no-follow", "first", "-n", releases.namespace).stdout
    metadata = releases.job("first")["metadata"]
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert metadata["annotations"]["meta.helm.sh/release-name"] == "train"

    releases.run("uninstall", "train", "--wait")

    await_(lambda: not releases.names("pods"), what="end of the pods")
    assert releases.names("pytorchjobs") | releases.names("configmaps") == set()


def test_an_mpi_job_runs_to_its_end(releases: Releases) -> None:
    command = ["python3", "-c", "import os; print('rank', os.environ['RANK'])"]
    releases.install("rings", job_file(launcher="mpirun", nodes=2, command=command))

    assert releases.end("rings", "mpijob") == "Succeeded"


@pytest.mark.usefixtures("gpus")
def test_a_missing_device_fails_with_the_entrypoints_message(releases: Releases) -> None:
    with releases.cluster.broken("next"):
        releases.install("short", job_file(accelerator={"type": "cuda", "count": 2}))
        assert releases.end("short") == "Failed"
    status = releases.cluster.k8sel("status", "short", "-n", releases.namespace).stdout

    assert "2 cuda devices expected, 1 found" in " ".join(status.split())


@pytest.mark.usefixtures("gpus")
def test_helm_test_checks_a_nodes_devices(releases: Releases) -> None:
    releases.install("checked", job_file(accelerator={"type": "cuda", "count": 2}))
    assert releases.end("checked") == "Succeeded"

    assert "Phase:          Succeeded" in releases.run("test", "checked").stdout
    with releases.cluster.broken("next"):
        failed = releases.run("test", "checked", "--logs", check=False)
    assert failed.returncode != 0
    assert "2 cuda devices expected, 1 found" in failed.stdout + failed.stderr


def test_an_upgrade_with_the_same_file_changes_nothing(releases: Releases) -> None:
    releases.install("same", job_file())
    assert releases.end("same") == "Succeeded"
    before = releases.job("same")["metadata"]

    releases.upgrade("same", job_file())

    after = releases.job("same")["metadata"]
    assert (after["uid"], after["generation"]) == (before["uid"], before["generation"])


def test_an_upgrade_of_a_job_that_exists_is_refused(releases: Releases) -> None:
    releases.install("kept", job_file())
    before = releases.job("kept")["spec"]

    refused = releases.upgrade("kept", job_file(command=["python3", "-c", "print('other')"]), check=False)

    assert refused.returncode != 0
    assert (
        "PyTorchJob kept exists, and the training-operator does not change a job's pods once it is made"
        in refused.stderr
    )
    assert f"helm uninstall -n {releases.namespace} kept, then install again" in refused.stderr
    assert releases.job("kept")["spec"] == before


def test_an_upgrade_with_another_entrypoint_is_refused_too(releases: Releases, tmp_path: Path) -> None:
    newer = shutil.copytree(CHART, tmp_path / "k8sel")
    script = newer / "files" / "entrypoint.sh"
    script.write_text(script.read_text() + "# newer\n")
    releases.install("kept", job_file())

    refused = releases.run("upgrade", "kept", newer, file=job_file(), check=False)

    assert refused.returncode != 0
    assert "PyTorchJob kept exists" in refused.stderr


def test_an_upgrade_of_a_job_that_is_gone_makes_the_new_one(releases: Releases) -> None:
    releases.install("again", job_file())
    assert releases.end("again") == "Succeeded"
    releases.cluster.kubectl("delete", "pytorchjob", "again", "-n", releases.namespace)

    releases.upgrade("again", job_file(command=["python3", "-c", "print('other')"]))

    assert releases.end("again") == "Succeeded"
    assert "other" in releases.cluster.k8sel("logs", "--no-follow", "again", "-n", releases.namespace).stdout


def test_a_rollback_under_the_same_name_leaves_the_pods_alone(releases: Releases) -> None:
    keep = {"cleanPodPolicy": "None"}
    releases.install("again", job_file(policy=keep))
    assert releases.end("again") == "Succeeded"
    releases.cluster.kubectl("delete", "pytorchjob", "again", "-n", releases.namespace)
    releases.upgrade("again", job_file(policy=keep, command=["python3", "-c", "print('other')"]))
    assert releases.end("again") == "Succeeded"

    releases.run("rollback", "again", "1")

    assert "other" in releases.cluster.k8sel("logs", "--no-follow", "again", "-n", releases.namespace).stdout


def test_another_name_is_another_job_and_a_rollback_brings_the_first_one_back(releases: Releases) -> None:
    releases.install("moved", job_file("one"))
    releases.upgrade("moved", job_file("two"))
    assert releases.names("pytorchjobs") == {"two"}

    releases.run("rollback", "moved", "1")

    assert releases.end("one") == "Succeeded"
    assert releases.names("pytorchjobs") == {"one"}


def test_two_releases_are_two_jobs_and_do_not_share_one(releases: Releases) -> None:
    releases.install("left", job_file())
    releases.install("right", job_file())
    third = releases.install("third", job_file("left"), check=False)

    assert {releases.end("left"), releases.end("right")} == {"Succeeded"}
    assert third.returncode != 0
    releases.run("uninstall", "left", "--wait")
    assert releases.names("pytorchjobs") == {"right"}


def test_the_longest_release_name_is_a_jobs_name(releases: Releases) -> None:
    name = "a" * 53
    releases.install(name, job_file(nodes=2))

    assert releases.end(name) == "Succeeded"
