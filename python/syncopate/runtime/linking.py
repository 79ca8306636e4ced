"""Turns one rank's symbolic tables into the bytes that its kernel reads. Pure numpy.

Symbolic tables name ranks, buffers and flags by number; the packed ones hold absolute addresses as this process sees
them. Rows keep their order and ranges keep their meaning, except that commands of the copy engine are taken out, for
the host issues those (see `engine_plan`), and the rest is sorted by role. The runtime's own guard waits are appended
behind the plan's waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syncopate import abi
from syncopate.abi import (
    CommandField,
    ContextWord,
    GroupField,
    SignalField,
    StateWord,
    StepField,
    TileField,
    TileGroupField,
    WaitField,
)
from syncopate.errors import InternalError
from syncopate.runtime.commands import role_parts, split_commands
from syncopate.runtime.handover import (
    find_handover,
    queued_commands,
    ring_role,
    tile_numbers,
)
from syncopate.runtime.interface import Program
from syncopate.runtime.table_checks import check_tables
from syncopate.tables import BufferSpec, Int64Array, SignalLayout, Table, count_rows

_WORD_BYTES = 4


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
    steps: int
    waits: int
    signals: int
    commands: int
    groups: int
    tile_groups: int
    records: int
    nbytes: int
    num_commands: int
    num_groups: int


@dataclass(frozen=True)
class RankAddresses:
    """Memory that belongs to one rank.

    Attributes:
        state: Address of its state words.
        fault: Of its fault record; 0 for none.
        upload: Where its upload begins.
        profile: Address of the lanes of its roles; 0 if they leave no records.
        records: How many records fit into a lane.
    """

    state: int
    fault: int
    upload: int
    profile: int = 0
    records: int = 0


def input_rows(buffer: BufferSpec, rank: int) -> tuple[int, int] | None:
    """The range of rows that a rank holds when a call starts, if it is one block of whole rows."""
    regions = buffer.inputs[rank]
    if len(regions) != 1 or regions[0].sizes[1:] != buffer.shape[1:]:
        return None
    return regions[0].offsets[0], regions[0].offsets[0] + regions[0].sizes[0]


def gives_input_back(buffer: BufferSpec, rank: int) -> bool:
    """Whether a call gives back some of what the rank holds when it starts, which then has to be in the buffer."""
    rows = input_rows(buffer, rank)
    if rows is None or not buffer.outputs:
        return False
    return any(
        region.offsets[0] < rows[1] and rows[0] < region.offsets[0] + region.sizes[0]
        for region in buffer.outputs[rank]
    )


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
    last = last + (commands.column("parts") - 1) * commands.column("part_stride")
    last = last + commands.column("row_bytes")
    inside = (first >= begin) & (last <= end)
    matches = (commands.column("src_rank") == rank) & (commands.column("src_buffer") == index)
    result: npt.NDArray[np.bool_] = inside & matches
    return result


def layout_tables(tables: Mapping[str, Table], ctas: int) -> TableLayout:
    """Sizes the upload of one rank, whose kernel computes on a number of CTAs."""
    device, _ = split_commands(tables["commands"])
    waits = len(tables["waits"].values)
    tiles_at = abi.align(8 * abi.CONTEXT_WORDS)
    steps_at = abi.align(tiles_at + 4 * abi.TILE_STRIDE * len(tables["tiles"].values))
    waits_at = abi.align(steps_at + 4 * abi.STEP_STRIDE * count_rows(tables, "steps"))
    signals_at = abi.align(waits_at + 4 * abi.WAIT_STRIDE * waits)
    commands_at = abi.align(signals_at + 8 * abi.SIGNAL_STRIDE * len(tables["signals"].values))
    groups_at = abi.align(commands_at + 8 * abi.COMMAND_STRIDE * len(device))
    num_groups = len(tables["groups"].values)
    tile_groups_at = abi.align(groups_at + 4 * abi.GROUP_STRIDE * num_groups)
    tile_groups = len(tables["tile_groups"].values)
    records_at = abi.align(tile_groups_at + 4 * abi.TILE_GROUP_STRIDE * tile_groups)
    return TableLayout(
        tiles=tiles_at,
        steps=steps_at,
        waits=waits_at,
        signals=signals_at,
        commands=commands_at,
        groups=groups_at,
        tile_groups=tile_groups_at,
        records=records_at,
        nbytes=abi.align(records_at + 4 * ctas),
        num_commands=len(device),
        num_groups=num_groups,
    )


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
    where = layout_tables(tables, program.num_ctas)
    check_tables(program, rank)
    upload = np.zeros(where.nbytes, np.uint8)

    def part(offset: int, dtype: type, rows: int, words: int) -> npt.NDArray[np.int64]:
        nbytes = rows * words * np.dtype(dtype).itemsize
        return upload[offset : offset + nbytes].view(dtype).reshape(rows, words)

    rows = part(where.tiles, np.int32, len(tables["tiles"].values), abi.TILE_STRIDE)
    for tile_field in _COLUMNS_OF_TILES:
        rows[:, tile_field] = _as_int32(rank, tables, "tiles", tile_field.name.lower())
    rows[:, TileField.NUMBER] = tile_numbers(tables)
    if count_rows(tables, "steps"):
        rows[:, TileField.STEP_BEGIN] = _as_int32(rank, tables, "tile_steps", "begin")
        rows[:, TileField.STEP_END] = _as_int32(rank, tables, "tile_steps", "end")
        rows = part(where.steps, np.int32, count_rows(tables, "steps"), abi.STEP_STRIDE)
        for step_field in StepField:
            rows[:, step_field] = _as_int32(rank, tables, "steps", step_field.name.lower())

    rows = part(where.waits, np.int32, len(tables["waits"].values), abi.WAIT_STRIDE)
    for wait_field in WaitField:
        rows[:, wait_field] = _as_int32(rank, tables, "waits", wait_field.name.lower())

    signals = tables["signals"]
    rows = part(where.signals, np.int64, len(signals.values), abi.SIGNAL_STRIDE)
    flags = np.asarray(addresses.flags, np.int64)
    rows[:, SignalField.ADDRESS] = flags[signals.column("rank")] + 4 * signals.column("signal")
    rows[:, SignalField.KIND] = signals.column("kind")

    rows = part(where.commands, np.int64, where.num_commands, abi.COMMAND_STRIDE)
    rows[:] = _pack_commands(program, rank, addresses)

    rows = part(where.groups, np.int32, where.num_groups, abi.GROUP_STRIDE)
    for group_field in GroupField:
        rows[:, group_field] = _as_int32(rank, tables, "groups", group_field.name.lower())
    rows = part(
        where.tile_groups, np.int32, len(tables["tile_groups"].values), abi.TILE_GROUP_STRIDE
    )
    for tile_group_field in _COLUMNS_OF_TILE_GROUPS:
        rows[:, tile_group_field] = _as_int32(
            rank, tables, "tile_groups", tile_group_field.name.lower()
        )
    handover = find_handover(tables, program.num_ctas)
    rows[:, TileGroupField.COMMAND_BEGIN] = handover.begin
    rows[:, TileGroupField.COMMAND_END] = handover.end
    rows[:, TileGroupField.RECORD] = handover.record
    if count_rows(tables, "slots"):
        rows[:, TileGroupField.SLOT] = _as_int32(rank, tables, "slots", "slot")
        rows[:, TileGroupField.SECOND] = _as_int32(rank, tables, "slots", "second")
    part(where.records, np.int32, program.num_ctas, 1)[:, 0] = handover.records

    calls = tables["calls"].rows()[0]
    own_input = own_input_bytes(program, rank)
    local = (0, 0)
    if own_input is not None:
        local = input_rows(program.buffers[own_input[0]], rank) or local
    context = part(0, np.int64, 1, abi.CONTEXT_WORDS)[0]
    words = {
        ContextWord.STATE: own.state,
        ContextWord.FLAGS: addresses.flags[rank],
        ContextWord.TILES: own.upload + where.tiles,
        ContextWord.STEPS: own.upload + where.steps,
        ContextWord.WAITS: own.upload + where.waits,
        ContextWord.SIGNALS: own.upload + where.signals,
        ContextWord.COMMANDS: own.upload + where.commands,
        ContextWord.COMM_CTAS: program.comm_ctas,
        ContextWord.OPEN: abi.pack_range(calls["open_begin"], calls["open_end"]),
        ContextWord.CLOSE_WAIT: abi.pack_range(calls["close_wait_begin"], calls["close_wait_end"]),
        ContextWord.CLOSE_SIGNAL: abi.pack_range(
            calls["close_signal_begin"], calls["close_signal_end"]
        ),
        ContextWord.FAULT: own.fault,
        ContextWord.TIMEOUT_NS: program.timeout_ns,
        ContextWord.RANK: rank,
        ContextWord.NUM_CTAS: program.comm_ctas + program.num_ctas,
        ContextWord.INPUT_BEGIN: local[0],
        ContextWord.INPUT_END: local[1],
        ContextWord.GROUPS: own.upload + where.groups,
        ContextWord.TILE_GROUPS: own.upload + where.tile_groups,
        ContextWord.RECORDS: own.upload + where.records,
        ContextWord.PROFILE: own.profile,
        ContextWord.PROFILE_RECORDS: own.records,
        ContextWord.GROUP_COUNTERS: own.state + 4 * abi.state_words(where.num_commands, 0),
    }
    if calls["needs_buffer"] != abi.NO_BUFFER:
        needs = addresses.buffers[rank][calls["needs_buffer"]]
        words[ContextWord.NEEDS] = needs + _WORD_BYTES * calls["needs_index"]
    parts = role_parts(tables["commands"], program.comm_ctas, program.num_ctas)
    ringed = ring_role(tables)
    if ringed is not None:
        first = parts[ringed].commands.start
        words[ContextWord.RING_ROLE] = ringed
        words[ContextWord.BEFORE_TILES] = first + calls["before_tiles"]
    for role, its in parts.items():
        rows_word, ctas_word = abi.role_words(role)
        queued = queued_commands(tables, role)
        words[rows_word] = abi.pack_range(its.commands.start, its.commands.start + queued)
        words[ctas_word] = abi.pack_range(its.ctas.start, its.ctas.stop)
    for word, value in words.items():
        context[word] = value
    return upload


def initial_flags(signals: SignalLayout, world_size: int) -> npt.NDArray[np.int32]:
    """The flags of a rank before the first call: 0, and 1 for the twins of `done`, as if a call had just ended."""
    flags = np.zeros(signals.total, np.int32)
    flags[signals.done_twin : signals.done_twin + world_size] = 1
    return flags


def initial_state(where: TableLayout) -> npt.NDArray[np.int32]:
    """The state words of a rank before the first call."""
    state = np.zeros(abi.state_words(where.num_commands, where.num_groups), np.int32)
    state[StateWord.EPOCH] = state[StateWord.ENGINE_EPOCH] = abi.FIRST_EPOCH
    state[StateWord.ENGINE_ONE] = 1
    return state


_COLUMNS_OF_TILES = (
    TileField.C0,
    TileField.C1,
    TileField.C2,
    TileField.WAIT_BEGIN,
    TileField.WAIT_END,
)

_COLUMNS_OF_TILE_GROUPS = (
    TileGroupField.GROUP,
    TileGroupField.ACCUMULATES,
    TileGroupField.WAIT_BEGIN,
    TileGroupField.WAIT_END,
)


_COPIED_FIELDS = tuple(
    field
    for field in CommandField
    if field
    not in (CommandField.SRC, CommandField.DST, CommandField.FROM_INPUT, CommandField.COUNT)
)


def _pack_commands(program: Program, rank: int, addresses: Addresses) -> Int64Array:
    commands = program.rank_tables(rank)["commands"]
    device, _ = split_commands(commands)
    base = np.asarray(addresses.buffers, np.int64)

    def column(name: str) -> Int64Array:
        return commands.column(name)[device]

    packed = np.zeros((len(device), abi.COMMAND_STRIDE), np.int64)
    for side, field in (("src", CommandField.SRC), ("dst", CommandField.DST)):
        start = base[column(f"{side}_rank"), column(f"{side}_buffer")]
        packed[:, field] = start + column(f"{side}_offset")
    for field in _COPIED_FIELDS:
        packed[:, field] = column(field.name.lower())
    counts, index = column("count_buffer"), column("count_index")
    address = base[rank, np.maximum(counts, 0)] + _WORD_BYTES * index
    packed[:, CommandField.COUNT] = np.where(counts == abi.NO_BUFFER, 0, address)
    own, own_input = from_own_input(program, rank, commands)[device], own_input_bytes(program, rank)
    if own_input is not None:
        packed[own, CommandField.SRC] = column("src_offset")[own] - own_input[1]
        packed[own, CommandField.FROM_INPUT] = 1
    return packed


def _as_int32(rank: int, tables: Mapping[str, Table], table: str, column: str) -> Int64Array:
    """A column whose values fit into 32 bits."""
    values = tables[table].column(column)
    bad = np.flatnonzero((values < -(2**31)) | (values >= 2**31))
    if bad.size:
        raise InternalError(
            f"rank {rank}, table {table}, row {bad[0]}: expects {column} to fit into 32 bits, "
            f"but got {values[bad[0]]}"
        )
    return values
