"""torch.distributed's backend, and oneCCL: what fits the command, the devices and the launcher.

Which versions a backend needs is the entrypoint's to say, which sees the image.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.errors import FieldPath, Problem
from k8sel.facts import accelerators
from k8sel.facts.backends import BACKENDS, VARIABLES, Backend, named, uses_oneccl
from k8sel.facts.launchers import MPIS
from k8sel.jobfile.oneccl import launcher_variables
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.spec import Ccl, JobFile
from k8sel.wording import bare, did_you_mean, forbidden, invalid, not_supported

HERE = ("spec", "backend")
CCL = ("spec", "ccl")
_TRANSPORT = VARIABLES["transport"]


def _row(job: JobFile) -> Backend | None:
    return BACKENDS.get(job.spec.backend or "")


def _said(job: JobFile) -> FieldPath:
    """Where the backend's name stands: in the command, or in its own field."""
    index, name = named(job.spec.command) or (0, "")
    return ("spec", "command", index) if name == job.spec.backend else HERE


def _computes_on(job: JobFile) -> str:
    """The type, or the one without devices where none is used."""
    row = accelerators.ROWS.get(job.spec.accelerator.type)
    bare_cpu = row is not None and row.is_device and job.spec.accelerator.devices == ()
    return accelerators.without_devices().name if bare_cpu else job.spec.accelerator.type


def known_backend(job: JobFile, door: str) -> Iterator[Problem]:
    """The backend is a row of the table."""
    name = job.spec.backend
    if name is not None and name not in BACKENDS:
        hint = did_you_mean(name, BACKENDS) or "leave it out where the program has one of its own"
        yield not_supported(HERE, name, BACKENDS, hint)


def backend_of_the_command(job: JobFile, door: str) -> Iterator[Problem]:
    """The program does what its command says."""
    _, name = named(job.spec.command) or (0, job.spec.backend)
    if job.spec.backend and name and name != job.spec.backend:
        message = f"the command names another, {bare(name)}, and the program uses that one"
        yield invalid(HERE, message, "leave backend out, or change the command")


def backend_of_the_type(job: JobFile, door: str) -> Iterator[Problem]:
    """A backend moves data between some kinds of devices only."""
    row, kind = _row(job), _computes_on(job)
    if row and kind in accelerators.ROWS and not row.connects(kind):
        fitting = [name for name, other in BACKENDS.items() if other.connects(kind)]
        wanted = " or ".join(row.accelerators)
        message = f"backend {job.spec.backend} is for processes on {wanted}, and these compute on {kind}"
        yield invalid(_said(job), message, " or ".join(fitting))


def backend_of_the_launcher(job: JobFile, door: str) -> Iterator[Problem]:
    """A backend may take its ranks from one launcher alone."""
    row, spec = _row(job), job.spec
    several = (spec.nodes or 1) * (spec.processes_per_node or 1) > 1
    if row and several and row.launchers and spec.launcher not in row.launchers:
        wanted = " or ".join(row.launchers)
        message = f"backend {spec.backend} takes ranks from {wanted}: by launcher {spec.launcher}, each would be alone"
        yield invalid(_said(job), message, f"launcher: {wanted}, or {row.instead}")


def ccl_needs_oneccl(job: JobFile, door: str) -> Iterator[Problem]:
    """Settings of oneCCL say nothing to a backend that does without."""
    backend = job.spec.backend
    known = backend is None or backend in BACKENDS
    if known and not uses_oneccl(backend) and job.spec.ccl != Ccl():
        kind = _computes_on(job)
        fitting = [name for name, row in BACKENDS.items() if row.oneccl and row.connects(kind)]
        other = f", or backend: {' or '.join(fitting)}" if fitting else ""
        message = f"backend {backend} uses no oneCCL" if backend else "no backend is named, so nothing uses oneCCL"
        yield forbidden(CCL, message, f"leave ccl out{other}")


def workers_have_cores(job: JobFile, door: str) -> Iterator[Problem]:
    """oneCCL takes one core for each worker of the node (src/common/env/env.cpp, parse_affinity)."""
    affinity, path = job.spec.ccl.worker_affinity, (*CCL, "workerAffinity")
    if affinity in (None, "auto") or not uses_oneccl(job.spec.backend):
        return
    ranges = [_range(part) for part in str(affinity).split(",")]
    backwards = next(((first, last) for first, last in ranges if first > last), None)
    workers, processes = job.spec.ccl.workers or 1, job.spec.processes_per_node or 1
    cores = sum(last - first + 1 for first, last in ranges)
    if backwards:
        message = f"{backwards[0]}-{backwards[1]} begins with the higher core"
        yield invalid(path, message, f"{backwards[1]}-{backwards[0]}")
    elif cores != workers * processes:
        message = f"{cores} cores, and {processes} x {workers} workers of a node need {workers * processes}"
        yield invalid(path, message, "auto, or a core for each worker of the node")


def _range(cores: str) -> tuple[int, int]:
    first, _, last = cores.partition("-")
    return int(first), int(last or first)


def transport_is_there(job: JobFile, door: str) -> Iterator[Problem]:
    """oneCCL loads MPICH's and Intel's MPI (libmpi.so.12), and its processes are MPI's own (src/atl/mpi)."""
    asked, spec = job.spec.ccl.transport, job.spec
    if asked != "mpi" or not uses_oneccl(spec.backend) or launcher_variables(spec)[_TRANSPORT] == asked:
        return
    fitting = [name for name, row in MPIS.items() if row.ccl[_TRANSPORT] == asked]
    found = str(spec.mpi.implementation) if spec.launcher == "mpirun" else f"launcher {spec.launcher}"
    message = f"transport mpi is for launcher mpirun with {' or '.join(fitting)}, and this is {found}"
    yield invalid((*CCL, "transport"), message, "leave transport out, or transport: ofi")


RULES: tuple[Rule, ...] = (
    known_backend,
    backend_of_the_command,
    backend_of_the_type,
    backend_of_the_launcher,
    ccl_needs_oneccl,
    workers_have_cores,
    transport_is_there,
)
