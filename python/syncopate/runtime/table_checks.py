"""What a rank's symbolic tables must be, so that no kernel touches what is not there, or out of its reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate import abi
from syncopate.abi import CommandReduction, SignalKind
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.commands import copy_unit, split_commands
from syncopate.runtime.interface import Program
from syncopate.slot_tables import find_stored
from syncopate.tables import BufferSpec, Table, count_rows

__all__ = ["check_reach", "check_tables"]

_SPARE_UNITS = 1 << 16
_WORD_BYTES = 4

Array = np.ndarray[Any, Any]


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
    checks, signals = _Checks(rank, tables), program.signal_layout
    num_waits, num_signals = len(tables["waits"].values), len(tables["signals"].values)
    checks.within("waits", "signal", signals.total)
    checks.within("signals", "rank", program.world_size)
    checks.within("signals", "signal", signals.total)
    checks.within("signals", "kind", len(SignalKind))
    checks.within("commands", "reduction", len(CommandReduction))
    checks.within("commands", "part_stride", 1 << 48)
    checks.ranges("commands", "behind", "parts", 1 << 12)
    for name in ("src_rank", "dst_rank"):
        checks.within("commands", name, program.world_size)
    for name in ("src_buffer", "dst_buffer"):
        checks.within("commands", name, len(program.buffers))
    for table in ("tiles", "commands", "tile_groups"):
        checks.ranges(table, "wait_begin", "wait_end", num_waits)
    stored = find_stored(program.buffers, tables)
    if stored is not None:
        slots = program.buffers[stored].slots
        checks.ranges("slots", "begin", "end", len(tables["slot_parts"].values))
        checks.within("slot_parts", "rows", 1 << 31)
        for table in ("slots", "slot_parts"):
            checks.within(table, "slot", slots.count if slots else 0, abi.NO_SLOT)
    if count_rows(tables, "steps"):
        checks.ranges("steps", "wait_begin", "wait_end", num_waits)
        checks.ranges("tile_steps", "begin", "end", count_rows(tables, "steps"))
    for table in ("commands", "groups"):
        checks.ranges(table, "signal_begin", "signal_end", num_signals)
    checks.ranges("tile_groups", "command_begin", "command_end", len(tables["commands"].values))
    checks.within("tile_groups", "group", len(tables["groups"].values), abi.NO_GROUP)
    count = len(tables["calls"].values)
    checks.refuse("calls", np.asarray([count != 1]), lambda _: f"expects one row, but got {count}")
    checks.ranges("calls", "open_begin", "open_end", num_signals)
    checks.ranges("calls", "guard_begin", "guard_end", num_waits)
    checks.ranges("calls", "close_wait_begin", "close_wait_end", num_waits)
    checks.ranges("calls", "close_signal_begin", "close_signal_end", num_signals)
    checks.words("commands", "count", program.buffers)
    checks.words("calls", "needs", program.buffers)
    for side in ("src", "dst"):
        checks.inside(side, program.buffers)
    _check_sizes(program, rank, tables["commands"])


@dataclass(frozen=True)
class _Checks:
    """What the numbers of a rank's tables have to be; the first row that is wrong is an InternalError."""

    rank: int
    tables: Mapping[str, Table]

    def refuse(self, table: str, wrong: Array, why: Callable[[int], str]) -> None:
        """Refuses the first row of a table that is wrong, and says why."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            at = int(rows[0])
            raise InternalError(f"rank {self.rank}, table {table}, row {at}: {why(at)}")

    def within(self, table: str, column: str, limit: int, least: int = 0) -> None:
        """A number is in [least, limit)."""
        values = self.tables[table].column(column)
        self.refuse(
            table,
            (values < least) | (values >= limit),
            lambda at: f"expects {column} to be in [{least}, {limit}), but got {values[at]}",
        )

    def ranges(self, table: str, begin: str, end: str, limit: int) -> None:
        """Two numbers are a range in [0, limit]."""
        first, last = self.tables[table].column(begin), self.tables[table].column(end)
        self.refuse(
            table,
            (first < 0) | (last < first) | (last > limit),
            lambda at: (
                f"expects {begin}:{end} to be a range in [0, {limit}], but got {first[at]}:{last[at]}"
            ),
        )

    def words(self, table: str, what: str, buffers: Sequence[BufferSpec]) -> None:
        """Numbers that are read at run time lie inside their buffers."""
        own, index = (self.tables[table].column(f"{what}_{name}") for name in ("buffer", "index"))
        sizes = np.asarray([0, *(buffer.nbytes // _WORD_BYTES for buffer in buffers)], np.int64)
        known = (own >= abi.NO_BUFFER) & (own < len(buffers))
        limit = sizes[np.where(known, own, abi.NO_BUFFER) + 1]
        self.refuse(
            table,
            ~known | ((own != abi.NO_BUFFER) & ((index < 0) | (index >= limit))),
            lambda at: (
                f"expects {what} to be a word of a buffer, but got word {index[at]} of buffer {own[at]}"
            ),
        )

    def inside(self, side: str, buffers: Sequence[BufferSpec]) -> None:
        """What commands read, at "src", or write, at "dst", lies inside of a buffer."""
        commands = self.tables["commands"]
        first, stride = commands.column(f"{side}_offset"), commands.column(f"{side}_stride")
        last = first + (commands.column("rows") - 1) * stride + commands.column("row_bytes")
        if side == "src":
            last = last + (commands.column("parts") - 1) * commands.column("part_stride")
        size = np.asarray([buffer.nbytes for buffer in buffers], np.int64)
        limit = size[commands.column(f"{side}_buffer")] if len(commands.values) else first
        self.refuse(
            "commands",
            (first < 0) | (last > limit),
            lambda at: (
                f"{side} bytes {first[at]}:{last[at]} lie outside the buffer of {limit[at]} bytes"
            ),
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
