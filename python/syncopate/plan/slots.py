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
    by_rows: bool,
) -> tuple[BufferSpec, ...]:
    """The buffers, those that library calls read or write with their slots.

    Args:
        buffers: Of a lowered plan.
        tables: Its tables, by rank.
        accesses: What a tile of its kernel reads and writes.
        tiles: Sizes of the grid of tiles.
        by_rows: Whether a slot holds a whole row of tiles.
    """
    calls = [_calls(rank_tables["commands"]) for rank_tables in tables]
    if not calls or not calls[0]:
        return tuple(buffers)
    first = calls[0][0]
    source, target = first["src_buffer"], first["dst_buffer"]
    spec, world = buffers[source], len(tables)
    tile, places = _find_tiles(
        [access for access in accesses if access.writes and access.buffer == source], tiles
    )
    shape = (tile[0], spec.shape[1]) if by_rows else tile
    kind = LibraryCall(first["transfer"])
    block = spec.shape[0] if kind is LibraryCall.ALL_REDUCE else -(-spec.shape[0] // world)
    nbytes = math.prod(shape) * DTYPES[spec.dtype].nbytes
    slots = np.zeros(
        (2, *(-(-n // step) for n, step in zip(spec.shape, shape, strict=True))), np.int64
    )
    columns = places[:, 1] * tile[1] // shape[1]
    for number, column in enumerate(("slot", "second")):
        slots[number, places[:, 0], columns] = tables[0]["slots"].column(column)
    outputs, begins = [], []
    for rank in range(world):
        part = 0 if kind is LibraryCall.ALL_REDUCE else rank
        begin, end = part * block, min((part + 1) * block, spec.shape[0])
        mine = np.arange(begin // shape[0], max(-(-end // shape[0]), begin // shape[0]))
        # What begins in the block before has its second slot for this one.
        found = slots[(mine * shape[0] < begin).astype(np.int64), mine]
        outputs.append(tuple(_follow(found, calls[rank], nbytes, part).ravel().tolist()))
        begins.append(begin % shape[0])
    last = calls[0][-1]
    placed = TileSlots(
        tile=shape,
        count=(last["src_offset"] + last["row_bytes"] * max(last["rows"], last["parts"])) // nbytes,
        stored=tuple(sorted(set(slots.ravel().tolist()) - {NO_SLOT})),
        block_rows=block,
        begins=tuple(begins),
        outputs=tuple(outputs),
    )
    result = list(buffers)
    result[source] = replace(spec, slots=placed)
    # Blocks that come from each rank at once lie in slots; else they are rows where the plan says.
    if source != target and first["dst_stride"] == first["row_bytes"]:
        result[target] = replace(buffers[target], slots=placed)
    return tuple(result)


def _calls(commands: Table) -> list[dict[str, int]]:
    are_calls = np.isin(commands.column("transfer"), [int(kind) for kind in LibraryCall])
    return Table(commands.columns, commands.values[are_calls]).rows()


def _find_tiles(
    writes: Sequence[Access], tiles: Sequence[int]
) -> tuple[tuple[int, int], Int64Array]:
    """Rows and columns of a tile, and of each, row-major in the grid, where it stands among those of the buffer."""
    coordinates = list(product(*map(range, tiles)))
    begins = np.asarray([[write.offsets(at) for write in writes] for at in coordinates], np.int64)
    sizes = np.asarray([write.sizes for write in writes], np.int64)
    first = begins.min(axis=1)
    rows, columns = ((begins + sizes).max(axis=1) - first)[0].tolist()
    return (rows, columns), first // (rows, columns)


def _follow(
    mine: Int64Array, calls: Sequence[Mapping[str, int]], nbytes: int, part: int
) -> Int64Array:
    """Where calls leave what comes of the slots of a rank's block: of an all-to-all, of those of all ranks' parts."""
    begins = np.asarray([call["src_offset"] // nbytes for call in calls])
    targets = np.asarray([call["dst_offset"] // nbytes for call in calls])
    counts = np.asarray([call["row_bytes"] // nbytes for call in calls])
    call = np.searchsorted(begins, mine, side="right") - 1
    inside = mine - begins[call] - part * counts[call]
    return np.concatenate(
        [targets[call] + peer * counts[call] + inside for peer in range(calls[0]["rows"])]
    )
