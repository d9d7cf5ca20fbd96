"""The oneCCL variables that each process of a job gets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from k8sel.facts.backends import VARIABLES, uses_oneccl
from k8sel.facts.launchers import LAUNCHERS, mpi_of
from k8sel.jobfile.complete import CompleteSpec
from k8sel.jobfile.spec import Spec


def variables(spec: CompleteSpec) -> dict[str, str]:
    """Returns oneCCL's variables for each process of a defaulted ``spec``, sorted; none without oneCCL."""
    if not uses_oneccl(spec.backend):
        return {}
    return dict(sorted({**launcher_variables(spec), **given(spec)}.items()))


def given(spec: Spec) -> dict[str, str]:
    """Returns the variables that the fields of ``spec.ccl`` set."""
    return {VARIABLES[field]: str(value) for field, value in msgspec.to_builtins(spec.ccl).items()}


def launcher_variables(spec: CompleteSpec) -> Mapping[str, str]:
    """Returns the variables that name the launcher and the transport to oneCCL."""
    return (mpi_of(spec.launcher, spec.mpi.implementation) or LAUNCHERS[spec.launcher]).ccl


def workers(spec: CompleteSpec) -> int:
    """Returns the number of oneCCL's own threads in each process; 0 without oneCCL."""
    return spec.ccl.workers or 0
