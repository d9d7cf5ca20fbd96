"""Traps of pods: shared memory, restarts and clean-up, networks."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.adopt.manifest.reader import Container, Manifest, dig, listing, mapping, number
from k8sel.audit.launching import training
from k8sel.audit.trap import Found, trap

_COMMON = "kubeflow/trainer release-1.9 pkg/controller.v1/common/pod.go"
_AGENT = "pytorch/pytorch torch/distributed/run.py"
_DEFAULTS = "kubernetes/kubernetes pkg/apis/core/v1/defaults.go"
_STARTERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "mpiexec.hydra")
_FIXED_PORT = {"PyTorchJob": "23456, the group's", "MPIJob": "sshd's"}


def _processes(manifest: Manifest, container: Container) -> int:
    """Returns the number of processes of a container, as far as the file gives it."""
    option = container.starts.option("--nproc-per-node", "--num_processes", "--num_gpus") if container.starts else None
    per_node = manifest.get("spec", "nprocPerNode" if manifest.kind == "PyTorchJob" else "slotsPerWorker")
    return number(option) or number(per_node) or sum(each.count for each in container.requested) or 1


@trap(
    id="no-shared-memory",
    looks_at="several processes with devices and no volume at /dev/shm",
    consequence="/dev/shm has 64 MiB: NCCL and DataLoader workers end with a bus error",
    fix="mount an emptyDir with medium: Memory at /dev/shm",
    source="kubernetes/api core/v1/types.go (EmptyDirVolumeSource)",
)
def _no_shm(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        several = _processes(manifest, container) > 1 and pods.role != "Launcher"
        if several and container.requested and not dig(pods.spec, "hostIPC") and not _has_shm(container):
            yield container.path, f"{container.name or 'the container'} has no volume at /dev/shm"


def _has_shm(container: Container) -> bool:
    return any(dig(mount, "mountPath") == "/dev/shm" for mount in listing(container.data.get("volumeMounts")))


@trap(
    id="shared-memory-on-disk",
    looks_at="the emptyDir at /dev/shm",
    consequence="without medium: Memory it is a folder on the node's disk",
    fix="emptyDir: {medium: Memory}",
    source="kubernetes/api core/v1/types.go (EmptyDirVolumeSource)",
)
def _shm_on_disk(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        for mount in listing(container.data.get("volumeMounts")):
            for index, volume in enumerate(listing(pods.spec.get("volumes"))):
                is_shm = dig(mount, "mountPath") == "/dev/shm" and dig(volume, "name") == dig(mount, "name")
                if (
                    is_shm
                    and isinstance(dig(volume, "emptyDir"), dict)
                    and dig(volume, "emptyDir", "medium") != "Memory"
                ):
                    yield (*pods.spec_path, "volumes", index, "emptyDir"), "the emptyDir at /dev/shm is on disk"


@trap(
    id="restarts-hide-failures",
    looks_at="PyTorchJob: restartPolicy",
    consequence="one node starts again and again on the same devices, while the others wait: its failure is hidden",
    fix="set restartPolicy: Never, or ExitCode, which does not restart below exit status 128",
    source=_COMMON,
)
def _restarts_one(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "PyTorchJob" else ():
        policy = manifest.get("spec", "pytorchReplicaSpecs", pods.role, "restartPolicy")
        if policy in (None, "OnFailure", "Always") and not manifest.get("spec", "elasticPolicy"):
            yield (
                (*pods.path, "restartPolicy"),
                f"restartPolicy of {pods.role} is {policy or 'not set, so OnFailure'}",
            )


@trap(
    id="exit-code-is-one",
    looks_at="PyTorchJob: restartPolicy ExitCode with torch's agent",
    consequence="torchrun exits with 1 whatever its processes exit with, and only statuses from 128 on are retried",
    fix="use torchrun --max-restarts, or Never",
    source=f"{_AGENT}; kubeflow/trainer release-1.9 pkg/util/train (IsRetryableExitCode)",
)
def _exit_code(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest) if manifest.kind == "PyTorchJob" else ():
        policy = manifest.get("spec", "pytorchReplicaSpecs", pods.role, "restartPolicy")
        if policy == "ExitCode" and container.launches("torchrun", "accelerate", "deepspeed"):
            yield (
                (*pods.path, "restartPolicy"),
                f"restartPolicy ExitCode, and {container.starts.program if container.starts else ''}",
            )


@trap(
    id="restart-policy-in-template",
    looks_at="PyTorchJob: restartPolicy in the pod's template",
    consequence="the operator overwrites it with that of the replica spec, and reports this only in an event",
    fix="move restartPolicy beside template",
    source=_COMMON,
)
def _in_template(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "PyTorchJob" else ():
        if pods.spec.get("restartPolicy"):
            yield (*pods.spec_path, "restartPolicy"), f"the template's restartPolicy is {pods.spec['restartPolicy']}"


@trap(
    id="failed-job-keeps-devices",
    looks_at="cleanPodPolicy of jobs with devices",
    consequence="when one pod fails, the others keep waiting, and keep their devices",
    fix="cleanPodPolicy: Running",
    source="kubeflow/trainer release-1.9 pkg/controller.v1/common/job.go",
)
def _keeps_devices(manifest: Manifest) -> Iterator[Found]:
    policy = manifest.get("spec", "runPolicy", "cleanPodPolicy")
    holds = any(pods.requested for pods in manifest.pods)
    if manifest.kind in ("PyTorchJob", "MPIJob") and policy in (None, "None") and holds:
        path = ("spec", "runPolicy", "cleanPodPolicy") if policy else ("spec",)
        yield manifest.at(*path), f"cleanPodPolicy is {policy or 'not set, so None'}"


@trap(
    id="grace-too-short",
    looks_at="the grace period of pods with torch's agent",
    consequence="the agent gives its processes 30 s to end, the kubelet gives the pod no more: saving is cut off",
    fix="terminationGracePeriodSeconds: 60",
    source="pytorch/pytorch torch/distributed/elastic/multiprocessing/api.py",
)
def _grace(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        seconds = number(pods.spec.get("terminationGracePeriodSeconds"))
        if container.launches("torchrun", "accelerate", "deepspeed") and (seconds is None or seconds <= 30):
            shown = f"{seconds} s" if seconds is not None else "not set, so 30 s"
            yield (*pods.spec_path, "terminationGracePeriodSeconds"), f"terminationGracePeriodSeconds is {shown}"


@trap(
    id="fixed-port-on-host",
    looks_at="hostNetwork with ports that are the same on each node",
    consequence="two pods on one node take the same port: the second never gets a node, or does not start",
    fix="remove hostNetwork, or add a pod anti-affinity by kubernetes.io/hostname",
    source=_DEFAULTS,
)
def _ports(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods:
        if pods.spec.get("hostNetwork") and manifest.nodes > 1 and manifest.kind in _FIXED_PORT:
            yield (*pods.spec_path, "hostNetwork"), f"hostNetwork with a fixed port, {_FIXED_PORT[manifest.kind]}"


@trap(
    id="host-network-dns",
    looks_at="hostNetwork without the cluster's DNS",
    consequence="the pod asks the node's DNS, which does not know the names of other pods",
    fix="dnsPolicy: ClusterFirstWithHostNet",
    source=f"{_DEFAULTS}; kubernetes.io, DNS for Services and Pods",
)
def _dns(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind != "MPIJob" else ():
        if pods.spec.get("hostNetwork") and pods.spec.get("dnsPolicy") != "ClusterFirstWithHostNet":
            yield (
                (*pods.spec_path, "hostNetwork"),
                f"hostNetwork with dnsPolicy {pods.spec.get('dnsPolicy', 'ClusterFirst')}",
            )


@trap(
    id="job-not-indexed",
    looks_at="Job: several pods of one group",
    consequence="no pod knows which node it is, and the pods have no names that others can find",
    fix="set completionMode: Indexed and completions equal to parallelism, and add a headless service",
    source="kubernetes/website docs/tasks/job/job-with-pod-to-pod-communication.md",
)
def _not_indexed(manifest: Manifest) -> Iterator[Found]:
    several = manifest.kind == "Job" and (number(manifest.get("spec", "parallelism")) or 1) > 1
    for _, container in training(manifest) if several else ():
        if container.launches(*_STARTERS) and manifest.get("spec", "completionMode") != "Indexed":
            yield manifest.at("spec", "parallelism"), "several pods of one group, and completionMode is not Indexed"


@trap(
    id="job-replaces-one",
    looks_at="Job: retries of one pod of a group",
    consequence="the Job replaces a failed pod alone, and its group has moved on without it",
    fix="set backoffLimit: 0, or use torchrun with --rdzv-backend=c10d and --max-restarts",
    source="kubernetes/kubernetes pkg/controller/job",
)
def _retries(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest) if manifest.kind == "Job" else ():
        several = (number(manifest.get("spec", "parallelism")) or 1) > 1
        if several and container.launches(*_STARTERS) and number(manifest.get("spec", "backoffLimit")) != 0:
            limit = manifest.get("spec", "backoffLimit")
            yield manifest.at("spec", "backoffLimit"), f"backoffLimit is {'6, by default' if limit is None else limit}"


@trap(
    id="probe-delays-names",
    looks_at="PyTorchJob: a readiness probe of the Master",
    consequence="the Master's name is not in DNS until it is ready, and the others cannot find it until then",
    fix="remove the readiness probe, or use a startup probe",
    source="kubeflow/trainer release-1.9 pkg/controller.v1/common/service.go (no publishNotReadyAddresses)",
)
def _probe(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest) if manifest.kind == "PyTorchJob" else ():
        if mapping(container.data.get("readinessProbe")) and manifest.nodes > 1 and pods.role == "Master":
            yield (*container.path, "readinessProbe"), "the Master has a readiness probe"
