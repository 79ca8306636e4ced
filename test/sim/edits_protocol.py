"""Edits of the fused kernel that break its protocol: waits, counters, signals, copies."""

from __future__ import annotations

from typing import Any

from fused_edits import (
    Edit,
    Fused,
    after,
    block_of,
    constant,
    contains,
    integer,
    move_up,
    plus,
    producer,
    users,
)

from syncopate.mlir import ir

BARRIER = r"(gpu|ttg)\.barrier"
RMW = r"tt\.atomic_rmw"
TILE, COMMAND, CLOSE, OPEN = "wait_signals_entry", "run_commands_ldst", "close_call", "open_call"
"""Device functions that tell what an operation is for: the waits of tiles, commands, the end and the beginning."""


def outer_wait(op: Any) -> bool:
    """Whether a branch of `wait_signals` is the one that skips a wait for nothing."""
    return contains(op, "scf.for")


def after_poll(op: Any) -> bool:
    """Whether a branch of `wait_signals` is the one that polls on."""
    return not contains(op, "scf.for")


def other_flag(*within: str) -> Edit:
    """Waits use the flag after theirs."""

    def edit(fused: Fused) -> None:
        for poll in fused.find(RMW, "_poll", *within, where=_is_first_poll):
            index = producer(poll.operands[0]).operands[1]
            _replace_by_more(index, 1)

    return edit


def _is_first_poll(op: Any) -> bool:
    return op.operation.parent.name != "scf.while"


def _replace_by_more(value: Any, by: int) -> None:
    """Whoever uses a value gets more."""
    uses = [(use.owner, use.operand_number) for use in value.uses]
    first = next(iter(after(value.owner)))
    more = plus(value, by, first)
    for owner, number in uses:
        owner.operands[number] = more


def other_call(by: int, *within: str) -> Edit:
    """Waits want the value of another call."""

    def edit(fused: Fused) -> None:
        for op in fused.find(r"arith\.select", *within, innermost="wait_signals", where=_is_wanted):
            op.operands[2] = plus(op.operands[2], by, op)

    return edit


def _is_wanted(op: Any) -> bool:
    made = producer(op.operands[2])
    return made is not None and made.name == "arith.muli"


def compare_without_wrapping(fused: Fused) -> None:
    """`seen < wanted` in place of `seen - wanted < 0`."""
    for op in fused.find(r"arith\.cmpi", "wait_signals", where=_is_difference):
        difference = producer(op.operands[0])
        op.operands[0], op.operands[1] = difference.operands[0], difference.operands[1]


def _is_difference(op: Any) -> bool:
    made = producer(op.operands[0])
    return made is not None and made.name == "arith.subi" and str(op.operands[0].type) == "i32"


def one_wait_only(fused: Fused) -> None:
    """Of several waits of a tile, only the first."""
    for op in fused.find(r"scf\.for", TILE, innermost="wait_signals"):
        op.operands[1] = plus(op.operands[0], 1, op)


def fence_first(fused: Fused) -> None:
    """The fence comes in front of the polls."""
    for op in fused.find(r"tt\.elementwise_inline_asm", TILE, innermost="fence_tma"):
        loops = [other for other in block_of(op) if other.name == "scf.for"]
        op.move_before(loops[-1])


def count_before_copy(fused: Fused) -> None:
    """A command is counted, and raised, before it is copied."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="copy_region"):
        op.move_before(block_of(op)[-1])


def barrier_late(fused: Fused) -> None:
    """The barrier comes after the count."""
    for op in fused.find(BARRIER, COMMAND):
        op.move_after(next(other for other in after(op) if other.name == "tt.atomic_rmw"))


def copy_twice(fused: Fused) -> None:
    """A command's copy is repeated after it was counted and raised."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="copy_region"):
        op.clone(ip=ir.InsertionPoint(block_of(op)[-1]))


def copy_side(load_from: str, store_to: str) -> Edit:
    """Which side of a command the copy loop loads from and stores to."""

    def edit(fused: Fused) -> None:
        (store,) = fused.find(r"tt\.store", COMMAND, innermost="copy_region")
        (load,) = fused.find(
            r"tt\.load",
            COMMAND,
            innermost="copy_region",
            where=lambda op: "tensor" in str(op.results[0].type),
        )
        places = {"src": load.operands[0], "dst": store.operands[0]}
        if load_from == "dst":
            made = producer(places["dst"])
            move_up(made, load)
        load.operands[0], store.operands[0] = places[load_from], places[store_to]

    return edit


def copy_unmasked(fused: Fused) -> None:
    """The last block of a copy is as long as the others."""
    for op in fused.find(r"tt\.(load|store)", COMMAND, innermost="copy_region", where=_is_masked):
        last = len(op.operands) - 1
        op.operands[last] = constant(1, str(op.operands[last].type), op)


def _is_masked(op: Any) -> bool:
    return "xi1" in str(op.operands[len(op.operands) - 1].type)


def copy_offset(fused: Fused) -> None:
    """What a command stores lands four bytes too high."""
    for op in fused.find(r"tt\.store", COMMAND, innermost="copy_region"):
        made = producer(op.operands[0])
        made.operands[1] = plus(made.operands[1], 1, made)


def neighbours_command(fused: Fused) -> None:
    """Commands are read one row too far."""
    for op in _row_of_command(fused):
        op.operands[0] = plus(op.operands[0], 1, op)


def first_command_only(fused: Fused) -> None:
    """Every command is the first."""
    for op in _row_of_command(fused):
        op.operands[0] = constant(0, "i32", op)


def _row_of_command(fused: Fused) -> list[Any]:
    return fused.find(
        r"arith\.muli",
        innermost=COMMAND,
        where=lambda op: isinstance(op.operands[0].owner, type(op.operation.block)),
    )


def one_counter(fused: Fused) -> None:
    """All commands count on the first one's counter."""
    for op in fused.find(RMW, innermost=COMMAND):
        made = producer(op.operands[0])
        made.operands[1] = constant(0, "i32", made)


def counted(by: int, function: str) -> Edit:
    """The number of CTAs that have finished is off."""

    def edit(fused: Fused) -> None:
        for op in fused.find(RMW, innermost=function):
            for user in users(op):
                at = next(i for i, v in enumerate(user.operands) if v == op.results[0])
                user.operands[at] = plus(op.results[0], by, user)

    return edit


def finished(op: Any) -> bool:
    """Whether a branch is taken by the CTA that finds itself the last."""
    compared = producer(op.operands[0])
    total = (
        producer(compared.operands[1])
        if compared is not None and len(compared.operands) > 1
        else None
    )
    return total is not None and total.name == "arith.muli"


def raise_value(by: int, function: str) -> Edit:
    """Raised flags get another value."""

    def edit(fused: Fused) -> None:
        for op in fused.find(RMW, function, innermost="raise_signals", where=_is_exchange):
            made = producer(op.operands[1])
            made.operands[1] = plus(made.operands[1], by, made)

    return edit


def _is_exchange(op: Any) -> bool:
    return integer(op, "atomic_rmw_op") == 10


def raise_next(fused: Fused) -> None:
    """The rows of the signals that a command raises are one too far."""
    for op in fused.find(r"scf\.for", COMMAND, innermost="raise_signals"):
        for operand in (0, 1):
            op.operands[operand] = plus(op.operands[operand], 1, op)


def _epoch_stores(fused: Fused) -> list[Any]:
    """The stores of the engine's epoch and of the epoch, in this order."""
    return fused.find(r"tt\.store", innermost=CLOSE)


def epoch_stays(fused: Fused) -> None:
    """The epoch is not advanced."""
    _epoch_stores(fused)[-1].erase()


def engine_epoch_stays(fused: Fused) -> None:
    """The word that the engine copies to flags is not advanced."""
    _epoch_stores(fused)[0].erase()


def engine_epoch_back(fused: Fused) -> None:
    """The word that the engine copies to flags goes back."""
    (op, _) = _epoch_stores(fused)
    op.operands[1] = plus(op.operands[1], -2, op)


def epoch_twice(fused: Fused) -> None:
    """The epoch is advanced by two."""
    for op in _epoch_stores(fused):
        op.operands[1] = plus(op.operands[1], 1, op)


def epoch_early(fused: Fused) -> None:
    """The epoch is advanced before the closing signals are raised."""
    stores = _epoch_stores(fused)
    first = block_of(stores[0])[0]
    for op in stores:
        move_up(op, first)


def epoch_before_count(fused: Fused) -> None:
    """Every CTA advances the epoch, before it is counted."""
    op = _epoch_stores(fused)[-1]
    (barrier,) = fused.find(BARRIER, innermost=CLOSE)
    made = producer(op.operands[1]).operation
    made.move_before(barrier)
    op.move_before(barrier)


def done_before_wait(fused: Fused) -> None:
    """The closing signals are raised before the closing waits are over."""
    for op in fused.find(r"scf\.if", CLOSE, innermost="wait_signals", where=outer_wait):
        op.move_before(block_of(op)[-1])
