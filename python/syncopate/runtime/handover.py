"""What a rank's tiles hand over to the communication role beside them, as kernels read it. Pure numpy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from syncopate.abi import NO_RECORD, Realization
from syncopate.errors import InternalError
from syncopate.runtime.commands import split_commands
from syncopate.tables import Int64Array, Table

__all__ = [
    "HandingTile",
    "Handover",
    "common_ring",
    "find_handover",
    "handing_tile",
    "queued_commands",
    "ring_role",
    "tile_numbers",
]


@dataclass(frozen=True)
class Handover:
    """The commands that tiles hand over, and in which records.

    Attributes:
        begin: By tile, row-major in the grid, the first of its commands as the kernel reads them.
        end: The one after the last; `begin` for a tile that hands nothing over.
        record: The how-manieth tile of its CTA it is that does, or NO_RECORD.
        records: By CTA that computes, how many of its tiles do.
    """

    begin: Int64Array
    end: Int64Array
    record: Int64Array
    records: Int64Array


@dataclass(frozen=True)
class HandingTile:
    """A tile that hands a command over: its number in the grid, and its position in the order."""

    number: int
    position: int


def handing_tile(tables: Mapping[str, Table], command: int) -> HandingTile | None:
    """The tile that hands over a row of the table of commands, if one does."""
    rows = tables["tile_groups"]
    begin, end = rows.column("command_begin"), rows.column("command_end")
    found = np.flatnonzero((begin <= command) & (command < end))
    if not found.size:
        return None
    return HandingTile(int(found[0]), int(_positions(tables)[found[0]]))


def _positions(tables: Mapping[str, Table]) -> Int64Array:
    """Where each tile, row-major in the grid, stands in the order."""
    # Tiles are the cells of the grid, each once: in the order of their coordinates, they have their numbers. Of those
    # that several CTAs compute, the parts come one after another, with their numbers for the third coordinate.
    tiles = tables["tiles"]
    order: Int64Array = np.lexsort([tiles.column(name) for name in ("c2", "c1", "c0")])
    if 0 < len(tables["tile_groups"].values) < len(order):
        order = order[tiles.column("c2")[order] == 0]
    return order


def tile_numbers(tables: Mapping[str, Table]) -> Int64Array:
    """The number, row-major in the grid, of the tile at each position of the order; zeros if no tile stores a chunk."""
    tiles, groups = tables["tiles"], tables["tile_groups"]
    if not len(groups.values):
        return np.zeros(len(tiles.values), np.int64)
    # As in `_positions`: the third coordinate of parts is none of their tile.
    names = ("c0", "c1") if len(groups.values) < len(tiles.values) else ("c0", "c1", "c2")
    cells = np.stack([tiles.column(name) for name in names], axis=1)
    numbers: Int64Array = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    return numbers


def _handed(tables: Mapping[str, Table]) -> Int64Array:
    """Rows of the table of commands that tiles hand over."""
    rows = tables["tile_groups"]
    begin, end = rows.column("command_begin"), rows.column("command_end")
    some = np.flatnonzero(begin < end)
    pairs = zip(begin[some].tolist(), end[some].tolist(), strict=True)
    ranges = [np.arange(*pair) for pair in pairs]
    return np.concatenate([np.zeros(0, np.int64), *ranges])


def ring_role(tables: Mapping[str, Table]) -> Realization | None:
    """The realization of the role that a rank's tiles hand commands over to, if they do."""
    handed = _handed(tables)
    if not handed.size:
        return None
    return Realization(int(tables["commands"].column("realization")[handed[0]]))


def common_ring(tables: Iterable[Mapping[str, Table]]) -> Realization | None:
    """The same for all ranks, which share one kernel.

    Args:
        tables: The tables of all ranks.

    Raises:
        InternalError: Tiles of different ranks hand over to different roles.
    """
    roles = {role for role in map(ring_role, tables) if role is not None}
    if len(roles) > 1:
        raise InternalError(
            f"tiles hand commands over to {len(roles)} roles, but there is one ring"
        )
    return next(iter(roles), None)


def queued_commands(tables: Mapping[str, Table], role: Realization) -> int:
    """How many commands of a role no tile hands over: the first ones of the role, as the kernel reads them."""
    realization = tables["commands"].column("realization")
    handed = realization[_handed(tables)]
    return int((realization == role).sum() - (handed == role).sum())


def find_handover(tables: Mapping[str, Table], ctas: int) -> Handover:
    """Says which records a rank's tiles write.

    Args:
        tables: The rank's tables. The tiles of one CTA are those whose positions have the same rest by `ctas`.
        ctas: CTAs that compute.
    """
    rows = tables["tile_groups"]
    device, _ = split_commands(tables["commands"])
    place = np.zeros(len(tables["commands"].values) + 1, np.int64)
    place[device] = np.arange(len(device))
    begin, end = rows.column("command_begin"), rows.column("command_end")
    count = end - begin
    first = np.where(count > 0, place[begin], 0)
    position = _positions(tables)[: len(count)]
    record = np.full(len(count), NO_RECORD, np.int64)
    records = np.zeros(ctas, np.int64)
    for tile in np.argsort(position, kind="stable").tolist():
        if count[tile]:
            cta = position[tile] % ctas
            record[tile] = records[cta]
            records[cta] += 1
    return Handover(first, first + count, record, records)
