"""Faults of the protocol in the fused kernel: waits, memory order, counters of CTAs."""

from __future__ import annotations

from edits_protocol import (
    CLOSE,
    COMMAND,
    OPEN,
    RMW,
    TILE,
    after_poll,
    compare_without_wrapping,
    counted,
    finished,
    one_counter,
    one_wait_only,
    other_call,
    other_flag,
    outer_wait,
)
from fused_edits import change, decide, never
from sim_faults import Fault
from sim_faults import kernel_fault as fault
from sim_features import (
    engine,
    engine_gets,
    engine_puts,
    ldst,
    ldst_gets,
    ldst_of_several_ctas,
    reads_several_shards,
    several_ctas,
)
from sim_table import PULL

from syncopate.sim.findings import Kind

RELAXED, ACQUIRE, RELEASE = 1, 2, 3
GPU, CTA = 1, 2

WAIT_IF = {"innermost": "wait_signals", "where": outer_wait}
POLL_IF = {"innermost": "wait_signals", "where": after_poll}

ORDER_FAULTS: tuple[Fault, ...] = (
    # Waits.
    fault(
        "tile wait skipped",
        "Tiles do not wait for what they read.",
        {Kind.RACE, Kind.UNWRITTEN},
        never(r"scf\.if", TILE, **WAIT_IF),
    ),
    fault(
        "command wait skipped",
        "Commands wait neither for their source nor for their destination.",
        {Kind.RACE, Kind.UNWRITTEN},
        never(r"scf\.if", COMMAND, **WAIT_IF),
        ldst,
    ),
    fault(
        "closing wait skipped",
        "A call ends although the copy engine may still be at work.",
        {Kind.RACE},
        never(r"scf\.if", CLOSE, **WAIT_IF),
        engine_puts,
    ),
    fault(
        "tile wait given up",
        "A tile that finds its flag not raised goes on.",
        {Kind.RACE, Kind.UNWRITTEN},
        never(r"scf\.if", TILE, **POLL_IF),
    ),
    fault(
        "command wait given up",
        "A command that finds its flag not raised goes on.",
        {Kind.RACE, Kind.UNWRITTEN},
        never(r"scf\.if", COMMAND, **POLL_IF),
        ldst,
    ),
    fault(
        "wrong flag",
        "Tiles wait for the flag after theirs.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        other_flag(TILE),
    ),
    fault(
        "wait for the call before",
        "Tiles are content with the data of the call before.",
        {Kind.RACE, Kind.UNWRITTEN},
        other_call(-1, TILE),
    ),
    fault(
        "wait for the call after",
        "Tiles wait for data of the next call.",
        {Kind.DEADLOCK},
        other_call(1, TILE),
    ),
    fault(
        "comparison that does not wrap",
        "Flags are compared as numbers, not by their difference.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        compare_without_wrapping,
    ),
    fault(
        "first wait only",
        "Of several chunks, a tile waits for the first.",
        {Kind.RACE, Kind.UNWRITTEN},
        one_wait_only,
        reads_several_shards,
    ),
    # Acquire.
    fault(
        "relaxed acquire of tiles",
        "Tiles poll with a relaxed load.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "_poll", TILE),
    ),
    fault(
        "relaxed acquire of commands",
        "Commands poll with a relaxed load.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "_poll", COMMAND),
        ldst,
    ),
    fault(
        "relaxed acquire at the end",
        "The closing waits poll with a relaxed load.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "_poll", CLOSE),
        engine_puts,
    ),
    fault(
        "relaxed slow path",
        "Only the poll of a wait that had to block is relaxed.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "_poll", "_block", TILE),
    ),
    fault(
        "narrow acquire of tiles",
        "Tiles acquire at the scope of their GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "_poll", TILE),
        lambda c: not ldst_gets(c),
    ),
    fault(
        "narrow acquire of commands",
        "Commands acquire at the scope of their GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "_poll", COMMAND),
        ldst,
    ),
    fault(
        "narrow acquire at the end",
        "The closing waits acquire at the scope of their GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "_poll", CLOSE),
        engine,
    ),
    # Release.
    fault(
        "relaxed release of commands",
        "Flags of transfers are raised with a relaxed exchange.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "raise_signals", COMMAND),
        ldst,
    ),
    fault(
        "relaxed release of calls",
        "The end of a call is told with a relaxed exchange.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "raise_signals", CLOSE),
    ),
    fault(
        "relaxed release of inputs",
        "That an input is in place is told with a relaxed exchange.",
        {Kind.RACE},
        change(RMW, "sem", RELAXED, "raise_signals", OPEN),
        engine_gets,
    ),
    fault(
        "narrow release of commands",
        "Flags of transfers are raised at the scope of the GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "raise_signals", COMMAND),
        ldst,
    ),
    fault(
        "narrow release of calls",
        "The end of a call is told at the scope of the GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "raise_signals", CLOSE),
    ),
    fault(
        "narrow release of inputs",
        "That an input is in place is told at the scope of the GPU.",
        {Kind.RACE},
        change(RMW, "scope", GPU, "raise_signals", OPEN),
        engine_gets,
    ),
    # Counters of CTAs.
    fault(
        "command counter only acquires",
        "The CTA that counts a command does not release its part.",
        {Kind.RACE},
        change(RMW, "sem", ACQUIRE, innermost=COMMAND),
        ldst_of_several_ctas,
    ),
    fault(
        "command counter only releases",
        "The CTA that raises a command has not acquired the others' parts.",
        {Kind.RACE},
        change(RMW, "sem", RELEASE, innermost=COMMAND),
        ldst_of_several_ctas,
    ),
    fault(
        "command counter of one CTA",
        "Commands are counted at the scope of a CTA.",
        {Kind.RACE},
        change(RMW, "scope", CTA, innermost=COMMAND),
        ldst_of_several_ctas,
    ),
    fault(
        "call counter only acquires",
        "The CTA that counts itself does not release what it read.",
        {Kind.RACE},
        change(RMW, "sem", ACQUIRE, innermost=CLOSE),
        several_ctas,
    ),
    fault(
        "call counter only releases",
        "The last CTA has not acquired what the others read.",
        {Kind.RACE},
        change(RMW, "sem", RELEASE, innermost=CLOSE),
        several_ctas,
    ),
    fault(
        "call counter of one CTA",
        "CTAs are counted at the scope of a CTA.",
        {Kind.RACE},
        change(RMW, "scope", CTA, innermost=CLOSE),
        several_ctas,
    ),
    fault(
        "command counted too early",
        "A command counts as done when one CTA is missing.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        counted(1, COMMAND),
        ldst,
    ),
    fault(
        "command counted too late",
        "A command waits for one CTA more than there are.",
        {Kind.DEADLOCK},
        counted(-1, COMMAND),
        ldst,
    ),
    fault(
        "call counted too early",
        "A call counts as ended when one CTA is missing.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        counted(1, CLOSE),
    ),
    fault(
        "call counted too late",
        "A call waits for one CTA more than there are.",
        {Kind.DEADLOCK},
        counted(-1, CLOSE),
    ),
    fault(
        "every CTA raises",
        "Each CTA raises a command's flags when its own part is done.",
        {Kind.RACE, Kind.UNWRITTEN},
        decide(r"scf\.if", True, innermost=COMMAND, where=finished),
        ldst_of_several_ctas,
    ),
    fault(
        "no CTA raises",
        "Nobody raises the flags of commands.",
        {Kind.DEADLOCK},
        never(r"scf\.if", innermost=COMMAND, where=finished),
        ldst,
    ),
    fault(
        "every CTA closes",
        "Each CTA ends the call.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK, Kind.OVERFLOW},
        decide(r"scf\.if", True, innermost=CLOSE, where=finished),
        several_ctas,
    ),
    fault(
        "no CTA closes",
        "Nobody ends the call.",
        {Kind.DEADLOCK, Kind.RACE, Kind.UNWRITTEN},
        never(r"scf\.if", innermost=CLOSE, where=finished),
    ),
    fault(
        "one counter for all commands",
        "Commands count on the first one's counter.",
        {Kind.DEADLOCK},
        one_counter,
        lambda c: ldst(c) and (c.world > 2 or c.splits > 1 or c.algorithm is PULL),
    ),
)
"""In the order of a call: waits, acquires, releases, counters of CTAs."""
