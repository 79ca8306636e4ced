"""Where a lowered plan's buffers hold the tiles of library calls. Pure numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from syncopate.abi import NO_SLOT, LibraryCall
from syncopate.dtypes import DTYPES
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
    spec, world = buffers[source], len(tables)
    kind = LibraryCall(calls[0][0]["transfer"])
    block = spec.shape[0] if kind is LibraryCall.ALL_REDUCE else -(-spec.shape[0] // world)
    slot_bytes = math.prod(shape) * DTYPES[spec.dtype].nbytes
    slots = np.zeros((2, -(-spec.shape[0] // shape[0]), -(-spec.shape[1] // shape[1])), np.int64)
    for number, column in enumerate(("slot", "second")):
        slots[number, places[:, 0], places[:, 1]] = tables[0]["slots"].column(column)
    outputs = []
    for rank in range(world):
        part = 0 if kind is LibraryCall.ALL_REDUCE else rank
        first, end = part * block, min((part + 1) * block, spec.shape[0])
        mine = np.arange(first // shape[0], max(-(-end // shape[0]), first // shape[0]))
        # A tile that begins in the block before has its second slot for this one.
        found = slots[(mine * shape[0] < first).astype(np.int64), mine]
        if kind is LibraryCall.ALL_TO_ALL:
            found = _exchange(found, calls[rank], slot_bytes, rank, world)
        outputs.append(tuple(found.ravel().tolist()))
    last = calls[0][-1]
    count = (last["src_offset"] + last["row_bytes"] * max(last["rows"], last["parts"])) // slot_bytes
    placed = TileSlots(
        tile=shape,
        count=count,
        stored=tuple(sorted(set(slots.ravel().tolist()) - {NO_SLOT})),
        block_rows=block,
        begins=tuple(
            0 if kind is LibraryCall.ALL_REDUCE else rank * block % shape[0] for rank in range(world)
        ),
        outputs=tuple(outputs),
    )
    result = list(buffers)
    result[source] = replace(spec, slots=placed)
    result[target] = replace(buffers[target], slots=placed)
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
    mine: Int64Array, calls: Sequence[Mapping[str, int]], slot_bytes: int, rank: int, world: int
) -> Int64Array:
    """Where a rank finds the tiles of what it gets from each: in the same place of a call as its block is at theirs."""
    begins = np.asarray([call["src_offset"] // slot_bytes for call in calls])
    parts = np.asarray([call["row_bytes"] // slot_bytes for call in calls])
    call = np.searchsorted(begins, mine, side="right") - 1
    own = begins[call] + rank * parts[call]
    return np.concatenate([mine - own + begins[call] + peer * parts[call] for peer in range(world)])
