"""The commands on the test cluster: what a person sees, and the exit status that a script gets."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from cluster.client import Cluster as Box
from cluster.client import await_

pytestmark = pytest.mark.cluster

K8SEL = (sys.executable, "-m", "k8sel")


@pytest.fixture
def job(tmp_path: Path, namespace: str) -> Path:
    return write(tmp_path / "job.yaml", namespace, "echo from the job")


def write(path: Path, namespace: str, script: str) -> Path:
    path.write_text(
        f"""\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {{name: shown, namespace: {namespace}}}
spec:
  image: box/base:1
  command: [bash, -c, {script!r}]
  launcher: python
  accelerator: {{type: cpu}}
"""
    )
    return path


def test_a_job_from_apply_to_delete(cluster: Box, namespace: str, job: Path) -> None:
    done = cluster.k8sel("apply", "--wait", "--timeout", "60", str(job))
    assert f"PyTorchJob {namespace}/shown created\n" in done.stdout
    again = cluster.k8sel("apply", str(job))
    assert again.stdout.count("unchanged") == 2
    way = f"k8sel delete shown -n {namespace}, then apply"
    assert f"k8sel: the job has ended (Succeeded) and does not start again: {way}\n" in again.stderr
    assert "shown-master-0 | from the job\n" in cluster.k8sel("logs", str(job)).stdout
    assert "Succeeded" in cluster.k8sel("status", "shown", "-n", namespace).stdout
    for name in ("shown", str(job)):
        receipt = cluster.k8sel("receipt", name, "-n", namespace)
        assert (receipt.stderr, receipt.stdout.splitlines()[1].split()[:3]) == ("", ["shown-master-0", "0", "0"])
    assert f"PyTorchJob {namespace}/shown deleted" in cluster.k8sel("delete", str(job)).stdout
    gone = cluster.k8sel("status", "shown", "-n", namespace, check=False)
    assert gone.returncode == 1
    assert f"no PyTorchJob or MPIJob named shown in namespace {namespace}" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_a_failed_job_is_status_1_and_an_unfinished_one_124(cluster: Box, namespace: str, tmp_path: Path) -> None:
    failing = write(tmp_path / "failing.yaml", namespace, "echo no good >&2; exit 3")
    done = cluster.k8sel("apply", "--wait", str(failing), check=False)
    assert (done.returncode, "no good" in done.stderr) == (1, True)
    cluster.k8sel("delete", str(failing))
    await_(lambda: not cluster.get("pytorchjobs", "-n", namespace)["items"], what="end of the job")
    endless = write(tmp_path / "endless.yaml", namespace, "sleep 600")
    done = cluster.k8sel("apply", "--wait", "--timeout", "2", str(endless), check=False)
    assert done.returncode == 124


def test_a_changed_job_is_refused_at_the_line_that_changed(cluster: Box, namespace: str, job: Path) -> None:
    cluster.k8sel("apply", str(job))
    job.write_text(job.read_text().replace("box/base:1", "other:2"))
    done = cluster.k8sel("apply", str(job), check=False)
    assert done.returncode == 1
    assert f"{job}:5:10: spec.image: forbidden: differs from the job on the cluster" in done.stderr
    assert f"k8sel delete -n {namespace} shown" in done.stderr


def test_a_change_of_the_object_alone_is_no_change_of_the_pods(cluster: Box, namespace: str, job: Path) -> None:
    cluster.k8sel("apply", "--wait", "--timeout", "60", str(job))
    text = job.read_text()
    job.write_text(
        text.replace("metadata: {", "metadata: {annotations: {who: me}, ")
        + "  policy: {ttlSecondsAfterFinished: 900}\n"
    )
    assert f"PyTorchJob {namespace}/shown configured\n" in cluster.k8sel("apply", str(job)).stdout
    live = cluster.get("pytorchjob", "shown", "-n", namespace)
    assert (live["metadata"]["annotations"]["who"], live["spec"]["runPolicy"]["ttlSecondsAfterFinished"]) == ("me", 900)
    job.write_text(text.replace("box/base:1", "other:2"))
    refused = cluster.k8sel("apply", "-q", str(job), check=False)
    assert [line.split(": ")[1] for line in refused.stderr.splitlines() if "differs" in line] == ["spec.image"]


def _connected(pid: int) -> bool:
    return any(str(file.readlink()).startswith("socket:") for file in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize("command", ["apply --wait", "logs"])
def test_ctrl_c_ends_it_at_once(cluster: Box, namespace: str, tmp_path: Path, command: str) -> None:
    job = write(tmp_path / "job.yaml", namespace, "sleep 600")
    cluster.k8sel("apply", str(job))
    client = cluster.start(*K8SEL, *command.split(), str(job))
    await_(lambda: _connected(client.pid), what="its connection to the server")
    client.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = client.communicate(timeout=20)
    assert time.monotonic() - began < 3
    assert client.returncode == 130
    assert "Traceback" not in errors
