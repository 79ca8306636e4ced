"""What a picture of a schedule shows, read off the schedule tables of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from syncopate.abi import NO_BUFFER, STAGING, CommandReduction, LibraryCall, Realization
from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.runtime.flag_names import raised_flag, waited_flag
from syncopate.tables import BufferSpec

Row = dict[str, int]
Reads = Callable[[Sequence[int], Sequence[int]], "Iterable[Box]"]
"""What a tile reads, by its coordinates and the numbers of its steps."""


@dataclass(frozen=True)
class Box:
    """A region of a buffer, in elements; `buffer` is its index in the plan."""

    buffer: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def overlaps(self, other: Box) -> bool:
        """Whether both have an element in common."""
        spans = zip(self.offsets, self.sizes, other.offsets, other.sizes, strict=True)
        return self.buffer == other.buffer and all(a < c + d and c < a + b for a, b, c, d in spans)


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


@dataclass
class _Move:
    """The commands of one transfer, as they are read."""

    row: Row
    by: int
    tile: tuple[int, ...] | None = None
    src: list[Box] = field(default_factory=list)
    dst: list[Box] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    signals: list[Row] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, ...]:
        names = ("transfer", "src_rank", "dst_rank", "src_buffer", "dst_buffer")
        # A rank stages the inputs of all its buffers at once.
        return tuple(self.row[n] for n in names[: 1 if self.row["transfer"] == STAGING else 5])


def _box(buffers: Sequence[BufferSpec], row: Row, side: str) -> Box:
    """One side of a command: `rows` rows of `row_bytes`, which may cover whole inner dimensions."""
    index = row[f"{side}_buffer"]
    buffer = buffers[index]
    item = DTYPES[buffer.dtype].nbytes
    dims = len(buffer.shape)
    strides = [prod(buffer.shape[dim + 1 :]) for dim in range(dims)]
    rest, offsets = row[f"{side}_offset"] // item, []
    for stride in strides:
        offsets.append(rest // stride)
        rest %= stride
    elements, sizes = row["row_bytes"] // item, [1] * dims
    for dim in reversed(range(dims)):
        sizes[dim] = min(elements, buffer.shape[dim])
        elements = -(-elements // buffer.shape[dim])
    if row["rows"] > 1:
        # Of dimensions with the same stride all but the first have one element.
        sizes[strides.index(row[f"{side}_stride"] // item)] *= row["rows"]
    return Box(index, tuple(offsets), tuple(sizes))


def _merge(boxes: list[Box], box: Box) -> None:
    """Appends a box, as one with those before it where they make up a box."""
    while boxes and boxes[-1].buffer == box.buffer:
        last = boxes[-1]
        begins = tuple(map(min, last.offsets, box.offsets))
        ends = (
            max(a + b, c + d)
            for a, b, c, d in zip(last.offsets, last.sizes, box.offsets, box.sizes, strict=True)
        )
        sizes = tuple(end - begin for begin, end in zip(begins, ends, strict=True))
        if prod(sizes) != prod(last.sizes) + prod(box.sizes):
            break
        boxes.pop()
        box = Box(box.buffer, begins, sizes)
    boxes.append(box)


def _words(buffers: Sequence[BufferSpec], boxes: Sequence[Box]) -> str:
    parts = []
    for box in boxes:
        spans = (f"{a}:{a + b}" for a, b in zip(box.offsets, box.sizes, strict=True))
        parts.append(f"{buffers[box.buffer].name}[{', '.join(spans)}]")
    return " and ".join(parts)


def _read_moves(
    buffers: Sequence[BufferSpec], tables: Mapping[str, list[Row]], by: int
) -> list[_Move]:
    moves: list[_Move] = []
    # Tiles are the cells of a grid, each once: in the order of their coordinates, they have their numbers. Of those
    # that several CTAs compute, the parts come one after another, with their numbers for the third coordinate.
    tiles = sorted((row["c0"], row["c1"], row["c2"]) for row in tables["tiles"])
    if 0 < len(tables["tile_groups"]) < len(tiles):
        tiles = [tile for tile in tiles if tile[2] == 0]
    handed = {
        number: tile
        for tile, row in zip(tiles, tables["tile_groups"], strict=False)
        for number in range(row["command_begin"], row["command_end"])
    }
    for number, row in enumerate(tables["commands"]):
        if row["transfer"] < STAGING:
            continue
        move = _Move(row, by, handed.get(number))
        if moves and moves[-1].key == move.key:
            move = moves[-1]
        else:
            moves.append(move)
        _merge(move.src, _box(buffers, row, "src"))
        _merge(move.dst, _box(buffers, row, "dst"))
        move.waits += tables["waits"][row["wait_begin"] : row["wait_end"]]
        move.signals += tables["signals"][row["signal_begin"] : row["signal_end"]]
    return moves


class _Origins:
    """Whose input lies where, after all transfers."""

    def __init__(self, program: Any, moves: Iterable[_Move]) -> None:
        self._inputs = {
            rank: [
                Box(index, region.offsets, region.sizes)
                for index, buffer in enumerate(program.buffers)
                for region in buffer.inputs[rank]
            ]
            for rank in range(program.world_size)
        }
        self._arrivals: dict[tuple[int, int], list[_Move]] = {}
        for move in moves:
            if move.row["transfer"] != STAGING:
                key = (move.row["dst_rank"], move.row["dst_buffer"])
                self._arrivals.setdefault(key, []).append(move)
        self._known: dict[tuple[int, Box], tuple[int, ...]] = {}

    def of_transfer(self, move: _Move) -> int:
        """The rank whose input a transfer copies or forwards."""
        seen: set[int] = set()
        while id(move) not in seen:
            seen.add(id(move))
            source = move.row["src_rank"]
            if _touch(move.src, self._inputs[source]):
                return source
            arrivals = self._arrivals.get((source, move.row["src_buffer"]), ())
            move = next((m for m in arrivals if _touch(m.dst, move.src)), move)
        return int(move.row["src_rank"])

    def of_box(self, rank: int, box: Box) -> tuple[int, ...]:
        """The ranks whose inputs a region of a rank's buffer holds in the end."""
        if (rank, box) not in self._known:
            found = {rank} if _touch([box], self._inputs[rank]) else set()
            for move in self._arrivals.get((rank, box.buffer), ()):
                if _touch(move.dst, [box]):
                    found.add(self.of_transfer(move))
            self._known[rank, box] = tuple(sorted(found))
        return self._known[rank, box]


def _touch(some: Iterable[Box], others: Sequence[Box]) -> bool:
    return any(a.overlaps(b) for a in some for b in others)


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
    moves = [_read_moves(program.buffers, table, rank) for rank, table in enumerate(tables)]
    origins = _Origins(program, [move for some in moves for move in some])
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
    origins: _Origins,
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


def _transfer(program: Any, move: _Move, origins: _Origins) -> Transfer:
    row = move.row
    return Transfer(
        by=move.by,
        src=row["src_rank"],
        dst=row["dst_rank"],
        origin=origins.of_transfer(move),
        region=_words(program.buffers, move.dst),
        source=_words(program.buffers, move.src),
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
