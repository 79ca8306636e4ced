"""What of a plan the code of its fused kernel depends on; all else is in tables.

Whatever the passes that fuse a kernel look at in a plan has to be here: programs of one kernel, compiled alike, whose
plans have equal features share one image, whatever their shapes, tile orders and transfers.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncopate.abi import Realization
from syncopate.plan import Schedule
from syncopate.runtime.commands import (
    adds_unordered,
    copy_unit,
    is_counted,
    loads_remotely,
    reduced_type,
    roles_of,
)
from syncopate.runtime.handover import common_ring
from syncopate.slot_tables import count_split_rows

__all__ = ["KernelFeatures", "find_features"]


@dataclass(frozen=True)
class SlotFeatures:
    """How the stores of tiles are moved to their slots.

    Attributes:
        tile_rows: Rows of a slot.
        are_rows: Whether a slot is as wide as the buffer, so that columns stay where they are.
        origins: Where the code has the parts of a tile begin, as affine maps.
        split_rows: Rows of a tile, if some are stored row by row, or 0.
        inner_tiles: Sizes of the grid of tiles without the first: coordinates are made of a tile's number.
    """

    tile_rows: int
    are_rows: bool
    origins: tuple[str, ...]
    split_rows: int
    inner_tiles: tuple[int, ...]


@dataclass(frozen=True)
class KernelFeatures:
    """What a fused kernel is made for.

    Attributes:
        roles: The roles beside the computation, by their realizations.
        unit: Bytes that roles on loads and stores move at once.
        remote_loads: Whether some role loads from another rank.
        reduced: Element type, as MLIR spells it, of what commands reduce, if any does.
        ring: Of the co-located roles the one that tiles hand commands over to, if they do.
        unordered: Whether some command adds to what others may be adding to at the same time.
        counted: Whether rows of commands, or what tiles need, are read at run time.
        comm_ctas: CTAs of a launch in front of those that compute.
        dimensions: How many coordinates a tile has.
        stored: Arguments by which tiles write what the plan says that they compute, and whether some tile adds to what
            is there.
        has_one_tile: Whether the grid is a single tile, whose address need not be made of coordinates, if something is
            stored.
        slots: How tiles are stored in slots, if library calls take them.
        separate: Arguments bound to a buffer with inputs that no other argument has: these may lie elsewhere, if the
            plan lets them.
    """

    roles: frozenset[Realization]
    unit: int
    remote_loads: bool
    reduced: str | None
    ring: Realization | None
    unordered: bool
    counted: bool
    comm_ctas: int
    dimensions: int
    stored: tuple[tuple[str, bool], ...]
    has_one_tile: bool
    slots: SlotFeatures | None
    separate: tuple[str, ...]

    @property
    def key(self) -> str:
        """A text that tells features apart, the same in every process."""
        roles = [role.spelling for role in sorted(self.roles)]
        others = {name: value for name, value in vars(self).items() if name != "roles"}
        return f"{roles} {others}"


def find_features(schedule: Schedule) -> KernelFeatures:
    """Reads the features of a plan off its schedule.

    Raises:
        SyncopateError: Commands reduce elements of several types, or of a type that cannot be added.
    """
    tables = schedule.tables
    bound, produced = schedule.bound, schedule.produced
    held = {buffer.name for buffer in schedule.buffers if any(buffer.inputs)}
    written = {access.argument for access in schedule.accesses if access.writes}
    stored = tuple((arg, produced[bound[arg]]) for arg in sorted(written) if bound[arg] in produced)
    return KernelFeatures(
        roles=roles_of(tables),
        unit=copy_unit(tables),
        remote_loads=loads_remotely(tables),
        reduced=reduced_type(tables, schedule.buffers),
        ring=common_ring(tables),
        unordered=adds_unordered(tables),
        counted=is_counted(tables),
        comm_ctas=schedule.comm_ctas,
        dimensions=len(schedule.tiles),
        stored=stored,
        has_one_tile=bool(stored) and all(size == 1 for size in schedule.tiles),
        slots=_find_slots(schedule),
        separate=tuple(
            sorted(
                arg
                for arg, name in bound.items()
                if name in held and list(bound.values()).count(name) == 1
            )
        ),
    )


def _find_slots(schedule: Schedule) -> SlotFeatures | None:
    """What is special about stores where library calls take tiles; None where none does."""
    tables = schedule.tables[0]
    if not len(tables["slots"].values):
        return None
    writes = [
        access
        for access in schedule.accesses
        if access.writes and schedule.buffers[access.buffer].slots is not None
    ]
    buffer = schedule.buffers[writes[0].buffer]
    slots = buffer.slots
    assert slots is not None
    return SlotFeatures(
        tile_rows=slots.tile[0],
        are_rows=slots.tile[1] == buffer.shape[1],
        origins=tuple(access.map for access in writes),
        split_rows=count_split_rows(tables),
        inner_tiles=tuple(schedule.tiles[1:]),
    )
