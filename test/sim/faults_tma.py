"""Faults of communication roles on bulk TMA: the ring, tensor maps, waits for stores."""

from __future__ import annotations

from edits_protocol import BARRIER
from fused_edits import (
    Fused,
    change,
    constant,
    drop,
    plus,
    producer,
    shift,
)
from sim_faults import Fault
from sim_faults import kernel_fault as fault
from sim_features import tma_copies, tma_fills_ring

from syncopate.mlir import ir
from syncopate.sim.findings import Kind

COMMANDS, MOVE = "run_commands_tma", "_move_region"
"""The device functions that hold the role's code, and the copy loop itself."""


def _read_only_wait(fused: Fused) -> None:
    """The wait at the end of a region is for the reads of its stores only."""
    for op in fused.find(r"tt\.elementwise_inline_asm", COMMANDS, innermost="wait_for_tma_stores"):
        text = op.attributes["asm_string"].value.replace("wait_group", "wait_group.read")
        op.attributes["asm_string"] = ir.StringAttr.get(text)


def _no_full_slot(fused: Fused) -> None:
    """Slots are stored without waiting for their load."""
    for op in fused.find(r"ttng\.wait_barrier", innermost=MOVE):
        op.erase()


def _one_slot(fused: Fused) -> None:
    """All loads go to the first slot."""
    for op in fused.find(r"ttng\.async_tma_copy_global_to_local", innermost=MOVE):
        for value in op.operands:
            if "memdesc" in str(value.type) and "xi64" not in str(value.type):
                producer(value).operands[1] = constant(0, "i32", producer(value))


def _sides_swapped(fused: Fused) -> None:
    """What is read and what is written change places."""
    load, store = fused.find(r"ttng\.tensormap_create", innermost=MOVE)
    # Addresses and strides of both are computed in front of the first.
    source, target = load.operands[1], store.operands[1]
    load.operands[1], store.operands[1] = target, source


def _rows_without_end(fused: Fused) -> None:
    """A map has eight rows more than its region."""
    for op in fused.find(r"ttng\.tensormap_create", innermost=MOVE):
        op.operands[5] = plus(op.operands[5], 8, op)


def _all_from_the_first_block(fused: Fused) -> None:
    """Blocks are stored where the first one of the CTA belongs."""
    for op in fused.find(r"ttng\.async_tma_copy_local_to_global", innermost=MOVE):
        for index in (1, 2):
            op.operands[index] = constant(0, "i32", op)


TMA_FAULTS: tuple[Fault, ...] = (
    fault(
        "TMA copies not waited for",
        "A command is counted before its TMA stores are complete.",
        {Kind.RACE, Kind.UNWRITTEN},
        drop(r"tt\.elementwise_inline_asm", COMMANDS, innermost="wait_for_tma_stores"),
        tma_copies,
    ),
    fault(
        "TMA copies read only",
        "A command is counted when its TMA stores have read shared memory.",
        {Kind.RACE, Kind.UNWRITTEN},
        _read_only_wait,
        tma_copies,
    ),
    fault(
        "no barrier behind TMA copies",
        "A command is counted by a thread that does not know that its TMA stores are complete.",
        {Kind.RACE},
        drop(BARRIER, innermost=COMMANDS),
        # The last CTA to count learns of its stores by that, so one that has some has to come before.
        tma_fills_ring,
    ),
    fault(
        "slots stored at once",
        "Slots of the ring are stored without waiting for what was loaded into them.",
        {Kind.SHARED_RACE},
        _no_full_slot,
        tma_copies,
    ),
    fault(
        "ring's phase inverted",
        "Slots of the ring are waited for with the parity of the phase before.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        shift(r"ttng\.wait_barrier", 1, 1, innermost=MOVE),
        tma_copies,
    ),
    fault(
        "slots loaded early",
        "Slots of the ring are loaded again before they have been stored.",
        {Kind.SHARED_RACE},
        change(r"ttng\.async_tma_store_wait", "pendings", 8, innermost=MOVE),
        tma_fills_ring,
    ),
    fault(
        "one slot only",
        "All blocks are loaded into the first slot of the ring.",
        {Kind.SHARED_RACE},
        _one_slot,
        tma_fills_ring,
    ),
    fault(
        "more bytes expected",
        "A slot's mbarrier expects more bytes than a load brings.",
        {Kind.DEADLOCK},
        change(r"ttng\.barrier_expect", "size", lambda size: 2 * size, innermost=MOVE),
        tma_copies,
    ),
    fault(
        "map not fenced",
        "A tensor map is used without a fence behind its change.",
        {Kind.RACE},
        drop(r"ttng\.tensormap_fenceproxy_acquire", innermost=MOVE),
        tma_copies,
    ),
    fault(
        "map's sides swapped",
        "The map of what is read describes what is written, and the other way around.",
        {Kind.RACE, Kind.UNWRITTEN},
        _sides_swapped,
        tma_copies,
    ),
    fault(
        "map too long",
        "A tensor map has eight rows more than its region.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        _rows_without_end,
        tma_copies,
    ),
    fault(
        "first block only",
        "All blocks of a region are stored over its first one.",
        {Kind.RACE, Kind.UNWRITTEN},
        _all_from_the_first_block,
        tma_fills_ring,
    ),
)
