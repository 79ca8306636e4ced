"""Which of a lowered plan's buffers hold the tiles of library calls, and where. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from syncopate.abi import NO_SLOT
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
    stored = {
        slot
        for column in ("slot", "second")
        for slot in tables[0]["slots"].column(column).tolist()
        if slot != NO_SLOT
    }
    outputs = tuple(
        tuple(SlotRows(*row) for row in of_rank["outputs"].values.tolist()) for of_rank in tables
    )
    for row in layout.rows():
        slots = TileSlots(
            (row["rows"], row["columns"]), row["count"], tuple(sorted(stored)), outputs
        )
        result[row["buffer"]] = replace(buffers[row["buffer"]], slots=slots)
    return tuple(result)
