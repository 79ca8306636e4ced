"""Faults of the protocol in the fused kernel: flags of transfers, the end of a call, copies."""

from __future__ import annotations

from edits_protocol import (
    BARRIER,
    CLOSE,
    COMMAND,
    OPEN,
    barrier_late,
    copy_offset,
    copy_side,
    copy_twice,
    copy_unmasked,
    count_before_copy,
    done_before_wait,
    engine_epoch_back,
    engine_epoch_stays,
    epoch_before_count,
    epoch_early,
    epoch_stays,
    epoch_twice,
    first_command_only,
    neighbours_command,
    raise_next,
    raise_value,
)
from fused_edits import decide, drop, never, pin, shift
from sim_faults import Fault
from sim_faults import kernel_fault as fault
from sim_features import (
    engine,
    engine_gets,
    engine_puts,
    ldst,
    ldst_of_several_ctas,
    several_ctas,
)
from sim_table import PULL

from syncopate.sim.findings import Kind

TRANSFER_FAULTS: tuple[Fault, ...] = (
    # Raising.
    fault(
        "raised for the call after",
        "Flags of transfers are raised to the number of the next call.",
        {Kind.RACE, Kind.UNWRITTEN},
        raise_value(1, COMMAND),
        ldst,
    ),
    fault(
        "raised for the call before",
        "Flags of transfers are raised to the number of the call before.",
        {Kind.DEADLOCK},
        raise_value(-1, COMMAND),
        ldst,
    ),
    fault(
        "flags go back",
        "Flags of transfers are lowered.",
        {Kind.OVERFLOW},
        raise_value(-2, COMMAND),
        ldst,
    ),
    fault(
        "another command's signals",
        "Commands raise the signals after theirs.",
        {Kind.DEADLOCK, Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        raise_next,
        ldst,
    ),
    fault(
        "counted before copied",
        "A command is counted and raised before it is carried out.",
        {Kind.RACE, Kind.UNWRITTEN},
        count_before_copy,
        ldst,
    ),
    fault(
        "no barrier before the count",
        "A command is counted while other threads still copy.",
        {Kind.RACE},
        drop(BARRIER, COMMAND),
        ldst_of_several_ctas,
    ),
    fault(
        "no barrier before calls are counted",
        "A CTA is counted while its threads still read the number of the call.",
        {Kind.RACE},
        drop(BARRIER, CLOSE),
        several_ctas,
    ),
    fault(
        "barrier after the count",
        "The barrier comes after the count.",
        {Kind.RACE},
        barrier_late,
        ldst_of_several_ctas,
    ),
    fault(
        "nobody opens",
        "Nobody says that an input is in place.",
        {Kind.DEADLOCK},
        never(r"scf\.if", innermost=OPEN),
        engine_gets,
    ),
    fault(
        "every CTA opens",
        "Each CTA says that the input is in place.",
        {Kind.OVERFLOW},
        decide(r"scf\.if", True, innermost=OPEN),
        lambda c: engine_gets(c) and several_ctas(c),
    ),
    # The end of a call.
    fault(
        "epoch stays",
        "The number of the call is not advanced.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        epoch_stays,
    ),
    fault(
        "engine's epoch stays",
        "The word that the engine copies to flags is not advanced.",
        {Kind.DEADLOCK},
        engine_epoch_stays,
        engine,
    ),
    fault(
        "engine's epoch goes back",
        "The word that the engine copies to flags is lowered.",
        {Kind.OVERFLOW},
        engine_epoch_back,
        engine,
    ),
    fault(
        "epoch advanced twice",
        "The number of the call is advanced by two.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.DEADLOCK},
        epoch_twice,
    ),
    fault(
        "epoch advanced early",
        "The closing signals are raised with the number of the next call.",
        {Kind.RACE, Kind.UNWRITTEN},
        epoch_early,
        lambda c: not engine_puts(c),
    ),
    fault(
        "epoch advanced by every CTA",
        "Each CTA advances the epoch before it is counted.",
        {Kind.RACE},
        epoch_before_count,
        several_ctas,
    ),
    fault(
        "done before it is",
        "The closing signals are raised before the closing waits.",
        {Kind.RACE},
        done_before_wait,
        engine,
    ),
    # Copies.
    fault(
        "last block left out",
        "The copy loop ends one block early.",
        {Kind.UNWRITTEN, Kind.RACE},
        shift(r"scf\.for", 1, -1, COMMAND, innermost="copy_region"),
        ldst,
    ),
    fault(
        "first block left out",
        "The copy loop begins one block late.",
        {Kind.UNWRITTEN, Kind.RACE},
        shift(r"scf\.for", 0, 1, COMMAND, innermost="copy_region"),
        ldst,
    ),
    fault(
        "every block by every CTA",
        "The copy loop of each CTA begins with the first block.",
        {Kind.RACE, Kind.UNWRITTEN},
        pin(r"scf\.for", 0, 0, COMMAND, innermost="copy_region"),
        ldst_of_several_ctas,
    ),
    fault(
        "mask dropped",
        "The last block of a copy is as long as the others.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        copy_unmasked,
        lambda c: ldst(c) and c.splits > 1,
    ),
    fault(
        "four bytes off",
        "What a command stores lands four bytes too high.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        copy_offset,
        ldst,
    ),
    fault(
        "stored to the source",
        "A command stores to where it loads from.",
        {Kind.RACE, Kind.UNWRITTEN},
        copy_side("src", "src"),
        ldst,
    ),
    fault(
        "copied the wrong way",
        "A command copies its destination to its source.",
        {Kind.RACE, Kind.UNWRITTEN},
        copy_side("dst", "src"),
        ldst,
    ),
    fault(
        "copied twice",
        "A command is carried out again after its flags were raised.",
        {Kind.RACE},
        copy_twice,
        ldst,
    ),
    fault(
        "last command left out",
        "The last command is not carried out.",
        {Kind.DEADLOCK, Kind.UNWRITTEN},
        shift(r"scf\.for", 1, -1, innermost=COMMAND),
        ldst,
    ),
    fault(
        "commands one row off",
        "Each command is the one after it.",
        {Kind.DEADLOCK, Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        neighbours_command,
        ldst,
    ),
    fault(
        "first command only",
        "Every command is the first one.",
        {Kind.DEADLOCK, Kind.RACE, Kind.UNWRITTEN},
        first_command_only,
        lambda c: ldst(c) and (c.world > 2 or c.splits > 1 or c.algorithm is PULL),
    ),
)
"""In the order of a call: flags, its end, copies."""
