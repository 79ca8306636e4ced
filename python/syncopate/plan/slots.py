"""Which of a lowered plan's buffers hold the tiles of library calls, and where. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from syncopate.abi import NO_SLOT
from syncopate.slot_tables import count_split_rows
from syncopate.tables import BufferSpec, SlotRows, Table, TileSlots

__all__ = ["place_slots"]


def place_slots(
    buffers: Sequence[BufferSpec], layout: Table | None, tables: Sequence[Mapping[str, Table]]
) -> tuple[BufferSpec, ...]:
    """The buffers, those that library calls read or write with their slots, as the passes have placed them.

    Args:
        buffers: Of a lowered plan.
        layout: The plan's table of the buffers that hold slots; None if there are none.
        tables: Its tables, by rank.
    """
    result = list(buffers)
    if layout is None:
        return tuple(result)
    stored = tuple(_find_stored(of_rank) for of_rank in tables)
    outputs = tuple(
        tuple(SlotRows(*row) for row in of_rank["outputs"].values.tolist()) for of_rank in tables
    )
    for row in layout.rows():
        slots = TileSlots((row["rows"], row["columns"]), row["count"], stored, outputs)
        result[row["buffer"]] = replace(buffers[row["buffer"]], slots=slots)
    return tuple(result)


def _find_stored(tables: Mapping[str, Table]) -> tuple[tuple[int, int], ...]:
    """The ranges of slots in which tiles are stored: first, and number."""
    slot = tables["slots"].column("slot")
    # Where slots are rows, a tile that is whole has as many as it has rows.
    height = count_split_rows(tables) or 1
    ranges = {(at, height) for at in slot[slot != NO_SLOT].tolist()}
    parts = tables["slot_parts"]
    for at, count in zip(parts.column("slot").tolist(), parts.column("rows").tolist(), strict=True):
        if at != NO_SLOT:
            ranges.add((at, count))
    return tuple(sorted(ranges))
