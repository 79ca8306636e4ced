"""Element types, by MLIR's spelling: what they are called and stored as elsewhere. Imports neither Triton nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["DTYPES", "DType"]


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        nbytes: Bytes of an element.
        triton: Triton's name.
        torch: Name of torch's attribute.
        numpy: Name of the numpy type that stores it; an unsigned integer of the same size where numpy has no such type.
    """

    nbytes: int
    triton: str
    torch: str
    numpy: str


DTYPES: Final[Mapping[str, DType]] = {
    "f64": DType(8, "fp64", "float64", "float64"),
    "f32": DType(4, "fp32", "float32", "float32"),
    "f16": DType(2, "fp16", "float16", "float16"),
    "bf16": DType(2, "bf16", "bfloat16", "uint16"),
    "f8E4M3FN": DType(1, "fp8e4nv", "float8_e4m3fn", "uint8"),
    "f8E5M2": DType(1, "fp8e5", "float8_e5m2", "uint8"),
    "i64": DType(8, "i64", "int64", "int64"),
    "i32": DType(4, "i32", "int32", "int32"),
    "i16": DType(2, "i16", "int16", "int16"),
    "i8": DType(1, "i8", "int8", "int8"),
    "i1": DType(1, "i1", "bool", "bool"),
}
