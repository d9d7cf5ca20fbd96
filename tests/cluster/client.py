"""The tests' view of the test cluster: runs clients, makes namespaces, breaks devices, stops components."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cluster import machine
from cluster.machine import NODE_ADDRESS

Result = TypeVar("Result")
Completed = subprocess.CompletedProcess[str]

CHECKPOINT = Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")


def await_(condition: Callable[[], Result], timeout: float = 60, what: str = "condition") -> Result:
    """The condition's first true value; a failure that names it when there is none in time."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {timeout:g} s")
        time.sleep(0.2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """The images that the node has."""

    base: str = "box/base:1"  # Python 3.11, torch, Open MPI 4, SSH
    nopython: str = "box/nopython:1"  # a shell and nothing else


@dataclass(frozen=True, slots=True)
class Cluster:
    """The running test cluster."""

    kubeconfig: Path
    images: Images = Images()
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def environment(self) -> dict[str, str]:
        """A client's environment: this cluster, and no proxy in between."""
        path = f"{machine.CACHE / 'bin'}:{os.environ['PATH']}"
        direct = {"NO_PROXY": NODE_ADDRESS, "no_proxy": NODE_ADDRESS}
        return {**os.environ, **direct, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def run(self, *argv: str | Path, check: bool = True, input: str | None = None, timeout: float = 120) -> Completed:
        """Runs a client command to its end; a failure shows all that it printed."""
        done = subprocess.run(
            argv, input=input, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            shown = " ".join(map(str, argv))
            raise AssertionError(f"{shown}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def start(self, *argv: str | Path) -> subprocess.Popen[str]:
        """Starts a client command that runs beside the test; the caller ends it."""
        return subprocess.Popen(
            argv,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def kubectl(self, *arguments: str, check: bool = True, input: str | None = None, timeout: float = 120) -> Completed:
        """Runs the cluster's own kubectl."""
        kubectl = machine.CACHE / "bin" / "kubectl"
        return self.run(kubectl, *arguments, check=check, input=input, timeout=timeout)

    def k8sel(self, *arguments: str, check: bool = True, input: str | None = None, timeout: float = 120) -> Completed:
        """Runs the k8sel under test."""
        return self.run(sys.executable, "-m", "k8sel", *arguments, check=check, input=input, timeout=timeout)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies plain objects."""
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, *arguments: str) -> dict[str, Any]:
        """Returns the output of `kubectl get`, as JSON."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "-o", "json", *arguments).stdout)
        return found

    @contextmanager
    def namespace(self, **labels: str) -> Iterator[str]:
        """A fresh namespace, deleted afterwards with all that is in it."""
        name = f"test-{os.getpid()}-{next(self.numbers)}"
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        await_(lambda: self._has_account(name), what=f"service account in {name}")
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def _has_account(self, namespace: str) -> bool:
        return not self.kubectl("get", "serviceaccount", "default", "-n", namespace, check=False).returncode

    @contextmanager
    def broken(self, device: int | str) -> Iterator[None]:
        """The plugin promises this GPU and does not hand it over; "next": the next container's first, once.

        Needs the fixture `gpus`: the setting is the whole cluster's.
        """
        setting = machine.RUN / "broken"
        setting.write_text(str(device))
        try:
            yield
        finally:
            setting.write_text("")

    @contextmanager
    def without(self, component: str) -> Iterator[None]:
        """A component is stopped for a while (`training-operator`: its webhook stays registered, unanswered).

        Needs the fixture `alone`: everybody misses it.
        """
        machine.script("component", "stop", component)
        try:
            yield
        finally:
            self.restart(component)

    def restart(self, component: str) -> None:
        """Starts a component again, and waits until it can do its work; it may be running or not."""
        if component == "mpi-operator":
            await_(lambda: not self.kubectl("get", "mpijobs", "-A", check=False).returncode, what="MPIJob's CRD")
            self.kubectl(
                "delete", "lease", component, "-n", "default", "--ignore-not-found"
            )  # else it waits for its own
        machine.script("component", "start", component)
        if component == "training-operator":
            await_(self._webhook_answers, what="training-operator's webhook")

    def _webhook_answers(self) -> bool:
        probe = f"exec 3<> /dev/tcp/{NODE_ADDRESS}/9443"
        return not self.run("bash", "-c", probe, check=False).returncode

    def allotted(self, namespace: str, pod: str) -> list[str]:
        """The ids of the GPUs that the kubelet gave to a pod, as long as the pod runs; sorted."""
        uid = self.get("pod", pod, "-n", namespace)["metadata"]["uid"]
        entries = json.loads(CHECKPOINT.read_text())["Data"]["PodDeviceEntries"] or []
        ids = [entry["DeviceIDs"] for entry in entries if entry["PodUID"] == uid]
        return sorted(device for numa in ids for devices in numa.values() for device in devices)

    def gpus_in_use(self) -> int:
        """Returns the number of GPUs that pods request which have not ended."""
        pods = self.get("pods", "-A")["items"]
        live = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        containers = [container for pod in live for container in pod["spec"]["containers"]]
        return sum(int(c.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)) for c in containers)
