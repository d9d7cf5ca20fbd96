"""Rules for variables: each is well-formed and occurs once, and no other program writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import UNSET

from k8sel.entrypoint import masks
from k8sel.errors import Problem
from k8sel.facts import accelerators, backends
from k8sel.facts.backends import VARIABLES
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import LAUNCHERS, Mpi, mpi_of
from k8sel.facts.platforms import Platform
from k8sel.jobfile import oneccl
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import rules_in
from k8sel.jobfile.spec import EnvVar
from k8sel.wording import bare, duplicate, forbidden, invalid, required, warning

SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)"
# Prefixes of names that an operator writes after the file's own variables (a whole name ends in "=").
LATE = ("PET_", "MASTER_", "WORLD_SIZE=", "RANK=", "K_MPI_")

_OPERATOR = "the operator sets it after the file's own variables, and the last value counts"
_LAUNCHER = "the launcher sets it in each process"
_MPI = "the operator or mpirun's command line sets it"
OF_ROW = ("k8sel or the device plugin sets it", "use accelerator.devices")
# Prefix of a name (a whole name ends in "=") -> why the file may not set it, and what sets it instead.
OWNED: dict[str, tuple[str, str]] = {
    "K8SEL_": ("k8sel's entrypoint uses it", "use the fields of entrypoint and accelerator"),
    "PET_": (_OPERATOR, "use nodes, processesPerNode and policy.maxRestarts"),
    "MASTER_ADDR=": (_OPERATOR, "leave it out"),
    "MASTER_PORT=": (_OPERATOR, "leave it out"),
    "WORLD_SIZE=": (_LAUNCHER, "use nodes and processesPerNode"),
    "RANK=": (_LAUNCHER, "leave it out"),
    "LOCAL_RANK=": (_LAUNCHER, "leave it out"),
    "LOCAL_WORLD_SIZE=": (_LAUNCHER, "use processesPerNode"),
    "GROUP_RANK=": (_LAUNCHER, "leave it out"),
    "OMP_NUM_THREADS=": ("k8sel sets it from the CPUs of the process", "use cpu.threadsPerProcess"),
    "OMPI_MCA_orte_": (_MPI, "leave it out"),
    "OMPI_MCA_plm_": (_MPI, "leave it out"),
    "PRTE_MCA_prte_default_hostfile=": (_MPI, "leave it out"),
    "PRTE_MCA_prte_set_default_slots=": (_MPI, "use processesPerNode"),
    "PRTE_MCA_plm_": (_MPI, "leave it out"),
    "I_MPI_HYDRA_HOST_FILE=": (_MPI, "leave it out"),
    "I_MPI_HYDRA_BOOTSTRAP": (_MPI, "leave it out"),
    "I_MPI_PERHOST=": (_MPI, "use processesPerNode"),
    "HYDRA_HOST_FILE=": (_MPI, "leave it out"),
    "HYDRA_LAUNCH": (_MPI, "leave it out"),
    "K_MPI_JOB_ROLE=": (_MPI, "leave it out"),
}


def owner(name: str) -> tuple[str, str] | None:
    """Returns why the file may not set ``name``, and the field that sets it instead; None where the file may."""
    if name in accelerators.owned_env():
        return OF_ROW
    return next((why for start, why in OWNED.items() if f"{name}=".startswith(start)), None)


def owned_names(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses variables that k8sel, an operator or a launcher writes."""
    for index, entry in enumerate(job.spec.env):
        why = owner(entry.name)
        if why and entry.name not in accelerators.harmless_env():
            message = f"the job file may not set {bare(entry.name)}: {why[0]}"
            yield forbidden(("spec", "env", index, "name"), message, why[1])


def selectors(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses values that select devices, of a variable that others may be written into."""
    harmless = accelerators.harmless_env()
    for index, entry in enumerate(job.spec.env):
        terms = harmless.get(entry.name, ())
        value = "" if entry.value is UNSET else entry.value
        if terms and not masks.harmless(terms, value):
            message = f"this value of {entry.name} selects devices, which k8sel does itself"
            yield forbidden(("spec", "env", index, "value"), message, f"write {terms[0]}, and use accelerator.devices")


def names_of_ccl(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a variable that a field of ``ccl`` already sets. Without that field, the file may set the variable."""
    fields = dict(zip(VARIABLES.values(), VARIABLES, strict=True))
    given = oneccl.given(job.spec) if backends.uses_oneccl(job.spec.backend) else {}
    for index, entry in enumerate(job.spec.env):
        if entry.name in given:
            message = f"ccl.{fields[entry.name]} already sets {entry.name}"
            yield forbidden(("spec", "env", index, "name"), message, f"leave it out, and use ccl.{fields[entry.name]}")


def names_of_binding(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses variables that bind processes where ``mpi.binding`` is set: mpirun's command line overrides them."""
    spec = job.spec
    mpi = mpi_of(spec.launcher, spec.mpi.implementation)
    written = bound_by(mpi, spec.mpi.binding or "") if mpi else ()
    for index, entry in enumerate(spec.env):
        if entry.name in written:
            message = f"mpi.binding {spec.mpi.binding} already sets {entry.name}"
            yield forbidden(("spec", "env", index, "name"), message, "leave it out, and use mpi.binding")


def bound_by(mpi: Mpi, binding: str) -> list[str]:
    """Returns the variables that mpirun's words for ``binding`` set."""
    return [word.partition("=")[0] for flag, word in pairwise(mpi.binding[binding]) if flag == mpi.set[0]]


def each_name_once(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a name that occurs twice: Kubernetes uses the last, and refuses both in a server-side apply."""
    first: dict[str, int] = {}
    for index, entry in enumerate(job.spec.env):
        if first.setdefault(entry.name, index) != index:
            message = f"{bare(entry.name)} is already in env[{first[entry.name]}]"
            yield duplicate(("spec", "env", index, "name"), message, "keep one of the two")


def names_for_a_shell(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses names that Debian's /bin/sh drops.

    That shell starts the entrypoint, and each rank that sshd starts.
    """
    through_a_shell = job.spec.entrypoint.mode == "configMap" or LAUNCHERS[job.spec.launcher].uses_mpi
    for index, entry in enumerate(job.spec.env if through_a_shell and platform.in_container else ()):
        if not re.fullmatch(NAME, entry.name):
            message = f"{bare(entry.name)} is not a name that /bin/sh passes on to the program"
            yield invalid(("spec", "env", index, "name"), message, "use letters, digits and '_', but no digit first")


def one_value(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a variable with both a value and a source, or with neither."""
    for index, entry in enumerate(job.spec.env):
        given = [entry.value is not UNSET, entry.value_from is not UNSET]
        if all(given):
            message = f"{bare(entry.name)} has a value and a valueFrom"
            yield forbidden(("spec", "env", index, "valueFrom"), message, "keep one of the two")
        elif not any(given):
            message = f"{bare(entry.name)} has neither a value nor a valueFrom"
            yield required(("spec", "env", index, "value"), message, 'write value: "" for an empty value')


def one_source(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a variable whose ``valueFrom`` does not have exactly one known source."""
    for index, entry in enumerate(job.spec.env):
        if entry.value_from is UNSET:
            continue
        path = ("spec", "env", index, "valueFrom")
        if len(entry.value_from) != 1 or not entry.value_from.keys() <= set(SOURCES):
            yield invalid(path, "valueFrom needs exactly one source", f"use one of {', '.join(SOURCES)}")


def references_are_known(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses references to the operator's variables: these follow the file's own, so Kubernetes fills in none."""
    for index, entry in enumerate(job.spec.env):
        for name in _references(entry):
            if f"{name}=".startswith(LATE):
                message = f"$({name}) is not replaced: the operator sets {name} after the file's own variables"
                hint = "read it in the program, or in a shell command as $" + name
                yield invalid(("spec", "env", index, "value"), message, hint)


def _references(entry: EnvVar) -> list[str]:
    value = "" if entry.value is UNSET else entry.value
    return re.findall(_REFERENCE, value.replace("$$", " "))


def no_zero_byte(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a zero byte in a value: the kernel ends the variable there."""
    for index, entry in enumerate(job.spec.env):
        if entry.value is not UNSET and "\0" in entry.value:
            yield invalid(("spec", "env", index, "value"), "a variable cannot contain a zero byte")


def overwritten_names(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a PYTHONUNBUFFERED that is not 1 where the operator appends PYTHONUNBUFFERED=1."""
    for index, entry in enumerate(job.spec.env):
        if entry.name == "PYTHONUNBUFFERED" and JOB_KINDS[job.spec.target].unbuffers and entry.value != "1":
            message = "the operator always sets PYTHONUNBUFFERED=1"
            yield warning(("spec", "env", index, "value"), message, "leave it out")


RULES = rules_in(globals())
