"""Turns one rank's symbolic tables into the bytes that its kernel reads. Pure numpy.

Symbolic tables name ranks, buffers and flags by number; the packed ones hold absolute addresses as this process sees
them. Rows keep their order and ranges keep their meaning, except that commands of the copy engine are taken out: the
host issues those (see `engine_plan`). The runtime's own guard waits are appended behind the plan's waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syncopate.errors import InternalError
from syncopate.runtime import layout
from syncopate.runtime.interface import Int64Array, Program, Realization, SignalLayout, Table
from syncopate.runtime.layout import ContextWord


@dataclass(frozen=True)
class Addresses:
    """Where the symmetric memory of every rank lies, as the linking process sees it.

    Attributes:
        buffers: Base address of each buffer, by rank, then by index in the plan.
        flags: Address of flag 0, by rank.
    """

    buffers: tuple[tuple[int, ...], ...]
    flags: tuple[int, ...]

    def flag(self, rank: int, signal: int) -> int:
        """Address of one flag of a rank."""
        return self.flags[rank] + 4 * signal


@dataclass(frozen=True)
class TableLayout:
    """Byte offsets of the parts of a rank's upload, and its size."""

    tiles: int
    waits: int
    signals: int
    commands: int
    nbytes: int
    num_commands: int
    guard: tuple[int, int]


@dataclass(frozen=True)
class RankAddresses:
    """Addresses that belong to one rank: its state words, its fault record (0 for none) and the base of its upload."""

    state: int
    fault: int
    upload: int


def readers(program: Program, rank: int) -> list[int]:
    """The other ranks that get data out of `rank`'s memory by commands of their own, in ascending order."""
    found = []
    for other in range(program.world_size):
        sources = program.rank_tables(other)["commands"].column("src_rank")
        if other != rank and bool((sources == rank).any()):
            found.append(other)
    return found


def split_commands(commands: Table) -> tuple[Int64Array, Int64Array]:
    """Indices of the commands of the communication role, and of those of the copy engine."""
    realization = commands.column("realization")
    engine = realization == Realization.COPY_ENGINE
    if bool((realization == Realization.NCCL).any()):
        raise InternalError(
            "a table holds a command with realization nccl, which the runtime does not issue"
        )
    return np.flatnonzero(~engine), np.flatnonzero(engine)


def layout_tables(tables: Mapping[str, Table], guards: int) -> TableLayout:
    """Sizes the upload of one rank, with room for `guards` waits of the runtime's own."""
    device, _ = split_commands(tables["commands"])
    waits = len(tables["waits"].values)
    tiles_at = layout.align(8 * layout.CONTEXT_WORDS)
    waits_at = layout.align(tiles_at + 4 * layout.TILE_WORDS * len(tables["tiles"].values))
    signals_at = layout.align(waits_at + 4 * layout.WAIT_WORDS * (waits + guards))
    commands_at = layout.align(signals_at + 8 * layout.SIGNAL_WORDS * len(tables["signals"].values))
    end = layout.align(commands_at + 8 * layout.COMMAND_WORDS * len(device))
    return TableLayout(
        tiles_at, waits_at, signals_at, commands_at, end, len(device), (waits, waits + guards)
    )


def link_rank(
    program: Program,
    rank: int,
    addresses: Addresses,
    own: RankAddresses,
    guards: Sequence[int] = (),
) -> npt.NDArray[np.uint8]:
    """Builds the upload of one rank.

    Args:
        program: The program.
        rank: The rank that will read it.
        addresses: Symmetric memory of all ranks.
        own: Memory of this rank.
        guards: Ranks whose previous call the guard before staging waits for (`readers`).

    Returns:
        uint8 array of `layout_tables(...).nbytes` bytes, to be placed at `own.upload`.

    Raises:
        InternalError: A table refers to something that does not exist.
    """
    tables = program.rank_tables(rank)
    where = layout_tables(tables, len(guards))
    _check_tables(program, rank, tables)
    upload = np.zeros(where.nbytes, np.uint8)

    def part(offset: int, dtype: type, rows: int, words: int) -> npt.NDArray[np.int64]:
        nbytes = rows * words * np.dtype(dtype).itemsize
        return upload[offset : offset + nbytes].view(dtype).reshape(rows, words)

    tiles = tables["tiles"]
    rows = part(where.tiles, np.int32, len(tiles.values), layout.TILE_WORDS)
    for i, column in enumerate(("c0", "c1", "c2", "wait_begin", "wait_end")):
        rows[:, i] = tiles.column(column)

    waits = tables["waits"]
    rows = part(where.waits, np.int32, where.guard[1], layout.WAIT_WORDS)
    rows[: where.guard[0], 0] = waits.column("signal")
    rows[: where.guard[0], 1] = waits.column("count")
    for i, peer in enumerate(guards, start=where.guard[0]):
        rows[i] = (program.signal_layout.done + peer, 0)

    signals = tables["signals"]
    rows = part(where.signals, np.int64, len(signals.values), layout.SIGNAL_WORDS)
    flags = np.asarray(addresses.flags, np.int64)
    rows[:, 0] = flags[signals.column("rank")] + 4 * signals.column("signal")
    rows[:, 1] = signals.column("kind")

    rows = part(where.commands, np.int64, where.num_commands, layout.COMMAND_WORDS)
    rows[:] = _pack_commands(tables["commands"], addresses)

    calls = tables["calls"].rows()[0]
    context = part(0, np.int64, 1, layout.CONTEXT_WORDS)[0]
    words = {
        ContextWord.STATE: own.state,
        ContextWord.FLAGS: addresses.flags[rank],
        ContextWord.TILES: own.upload + where.tiles,
        ContextWord.WAITS: own.upload + where.waits,
        ContextWord.SIGNALS: own.upload + where.signals,
        ContextWord.COMMANDS: own.upload + where.commands,
        ContextWord.NUM_COMMANDS: where.num_commands,
        ContextWord.OPEN: layout.pack_range(calls["open_begin"], calls["open_end"]),
        ContextWord.CLOSE_WAIT: layout.pack_range(
            calls["close_wait_begin"], calls["close_wait_end"]
        ),
        ContextWord.CLOSE_SIGNAL: layout.pack_range(
            calls["close_signal_begin"], calls["close_signal_end"]
        ),
        ContextWord.FAULT: own.fault,
        ContextWord.TIMEOUT_NS: program.timeout_ns,
        ContextWord.RANK: rank,
        ContextWord.NUM_CTAS: program.num_ctas,
    }
    for word, value in words.items():
        context[word] = value
    return upload


def initial_flags(signals: SignalLayout, world_size: int) -> npt.NDArray[np.int32]:
    """The flags of a rank before the first call: 0, and 1 for the twins of `done`, as if a call had just ended."""
    flags = np.zeros(signals.total, np.int32)
    flags[signals.done_twin : signals.done_twin + world_size] = 1
    return flags


def initial_state(device_commands: int) -> npt.NDArray[np.int32]:
    """The state words of a rank before the first call."""
    state = np.zeros(layout.state_words(device_commands), np.int32)
    state[layout.STATE_EPOCH] = layout.FIRST_EPOCH
    state[layout.STATE_ONE] = 1
    return state


def _pack_commands(commands: Table, addresses: Addresses) -> Int64Array:
    device, _ = split_commands(commands)
    base = np.asarray(addresses.buffers, np.int64)

    def column(name: str) -> Int64Array:
        return commands.column(name)[device]

    packed = np.zeros((len(device), layout.COMMAND_WORDS), np.int64)
    packed[:, 0] = base[column("src_rank"), column("src_buffer")] + column("src_offset")
    packed[:, 1] = base[column("dst_rank"), column("dst_buffer")] + column("dst_offset")
    names = (
        "rows",
        "row_bytes",
        "src_stride",
        "dst_stride",
        "wait_begin",
        "wait_end",
        "signal_begin",
        "signal_end",
    )
    for i, name in enumerate(names, start=2):
        packed[:, i] = column(name)
    if "parts" in commands.columns:
        packed[:, 10] = column("parts")
    return packed


def _check_tables(program: Program, rank: int, tables: Mapping[str, Table]) -> None:
    """Checks every number once, before the upload: a wrong one would be a stray write into a peer's memory."""
    signals, world = program.signal_layout, program.world_size

    def within(table: str, column: str, limit: int) -> None:
        values = tables[table].column(column)
        bad = np.flatnonzero((values < 0) | (values >= limit))
        if bad.size:
            value = values[bad[0]]
            raise InternalError(
                f"rank {rank}, table {table}, row {bad[0]}: expects {column} to be in [0, {limit}), but got {value}"
            )

    def ranges(table: str, begin: str, end: str, limit: int) -> None:
        first, last = tables[table].column(begin), tables[table].column(end)
        bad = np.flatnonzero((first < 0) | (last < first) | (last > limit))
        if bad.size:
            at = bad[0]
            raise InternalError(
                f"rank {rank}, table {table}, row {at}: expects {begin}:{end} to be a range in [0, {limit}], "
                f"but got {first[at]}:{last[at]}"
            )

    num_waits, num_signals = len(tables["waits"].values), len(tables["signals"].values)
    within("waits", "signal", signals.total)
    within("signals", "rank", world)
    within("signals", "signal", signals.total)
    within("signals", "kind", 3)
    for name in ("src_rank", "dst_rank"):
        within("commands", name, world)
    for name in ("src_buffer", "dst_buffer"):
        within("commands", name, len(program.buffers))
    for table in ("tiles", "commands"):
        ranges(table, "wait_begin", "wait_end", num_waits)
    ranges("commands", "signal_begin", "signal_end", num_signals)
    if len(tables["calls"].values) != 1:
        raise InternalError(
            f"rank {rank}: expects one row in table calls, but got {len(tables['calls'].values)}"
        )
    ranges("calls", "open_begin", "open_end", num_signals)
    ranges("calls", "close_wait_begin", "close_wait_end", num_waits)
    ranges("calls", "close_signal_begin", "close_signal_end", num_signals)
    _check_bounds(program, rank, tables["commands"])


def _check_bounds(program: Program, rank: int, commands: Table) -> None:
    size = np.asarray([buffer.nbytes for buffer in program.buffers], np.int64)
    for side in ("src", "dst"):
        first, stride = commands.column(f"{side}_offset"), commands.column(f"{side}_stride")
        last = first + (commands.column("rows") - 1) * stride + commands.column("row_bytes")
        limit = size[commands.column(f"{side}_buffer")] if len(commands.values) else first
        bad = np.flatnonzero((first < 0) | (last > limit))
        if bad.size:
            at = bad[0]
            raise InternalError(
                f"rank {rank}, table commands, row {at}: {side} bytes {first[at]}:{last[at]} "
                f"lie outside the buffer of {limit[at]} bytes"
            )
