"""k8sel: one job file becomes a checked training job. Imports nothing: the entrypoint runs through here.

The library (docs/library.md) is ``load``, ``check``, ``plan`` and ``render``, with their types and errors. They are
those of ``k8sel.api``, which is imported when the first of them is used.
"""

__version__ = "0.1.0"
__all__ = ["Job", "JobPlan", "Problem", "SpecError", "check", "load", "plan", "render"]

TYPE_CHECKING = False  # type checkers take this name for true; typing itself would cost the entrypoint time
if TYPE_CHECKING:
    from k8sel.api import Job, JobPlan, Problem, SpecError, check, load, plan, render
else:

    def __getattr__(name: str) -> object:
        """Returns a name of the library, imported on first use."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from k8sel import api

        return getattr(api, name)

    def __dir__() -> "list[str]":
        """Names the library too: completion asks here."""
        return sorted({*globals(), *__all__})
