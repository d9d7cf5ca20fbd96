"""Small frozen values. Type checkers see dataclasses; the import of ``dataclasses`` would double the start-up time.

``typing.NamedTuple`` does not help: each further class costs half as much as the first.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "record", "replace"]

TYPE_CHECKING = False  # type checkers take it for true; this avoids the import of typing
if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import replace
else:

    def record(*, frozen):  # noqa: ANN001, ANN201
        """Does the same as ``dataclass(frozen=True)``: __init__, equality, repr, and no change afterwards."""
        return _made if frozen else None

    def replace(value, **changes):  # noqa: ANN001, ANN003, ANN201
        """Returns a copy of ``value`` with ``changes``."""
        return type(value)(**{**value.__dict__, **changes})

    def _made(kind):  # noqa: ANN001, ANN202
        names = tuple(kind.__annotations__)
        default = {name: kind.__dict__[name] for name in names if name in kind.__dict__}

        def __init__(self, *values, **named):  # noqa: ANN001, ANN002, ANN003, ANN202
            fields = {**default, **dict(zip(names, values)), **named}  # noqa: B905  (strict= is Python 3.10's)
            if len(values) > len(names) or len(fields) != len(names) or not set(names).issuperset(fields):
                raise TypeError(f"{kind.__name__} has the fields {', '.join(names)}")
            self.__dict__.update(fields)

        kind.__init__ = __init__
        kind.__eq__ = lambda self, other: type(other) is kind and self.__dict__ == other.__dict__
        kind.__hash__ = lambda self: hash(tuple(self.__dict__[name] for name in names))
        kind.__repr__ = _shown
        kind.__setattr__ = kind.__delattr__ = _refuse
        return kind

    def _shown(self):  # noqa: ANN001, ANN202
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def _refuse(self, name, *value):  # noqa: ANN001, ANN002, ANN202
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")
