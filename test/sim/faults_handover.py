"""Faults of the ring through which tiles hand commands over to the role beside them."""

from __future__ import annotations

from collections.abc import Callable

from edits_protocol import BARRIER
from fused_edits import Edit, Fused, block_of, drop, kernel, pin, plus
from sim_faults import Fault
from sim_handover import LDST, ONE_CTA, THREE_CTAS, TMA, HandoverCase

from syncopate.sim.findings import Kind

__all__ = ["HANDOVER_FAULTS", "HANDOVER_FORMS"]

HAND_OVER, TAKE = "piece_hand_over", "piece_take"
"""The device functions of both sides."""

HANDOVER_FORMS: tuple[HandoverCase, ...] = (
    HandoverCase(LDST, shape=(192, 192, 64), config=ONE_CTA),
    HandoverCase(TMA, shape=(192, 192, 64), config=ONE_CTA),
    HandoverCase(LDST, 3, shape=(328, 104, 72), config=THREE_CTAS, also=LDST),
)
"""CTAs with more tiles than the ring has slots; a queue beside it."""


def _any(_: HandoverCase) -> bool:
    return True


def _full(case: HandoverCase) -> bool:
    """A CTA's tiles fill the ring."""
    return case.config is ONE_CTA


def _arrive_early(function: str, name: str) -> Edit:
    """The arrival comes in front of what it should come behind."""

    def edit(fused: Fused) -> None:
        for op in fused.find(r"ttng\.arrive_barrier", innermost=function):
            place = next(
                other
                for other in reversed(block_of(op)[: block_of(op).index(op)])
                if other.name == name
            )
            slot = op.operands[0].owner
            slot.operation.move_before(place)
            op.move_before(place)

    return edit


def _next_tile(fused: Fused) -> None:
    """Records name the tile after theirs."""
    for op in fused.find(r"tt\.splat", innermost=HAND_OVER):
        op.operands[0] = plus(op.operands[0], 1, op)


def _fault(
    name: str,
    broken: str,
    found: set[Kind],
    edit: Edit,
    on: Callable[[HandoverCase], bool] = _any,
) -> Fault:
    return Fault(name, broken, kernel(edit), frozenset(found), on, among=HANDOVER_FORMS)


HANDOVER_FAULTS: tuple[Fault, ...] = (
    _fault(
        "handed over before it is stored",
        "A tile is handed over while its stores are under way.",
        {Kind.RACE},
        drop(r"tt\.elementwise_inline_asm", "finish_tile", innermost="wait_for_tma_stores"),
    ),
    _fault(
        "no barrier before the handover",
        "The arrival that hands a tile over does not wait for all threads.",
        {Kind.RACE, Kind.SHARED_RACE},
        drop(BARRIER, innermost=HAND_OVER),
    ),
    _fault(
        "record after the arrival",
        "A record is written when it has been announced.",
        {Kind.SHARED_RACE, Kind.RACE},
        _arrive_early(HAND_OVER, "ttg.local_store"),
    ),
    _fault(
        "slot not waited for",
        "Records are written without waiting until their slot is empty.",
        {Kind.SHARED_RACE, Kind.BARRIER},
        drop(r"ttng\.wait_barrier", innermost=HAND_OVER),
        _full,
    ),
    _fault(
        "record not waited for",
        "The role does not wait for records.",
        {Kind.SHARED_RACE, Kind.RACE},
        drop(r"ttng\.wait_barrier", innermost=TAKE),
    ),
    _fault(
        "record of one parity",
        "The role always waits for records by parity 0.",
        {Kind.SHARED_RACE, Kind.RACE, Kind.DEADLOCK, Kind.BARRIER},
        pin(r"ttng\.wait_barrier", 1, 0, innermost=TAKE),
        _full,
    ),
    _fault(
        "slot of one parity",
        "The computing warps always wait for slots by parity 1.",
        {Kind.SHARED_RACE, Kind.DEADLOCK, Kind.BARRIER},
        pin(r"ttng\.wait_barrier", 1, 1, innermost=HAND_OVER),
        _full,
    ),
    _fault(
        "slot free before it is read",
        "The role gives a slot back before it has read the record.",
        {Kind.SHARED_RACE},
        _arrive_early(TAKE, "ttg.local_load"),
        _full,
    ),
    _fault(
        "no barrier before a slot is free",
        "The arrival that gives a slot back does not wait for all threads.",
        {Kind.SHARED_RACE},
        drop(BARRIER, innermost=TAKE),
        _full,
    ),
    _fault(
        "slot never free",
        "The role does not give slots back.",
        {Kind.DEADLOCK},
        drop(r"ttng\.arrive_barrier", innermost=TAKE),
        _full,
    ),
    _fault(
        "tile never handed over",
        "The computing warps do not arrive.",
        {Kind.DEADLOCK},
        drop(r"ttng\.arrive_barrier", innermost=HAND_OVER),
    ),
    _fault(
        "record of the next tile",
        "A record names the tile after the one that is done.",
        {Kind.RACE, Kind.UNWRITTEN, Kind.OUT_OF_BOUNDS},
        _next_tile,
    ),
)
"""In the order of a record."""
