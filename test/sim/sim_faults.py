"""Mechanical edits of good programs, each of which breaks them: of the fused kernel's text and of the tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sim_programs import with_fused

Fault = Callable[[Any], Any]


class DoesNotApply(Exception):
    """The program has nothing that this fault would break."""


def drop(pattern: str) -> Fault:
    """Removes operations without results, or with an i32 result that nobody needs."""

    def apply(program: Any) -> Any:
        kept, dropped = [], 0
        for line in program.ir["fused"].split("\n"):
            if not re.search(pattern, line):
                kept.append(line)
                continue
            dropped += 1
            value = re.match(r"(\s*)(%\w+) = .*-> i32( loc.*)?$", line)
            if value:
                constant = '"arith.constant"() <{value = 0 : i32}> : () -> i32'
                kept.append(f"{value[1]}{value[2]} = {constant}{value[3] or ''}")
        if not dropped:
            raise DoesNotApply(pattern)
        return with_fused(program, "\n".join(kept))

    return apply


def replace(pattern: str, by: str) -> Fault:
    """Replaces text everywhere."""

    def apply(program: Any) -> Any:
        text, count = re.subn(pattern, by, program.ir["fused"])
        if not count:
            raise DoesNotApply(pattern)
        return with_fused(program, text)

    return apply


def _constant_phase(program: Any) -> Any:
    """All waits on mbarriers wait for the same parity."""
    text = re.sub(
        r'"ttng.wait_barrier"\((%\w+), %\w+',
        r'"ttng.wait_barrier"(\1, %parity',
        program.ir["fused"],
    )
    constant = '%parity = "arith.constant"() <{value = 1 : i32}> : () -> i32'
    text = re.sub(r"(\^bb0\(%arg0: .*:\s*\n)", rf"\1    {constant}\n", text, count=1)
    return with_fused(program, text)


def table(edit: Callable[[Any, int, dict[str, Any]], bool]) -> Fault:
    """Edits the tables: `edit(program, rank, arrays by table and column)` says whether it changed something."""

    def apply(program: Any) -> Any:
        changed, tables = False, []
        for rank in range(program.world_size):
            values = {name: t.values.copy() for name, t in program.rank_tables(rank).items()}
            columns = {
                name: {c: values[name][:, i] for i, c in enumerate(t.columns)}
                for name, t in program.rank_tables(rank).items()
            }
            changed |= edit(program, rank, columns)
            tables.append(
                {
                    name: dataclasses.replace(t, values=values[name])
                    for name, t in program.rank_tables(rank).items()
                }
            )
        if not changed:
            raise DoesNotApply(str(edit))
        return dataclasses.replace(program, tables=tuple(tables))

    return apply


def _no_tile_waits(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    tiles = tables["tiles"]
    had = (tiles["wait_end"] > tiles["wait_begin"]).any()
    tiles["wait_end"][:] = tiles["wait_begin"]
    return bool(had)


def _no_command_waits(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    commands = tables["commands"]
    had = (commands["wait_end"] > commands["wait_begin"]).any()
    commands["wait_end"][:] = commands["wait_begin"]
    return bool(had)


def _no_command_signals(_: Any, rank: int, tables: Mapping[str, Any]) -> bool:
    commands = tables["commands"]
    if rank:
        return False
    commands["signal_end"][:] = commands["signal_begin"]
    return True


def _no_guard(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    calls = tables["calls"]
    had = (calls["guard_end"] > calls["guard_begin"]).any()
    calls["guard_end"][:] = calls["guard_begin"]
    return bool(had)


def _no_close_signals(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    calls = tables["calls"]
    had = (calls["close_signal_end"] > calls["close_signal_begin"]).any()
    calls["close_signal_end"][:] = calls["close_signal_begin"]
    return bool(had)


def _one_row_less(_: Any, rank: int, tables: Mapping[str, Any]) -> bool:
    rows = tables["commands"]["rows"]
    sizes = tables["commands"]["row_bytes"]
    if (rows > 1).any():
        rows[rows > 1] -= 1
    else:
        sizes -= 16
    return len(rows) > 0


def _one_row_later(_: Any, rank: int, tables: Mapping[str, Any]) -> bool:
    commands = tables["commands"]
    commands["dst_offset"][:] = np.maximum(0, commands["dst_offset"] - 16)
    return bool((commands["dst_offset"] > 0).any())


def _swap_signals(_: Any, rank: int, tables: Mapping[str, Any]) -> bool:
    commands = tables["commands"]
    if len(commands["signal_begin"]) < 2:
        return False
    for name in ("signal_begin", "signal_end"):
        commands[name][[0, 1]] = commands[name][[1, 0]]
    return True


def _wait_too_late(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    counts = tables["waits"]["count"]
    counts[counts == 1] = 2
    return bool((counts == 2).any())


def _missing_tile(_: Any, __: int, tables: Mapping[str, Any]) -> bool:
    tiles = tables["tiles"]
    for name in ("c0", "c1"):
        tiles[name][-1] = tiles[name][0]
    return True


RMW_ADD, RMW_SET = "atomic_rmw_op = 4 : i32", "atomic_rmw_op = 10 : i32"

IN_KERNEL: dict[str, Fault] = {
    "no fence before TMA reads": drop(r"fence\.proxy\.async;"),
    "no barrier": drop(r'"(gpu|ttg)\.barrier"'),
    "relaxed release": replace(
        rf"{RMW_SET}, scope = 3 : i32, sem = 3", f"{RMW_SET}, scope = 3 : i32, sem = 1"
    ),
    "relaxed acquire": replace("sem = 2 : i32", "sem = 1 : i32"),
    "counters only acquire": replace("sem = 4 : i32", "sem = 2 : i32"),
    "counters only release": replace("sem = 4 : i32", "sem = 3 : i32"),
    "relaxed counters": replace("sem = 4 : i32", "sem = 1 : i32"),
    "relaxed counter of CTAs": replace("scope = 1 : i32, sem = 4", "scope = 1 : i32, sem = 1"),
    "relaxed counter of a command": replace("scope = 3 : i32, sem = 4", "scope = 3 : i32, sem = 1"),
    "narrow scopes": replace("scope = 3", "scope = 1"),
    "narrow scope of releases": replace(f"{RMW_SET}, scope = 3", f"{RMW_SET}, scope = 1"),
    "narrow scope of acquires": replace("scope = 3 : i32, sem = 2", "scope = 1 : i32, sem = 2"),
    "scope of a CTA": replace("scope = 1", "scope = 2"),
    "no wait on an mbarrier": drop(r"ttng\.wait_barrier"),
    "no expected bytes": drop(r"ttng\.barrier_expect"),
    "fewer expected bytes": replace(r"(barrier_expect.*size = )(\d+)", r"\g<1>16"),
    "more expected bytes": replace(r"(barrier_expect.*size = )(\d+)", r"\g<1>\g<2>0"),
    "one wgmma too many in flight": replace(r"(warp_group_dot_wait.*pendings = )1", r"\g<1>2"),
    "accumulator in flight": replace(r"(warp_group_dot_wait.*pendings = )0", r"\g<1>1"),
    "no wait for TMA stores": drop("async_tma_store_wait"),
    "no fence before TMA stores": drop("fence_async_shared"),
    "mbarrier of two arrivals": replace(r"(init_barrier.*count = )1", r"\g<1>2"),
    "constant phase": _constant_phase,
}
"""Edits of the fused kernel."""

IN_TABLES: dict[str, Fault] = {
    "tiles do not wait": table(_no_tile_waits),
    "commands do not wait": table(_no_command_waits),
    "commands raise nothing": table(_no_command_signals),
    "no guard": table(_no_guard),
    "calls raise nothing at their end": table(_no_close_signals),
    "chunks end early": table(_one_row_less),
    "chunks lie too low": table(_one_row_later),
    "signals swapped": table(_swap_signals),
    "waits for the next call": table(_wait_too_late),
    "a tile computed twice, another not": table(_missing_tile),
}
"""Edits of the schedule."""
