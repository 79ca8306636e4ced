"""What a picture of a schedule shows, read off the schedule tables of all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from syncopate.abi import STAGING, Realization
from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.runtime.interface import BufferSpec, Region

Row = dict[str, int]


@dataclass(frozen=True)
class Transfer:
    """One command: a region that `by` copies from rank `src` to rank `dst`.

    A rank whose input others get first stages it: it copies its own input, from where the caller keeps it, to the
    region of its own buffer that others read.

    Attributes:
      origin: the rank whose input the region is, which a ring forwards.
      signals: the flags, as (rank, index), that say that it has arrived.
      raises: the same by name: what the flag is called, and whose it is.
      waits: names of the flags of `by` that it waits for.
      staging: whether the command stages the rank's own input.
    """

    by: int
    src: int
    dst: int
    origin: int
    region: str
    realization: str
    signals: tuple[tuple[int, int], ...]
    raises: tuple[tuple[str, int], ...]
    waits: tuple[str, ...]
    staging: bool = False


@dataclass(frozen=True)
class Tile:
    """A tile at its position in a rank's order.

    Attributes:
      waits: the transfers that it waits for; none where an earlier tile of the
        same CTA has waited for them.
      origins: the ranks whose input it reads.
    """

    coords: tuple[int, ...]
    position: int
    waits: tuple[Transfer, ...]
    origins: tuple[int, ...]


@dataclass(frozen=True)
class Lane:
    """One rank: its tiles in order and the commands that it carries out."""

    rank: int
    tiles: tuple[Tile, ...]
    transfers: tuple[Transfer, ...]


def _region(buffer: BufferSpec, row: Row) -> tuple[str, int]:
    """A command's destination region in words, and the rank whose input it is."""
    size = DTYPES[buffer.dtype].nbytes
    stride = prod(buffer.shape[1:]) * size
    top, left = row["dst_offset"] // stride, row["dst_offset"] % stride // size
    # Rows that lie behind one another may have become one long row.
    height = row["rows"] * max(1, row["row_bytes"] // stride)
    right = left + min(row["row_bytes"], stride) // size
    words = f"{buffer.name}[{top}:{top + height}, {left}:{right}]"
    holders = _holders(buffer, (top, left), (1, 1))
    return words, holders[0] if holders else row["src_rank"]


def _holders(
    buffer: BufferSpec, offsets: tuple[int, int], sizes: tuple[int, int]
) -> tuple[int, ...]:
    """The ranks whose input overlaps a region; of a buffer that is no matrix only the first dimension counts."""
    dims = 2 if len(buffer.shape) == 2 else 1

    def overlaps(region: Region) -> bool:
        bounds = (offsets, sizes, region.offsets, region.sizes)
        spans = zip(*(bound[:dims] for bound in bounds), strict=True)
        return all(a < c + d and c < a + b for a, b, c, d in spans)

    return tuple(r for r, regions in enumerate(buffer.inputs) if any(map(overlaps, regions)))


def signal_name(program: Any, signal: int) -> str:
    """A flag in the words of docs/protocol.md: `s3`, `done[1]`, `engine_done`."""
    layout, world = program.signal_layout, program.world_size
    for kind in ("ready", "done", "ready_twin", "done_twin"):
        first = getattr(layout, kind)
        if first <= signal < first + world:
            return f"{kind}[{signal - first}]"
    return "engine_done" if signal == layout.engine_done else f"s{signal}"


def read_lanes(program: Any) -> list[Lane]:
    """One `Lane` per rank of `program`.

    A tile is taken to read the rows of the first buffer that `tile_shape[0]` and
    its first coordinate give, as a GEMM's does; where the shape is not known, what
    it or an earlier tile of its CTA waits for.
    """
    gathered = program.buffers[0]
    try:
        height = program.tile_shape[0]
    except SyncopateError:
        height = None
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
                tuple((signal_name(program, s["signal"]), s["rank"]) for s in signals),
                tuple(signal_name(program, w["signal"]) for w in waits),
                row["transfer"] == STAGING,
            )
            carried[-1].append(transfer)
            for key in transfer.signals:
                raised.setdefault(key, []).append(transfer)
    lanes = []
    for rank, table in enumerate(tables):
        tiles: list[Tile] = []
        for position, row in enumerate(table["tiles"]):
            waits = table["waits"][row["wait_begin"] : row["wait_end"]]
            found = (t for w in waits for t in raised.get((rank, w["signal"]), ()))
            coords = (row["c0"], row["c1"], row["c2"])
            transfers = tuple(dict.fromkeys(found))
            if height is not None:
                first_row, columns = coords[0] * height, gathered.shape[-1]
                origins = _holders(gathered, (first_row, 0), (height, columns))
            elif transfers:
                origins = tuple(dict.fromkeys(t.origin for t in transfers))
            else:
                before = position - program.num_ctas
                origins = tiles[before].origins if before >= 0 else (rank,)
            tiles.append(Tile(coords, position, transfers, origins))
        lanes.append(Lane(rank, tuple(tiles), tuple(carried[rank])))
    return lanes
