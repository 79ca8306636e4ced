"""Values of the interpreted IR: element types, their bytes in memory, and integers that wrap.

A scalar integer is a Python int in the signed range of its width, an i1 a bool. A tensor is a numpy array. Floats
narrower than 32 bits, except f16, are float32 arrays that hold only representable values, so that no package for them
is needed; `Element.encode` and `Element.decode` translate to and from what lies in memory.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Element", "element", "parse_shaped", "poison", "round_to", "wrap"]

Array = np.ndarray[Any, Any]

_ITEM = {
    "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f8E4M3FN": 1, "f8E5M2": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8,
    "ptr": 8,
}  # fmt: skip
_STORED = {
    "i1": "i1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "ptr": "i8", "f8E4M3FN": "u1", "f8E5M2": "u1",
    "bf16": "u2", "f16": "f2", "f32": "f4", "f64": "f8",
}  # fmt: skip
_VALUE = {"i1": "?", "bf16": "f4", "f8E4M3FN": "f4", "f8E5M2": "f4"}
_MINIFLOATS = {"f8E4M3FN": (4, 3, 7), "f8E5M2": (5, 2, 15)}


@dataclass(frozen=True)
class Element:
    """An element type.

    Attributes:
        name: MLIR's spelling; `ptr` for pointers.
        nbytes: Size in memory.
        stored: dtype of its bytes in memory.
        value: dtype of tensors that hold it.
    """

    name: str
    nbytes: int
    stored: np.dtype[Any]
    value: np.dtype[Any]

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.name[0] in "bf"

    def decode(self, stored: Array) -> Array:
        """Values of what lies in memory."""
        if self.name == "bf16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        if self.name in _MINIFLOATS:
            values: Array = _minifloat_values(self.name)[stored]
            return values
        return stored.astype(self.value)

    def encode(self, values: Array) -> Array:
        """What lies in memory for values, rounded to nearest even."""
        if self.name == "bf16":
            rounded = round_to(np.asarray(values, np.float32), "bf16")
            return (rounded.view(np.uint32) >> 16).astype(np.uint16)
        if self.name in _MINIFLOATS:
            return _encode_minifloat(self.name, np.asarray(values, np.float32))
        return np.asarray(values).astype(self.stored)


@functools.cache
def element(name: str) -> Element:
    """Looks an element type up by MLIR's spelling; a pointer type is `ptr`.

    Raises:
        KeyError: It is not known.
    """
    if name.startswith("!tt.ptr"):
        name = "ptr"
    return Element(
        name, _ITEM[name], np.dtype(_STORED[name]), np.dtype(_VALUE.get(name, _STORED[name]))
    )


_SHAPED = re.compile(
    r"^(?:!ttg\.memdesc|!tt\.tensordesc|tensor)<(?:tensor<)?((?:\d+x)*)(?:[su](?=i\d))?(!tt\.ptr|\w+)"
)


@functools.cache
def parse_shaped(text: str) -> tuple[tuple[int, ...], Element]:
    """Shape and element type of a tensor, memdesc or tensordesc type, from its text."""
    match = _SHAPED.match(text)
    if match is None:
        raise KeyError(text)
    shape = tuple(map(int, match[1].split("x")[:-1]))
    return shape, element(match[2])


def wrap(value: int, width: int) -> int:
    """The signed integer of that many bits with the same low bits."""
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


def round_to(values: Array, name: str) -> Array:
    """float32 values rounded to a narrower type, to nearest even, still as float32."""
    if name == "bf16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
        result: Array = rounded.view(np.float32)
        if np.isnan(result).any():
            # Rounding may have carried a NaN into an infinity.
            result[np.isnan(values)] = np.nan
        return result
    if name in _MINIFLOATS:
        rounded_values: Array = _minifloat_values(name)[_encode_minifloat(name, values)]
        return rounded_values
    return values


def poison(shape: tuple[int, ...], kind: Element) -> Array:
    """A tensor of values that no computation should use: NaN, or the smallest integer."""
    if kind.value.kind == "f":
        return np.full(shape, np.nan, kind.value)
    if kind.value.kind == "b":
        return np.ones(shape, np.bool_)
    return np.full(shape, np.iinfo(kind.value).min, kind.value)


@functools.cache
def _minifloat_values(name: str) -> Array:
    exponent_bits, mantissa_bits, bias = _MINIFLOATS[name]
    codes = np.arange(256)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    scale = np.where(exponent == 0, 1 - bias, exponent - bias).astype(np.float64)
    value = (mantissa / (1 << mantissa_bits) + (exponent > 0)) * 2.0**scale
    top = exponent == (1 << exponent_bits) - 1
    if name == "f8E5M2":
        value = np.where(top, np.where(mantissa == 0, np.inf, np.nan), value)
    else:
        value = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, value)
    return np.where(codes & 0x80, -value, value).astype(np.float32)


def _encode_minifloat(name: str, values: Array) -> Array:
    table = _minifloat_values(name)[:128]
    finite = np.flatnonzero(np.isfinite(table))
    points = table[finite].astype(np.float64)
    size = np.minimum(np.abs(values.astype(np.float64)), points[-1])
    above = np.clip(np.searchsorted(points, size), 1, len(points) - 1)
    low, high = points[above - 1], points[above]
    nearest = np.where(size - low < high - size, above - 1, above)
    tie = size - low == high - size
    nearest = np.where(tie, np.where((above - 1) % 2 == 0, above - 1, above), nearest)
    nearest = np.where(size == low, above - 1, nearest)
    code = np.where(np.isnan(values), 0x7F, finite[nearest])
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
