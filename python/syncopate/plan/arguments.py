"""Arguments of the builders: what each has to be, and an error that names it where it is something else."""

from __future__ import annotations

import enum
import operator
from typing import Any

from syncopate.errors import PlanError
from syncopate.mlir import ir

__all__ = ["describe", "to_axis", "to_enum", "to_integer", "to_integers", "to_string"]


def to_axis(buffer: str, axis: Any, rank: int) -> int:
    """A dimension of a buffer of `rank` dimensions."""
    dimension = to_integer("axis", axis)
    if not 0 <= dimension < rank:
        raise PlanError(
            f"axis: expects a dimension of buffer {buffer} in [0, {rank}), but got {dimension}"
        )
    return dimension


def describe(value: Any) -> str:
    """A value and its type, for a message."""
    return f"{value!r:.60} of type {type(value).__name__}"


def to_integer(name: str, value: Any) -> int:
    """The value of an argument that has to be an integer that the dialect can hold."""
    try:
        number = operator.index(value)
    except TypeError:
        raise PlanError(f"{name}: expects an integer, but got {describe(value)}") from None
    if not -(2**63) <= number < 2**63:
        raise PlanError(f"{name}: expects an integer of 64 bits, but got {number}")
    return number


def to_integers(name: str, values: Any) -> tuple[int, ...]:
    """The integers of a sequence."""
    try:
        entries = None if isinstance(values, str) else tuple(values)
    except TypeError:
        entries = None
    if entries is None:
        raise PlanError(f"{name}: expects a sequence of integers, but got {describe(values)}")
    return tuple(to_integer(name, value) for value in entries)


def to_string(name: str, value: Any) -> str:
    """A string that MLIR can hold."""
    if not isinstance(value, str):
        raise PlanError(f"{name}: expects a string, but got {describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PlanError(f"{name}: expects text, but got {value!r:.60}") from None
    return value


def to_enum(name: str, value: str | None, known: type[enum.IntEnum]) -> ir.Attribute | None:
    """The attribute of a value of an enum of the dialect; `name` is that of the argument and of the attribute."""
    if value is None:
        return None
    names = [str(member) for member in known]
    if not isinstance(value, str) or value not in names:
        raise PlanError(f"{name}: expects one of {', '.join(names)}, but got {value!r:.60}")
    return ir.Attribute.parse(f"#chunk<{name} {value}>")
