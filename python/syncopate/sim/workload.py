"""What a kernel does with the plan's buffers, in numpy, so that a schedule can be checked with real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from syncopate.plan.schedule import Access, Schedule
from syncopate.sim.errors import StaleRead
from syncopate.sim.memory import NEVER, Buffer, decode

Read = Callable[[int, tuple[int, ...], tuple[int, ...]], Any]
"""Bytes that a tile finds in a region of a buffer: index of the buffer, offsets, sizes."""


class Expected(Protocol):
    """What the buffers should hold in one call."""

    @property
    def inputs(self) -> Sequence[Buffer]:
        """Every buffer with all ranks' inputs in place."""

    @property
    def memory(self) -> Sequence[Buffer]:
        """The rank's buffers after all transfers, carried out one after another in the order of the plan."""


class Task(Protocol):
    """The work of one rank in one call."""

    def compute(self, coords: tuple[int, ...], read: Read) -> None:
        """Computes a tile."""

    def close(self, memory: Sequence[Buffer]) -> None:
        """Looks at the rank's buffers when all that the call brings should be there and nobody may change it yet.

        Raises:
          StaleRead: something is not there.
        """

    def error(self) -> float:
        """Relative error of the result; infinite if a tile is missing."""


class Workload(Protocol):
    """Makes the tasks."""

    def start(self, rng: np.random.Generator, expected: Expected) -> Task:
        """The work of one rank in the next call."""


@dataclass(frozen=True)
class Gemm:
    """C = A Bᵀ with B local to each rank and A the first buffer, which the plan has to gather.

    Attributes:
      tile: rows and columns of a tile of C; tile coordinates count these.
      columns: N, the rows of B and the columns of C.
    """

    tile: tuple[int, int]
    columns: int

    def start(self, rng: np.random.Generator, expected: Expected) -> Task:
        """Draws a rank's B."""
        return _GemmTask(self, rng, expected.inputs[0])


class _GemmTask:
    def __init__(self, gemm: Gemm, rng: np.random.Generator, gathered: Buffer) -> None:
        self._gemm, self._gathered = gemm, gathered
        self._local = rng.standard_normal((gemm.columns, gathered.shape[1]), np.float32)
        self._out = np.full((gathered.shape[0], gemm.columns), np.nan)

    def compute(self, coords: tuple[int, ...], read: Read) -> None:
        height, width = self._gemm.tile
        shape = self._gathered.shape
        row, column = coords[0] * height, coords[1] * width
        height = min(height, shape[0] - row)
        data = decode(read(0, (row, 0), (height, shape[1])), self._gathered.dtype)
        window = slice(column, column + width)
        self._out[row : row + height, window] = data.astype(np.float32) @ self._local[window].T

    def close(self, memory: Sequence[Buffer]) -> None:
        pass

    def error(self) -> float:
        whole = decode(self._gathered.data, self._gathered.dtype).reshape(self._gathered.shape)
        expected = whole.astype(np.float64) @ self._local.T.astype(np.float64)
        error = np.abs(self._out - expected).max() / np.abs(expected).max()
        return float(np.nan_to_num(error, nan=np.inf))


@dataclass(frozen=True)
class Reads:
    """Every tile reads its footprints and has to find what the plan brings there, byte for byte.

    At the end of the call, everything that was brought to the rank has to be there, whether tiles read it or not.

    Attributes:
      accesses: the regions that a tile reads; what it writes is not looked at.
      tiles: number of tiles.
    """

    accesses: tuple[Access, ...]
    tiles: int

    @staticmethod
    def of(schedule: Schedule) -> Reads:
        """The reads of a schedule's kernel."""
        reads = tuple(access for access in schedule.accesses if not access.writes)
        return Reads(reads, int(np.prod(schedule.tiles)))

    def start(self, rng: np.random.Generator, expected: Expected) -> Task:
        """Has nothing to draw."""
        return _ReadsTask(self, expected)


class _ReadsTask:
    def __init__(self, reads: Reads, expected: Expected) -> None:
        self._reads, self._expected = reads, expected
        self._seen: set[tuple[int, ...]] = set()

    def compute(self, coords: tuple[int, ...], read: Read) -> None:
        for access in self._reads.accesses:
            buffer = self._expected.memory[access.buffer]
            offsets, sizes = _clip(access.offsets(coords), access.sizes, buffer.shape)
            if 0 in sizes:
                continue
            found = read(access.buffer, offsets, sizes)
            _compare(found, buffer.rectangle(offsets, sizes)[0], buffer.name, offsets)
        self._seen.add(coords)

    def close(self, memory: Sequence[Buffer]) -> None:
        for found, expected in zip(memory, self._expected.memory, strict=True):
            brought = expected.stamp != NEVER
            wrong = brought & ((found.data != expected.data) | (found.stamp != expected.stamp))
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0]) // expected.row_bytes
                raise StaleRead(f"row {row} of {expected.name} is not what the plan brings there")

    def error(self) -> float:
        return 0.0 if len(self._seen) == self._reads.tiles else np.inf


def _clip(
    offsets: Sequence[int], sizes: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    begins = tuple(min(max(offset, 0), bound) for offset, bound in zip(offsets, shape, strict=True))
    ends = [
        min(max(offset + size, 0), bound)
        for offset, size, bound in zip(offsets, sizes, shape, strict=True)
    ]
    return begins, tuple(max(end - begin, 0) for begin, end in zip(begins, ends, strict=True))


def _compare(found: Any, expected: Any, name: str, offsets: tuple[int, ...]) -> None:
    if not np.array_equal(found, expected):
        row = offsets[0] + int(np.argwhere(found != expected)[0][0])
        raise StaleRead(f"row {row} of {name} is not what the plan brings there")
