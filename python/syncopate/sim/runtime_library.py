"""What the generated code uses: integer and floating-point operations that Python and numpy do not have as they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syncopate.sim.values import Element, poison, round_to, wrap

__all__: list[str] = []


def w32(value: int) -> int:
    """Wraps to i32."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def w64(value: int) -> int:
    """Wraps to i64."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def divs(a: Any, b: Any) -> Any:
    """Signed division that rounds towards zero; undefined by zero."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        with np.errstate(divide="ignore"):
            quotient = np.floor_divide(a, b)
            return quotient + ((a - quotient * b != 0) & ((a < 0) != (b < 0)))
    if b == 0:
        return 0
    quotient = a // b
    return quotient + 1 if quotient < 0 and quotient * b != a else quotient


def rems(a: Any, b: Any) -> Any:
    """Remainder of `divs`."""
    return a - divs(a, b) * b


def ceildivs(a: Any, b: Any) -> Any:
    """Signed division that rounds up."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return -(-a // b)
    return 0 if b == 0 else -(-a // b)


def floordivs(a: Any, b: Any) -> Any:
    """Signed division that rounds down."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a // b
    return 0 if b == 0 else a // b


def unsigned(value: Any, width: int) -> Any:
    """The unsigned value of the same bits."""
    if isinstance(value, np.ndarray):
        return value.view(f"u{value.itemsize}") if value.dtype != np.bool_ else value
    return int(value) & ((1 << width) - 1)


def signed(value: Any, width: int) -> Any:
    """The signed value of the same bits."""
    if isinstance(value, np.ndarray):
        return value.view(f"i{value.itemsize}") if value.dtype != np.bool_ else value
    return wrap(value, width)


def rounded(value: Any, name: str) -> Any:
    """A floating-point value rounded to its type."""
    if isinstance(value, np.ndarray):
        return round_to(value, name) if name in ("bf16", "f8E4M3FN", "f8E5M2") else value
    if name == "f64":
        return float(value)
    if name == "f32":
        return float(np.float32(value))
    if name == "f16":
        return float(np.float16(value))
    return float(round_to(np.array([value], np.float32), name)[0])


def convert_float(value: Any, kind: Element) -> Any:
    """Extends or truncates a floating-point value."""
    if isinstance(value, np.ndarray):
        if kind.value == np.float32 and kind.name != "f32":
            return round_to(value.astype(np.float32), kind.name)
        return value.astype(kind.value)
    return rounded(value, kind.name)


def to_integer(value: Any, kind: Element) -> Any:
    """Converts a floating-point value towards zero."""
    if isinstance(value, np.ndarray):
        return np.trunc(value).astype(kind.value)
    return wrap(int(value), 8 * kind.nbytes)


def full(shape: tuple[int, ...], value: Any, kind: Element) -> Any:
    """A tensor of one value."""
    return np.full(shape, value, kind.value)


def reduce_axis(function: Any, values: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """Folds tensors along an axis, halves by halves."""
    while values[0].shape[axis] > 1:
        half = values[0].shape[axis] // 2
        parts = [np.split(value, [half, 2 * half], axis=axis) for value in values]
        folded = function(*(p[0] for p in parts), *(p[1] for p in parts))
        values = tuple(
            np.concatenate([new, p[2]], axis=axis) if p[2].shape[axis] else new
            for new, p in zip(folded, parts, strict=True)
        )
    return tuple(value.take(0, axis=axis) for value in values)


def scan_axis(function: Any, values: tuple[Any, ...], axis: int, reverse: bool) -> tuple[Any, ...]:
    """Prefix results of folding tensors along an axis."""
    size = values[0].shape[axis]
    order = range(size - 1, -1, -1) if reverse else range(size)
    results = tuple(np.empty_like(value) for value in values)
    running: tuple[Any, ...] | None = None
    for at in order:
        index = (slice(None),) * axis + (at,)
        current = tuple(value[index] for value in values)
        running = current if running is None else function(*running, *current)
        for result, value in zip(results, running, strict=True):
            result[index] = value
    return results


def scalar(value: Any) -> Any:
    """A tensor without dimensions, or an integer of numpy's, as a scalar that arithmetic does not overflow."""
    is_scalar = isinstance(value, np.integer) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if is_scalar else value


erf = np.vectorize(math.erf, otypes=[np.float32])
_ = poison
