"""One rank's symmetric memory: bytes, and for every byte the call that produced it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from syncopate.dtypes import DTYPES

FLOATS = ("f64", "f32", "f16", "bf16")  # what `encode` and `decode` know
POISON = 0xFF  # a NaN in every float format of at least 16 bits
NEVER = -1


def encode(values: Any, dtype: str) -> Any:
    """Bytes of `values` in `dtype`; bf16 is rounded to nearest even."""
    if dtype != "bf16":
        return np.ascontiguousarray(values, DTYPES[dtype].numpy).view(np.uint8)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype(np.uint16).view(np.uint8)


def decode(data: Any, dtype: str) -> Any:
    """The inverse of `encode`; bf16 comes back as float32."""
    if dtype != "bf16":
        return np.ascontiguousarray(data).view(DTYPES[dtype].numpy)
    return (np.ascontiguousarray(data).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class Buffer:
    """One rank's instance of a symmetric buffer, poisoned when it is made.

    `stamp` holds, for every byte, the call whose input the byte comes from. A
    transfer copies stamps with the data, so a stale byte stays recognisable
    however often it is forwarded.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * DTYPES[dtype].nbytes
        self.data = np.full(shape[0] * self.row_bytes, POISON, np.uint8)
        self.stamp = np.full(shape[0] * self.row_bytes, NEVER, np.int32)

    def rectangle(self, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, Any]:
        """Views (data, stamp) of a region, given in elements; the last dimension of the views counts bytes."""
        item = DTYPES[self.dtype].nbytes
        window = [slice(o, o + s) for o, s in zip(offsets, sizes, strict=True)]
        window[-1] = slice(offsets[-1] * item, (offsets[-1] + sizes[-1]) * item)
        shape = (*self.shape[:-1], self.shape[-1] * item)
        return self.data.reshape(shape)[tuple(window)], self.stamp.reshape(shape)[tuple(window)]


def blocks(rows: int, row_bytes: int, first: int, step: int, block: int) -> Iterator[list[Any]]:
    """The blocks `first`, `first + step`, … of a region, as lists of (row, begin, end)."""
    for start in range(first * block, rows * row_bytes, step * block):
        stop, pieces = min(start + block, rows * row_bytes), []
        while start < stop:
            row, begin = divmod(start, row_bytes)
            end = min(row_bytes, begin + stop - start)
            pieces.append((row, begin, end))
            start += end - begin
        yield pieces
