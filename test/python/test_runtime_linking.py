"""Packed tables, initial flags and side-stream lists, with addresses made up."""

import dataclasses

import numpy as np
import pytest
from hand_tables import DEDICATED, ENGINE, LDST, all_gather

from syncopate import abi
from syncopate.abi import CommandField, ContextWord, Realization, SignalKind, StateWord
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.commands import role_parts, split_commands
from syncopate.runtime.engine_plan import (
    AwaitWord,
    Copy,
    Raise,
    awaited_words,
    plan_engine,
)
from syncopate.runtime.interface import ProgramData
from syncopate.runtime.linking import (
    RankAddresses,
    initial_flags,
    initial_state,
    layout_tables,
    link_rank,
)
from syncopate.runtime.memory_plan import plan_memory, resolve
from syncopate.tables import Table

pytestmark = pytest.mark.any_triton

OWN = RankAddresses(state=0x1000, fault=0x2000, upload=0x3000)


def make(world=3, algorithm="push", realization=LDST, **options):
    tables = all_gather(world, algorithm, realization, **options)
    return ProgramData(
        name="gather",
        world_size=world,
        buffers=tuple(tables.buffers),
        params=(),
        image=None,
        grid=(3, 1, 1),
        num_ctas=3,
        signal_layout=tables.signal_layout,
        tables=tuple(tables.rank_tables(rank) for rank in range(world)),
    )


def link(program, rank):
    addresses = resolve(plan_memory(program), [(r + 1) << 32 for r in range(program.world_size)])
    return addresses, link_rank(program, rank, addresses, OWN)


def part(upload, offset, dtype, rows, words):
    count = rows * words
    return (
        upload[offset:]
        .view(np.uint8)[: count * np.dtype(dtype).itemsize]
        .view(dtype)
        .reshape(rows, words)
    )


def test_context_points_at_the_parts():
    program = make()
    addresses, upload = link(program, 1)
    where = layout_tables(program.rank_tables(1), 3)
    context = part(upload, 0, np.int64, 1, abi.CONTEXT_WORDS)[0]
    assert context[ContextWord.STATE] == OWN.state
    assert context[ContextWord.FLAGS] == addresses.flags[1]
    assert context[ContextWord.TILES] == OWN.upload + where.tiles
    assert context[ContextWord.COMMANDS] == OWN.upload + where.commands
    assert context[ContextWord.COMM_CTAS] == 0
    assert context[ContextWord.LDST_COLOCATED_COMMANDS] == abi.pack_range(0, 2)
    assert context[ContextWord.LDST_COLOCATED_CTAS] == abi.pack_range(0, 3)
    assert context[ContextWord.LDST_DEDICATED_COMMANDS] == 0
    assert context[ContextWord.FAULT] == OWN.fault
    assert context[ContextWord.TIMEOUT_NS] == 60_000_000_000
    assert context[ContextWord.RANK] == 1
    assert context[ContextWord.NUM_CTAS] == 3
    call = program.rank_tables(1)["calls"].rows()[0]
    close = int(context[ContextWord.CLOSE_SIGNAL])
    assert (close >> 32, close & 0xFFFFFFFF) == (
        call["close_signal_begin"],
        call["close_signal_end"],
    )
    assert len(upload) == where.nbytes


def test_tiles_waits_and_signals_are_copied():
    program = make()
    addresses, upload = link(program, 2)
    tables = program.rank_tables(2)
    where = layout_tables(tables, 3)
    tiles = part(upload, where.tiles, np.int32, len(tables["tiles"].values), abi.TILE_STRIDE)
    assert (tiles[:, :5] == tables["tiles"].values).all() and not tiles[:, 5:].any()
    waits = part(upload, where.waits, np.int32, len(tables["waits"].values), abi.WAIT_STRIDE)
    assert (waits == tables["waits"].values).all()
    signals = part(upload, where.signals, np.int64, len(tables["signals"].values), 2)
    for row, (address, kind) in zip(tables["signals"].rows(), signals, strict=True):
        assert address == addresses.flag(row["rank"], row["signal"])
        assert kind == row["kind"]


def test_commands_hold_absolute_addresses():
    program = make(algorithm="pull")
    addresses, upload = link(program, 0)
    where = layout_tables(program.rank_tables(0), 3)
    commands = part(upload, where.commands, np.int64, where.num_commands, abi.COMMAND_STRIDE)
    for row, command in zip(program.rank_tables(0)["commands"].rows(), commands, strict=True):
        assert (
            command[CommandField.SRC] == addresses.buffers[row["src_rank"]][0] + row["src_offset"]
        )
        assert command[CommandField.DST] == addresses.buffers[0][0] + row["dst_offset"]
        for field in ("rows", "row_bytes", "wait_begin", "signal_begin", "signal_end", "pause"):
            assert command[CommandField[field.upper()]] == row[field]
        assert command[CommandField.FROM_INPUT] == 0


def test_engine_commands_are_left_to_the_host():
    program = make(realization=ENGINE)
    where = layout_tables(program.rank_tables(0), 3)
    assert where.num_commands == 0
    assert len(initial_state(where)) == StateWord.COMMANDS


def test_parts_are_aligned_and_disjoint():
    where = layout_tables(make(4).rank_tables(0), 3)
    offsets = [where.tiles, where.waits, where.signals, where.commands, where.records, where.nbytes]
    assert offsets == sorted(offsets)
    assert all(offset % abi.ALIGNMENT == 0 for offset in offsets)


def test_initial_flags_grant_a_credit():
    program = make()
    flags = initial_flags(program.signal_layout, 3)
    credit = program.signal_layout.done_twin
    assert flags[credit : credit + 3].tolist() == [1, 1, 1]
    assert flags.sum() == 3
    assert initial_state(layout_tables(program.rank_tables(0), 3))[StateWord.EPOCH] == 1


def test_memory_plan_keeps_buffers_apart():
    program = make(shape=(61, 16))
    plan = plan_memory(program)
    assert plan.buffers[0] >= 4 * program.signal_layout.total
    assert plan.nbytes >= plan.buffers[0] + program.buffers[0].nbytes
    assert plan.buffers[0] % 1024 == 0


@pytest.mark.parametrize(
    ("table", "column", "value", "text"),
    [
        ("waits", "signal", 99, "expects signal to be in [0, 19), but got 99"),
        ("signals", "rank", 3, "expects rank to be in [0, 3), but got 3"),
        ("commands", "dst_buffer", 1, "expects dst_buffer to be in [0, 1), but got 1"),
        ("commands", "wait_end", 99, "expects wait_begin:wait_end to be a range"),
        ("commands", "dst_offset", 2040, "dst bytes 2040:"),
        (
            "commands",
            "parts",
            4097,
            "expects behind:parts to be a range in [0, 4096], but got 0:4097",
        ),
        ("commands", "behind", 2, "expects behind:parts to be a range in [0, 4096], but got 2:1"),
        ("commands", "part_stride", -1, "expects part_stride to be in [0, "),
        ("commands", "count_buffer", 1, "expects count to be a word of a buffer, but got word"),
        ("calls", "needs_buffer", -2, "expects needs to be a word of a buffer, but got word"),
        ("calls", "guard_end", 99, "expects guard_begin:guard_end to be a range"),
    ],
)
def test_wrong_numbers_are_refused(table, column, value, text):
    program = edit(make(), table, column, value)
    with pytest.raises(InternalError, match=f"rank 0, table {table}, row 0") as caught:
        link(program, 0)
    assert text in str(caught.value)


def test_second_row_of_calls_is_refused():
    program = make()
    calls = program.tables[0]["calls"]
    doubled = dataclasses.replace(calls, values=np.repeat(calls.values, 2, axis=0))
    tables = ({**program.tables[0], "calls": doubled}, *program.tables[1:])
    with pytest.raises(InternalError, match="table calls, row 0: expects one row, but got 2"):
        link(dataclasses.replace(program, tables=tables), 0)


def edit(program, table, column, value):
    """The program with one number of rank 0's tables changed."""
    tables = dict(program.tables[0])
    values = tables[table].values.copy()
    values[0, tables[table].columns.index(column)] = value
    tables[table] = dataclasses.replace(tables[table], values=values)
    return dataclasses.replace(program, tables=(tables, *program.tables[1:]))


@pytest.mark.parametrize(("table", "column"), [("tiles", "c1"), ("waits", "count")])
def test_numbers_beyond_32_bits_are_refused(table, column):
    with pytest.raises(
        InternalError, match=rf"table {table}, row 0: expects {column} to fit into 32 bits"
    ):
        link(edit(make(), table, column, 2**31), 0)


def test_region_with_too_many_units_is_refused():
    # Rows of 9 bytes cannot be copied in larger units than single bytes.
    program = make(2)
    buffer = dataclasses.replace(program.buffers[0], shape=(2**33,), dtype="i8")
    program = dataclasses.replace(program, buffers=(buffer,))
    for column, value in (("rows", 2**28), ("row_bytes", 9), ("src_stride", 9), ("dst_stride", 9)):
        program = edit(program, "commands", column, value)
    with pytest.raises(
        SyncopateError, match="moves 2415919104 bytes at once, but with loads of 1 "
    ):
        link(program, 0)


def test_engine_push_consumes_credits_and_raises_at_the_peer():
    program = make(2, "push", ENGINE)
    addresses, _ = link(program, 0)
    ops = plan_engine(program, 0, addresses)
    names = program.signal_layout
    assert [type(op) for op in ops] == [AwaitWord, Copy, Raise, Raise]
    assert ops[0].address == addresses.flag(0, names.done_twin + 1)
    assert ops[2] == Raise(addresses.flag(1, 0), 1, SignalKind.EPOCH)
    assert ops[3] == Raise(addresses.flag(0, names.engine_done), 0, SignalKind.EPOCH)
    assert awaited_words(ops) == (ops[0].address,)
    # Whole rows next to each other make one straight copy.
    assert (ops[1].rows, ops[1].row_bytes) == (1, 32 * 32)


def test_engine_pull_raises_its_own_flag():
    program = make(2, "pull", ENGINE)
    addresses, _ = link(program, 0)
    ops = plan_engine(program, 0, addresses)
    assert ops[1].src == addresses.buffers[1][0] + 32 * 32
    assert ops[2].rank == 0


def test_engine_cannot_wait_for_a_counting_flag():
    program = make(3, "ring", ENGINE)
    addresses, _ = link(program, 0)
    with pytest.raises(InternalError, match="cannot wait for flag"):
        plan_engine(program, 0, addresses)


def test_device_commands_leave_the_side_stream_empty():
    program = make()
    addresses, _ = link(program, 0)
    assert plan_engine(program, 0, addresses) == ()


@pytest.mark.parametrize("comm_ctas", [1, 2, 3, 7])
def test_dedicated_roles_have_the_first_ctas(comm_ctas):
    program = dataclasses.replace(make(realization=DEDICATED), comm_ctas=comm_ctas)
    _, upload = link(program, 1)
    context = part(upload, 0, np.int64, 1, abi.CONTEXT_WORDS)[0]
    assert context[ContextWord.COMM_CTAS] == comm_ctas
    assert context[ContextWord.NUM_CTAS] == comm_ctas + 3
    assert context[ContextWord.LDST_DEDICATED_COMMANDS] == abi.pack_range(0, 2)
    assert context[ContextWord.LDST_DEDICATED_CTAS] == abi.pack_range(0, comm_ctas)
    assert context[ContextWord.LDST_COLOCATED_COMMANDS] == 0


def mixed(rank, realizations):
    """A rank's commands by these realizations in turn."""
    table = make(5).rank_tables(rank)["commands"]
    values = table.values.copy()
    values[:, table.columns.index("realization")] = realizations
    return Table(table.columns, values)


def test_commands_are_sorted_by_role_and_keep_their_order():
    program = make(5)
    commands = mixed(2, [LDST, DEDICATED, ENGINE, LDST])
    device, engine = split_commands(commands)
    assert device.tolist() == [1, 0, 3]
    assert engine.tolist() == [2]
    tables = tuple(
        {**mine, "commands": commands} if rank == 2 else mine
        for rank, mine in enumerate(program.tables)
    )
    program = dataclasses.replace(program, tables=tables, comm_ctas=4)
    addresses, upload = link(program, 2)
    context = part(upload, 0, np.int64, 1, abi.CONTEXT_WORDS)[0]
    assert context[ContextWord.LDST_DEDICATED_COMMANDS] == abi.pack_range(0, 1)
    assert context[ContextWord.LDST_DEDICATED_CTAS] == abi.pack_range(0, 4)
    assert context[ContextWord.LDST_COLOCATED_COMMANDS] == abi.pack_range(1, 3)
    assert context[ContextWord.LDST_COLOCATED_CTAS] == abi.pack_range(4, 7)
    rows = part(upload, layout_tables(tables[2], 3).commands, np.int64, 3, abi.COMMAND_STRIDE)
    wanted = [
        addresses.buffers[commands.column("dst_rank")[row]][0] + commands.column("dst_offset")[row]
        for row in (1, 0, 3)
    ]
    assert rows[:, CommandField.DST].tolist() == wanted


@pytest.mark.parametrize("comm_ctas", range(2, 9))
def test_dedicated_roles_divide_their_ctas(comm_ctas):
    tma = int(Realization.TMA_DEDICATED)
    parts = role_parts(mixed(0, [DEDICATED, tma, tma, LDST]), comm_ctas, 10)
    first, second = parts[Realization.TMA_DEDICATED], parts[Realization.LDST_DEDICATED]
    assert [*first.ctas, *second.ctas] == list(range(comm_ctas))
    assert 0 <= len(second.ctas) - len(first.ctas) <= 1
    assert (first.commands, second.commands) == (range(2), range(2, 3))
    assert parts[Realization.LDST_COLOCATED].ctas == range(comm_ctas, comm_ctas + 10)
