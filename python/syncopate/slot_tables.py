"""In which slots tiles are stored: what tables say of it, and how a kernel reads it. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from syncopate.abi import NO_SLOT, STAGING
from syncopate.tables import BufferSpec, Int64Array, Table

__all__ = ["count_slot_rows", "count_split_rows", "find_stored", "pack_slots"]


def count_slot_rows(tables: Mapping[str, Table]) -> int:
    """Words of the table of rows: the rows of all tiles that are stored row by row."""
    return int(tables["slot_parts"].column("rows").sum()) if "slot_parts" in tables else 0


def count_split_rows(tables: Mapping[str, Table]) -> int:
    """Rows of a tile, if there are tiles that are stored row by row, or 0."""
    begin, end = (tables["slots"].column(name) for name in ("begin", "end"))
    split = np.flatnonzero(begin < end)
    if not split.size:
        return 0
    return int(tables["slot_parts"].column("rows")[begin[split[0]] : end[split[0]]].sum())


def find_stored(buffers: Sequence[BufferSpec], tables: Mapping[str, Table]) -> int | None:
    """Index of the buffer in whose slots tiles are stored; None without one."""
    commands = tables["commands"]
    called = commands.column("src_buffer")[commands.column("transfer") < STAGING]
    return int(called[0]) if called.size and buffers[called[0]].slots is not None else None


def pack_slots(tables: Mapping[str, Table]) -> tuple[Int64Array, Int64Array]:
    """For each tile, where the table of rows has its first one, or NO_SLOT; and that table, the slot of each row."""
    begin, end = (tables["slots"].column(name) for name in ("begin", "end"))
    slot, count = (tables["slot_parts"].column(name) for name in ("slot", "rows"))
    first = np.cumsum(count) - count
    at = np.where(begin < end, np.append(first, 0)[begin], NO_SLOT)
    step = np.arange(count.sum()) - np.repeat(first, count)
    slots = np.repeat(slot, count)
    return at, np.where(slots == NO_SLOT, NO_SLOT, slots + step)
