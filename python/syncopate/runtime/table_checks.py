"""What a rank's symbolic tables must be, so that no kernel touches what is not there, or out of its reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from syncopate import abi
from syncopate.abi import CommandReduction, SignalKind
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.commands import copy_unit, split_commands
from syncopate.runtime.interface import Program
from syncopate.tables import Table, count_rows

__all__ = ["check_reach", "check_tables"]

_SPARE_UNITS = 1 << 16
_WORD_BYTES = 4


def check_reach(program: Program, rank: int, reached: Sequence[bool]) -> None:
    """Checks that a rank's tables access no memory but that which it reaches.

    Args:
        program: The program.
        rank: The rank.
        reached: By rank, whether its memory is.

    Raises:
        SyncopateError: They do.
    """
    tables = program.rank_tables(rank)
    # What NCCL moves is accessed by its own rank only, and is in the tables of both.
    commands = tables["commands"]
    alone = commands.column("exchange") == abi.NO_EXCHANGE
    accessed = {
        "a transfer": np.concatenate(
            [commands.column(name)[alone] for name in ("src_rank", "dst_rank")]
        ),
        "a flag": tables["signals"].column("rank"),
    }
    for what, ranks in accessed.items():
        for other in np.unique(ranks).tolist():
            if not reached[other]:
                raise SyncopateError(
                    f"program {program.name}: rank {rank} accesses the memory of rank {other}, which it does not "
                    f"reach, for {what}; let NCCL carry out transfers between nodes, as by Strategy(between='nccl') "
                    "with a mesh of [nodes, ranks of a node]"
                )


def check_tables(program: Program, rank: int) -> None:
    """Checks every number once, before the upload: a wrong one would be a stray write into a peer's memory.

    Args:
        program: The program.
        rank: The rank whose tables are checked.

    Raises:
        InternalError: A table refers to something that does not exist.
        SyncopateError: A command moves more at once than a role can count.
    """
    tables = program.rank_tables(rank)
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
    within("signals", "kind", len(SignalKind))
    within("commands", "reduction", len(CommandReduction))
    within("commands", "part_stride", 1 << 48)
    ranges("commands", "behind", "parts", 1 << 12)
    for name in ("src_rank", "dst_rank"):
        within("commands", name, world)
    for name in ("src_buffer", "dst_buffer"):
        within("commands", name, len(program.buffers))
    for table in ("tiles", "commands", "tile_groups"):
        ranges(table, "wait_begin", "wait_end", num_waits)
    if count_rows(tables, "steps"):
        ranges("steps", "wait_begin", "wait_end", num_waits)
        ranges("tile_steps", "begin", "end", count_rows(tables, "steps"))
    for table in ("commands", "groups"):
        ranges(table, "signal_begin", "signal_end", num_signals)
    ranges("tile_groups", "command_begin", "command_end", len(tables["commands"].values))
    tile_groups = tables["tile_groups"].column("group")
    bad = np.flatnonzero(
        (tile_groups < abi.NO_GROUP) | (tile_groups >= len(tables["groups"].values))
    )
    if bad.size:
        raise InternalError(
            f"rank {rank}, table tile_groups, row {bad[0]}: expects group to be a row of groups or {abi.NO_GROUP}, "
            f"but got {tile_groups[bad[0]]}"
        )
    if len(tables["calls"].values) != 1:
        raise InternalError(
            f"rank {rank}: expects one row in table calls, but got {len(tables['calls'].values)}"
        )
    ranges("calls", "open_begin", "open_end", num_signals)
    ranges("calls", "guard_begin", "guard_end", num_waits)
    ranges("calls", "close_wait_begin", "close_wait_end", num_waits)
    ranges("calls", "close_signal_begin", "close_signal_end", num_signals)
    _check_words(program, rank, "commands", tables["commands"], "count")
    _check_words(program, rank, "calls", tables["calls"], "needs")
    _check_bounds(program, rank, tables["commands"])
    _check_sizes(program, rank, tables["commands"])


def _check_words(program: Program, rank: int, name: str, table: Table, what: str) -> None:
    """Numbers that are read at run time lie inside their buffers."""
    buffers, index = table.column(f"{what}_buffer"), table.column(f"{what}_index")
    sizes = np.asarray([0, *(buffer.nbytes // _WORD_BYTES for buffer in program.buffers)], np.int64)
    known = (buffers >= abi.NO_BUFFER) & (buffers < len(program.buffers))
    limit = sizes[np.where(known, buffers, abi.NO_BUFFER) + 1]
    bad = np.flatnonzero(~known | ((buffers != abi.NO_BUFFER) & ((index < 0) | (index >= limit))))
    if bad.size:
        at = bad[0]
        raise InternalError(
            f"rank {rank}, table {name}, row {at}: expects {what} to be a word of a buffer, but got word {index[at]} "
            f"of buffer {buffers[at]}"
        )


def _check_bounds(program: Program, rank: int, commands: Table) -> None:
    size = np.asarray([buffer.nbytes for buffer in program.buffers], np.int64)
    for side in ("src", "dst"):
        first, stride = commands.column(f"{side}_offset"), commands.column(f"{side}_stride")
        last = first + (commands.column("rows") - 1) * stride + commands.column("row_bytes")
        if side == "src":
            last = last + (commands.column("parts") - 1) * commands.column("part_stride")
        limit = size[commands.column(f"{side}_buffer")] if len(commands.values) else first
        bad = np.flatnonzero((first < 0) | (last > limit))
        if bad.size:
            at = bad[0]
            raise InternalError(
                f"rank {rank}, table commands, row {at}: {side} bytes {first[at]}:{last[at]} "
                f"lie outside the buffer of {limit[at]} bytes"
            )


def _check_sizes(program: Program, rank: int, commands: Table) -> None:
    """A communication role counts the units of a region, and those of a block beyond its end, in 32 bits."""
    unit = copy_unit(program.rank_tables(other) for other in range(program.world_size))
    limit = unit * (2**31 - _SPARE_UNITS)
    device, _ = split_commands(commands)
    # Rows and their sizes lie inside buffers, so the product of any two fits into 64 bits.
    sizes = commands.column("rows")[device] * commands.column("row_bytes")[device]
    bad = np.flatnonzero(sizes > limit)
    if bad.size:
        row = commands.rows()[device[bad[0]]]
        what = "the input" if row["transfer"] == abi.STAGING else f"transfer {row['transfer']}"
        raise SyncopateError(
            f"program {program.name}, rank {rank}: {what} moves {sizes[bad[0]]} bytes at once, but with loads of "
            f"{unit} bytes, as the alignment of rows allows, at most {limit} can be; use more splits, or pad the rows"
        )
