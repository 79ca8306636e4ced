"""What a picture of a schedule shows, read off the schedule tables of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from syncopate.abi import NO_BUFFER, STAGING, CommandReduction, LibraryCall, Realization
from syncopate.errors import SyncopateError
from syncopate.runtime.flag_names import raised_flag, waited_flag
from syncopate.show.moves import Box, Move, Origins, Row, describe_boxes, read_moves
from syncopate.tables import BufferSpec

Reads = Callable[[Sequence[int], Sequence[int]], "Iterable[Box]"]
"""What a tile reads, by its coordinates and the numbers of its steps."""


@dataclass(frozen=True)
class Transfer:
    """A region that `by` copies from rank `src` to rank `dst`: one transfer of the plan.

    A rank whose input others get first stages it: it copies its own input, from where the caller keeps it, to the
    region of its own buffer that others read.

    Attributes:
      origin: the rank whose input the region is, which a ring forwards.
      region: where it goes, as `a[0:128, 0:512]`.
      source: where it comes from, likewise.
      signals: the flags, as (rank, index), that say that it has arrived.
      raises: the same by name: what the flag is called, and whose it is.
      waits: names of the flags of `by` that it waits for.
      staging: whether it stages the rank's own input.
      tile: the tile of `by` that hands it over to the role beside it, if one does.
      reduction: how it is combined with what is there.
      parts: how many regions of the source are combined; `source` is the first.
      counted: what says how many rows it moves, as `n[3] - 256`; nothing if it
        moves all of them.
    """

    by: int
    src: int
    dst: int
    origin: int
    region: str
    source: str
    realization: str
    signals: tuple[tuple[int, int], ...]
    raises: tuple[tuple[str, int], ...]
    waits: tuple[str, ...]
    staging: bool = False
    tile: tuple[int, ...] | None = None
    reduction: CommandReduction = CommandReduction.NONE
    parts: int = 1
    counted: str = ""


@dataclass(frozen=True)
class Call:
    """A library call that all ranks make.

    Attributes:
      kind: which collective it is, as `all_reduce`.
      buffer: what is read.
      tiles: how many of the rank's tiles it takes.
      nbytes: what it reads of a rank.
      waits: names of the flags of the rank that its stream waits for.
    """

    kind: str
    buffer: str
    tiles: int
    nbytes: int
    waits: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A step of a tile that waits.

    Attributes:
      number: which step it is.
      place: how many steps of the tile come before it.
      waits: the transfers that it waits for.
      flags: names of the flags that it waits for.
    """

    number: int
    place: int
    waits: tuple[Transfer, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Tile:
    """A tile at its position in a rank's order.

    Attributes:
      starts_after: the transfers that it waits for before it starts; none where
        an earlier tile of the same CTA has waited for them.
      flags: names of the flags that it waits for, its steps included.
      origins: the ranks whose input it reads.
      steps: those of its steps that wait.
      length: how many steps it has.
    """

    coords: tuple[int, ...]
    position: int
    starts_after: tuple[Transfer, ...]
    flags: tuple[str, ...]
    origins: tuple[int, ...]
    steps: tuple[Step, ...] = ()
    length: int = 0

    @property
    def waits(self) -> tuple[Transfer, ...]:
        """The transfers that it waits for, at its start or at a step."""
        return self.starts_after + tuple(t for step in self.steps for t in step.waits)


@dataclass(frozen=True)
class Lane:
    """One rank: its tiles in order and the transfers that it carries out.

    Attributes:
      opens: flags, as (name, rank), that it raises when a call opens.
      guards: flags that must say so before its input is replaced.
      closes_after: flags that it waits for before a call ends.
      closes: flags, as (name, rank), that it raises then.
      adding: how many of its tiles add to what transfers have brought.
      needs: what says how many of the transfers that they name tiles wait for,
        as `n[7 + c0]`; nothing if they wait for all.
      calls: the library calls, in order.
    """

    rank: int
    tiles: tuple[Tile, ...]
    transfers: tuple[Transfer, ...]
    opens: tuple[tuple[str, int], ...]
    guards: tuple[str, ...]
    closes_after: tuple[str, ...]
    closes: tuple[tuple[str, int], ...]
    adding: int
    needs: str = ""
    calls: tuple[Call, ...] = ()


def _tile_reads(program: Any) -> Reads | None:
    """What a tile reads, as far as it is known.

    A plan's footprints say so. Without them, a tile is taken to read the rows of the first buffer that `tile_shape[0]`
    and its first coordinate give, as a GEMM's does.
    """
    from syncopate.plan.plan_file import find_accesses

    accesses = find_accesses(program)
    if accesses:
        dims = len(program.tiles)
        return lambda coords, steps: (
            Box(access.buffer, access.offsets(at), access.sizes)
            for access in accesses
            for at in ([(*coords[:dims], step) for step in steps] if access.at_step else [coords])
        )
    shape = program.buffers[0].shape
    try:
        height = program.tile_shape[0]
    except SyncopateError:
        return None
    inner = (0,) * (len(shape) - 1)
    return lambda coords, _: [Box(0, (coords[0] * height, *inner), (height, *shape[1:]))]


def read_lanes(program: Any) -> list[Lane]:
    """One `Lane` per rank of `program`.

    Where it is not known what a tile reads, its `origins` are those of what it or an earlier tile of its CTA waits for.
    """
    tables = [
        {name: table.rows() for name, table in program.rank_tables(rank).items()}
        for rank in range(program.world_size)
    ]
    moves = [read_moves(program.buffers, table, rank) for rank, table in enumerate(tables)]
    origins = Origins(program, [move for some in moves for move in some])
    carried = [tuple(_transfer(program, move, origins) for move in some) for some in moves]
    raised: dict[tuple[int, int], list[Transfer]] = {}
    for transfers in carried:
        for transfer in transfers:
            for key in transfer.signals:
                raised.setdefault(key, []).append(transfer)
    reads = _tile_reads(program)
    lanes = []
    for rank, table in enumerate(tables):
        call = table["calls"][0]
        rows = {
            name: table[of][call[f"{name}_begin"] : call[f"{name}_end"]]
            for name, of in (
                ("open", "signals"),
                ("guard", "waits"),
                ("close_wait", "waits"),
                ("close_signal", "signals"),
            )
        }
        lanes.append(
            Lane(
                rank,
                _read_tiles(program, rank, table, raised, reads, origins),
                carried[rank],
                _raised(program, rows["open"]),
                _waited(program, rows["guard"]),
                _waited(program, rows["close_wait"]),
                _raised(program, rows["close_signal"]),
                sum(row["accumulates"] for row in table["tile_groups"]),
                _needs(program.buffers, call),
                _calls(program, table),
            )
        )
    return lanes


def _calls(program: Any, table: Mapping[str, list[Row]]) -> tuple[Call, ...]:
    rows = [row for row in table["commands"] if row["transfer"] < STAGING]
    return tuple(
        Call(
            LibraryCall(row["transfer"]).name.lower(),
            program.buffers[row["src_buffer"]].name,
            sum(tile["call"] == number for tile in table["slots"]),
            row["row_bytes"] * max(row["rows"], row["parts"]),
            _waited(program, table["waits"][row["wait_begin"] : row["wait_end"]]),
        )
        for number, row in enumerate(rows)
    )


def _needs(buffers: Sequence[BufferSpec], call: Row) -> str:
    if call["needs_buffer"] == NO_BUFFER:
        return ""
    return f"{buffers[call['needs_buffer']].name}[{call['needs_index']} + c0]"


def _read_tiles(
    program: Any,
    rank: int,
    table: Mapping[str, list[Row]],
    raised: Mapping[tuple[int, int], list[Transfer]],
    reads: Reads | None,
    origins: Origins,
) -> tuple[Tile, ...]:
    tiles: list[Tile] = []

    def find(row: Row) -> tuple[tuple[Transfer, ...], tuple[str, ...]]:
        waits = table["waits"][row["wait_begin"] : row["wait_end"]]
        found = (t for w in waits for t in raised.get((rank, w["signal"]), ()))
        return tuple(dict.fromkeys(found)), _waited(program, waits)

    ranges = table.get("tile_steps") or [{"begin": 0, "end": 0}] * len(table["tiles"])
    for position, (row, of_tile) in enumerate(zip(table["tiles"], ranges, strict=True)):
        transfers, flags = find(row)
        coords = (row["c0"], row["c1"], row["c2"])
        rows = table["steps"][of_tile["begin"] : of_tile["end"]] if of_tile["end"] else []
        steps = tuple(
            Step(step["step"], place, *find(step))
            for place, step in enumerate(rows)
            if step["wait_begin"] < step["wait_end"]
        )
        flags += tuple(flag for step in steps for flag in step.flags)
        tile = Tile(coords, position, transfers, flags, (), steps, len(rows))
        if reads is not None:
            boxes = reads(coords, [step["step"] for step in rows])
            found = {o for box in boxes for o in origins.of_box(rank, box)}
            whose = tuple(sorted(found)) or (rank,)
        elif tile.waits:
            whose = tuple(dict.fromkeys(t.origin for t in tile.waits))
        else:
            before = position - program.num_ctas
            whose = tiles[before].origins if before >= 0 else (rank,)
        tiles.append(replace(tile, origins=whose))
    return tuple(tiles)


def _transfer(program: Any, move: Move, origins: Origins) -> Transfer:
    row = move.row
    return Transfer(
        by=move.by,
        src=row["src_rank"],
        dst=row["dst_rank"],
        origin=origins.of_transfer(move),
        region=describe_boxes(program.buffers, move.dst),
        source=describe_boxes(program.buffers, move.src),
        realization=Realization(row["realization"]).spelling,
        signals=tuple((s["rank"], s["signal"]) for s in move.signals),
        raises=_raised(program, move.signals),
        waits=_waited(program, move.waits),
        staging=row["transfer"] == STAGING,
        tile=move.tile,
        reduction=CommandReduction(row["reduction"]),
        parts=row["parts"],
        counted=_counted(program.buffers, row),
    )


def _counted(buffers: Sequence[BufferSpec], row: Row) -> str:
    if row["count_buffer"] == NO_BUFFER:
        return ""
    past = f" - {row['count_past']}" if row["count_past"] else ""
    return f"{buffers[row['count_buffer']].name}[{row['count_index']}]{past}"


def _waited(program: Any, rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(waited_flag(program, row["signal"], row["count"]) for row in rows)


def _raised(program: Any, rows: Iterable[Row]) -> tuple[tuple[str, int], ...]:
    return tuple((raised_flag(program, row["signal"]), row["rank"]) for row in rows)
