"""What the passes have made of a plan, as data: tables of a rank, buffers and what lies where in them, flags.

Compiler, runtime, simulator and pictures all read it. numpy only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syncopate.dtypes import DTYPES
from syncopate.errors import InternalError

__all__ = [
    "BufferSpec",
    "Int64Array",
    "Region",
    "SignalLayout",
    "SignalMeaning",
    "SlotRows",
    "Table",
    "TileSlots",
    "count_rows",
    "first_row",
    "slot_rows",
]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """One schedule table of one rank.

    Attributes:
        columns: Names of the columns.
        values: int64 array of shape [rows, len(columns)].
    """

    columns: tuple[str, ...]
    values: Int64Array

    def __post_init__(self) -> None:
        # A table without rows has columns all the same.
        object.__setattr__(self, "values", self.values.reshape(-1, len(self.columns)))

    def column(self, name: str) -> Int64Array:
        """The values of one column, int64 [rows]."""
        return self.values[:, self.columns.index(name)]

    def rows(self) -> list[dict[str, int]]:
        """Every row as a mapping from column to value."""
        return [dict(zip(self.columns, map(int, row), strict=True)) for row in self.values]


def count_rows(tables: Mapping[str, Table], name: str) -> int:
    """Rows of one of a rank's tables, which is left out where it would have none."""
    return len(tables[name].values) if name in tables else 0


@dataclass(frozen=True)
class Region:
    """A rectangle of a buffer, in elements."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class SlotRows(NamedTuple):
    """Rows of an output, in one column of tiles, that lie in one slot, one behind the other.

    Attributes:
        row: The first of them, in the output.
        rows: How many.
        column: The column of tiles.
        slot: The slot.
        inside: Its row in which the first of them lies.
    """

    row: int
    rows: int
    column: int
    slot: int
    inside: int


@dataclass(frozen=True)
class TileSlots:
    """How a buffer holds tiles where a collective is library calls: each in a slot, one below the other.

    A slot may hold a whole row of tiles, which then counts as one tile.

    Attributes:
        tile: Rows and columns of a slot.
        count: Number of slots, those included that stay empty.
        stored: Slots in which tiles are stored, ascending.
        outputs: For each rank, where its output lies; nothing if that does not lie in slots.
    """

    tile: tuple[int, int]
    count: int
    stored: tuple[int, ...]
    outputs: tuple[tuple[SlotRows, ...], ...]


@dataclass(frozen=True)
class BufferSpec:
    """A symmetric buffer of the plan.

    Attributes:
        name: The plan's name for it, and the keyword by which a call takes its input.
        shape: Shape in elements, row-major, the same on every rank.
        dtype: MLIR's spelling (a key of `syncopate.dtypes.DTYPES`).
        inputs: For each rank, the regions it holds when a call starts. A call accepts a plain tensor for a rank with
            one region.
        outputs: For each rank, the regions that a call gives back.
        slots: How it holds tiles, if it does not hold rows one behind the other.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    inputs: tuple[tuple[Region, ...], ...]
    outputs: tuple[tuple[Region, ...], ...] = ()
    slots: TileSlots | None = None

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Shape of what lies in memory, row-major: that of the buffer, or of all slots, one below the other."""
        if self.slots is None:
            return self.shape
        rows, columns = self.slots.tile
        return (self.slots.count * rows, columns)

    @property
    def nbytes(self) -> int:
        """Bytes of one rank's instance."""
        return int(np.prod(self.memory_shape, dtype=np.int64)) * DTYPES[self.dtype].nbytes


def slot_rows(spec: BufferSpec, rank: int) -> Int64Array:
    """Where the rows of a rank's output lie that library calls have left in slots.

    Args:
        spec: A buffer with slots.
        rank: A rank that gets an output in it.

    Returns:
        By row and column of tiles, the row among those of all slots, one below the other.
    """
    assert spec.slots is not None
    slots, (rows, columns) = spec.slots, spec.outputs[rank][0].sizes
    result: Int64Array = np.full((rows, -(-columns // slots.tile[1])), -1, np.int64)
    places = np.asarray(slots.outputs[rank], np.int64).reshape(-1, len(SlotRows._fields))
    row, count, column, slot, inside = places.T
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    begin = np.repeat(slot * slots.tile[0] + inside, count)
    result[np.repeat(row, count) + step, np.repeat(column, count)] = begin + step
    return result


def first_row(spec: BufferSpec, rank: int) -> int | None:
    """The row of all slots at which a rank's output begins, if it lies there row by row; None if it does not."""
    rows = slot_rows(spec, rank)
    adjacent = rows.shape[1] == 1 and bool((np.diff(rows[:, 0]) == 1).all())
    return int(rows[0, 0]) if adjacent and len(rows) else None


@dataclass(frozen=True)
class SignalLayout:
    """Where each kind of flag lies among a rank's i32 flags; the same on every rank.

    Attributes:
        data_twin: Number of transfers. Flags 0 .. data_twin-1 say that a transfer is complete (epoch); behind them
            stand as many binary twins for stream waits. Initially 0.
        ready: First of `world_size` flags: rank p has staged its input (epoch).
        ready_twin: First of `world_size` words: binary twin of `ready` for stream waits. Initially 0.
        done: First of `world_size` flags: rank p has finished its call (epoch).
        done_twin: First of `world_size` words: binary twin of `done` for stream waits. Initially 1.
        engine_done: The flag that the runtime raises after a rank's last engine command (epoch).
        group: First of the flags of groups of tiles, of all ranks: the tiles of the group are done (epoch).
        group_twin: First of as many binary twins of them for stream waits. Initially 0.
        total: Number of flags.
    """

    data_twin: int
    ready: int
    ready_twin: int
    done: int
    done_twin: int
    engine_done: int
    group: int
    group_twin: int
    total: int

    def decode(self, signal: int) -> tuple[SignalMeaning, int, bool]:
        """What a flag says, of which transfer, rank or group, and whether it is a twin.

        Raises:
            InternalError: There is no such flag.
        """
        if not 0 <= signal < self.total:
            raise InternalError(f"flag {signal} is none of {self.total}")
        blocks = (
            (SignalMeaning.DATA, 0, self.data_twin, self.ready),
            (SignalMeaning.READY, self.ready, self.ready_twin, self.done),
            (SignalMeaning.DONE, self.done, self.done_twin, self.engine_done),
            (SignalMeaning.ENGINE_DONE, self.engine_done, self.group, self.group),
            (SignalMeaning.GROUP, self.group, self.group_twin, self.total),
        )
        meaning, first, twin = next(
            (meaning, first, twin) for meaning, first, twin, end in blocks if signal < end
        )
        return meaning, signal - (twin if signal >= twin else first), signal >= twin


class SignalMeaning(enum.Enum):
    """What a flag says."""

    DATA = "a transfer is complete"
    READY = "a rank has its input in place"
    DONE = "a rank has finished its call"
    ENGINE_DONE = "the rank's side stream is through"
    GROUP = "the tiles of a group are done"
