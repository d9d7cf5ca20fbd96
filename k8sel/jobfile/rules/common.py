"""The type of a rule, and patterns that several rules use. A rule reads a defaulted job and yields its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType

from k8sel.errors import Problem
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob

Rule = Callable[[CompleteJob, Platform], Iterator[Problem]]

# These are texts: re.fullmatch compiles a pattern at its first use and caches it, and a job uses few of them.
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN_LENGTH = "(?=.{1,253}$)"
SUBDOMAIN = rf"{SUBDOMAIN_LENGTH}[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_RULE = (
    "a label value has at most 63 letters, digits, '-', '_' and '.', and starts and ends with a letter or digit"
)
SUBDOMAIN_RULE = "use lower-case letters, digits, '-' and '.'; start and end with a letter or digit"


def rules_in(module: Mapping[str, object]) -> tuple[Rule, ...]:
    """Returns the rules among a module's names, in their order: its public functions of a job and a platform."""
    functions = (each for name, each in module.items() if isinstance(each, FunctionType) and not name.startswith("_"))
    return tuple(each for each in functions if [*each.__annotations__][:2] == ["job", "platform"])
