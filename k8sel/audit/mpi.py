"""Traps of MPIJobs: mpirun's options, the variables that reach the ranks, and mpi-operator's fields."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.adopt.manifest.reader import Container, Manifest, Pods, number
from k8sel.adopt.manifest.started import Started
from k8sel.audit.trap import Found, trap

_CONTROLLER = "kubeflow/mpi-operator pkg/controller/mpi_job_controller.go"
_MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun")
_HOSTFILE = ("--hostfile", "-hostfile", "--machinefile", "-machinefile", "--host", "-H", "-f", "-hosts")
_DEFAULT_HOSTFILE = "PRTE_MCA_prte_default_hostfile"  # Open MPI 5's own
_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
_HYDRAS = ("Intel", "MPICH")
_OPTIONS_OF = {"OpenMPI": ("-x", "--mca", "-mca", "--allow-run-as-root"), "hydra": ("-genv", "-ppn", "-f", "-genvlist")}


def launchers(manifest: Manifest) -> Iterator[tuple[Pods, Container, Started]]:
    """Yields the containers of an MPIJob that start mpirun."""
    for pods in manifest.pods if manifest.kind == "MPIJob" else ():
        for container in pods.containers:
            if pods.role == "Launcher" and container.starts and container.starts.program in _MPIRUN:
                yield pods, container, container.starts


def implementation(manifest: Manifest) -> str:
    """Returns the MPI that the object names."""
    return str(manifest.get("spec", "mpiImplementation") or "OpenMPI")


@trap(
    id="openmpi-one-dash",
    looks_at="MPIJob: long options of Open MPI's mpirun with one dash",
    consequence="Open MPI 4 accepts them, and Open MPI 5 ends with an error",
    fix="write two dashes: --bind-to, --map-by",
    source="run with Open MPI 4.1.8 and 5.0.11",
)
def _single_dash(manifest: Manifest) -> Iterator[Found]:
    for _, _, starts in launchers(manifest):
        given = [name for name in ("-bind-to", "-map-by", "-rank-by") if name in starts.own]
        if given and implementation(manifest) == "OpenMPI":
            yield starts.path, f"{starts.program} has {', '.join(given)} with one dash"


@trap(
    id="openmpi-without-hostfile",
    looks_at="MPIJob: Open MPI's mpirun without a hostfile",
    consequence="Open MPI 5 does not read the operator's variables: all ranks run in the launcher's pod, unnoticed",
    fix="add --hostfile /etc/mpi/hostfile",
    source="kubeflow/mpi-operator#842",
)
def _no_hostfile(manifest: Manifest) -> Iterator[Found]:
    for _, container, starts in launchers(manifest):
        given = any(starts.option(name) is not None for name in _HOSTFILE) or _DEFAULT_HOSTFILE in container.env
        if implementation(manifest) == "OpenMPI" and not given:
            yield starts.path, f"{starts.program} has no --hostfile"


@trap(
    id="openmpi-as-root",
    looks_at="MPIJob: Open MPI's mpirun as root",
    consequence="Open MPI refuses to start as root, and the launcher restarts until backoffLimit",
    fix="add --allow-run-as-root, or set securityContext.runAsUser",
    source="open-mpi docs, mpirun(1)",
)
def _as_root(manifest: Manifest) -> Iterator[Found]:
    for pods, container, starts in launchers(manifest):
        contexts = (pods.spec.get("securityContext"), container.data.get("securityContext"))
        users = [context.get("runAsUser") for context in contexts if isinstance(context, dict)]
        allowed = starts.option("--allow-run-as-root") is not None or all(name in container.env for name in _ROOT)
        if implementation(manifest) == "OpenMPI" and not allowed and not any(users):
            yield starts.path, f"{starts.program} has no --allow-run-as-root, and no runAsUser is given"


@trap(
    id="mpirun-options",
    looks_at="MPIJob: mpirun's options beside mpiImplementation",
    consequence="mpirun ends at an unknown option; the hostfile has the form of the other MPI, too",
    fix="use the options of that MPI, or set mpiImplementation to the one in the image",
    source="open-mpi docs, mpirun(1); Intel MPI and MPICH mpiexec.hydra --help",
)
def _wrong_options(manifest: Manifest) -> Iterator[Found]:
    named = implementation(manifest)
    others = _OPTIONS_OF["OpenMPI"] if named in _HYDRAS else _OPTIONS_OF["hydra"]
    for _, _, starts in launchers(manifest):
        given = [name for name in others if name in starts.own]
        if given:
            yield starts.path, f"{starts.program} has {', '.join(given)}, and mpiImplementation is {named}"


@trap(
    id="env-not-sent",
    looks_at="MPIJob: the launcher's variables under Open MPI",
    consequence="Open MPI sends no variable but its own to the ranks on other nodes",
    fix="add -x NAME to mpirun's line",
    source="open-mpi docs, mpirun(1)",
)
def _env_stays(manifest: Manifest) -> Iterator[Found]:
    for _, container, starts in launchers(manifest):
        sent = " ".join(starts.words)
        if implementation(manifest) == "OpenMPI":
            for name, variable in container.env.items():
                if name not in sent and not name.startswith(("OMPI_", "PRTE_", "PMIX_", "NVIDIA_")):
                    yield variable.path, f"the launcher's {name} is not in -x"


@trap(
    id="env-of-worker",
    looks_at="MPIJob: the workers' variables",
    consequence="sshd starts ranks from a clean environment: a worker's variables do not reach them",
    fix="set them in the launcher's env and on mpirun's line (-x NAME, -genvlist NAME)",
    source="openssh/openssh-portable session.c (do_setup_env)",
)
def _workers_env(manifest: Manifest) -> Iterator[Found]:
    launched = list(launchers(manifest))
    for pods in manifest.pods if manifest.kind == "MPIJob" else ():
        for container in pods.containers if pods.role == "Worker" else ():
            for name, variable in container.env.items():
                if launched and name not in " ".join(launched[0][2].words) and name not in launched[0][1].env:
                    yield variable.path, f"the worker's {name}"


@trap(
    id="mpirun-is-a-script",
    looks_at="MPIJob: Intel MPI's mpirun",
    consequence="it is a shell script that does not pass SIGTERM on: deleted jobs leave their ranks running",
    fix="use mpiexec.hydra, with the same options",
    source="Intel MPI 2021 bin/mpirun",
)
def _intel_script(manifest: Manifest) -> Iterator[Found]:
    for _, _, starts in launchers(manifest):
        if implementation(manifest) == "Intel" and starts.program == "mpirun":
            yield starts.path, "Intel MPI's mpirun"


@trap(
    id="ranks-not-slots",
    looks_at="MPIJob: mpirun's number of ranks beside slotsPerWorker and workers",
    consequence="with more ranks than slots Open MPI does not start; with fewer, nodes or devices stay idle",
    fix="set -n to slotsPerWorker times workers, or leave it out",
    source=_CONTROLLER,
)
def _slots(manifest: Manifest) -> Iterator[Found]:
    workers = sum(pods.replicas for pods in manifest.pods if pods.role == "Worker")
    for _, _, starts in launchers(manifest):
        ranks = number(starts.option("-n", "-np", "--np"))
        if ranks and workers and ranks != manifest.slots * workers:
            yield starts.path, f"{ranks} ranks, and {workers} workers with {manifest.slots} slots"


@trap(
    id="launcher-holds-devices",
    looks_at="MPIJob: devices of the launcher",
    consequence="no rank runs in the launcher's pod: its devices stay idle as long as the job runs",
    fix="request no devices for Launcher, or set runLauncherAsWorker: true",
    source=_CONTROLLER,
)
def _launcher_devices(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "MPIJob" else ():
        if pods.role == "Launcher" and not manifest.get("spec", "runLauncherAsWorker"):
            for each in pods.requested:
                yield each.path, f"the launcher requests {each.resource}: {each.count}"


@trap(
    id="launcher-too-early",
    looks_at="MPIJob: launcherCreationPolicy",
    consequence="the launcher starts before the workers' sshd listens: it fails, and restarts",
    fix="set launcherCreationPolicy: WaitForWorkersReady, with a readiness probe of sshd's port",
    source=_CONTROLLER,
)
def _starts_at_once(manifest: Manifest) -> Iterator[Found]:
    policy = manifest.get("spec", "launcherCreationPolicy")
    for pods, _, _ in launchers(manifest):
        if policy in (None, "AtStartup"):
            yield pods.path, f"launcherCreationPolicy is {policy or 'not set, so AtStartup'}"


@trap(
    id="launcher-replicas",
    looks_at="MPIJob: Launcher.replicas",
    consequence="the controller refuses the job only in an event, and nothing starts",
    fix="replicas: 1",
    source="kubeflow/mpi-operator pkg/apis/kubeflow/validation/validation.go",
)
def _launcher_replicas(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "MPIJob" else ():
        if pods.role == "Launcher" and pods.replicas != 1:
            yield (*pods.path, "replicas"), f"Launcher has {pods.replicas} replicas"
