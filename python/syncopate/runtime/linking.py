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
from syncopate.runtime.interface import (
    BufferSpec,
    Int64Array,
    Program,
    Realization,
    SignalLayout,
    Table,
)
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


@dataclass(frozen=True)
class RankAddresses:
    """Addresses that belong to one rank: its state words, its fault record (0 for none) and the base of its upload."""

    state: int
    fault: int
    upload: int


def input_rows(buffer: BufferSpec, rank: int) -> tuple[int, int] | None:
    """The range of rows that a rank holds when a call starts, if it is one block of whole rows."""
    regions = buffer.inputs[rank]
    if len(regions) != 1 or regions[0].sizes[1:] != buffer.shape[1:]:
        return None
    return regions[0].offsets[0], regions[0].offsets[0] + regions[0].sizes[0]


def own_input_bytes(program: Program, rank: int) -> tuple[int, int, int] | None:
    """Index of the localized buffer, and the range of its bytes that are the rank's own input; None without one."""
    for index, buffer in enumerate(program.buffers):
        rows = input_rows(buffer, rank) if buffer.name == program.localized else None
        if rows is not None:
            row_bytes = buffer.nbytes // buffer.shape[0]
            return index, rows[0] * row_bytes, rows[1] * row_bytes
    return None


def from_own_input(program: Program, rank: int, commands: Table) -> npt.NDArray[np.bool_]:
    """Which commands of a rank read nothing but its own input in the localized buffer."""
    own = own_input_bytes(program, rank)
    if own is None:
        return np.zeros(len(commands.values), np.bool_)
    index, begin, end = own
    first = commands.column("src_offset")
    last = first + (commands.column("rows") - 1) * commands.column("src_stride")
    last = last + commands.column("row_bytes")
    inside = (first >= begin) & (last <= end)
    matches = (commands.column("src_rank") == rank) & (commands.column("src_buffer") == index)
    result: npt.NDArray[np.bool_] = inside & matches
    return result


def split_commands(commands: Table) -> tuple[Int64Array, Int64Array]:
    """Indices of the commands of the communication role, and of those of the copy engine."""
    realization = commands.column("realization")
    engine = realization == Realization.COPY_ENGINE
    if bool((realization == Realization.NCCL).any()):
        raise InternalError(
            "a table holds a command with realization nccl, which the runtime does not issue"
        )
    return np.flatnonzero(~engine), np.flatnonzero(engine)


def layout_tables(tables: Mapping[str, Table]) -> TableLayout:
    """Sizes the upload of one rank."""
    device, _ = split_commands(tables["commands"])
    waits = len(tables["waits"].values)
    tiles_at = layout.align(8 * layout.CONTEXT_WORDS)
    waits_at = layout.align(tiles_at + 4 * layout.TILE_WORDS * len(tables["tiles"].values))
    signals_at = layout.align(waits_at + 4 * layout.WAIT_WORDS * waits)
    commands_at = layout.align(signals_at + 8 * layout.SIGNAL_WORDS * len(tables["signals"].values))
    end = layout.align(commands_at + 8 * layout.COMMAND_WORDS * len(device))
    return TableLayout(tiles_at, waits_at, signals_at, commands_at, end, len(device))


def link_rank(
    program: Program,
    rank: int,
    addresses: Addresses,
    own: RankAddresses,
) -> npt.NDArray[np.uint8]:
    """Builds the upload of one rank.

    Args:
        program: The program.
        rank: The rank that will read it.
        addresses: Symmetric memory of all ranks.
        own: Memory of this rank.

    Returns:
        uint8 array of `layout_tables(...).nbytes` bytes, to be placed at `own.upload`.

    Raises:
        InternalError: A table refers to something that does not exist.
    """
    tables = program.rank_tables(rank)
    where = layout_tables(tables)
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
    rows = part(where.waits, np.int32, len(waits.values), layout.WAIT_WORDS)
    rows[:, 0] = waits.column("signal")
    rows[:, 1] = waits.column("count")

    signals = tables["signals"]
    rows = part(where.signals, np.int64, len(signals.values), layout.SIGNAL_WORDS)
    flags = np.asarray(addresses.flags, np.int64)
    rows[:, 0] = flags[signals.column("rank")] + 4 * signals.column("signal")
    rows[:, 1] = signals.column("kind")

    rows = part(where.commands, np.int64, where.num_commands, layout.COMMAND_WORDS)
    rows[:] = _pack_commands(program, rank, addresses)

    calls = tables["calls"].rows()[0]
    own_input = own_input_bytes(program, rank)
    local = (0, 0)
    if own_input is not None:
        local = input_rows(program.buffers[own_input[0]], rank) or local
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
        ContextWord.INPUT_BEGIN: local[0],
        ContextWord.INPUT_END: local[1],
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


def _pack_commands(program: Program, rank: int, addresses: Addresses) -> Int64Array:
    commands = program.rank_tables(rank)["commands"]
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
    own, own_input = from_own_input(program, rank, commands)[device], own_input_bytes(program, rank)
    if own_input is not None:
        packed[own, 0] = column("src_offset")[own] - own_input[1]
        packed[own, 11] = 1
    packed[:, 12] = column("pause")
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
    ranges("calls", "guard_begin", "guard_end", num_waits)
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
