"""The schedule tables of a program, as the simulation reads them. The same tables that kernels and runtime get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate.abi import STAGING, CommandReduction, LibraryCall, Realization
from syncopate.dtypes import DTYPES
from syncopate.model.curve import Combining, FlowDirection
from syncopate.runtime.commands import role_parts
from syncopate.tables import SignalLayout, SignalMeaning, Table

__all__ = ["Command", "RankTables", "Tile", "read_tables"]

Waits = tuple[tuple[int, int], ...]
"""Flags of the rank, each with how often it has to be raised in a call."""

_GROUPED = ("group", "accumulates", "wait_begin", "wait_end", "command_begin", "command_end")

Signals = tuple[tuple[int, int], ...]
"""Flags by rank and number."""


@dataclass(frozen=True)
class Command:
    """A row of the commands.

    Attributes:
        number: Its row.
        src: Rank of the source.
        dst: Rank of the destination.
        nbytes: What it loads: of a sum, all its parts. Rows that are counted at run time count in full.
        realization: Who carries it out.
        direction: From where to where.
        combining: How the bytes are combined with what is there.
        pause_us: What a role rests after each block.
        waits: What it waits for.
        signals: What is raised when it is complete.
        call: Which collective of a library it is, if it is one. `nbytes` then are those of the whole tensor of a rank,
            and source and destination the rank itself.
        exchange: The exchange in which it sends or receives, or NO_EXCHANGE.
    """

    number: int
    src: int
    dst: int
    nbytes: int
    realization: Realization
    direction: FlowDirection
    combining: Combining
    pause_us: float
    waits: Waits
    signals: Signals
    call: LibraryCall | None
    exchange: int


@dataclass(frozen=True)
class Tile:
    """A tile, or a part of one, at its position in the order of a rank.

    Attributes:
        number: Its number, row-major in the grid.
        parts: At how many positions it stands, at each with a part of its K loop.
        waits: What it waits for before it starts.
        steps: Where it then waits for more, as a share of what it computes, and for what.
        sum_waits: What it waits for before it adds to what is there.
        accumulates: Whether it does.
        group: Its row of the groups, or -1.
        commands: What it hands over to the role beside it.
    """

    number: int
    parts: int
    waits: Waits
    steps: tuple[tuple[float, Waits], ...]
    sum_waits: Waits
    accumulates: bool
    group: int
    commands: range


@dataclass(frozen=True)
class RankTables:
    """What one rank does in a call.

    Attributes:
        tiles: Its tiles in order.
        commands: All its commands.
        queues: By realization, the commands that its role carries out in their order, not those that tiles hand over;
            by that of copy engines, those that its stream does.
        ctas: By realization of a role, the CTAs that share each command of its queue.
        groups: By row, how many tiles a group has, however many parts they have, and what is raised when all are done.
        opening: What is raised when the kernel starts.
        closing: What the end of the call waits for.
        staged_bytes: Input that is copied before the kernel.
    """

    tiles: tuple[Tile, ...]
    commands: tuple[Command, ...]
    queues: Mapping[Realization, tuple[Command, ...]]
    ctas: Mapping[Realization, int]
    groups: tuple[tuple[int, Signals], ...]
    opening: Signals
    closing: Waits
    staged_bytes: int


def read_tables(program: Any, rank: int, *, in_place: bool = False) -> RankTables:
    """Reads the tables of one rank.

    Waits that guard a buffer against the call before are over: that call has long been complete when this one starts.

    Args:
        program: A `syncopate.runtime.interface.Program`, or a `syncopate.plan.schedule.Schedule`.
        rank: The rank.
        in_place: The caller has written the input into the symmetric buffer.
    """
    tables = program.rank_tables(rank)
    layout: SignalLayout = program.signal_layout
    waits = [
        () if count == 0 or layout.decode(signal)[0] is SignalMeaning.DONE else ((signal, count),)
        for signal, count in _columns(tables["waits"], "signal", "count")
    ]
    signals = _columns(tables["signals"], "rank", "signal")
    call = tables["calls"].rows()[0]

    def waited(begin: int, end: int) -> Waits:
        return tuple(wait for entry in waits[begin:end] for wait in entry)

    def raised(begin: int, end: int) -> Signals:
        return tuple((to, signal) for to, signal in signals[begin:end])

    commands = tuple(
        _command(number, row, rank, in_place, waited, raised)
        for number, row in enumerate(tables["commands"].rows())
    )
    tiles = _tiles(tables, len(program.tiles), waited)
    handed = {number for tile in tiles for number in tile.commands}
    queues: dict[Realization, list[Command]] = {}
    for command in commands:
        if command.number not in handed:
            role = command.realization
            queue = Realization.COPY_ENGINE if role.is_on_stream else role
            queues.setdefault(queue, []).append(command)
    parts = role_parts(tables["commands"], program.comm_ctas, program.num_ctas)
    return RankTables(
        tiles=tiles,
        commands=commands,
        queues={role: tuple(queue) for role, queue in queues.items()},
        ctas={role: len(part.ctas) for role, part in parts.items()},
        groups=tuple(
            (row["count"], raised(row["signal_begin"], row["signal_end"]))
            for row in tables["groups"].rows()
        ),
        opening=raised(call["open_begin"], call["open_end"]),
        closing=waited(call["close_wait_begin"], call["close_wait_end"]),
        staged_bytes=0 if in_place else _staged_bytes(program, rank, call),
    )


def _command(
    number: int, row: Mapping[str, int], rank: int, in_place: bool, waited: Any, raised: Any
) -> Command:
    reduction = CommandReduction(row["reduction"])
    combining = Combining.REDUCE
    if reduction in (CommandReduction.NONE, CommandReduction.UNORDERED_SUM):
        combining = Combining.COPY if reduction is CommandReduction.NONE else Combining.ATOMIC
    call = LibraryCall(row["transfer"]) if row["transfer"] < STAGING else None
    direction = FlowDirection.LOCAL
    if row["src_rank"] != row["dst_rank"]:
        direction = FlowDirection.PUSH if row["src_rank"] == rank else FlowDirection.PULL
    nbytes = row["rows"] * row["row_bytes"] * row["parts"]
    return Command(
        number=number,
        src=row["src_rank"],
        dst=row["dst_rank"],
        # Input that is where it should be already is not copied.
        nbytes=0 if in_place and row["transfer"] == STAGING else nbytes,
        realization=Realization(row["realization"]),
        direction=direction,
        combining=combining,
        pause_us=row["pause"] / 1e3,
        waits=waited(row["wait_begin"], row["wait_end"]),
        signals=raised(row["signal_begin"], row["signal_end"]),
        call=call,
        exchange=row["exchange"],
    )


def _tiles(tables: Mapping[str, Table], dims: int, waited: Any) -> tuple[Tile, ...]:
    table = tables["tiles"]
    # The third coordinate of a smaller grid is the number of a part.
    names = ("c0", "c1", "c2") if dims == 3 else ("c0", "c1")
    cells = np.stack([table.column(name) for name in names], axis=1)
    # Tiles are all cells of a grid: in the order of their coordinates, they have their numbers.
    _, numbers, parts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    numbers = numbers.reshape(-1)
    grouped = _columns(tables["tile_groups"], *_GROUPED)
    alone = (-1, 0, 0, 0, 0, 0)
    tiles = []
    spans = _columns(table, "wait_begin", "wait_end")
    counts = parts[numbers].tolist()
    steps = _steps(tables, waited)
    for position, (number, count, (begin, end)) in enumerate(
        zip(numbers.tolist(), counts, spans, strict=True)
    ):
        group, adds, sum_begin, sum_end, first, last = grouped[number] if grouped else alone
        tiles.append(
            Tile(
                number=number,
                parts=count,
                waits=waited(begin, end) if begin < end else (),
                steps=steps[position] if steps else (),
                sum_waits=waited(sum_begin, sum_end) if adds else (),
                accumulates=bool(adds),
                group=group,
                commands=range(first, last),
            )
        )
    return tuple(tiles)


def _steps(
    tables: Mapping[str, Table], waited: Any
) -> list[tuple[tuple[float, Waits], ...]] | None:
    """By position, where a tile waits within its steps, all of which take as long; None if tiles walk none."""
    if "tile_steps" not in tables or not len(tables["tile_steps"].values):
        return None
    rows = _columns(tables["steps"], "wait_begin", "wait_end")
    known: dict[tuple[int, ...], tuple[tuple[float, Waits], ...]] = {}
    found = []
    for begin, end in _columns(tables["tile_steps"], "begin", "end"):
        if (begin, end) not in known:
            known[begin, end] = tuple(
                (place / (end - begin), waited(*row))
                for place, row in enumerate(rows[begin:end])
                if row[0] < row[1]
            )
        found.append(known[begin, end])
    return found


def _columns(table: Table, *names: str) -> list[tuple[int, ...]]:
    """Some columns of all rows."""
    return list(zip(*(table.column(name).tolist() for name in names), strict=True))


def _staged_bytes(program: Any, rank: int, call: Mapping[str, int]) -> int:
    """What the runtime copies into symmetric buffers before the kernel, in bytes.

    An input that tiles read where the caller keeps it stays there, unless a copy engine of another rank gets it.
    """
    kept = None
    if call["open_begin"] == call["open_end"]:
        kept = getattr(program, "localized", None)
        for access in getattr(program, "accesses", ()):
            if not access.writes and program.buffers[access.buffer].inputs[rank]:
                kept = program.buffers[access.buffer].name
    return sum(
        int(np.prod(region.sizes)) * DTYPES[buffer.dtype].nbytes
        for buffer in program.buffers
        if buffer.name != kept
        for region in buffer.inputs[rank]
    )
