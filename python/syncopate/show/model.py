"""What a picture of a schedule shows, read off the schedule tables of all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from syncopate.runtime.interface import ITEM_BYTES, BufferSpec, Program, Realization

Row = dict[str, int]


@dataclass(frozen=True)
class Transfer:
    """One command: a region that `by` copies from rank `src` to rank `dst`.

    Attributes:
      origin: the rank whose input the region is, which a ring forwards.
      signals: the flags of `dst`, or of `by`, that say that it has arrived.
    """

    by: int
    src: int
    dst: int
    origin: int
    region: str
    realization: str
    signals: tuple[tuple[int, int], ...]
    waits: tuple[int, ...]


@dataclass(frozen=True)
class Tile:
    """A tile at its position in a rank's order, with the transfers that it waits for."""

    coords: tuple[int, ...]
    position: int
    waits: tuple[Transfer, ...]


@dataclass(frozen=True)
class Lane:
    """One rank: its tiles in order and the transfers that it carries out."""

    rank: int
    tiles: tuple[Tile, ...]
    transfers: tuple[Transfer, ...]


def _region(buffer: BufferSpec, row: Row) -> tuple[str, int]:
    """A command's destination region in words, and the rank whose input it is."""
    size = ITEM_BYTES[buffer.dtype]
    stride = prod(buffer.shape[1:]) * size
    top, left = row["dst_offset"] // stride, row["dst_offset"] % stride // size
    right = left + row["row_bytes"] // size
    words = f"{buffer.name}[{top}:{top + row['rows']}, {left}:{right}]"
    for rank, regions in enumerate(buffer.inputs):
        for region in regions:
            at = zip((top, left), region.offsets, region.sizes, strict=True)
            if all(0 <= point - start < length for point, start, length in at):
                return words, rank
    return words, row["src_rank"]


def read_lanes(program: Program) -> list[Lane]:
    """One `Lane` per rank of `program`."""
    tables = [
        {name: table.rows() for name, table in program.rank_tables(rank).items()}
        for rank in range(program.world_size)
    ]
    carried: list[list[Transfer]] = []
    raised: dict[tuple[int, int], list[Transfer]] = {}
    for rank, table in enumerate(tables):
        carried.append([])
        for row in table["commands"]:
            region, origin = _region(program.buffers[row["dst_buffer"]], row)
            signals = table["signals"][row["signal_begin"] : row["signal_end"]]
            waits = table["waits"][row["wait_begin"] : row["wait_end"]]
            transfer = Transfer(
                rank,
                row["src_rank"],
                row["dst_rank"],
                origin,
                region,
                Realization(row["realization"]).name.lower(),
                tuple((s["rank"], s["signal"]) for s in signals),
                tuple(w["signal"] for w in waits),
            )
            carried[-1].append(transfer)
            for key in transfer.signals:
                raised.setdefault(key, []).append(transfer)
    lanes = []
    for rank, table in enumerate(tables):
        tiles = []
        for position, row in enumerate(table["tiles"]):
            waits = table["waits"][row["wait_begin"] : row["wait_end"]]
            found = (t for w in waits for t in raised.get((rank, w["signal"]), ()))
            coords = (row["c0"], row["c1"], row["c2"])
            tiles.append(Tile(coords, position, tuple(dict.fromkeys(found))))
        lanes.append(Lane(rank, tuple(tiles), tuple(carried[rank])))
    return lanes
