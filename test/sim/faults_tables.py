"""Faults of the schedule tables: edits of what the passes compute, each of which breaks one thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from edited_tables import TABLE_CHECK
from fused_edits import DoesNotApply
from sim_faults import Fault
from sim_features import any_, engine, engine_puts, ldst, reads_several_shards
from sim_table import Case

from syncopate.sim.findings import Kind

__all__ = ["TABLE_FAULTS"]

Columns = dict[str, dict[str, Any]]
TableEdit = Callable[[Any, int, Columns], bool]
"""Edits the columns, by table and name, of a rank of a program; says whether it changed something."""


def tables(edit: TableEdit) -> Callable[[Any], Any]:
    """A fault that edits the tables of every rank."""

    def apply(program: Any) -> Any:
        changed, edited = False, []
        for rank in range(program.world_size):
            good = program.rank_tables(rank)
            values = {name: table.values.copy() for name, table in good.items()}
            columns = {
                name: {column: values[name][:, i] for i, column in enumerate(table.columns)}
                for name, table in good.items()
            }
            changed |= edit(program, rank, columns)
            edited.append(
                {n: dataclasses.replace(table, values=values[n]) for n, table in good.items()}
            )
        if not changed:
            raise DoesNotApply(str(edit))
        return dataclasses.replace(program, tables=tuple(edited))

    return apply


def without(
    table: str, prefix: str, *, only: Callable[[int], bool] = lambda rank: True
) -> TableEdit:
    """Makes a range of rows of another table empty."""

    def edit(_: Any, rank: int, columns: Columns) -> bool:
        begin, end = columns[table][f"{prefix}_begin"], columns[table][f"{prefix}_end"]
        had = bool((end > begin).any()) and only(rank)
        if had:
            end[:] = begin
        return had

    return edit


def one_row_less(_: Any, __: int, columns: Columns) -> bool:
    rows, sizes = columns["commands"]["rows"], columns["commands"]["row_bytes"]
    if (rows > 1).any():
        rows[rows > 1] -= 1
    else:
        sizes -= 2
    return len(rows) > 0


def sixteen_bytes_low(_: Any, __: int, columns: Columns) -> bool:
    offsets = columns["commands"]["dst_offset"]
    moved = bool((offsets > 0).any())
    offsets[:] = np.maximum(0, offsets - 16)
    return moved


def next_chunk(_: Any, __: int, columns: Columns) -> bool:
    """Commands of the same size have each other's source."""
    commands = columns["commands"]
    changed = False
    for size in np.unique(commands["row_bytes"]):
        alike = np.flatnonzero(commands["row_bytes"] == size)
        for name in ("src_rank", "src_offset"):
            rolled = np.roll(commands[name][alike], 1)
            changed |= bool((rolled != commands[name][alike]).any())
            commands[name][alike] = rolled
    return changed


def other_destination(program: Any, rank: int, columns: Columns) -> bool:
    """Chunks are put into the rank's own buffer instead of the peer's."""
    commands = columns["commands"]
    remote = commands["dst_rank"] != rank
    commands["dst_rank"][remote] = rank
    return bool(remote.any())


def signals_swapped(_: Any, __: int, columns: Columns) -> bool:
    commands = columns["commands"]
    carry = np.flatnonzero(commands["signal_end"] > commands["signal_begin"])
    if len(carry) < 2:
        return False
    for name in ("signal_begin", "signal_end"):
        commands[name][carry[:2]] = commands[name][carry[1::-1]]
    return True


def other_rank(program: Any, _: int, columns: Columns) -> bool:
    """Flags of transfers are raised at the rank after the one that waits."""
    signals = columns["signals"]
    data = signals["signal"] < program.signal_layout.data_twin
    signals["rank"][data] = (signals["rank"][data] + 1) % program.world_size
    return bool(data.any())


def kind_swapped(_: Any, __: int, columns: Columns) -> bool:
    """Flags that count get 1, as twins do."""
    kinds = columns["signals"]["kind"]
    changed = bool((kinds == 0).any())
    kinds[kinds == 0] = 1
    return changed


def late(_: Any, __: int, columns: Columns) -> bool:
    counts = columns["waits"]["count"]
    had = bool((counts == 1).any())
    counts[counts == 1] = 2
    return had


def guards_as_counts(_: Any, __: int, columns: Columns) -> bool:
    """What a guard needs of the call before is wanted of this one."""
    counts = columns["waits"]["count"]
    had = bool((counts == 0).any())
    counts[counts == 0] = 1
    return had


def counts_as_guards(_: Any, __: int, columns: Columns) -> bool:
    counts = columns["waits"]["count"]
    had = bool((counts == 1).any())
    counts[counts == 1] = 0
    return had


def waits_at_next_tile(_: Any, __: int, columns: Columns) -> bool:
    """Each tile has the waits of the one before it."""
    tiles = columns["tiles"]
    had = bool((tiles["wait_end"] > tiles["wait_begin"]).any())
    for name in ("wait_begin", "wait_end"):
        tiles[name][:] = np.roll(tiles[name], 1)
    return had


def last_wait_missing(_: Any, __: int, columns: Columns) -> bool:
    tiles = columns["tiles"]
    several = tiles["wait_end"] - tiles["wait_begin"] > 1
    tiles["wait_end"][several] -= 1
    return bool(several.any())


def tile_twice(_: Any, __: int, columns: Columns) -> bool:
    tiles = columns["tiles"]
    for name in ("c0", "c1"):
        tiles[name][-1] = tiles[name][0]
    return True


def wait_for_each_other(program: Any, rank: int, columns: Columns) -> bool:
    """The first command of each rank waits for what a peer's brings it."""
    waits, commands = columns["waits"], columns["commands"]
    first = int(commands["wait_begin"][0])
    if commands["wait_end"][0] == first:
        return False
    waits["signal"][first], waits["count"][first] = _brought_to(program, rank), 1
    return True


def _brought_to(program: Any, rank: int) -> int:
    """The flag of the first transfer that another rank carries out into a rank."""
    for issuer in range(program.world_size):
        for row in program.rank_tables(issuer)["signals"].rows():
            data = row["signal"] < program.signal_layout.data_twin
            if issuer != rank and row["rank"] == rank and data:
                return int(row["signal"])
    raise DoesNotApply("nobody puts")


def fault(
    name: str,
    broken: str,
    diagnostic: str,
    found: set[Kind],
    edit: TableEdit,
    on: Callable[[Case], bool] = any_,
    *,
    wrong_results: bool = False,
) -> Fault:
    apply = tables(edit)
    kinds = frozenset(found)
    return Fault(name, broken, apply, kinds, on, wrong_results, TABLE_CHECK, diagnostic)


def several_commands(case: Case) -> bool:
    return case.world > 2 or case.splits > 1


def puts_by_ldst(case: Case) -> bool:
    return ldst(case) and "push" in case.algorithm.value


_NO_TILE_WAIT = "starts without a wait for a transfer that brings what it reads"
_NOT_RAISED = r"waits for the flag at rank \d of transfer \d+, which nobody raises"
_CIRCLE = "waits for itself, in a circle"
TABLE_FAULTS: tuple[Fault, ...] = (
    fault(
        "no tile waits",
        "No tile has waits.",
        _NO_TILE_WAIT,
        {Kind.UNWRITTEN, Kind.RACE},
        without("tiles", "wait"),
    ),
    fault(
        "no command waits",
        "No command has waits.",
        r"is carried out by rank \d without a wait|which no stream takes down",
        {Kind.UNWRITTEN, Kind.RACE},
        without("commands", "wait"),
    ),
    fault(
        "a rank raises nothing",
        "The commands of rank 0 raise no flags.",
        _NOT_RAISED,
        {Kind.DEADLOCK},
        without("commands", "signal", only=lambda rank: rank == 0),
    ),
    fault(
        "no guard",
        "Inputs are staged without waiting for those who get them.",
        r"replaces the input of rank \d without a wait for a transfer that may still read that of the call before",
        {Kind.RACE},
        without("calls", "guard"),
        lambda c: engine(c) and not engine_puts(c),
    ),
    fault(
        "no end of calls",
        "Nobody is told that a call has ended.",
        r"that rank \d has ended its call, which nobody raises",
        {Kind.DEADLOCK},
        without("calls", "close_signal"),
    ),
    fault(
        "no beginning of calls",
        "Nobody is told that an input is in place.",
        r"that rank \d has its input in place, which nobody raises",
        {Kind.DEADLOCK},
        without("calls", "open"),
        lambda c: engine(c) and not engine_puts(c),
    ),
    fault(
        "chunks end early",
        "Chunks lack their last row, or bytes.",
        r"command \d of rank \d has a source of .*, which is no region of",
        {Kind.UNWRITTEN},
        one_row_less,
    ),
    fault(
        "chunks lie too low",
        "Chunks are put 16 bytes too low.",
        r"command \d of rank \d has a destination of .*, which is no region of",
        {Kind.UNWRITTEN, Kind.RACE},
        sixteen_bytes_low,
    ),
    fault(
        "the next chunk",
        "Commands copy each other's source.",
        r"is not how transfer \d+ moves|has its source in .*, but its transfer in|has to copy a place of its rank onto",
        {Kind.UNWRITTEN, Kind.RACE, Kind.DEADLOCK},
        next_chunk,
        several_commands,
        wrong_results=True,
    ),
    fault(
        "put to itself",
        "Commands put into the buffer of the rank that carries them out.",
        r"has its destination in buffer 0 of rank \d, but its transfer in buffer 0 of rank \d",
        {Kind.UNWRITTEN, Kind.RACE},
        other_destination,
        puts_by_ldst,
    ),
    fault(
        "signals swapped",
        "Two commands raise each other's flags.",
        "waits for itself, in a circle|starts without a wait for a transfer",
        {Kind.UNWRITTEN, Kind.RACE, Kind.DEADLOCK},
        signals_swapped,
        several_commands,
    ),
    fault(
        "raised at another rank",
        "Flags of transfers are raised at the rank after the one that waits.",
        _NOT_RAISED,
        {Kind.DEADLOCK, Kind.UNWRITTEN, Kind.RACE},
        other_rank,
    ),
    fault(
        "one for an epoch",
        "Flags that count calls are set to 1.",
        "by kind 1, but expects kind 0, which stores the epoch, or 2",
        {Kind.DEADLOCK, Kind.OVERFLOW},
        kind_swapped,
        ldst,
    ),
    fault(
        "waits for twice the epoch",
        "Waits want twice the number of the call.",
        r"to count to 2, but in a call it counts to 1",
        {Kind.DEADLOCK},
        late,
    ),
    fault(
        "guards of this call",
        "What is needed of the call before is wanted of this one.",
        _CIRCLE,
        {Kind.DEADLOCK},
        guards_as_counts,
        puts_by_ldst,
    ),
    fault(
        "the call before is enough",
        "Tiles and commands are content with the data of the call before.",
        "but only what the end of a call raises says that|to count to 0, but in a call it counts to 1",
        {Kind.UNWRITTEN, Kind.RACE},
        counts_as_guards,
    ),
    fault(
        "waits one tile late",
        "Each tile has the waits of the one before it.",
        _NO_TILE_WAIT,
        {Kind.UNWRITTEN, Kind.RACE},
        waits_at_next_tile,
        lambda c: not c.is_attention,
    ),
    fault(
        "last wait left out",
        "A tile that needs several chunks does not wait for the last.",
        _NO_TILE_WAIT,
        {Kind.UNWRITTEN, Kind.RACE},
        last_wait_missing,
        reads_several_shards,
    ),
    fault(
        "a tile computed twice",
        "A tile is computed twice, another not at all.",
        r"orders tile \[.*\] twice",
        {Kind.RACE, Kind.OUTPUT},
        tile_twice,
    ),
    fault(
        "commands in a circle",
        "The first command of each rank waits for what a peer's brings it.",
        _CIRCLE,
        {Kind.DEADLOCK},
        wait_for_each_other,
        puts_by_ldst,
    ),
)
"""In the order of the tables."""
