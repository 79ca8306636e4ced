"""Where a lowered plan's buffers hold the tiles of library calls. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from syncopate.abi import LibraryCall
from syncopate.runtime.interface import BufferSpec, Int64Array, Table, TileSlots

if TYPE_CHECKING:
    from syncopate.plan.schedule import Access

__all__ = ["place_slots"]


def place_slots(
    buffers: Sequence[BufferSpec],
    tables: Sequence[Mapping[str, Table]],
    accesses: Sequence[Access],
    tiles: Sequence[int],
) -> tuple[BufferSpec, ...]:
    """The buffers, those that library calls read or write with their slots.

    Args:
        buffers: Of a lowered plan.
        tables: Its tables, by rank.
        accesses: What a tile of its kernel reads and writes.
        tiles: Sizes of the grid of tiles.
    """
    calls = [_calls(rank_tables["commands"]) for rank_tables in tables]
    if not calls or not calls[0]:
        return tuple(buffers)
    source, target = calls[0][0]["src_buffer"], calls[0][0]["dst_buffer"]
    writes = [access for access in accesses if access.writes and access.buffer == source]
    shape, places = _find_tiles(writes, tiles)
    spec = buffers[source]
    grid = (-(-spec.shape[0] // shape[0]), -(-spec.shape[1] // shape[1]))
    world = len(tables)
    of_rank = []
    for rank_tables in tables:
        slots = np.zeros(grid, np.int64)
        slots[places[:, 0], places[:, 1]] = rank_tables["slots"].column("slot")
        of_rank.append(slots)
    slot_bytes = shape[0] * shape[1] * spec.nbytes // (spec.shape[0] * spec.shape[1])
    ends = [
        (row["src_offset"] + row["row_bytes"] * max(row["rows"], row["parts"])) // slot_bytes
        for row in calls[0]
    ]
    result = list(buffers)
    kind = LibraryCall(calls[0][0]["transfer"])
    if kind is LibraryCall.ALL_TO_ALL:
        received = [
            _exchange(of_rank[rank], calls[rank], slot_bytes, rank, world) for rank in range(world)
        ]
        result[target] = replace(buffers[target], slots=_freeze(shape, max(ends), received))
    result[source] = replace(spec, slots=_freeze(shape, max(ends), of_rank))
    return tuple(result)


def _calls(commands: Table) -> list[dict[str, int]]:
    kinds = {int(kind) for kind in LibraryCall}
    return [row for row in commands.rows() if row["transfer"] in kinds]


def _find_tiles(writes: Sequence[Access], tiles: Sequence[int]) -> tuple[tuple[int, int], Int64Array]:
    """Rows and columns of a tile, and of each tile, row-major in the grid, where it stands among those of the buffer."""
    coordinates = list(product(*map(range, tiles)))
    begins = np.asarray([[write.offsets(at) for write in writes] for at in coordinates], np.int64)
    sizes = np.asarray([write.sizes for write in writes], np.int64)
    first = begins.min(axis=1)
    rows, columns = ((begins + sizes).max(axis=1) - first)[0].tolist()
    return (rows, columns), first // (rows, columns)


def _exchange(
    slots: Int64Array, calls: Sequence[Mapping[str, int]], slot_bytes: int, rank: int, world: int
) -> Int64Array:
    """Where a rank finds the tiles of what it gets from each: in the same place of a call as its block is at theirs."""
    rows = slots.shape[0] // world
    mine = slots[rank * rows : (rank + 1) * rows]
    begins = np.asarray([call["src_offset"] // slot_bytes for call in calls])
    parts = np.asarray([call["row_bytes"] // slot_bytes for call in calls])
    call = np.searchsorted(begins, mine, side="right") - 1
    own = begins[call] + rank * parts[call]
    return np.concatenate([mine - own + begins[call] + peer * parts[call] for peer in range(world)])


def _freeze(shape: tuple[int, int], count: int, of_rank: Sequence[Int64Array]) -> TileSlots:
    return TileSlots(shape, count, tuple(tuple(slots.ravel().tolist()) for slots in of_rank))
