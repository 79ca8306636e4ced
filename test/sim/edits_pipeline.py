"""Edits of the fused kernel that break a tile: what it reads, its pipeline, its stores."""

from __future__ import annotations

from typing import Any

from fused_edits import (
    Edit,
    Fused,
    after,
    block_of,
    bypass,
    constant,
    integer,
    plus,
    producer,
    users,
)

from syncopate.mlir import ir


def own_input_from_buffer(fused: Fused) -> None:
    """The tiles' own rows are read from the buffer, where nobody has put them."""
    for op in fused.find(r"arith\.select", where=_chooses_source):
        for user in users(producer(op.operands[0])):
            user.operands[0] = constant(0, "i1", user)


def _chooses_source(op: Any) -> bool:
    return "tensordesc" in str(op.results[0].type)


def front_is_seen(fused: Fused) -> None:
    """The kernel counts its CTAs from the first of the launch, not from the first that computes."""
    for op in fused.find(r"arith\.subi", where=_hides_front):
        op.operands[1] = constant(0, "i32", op)


def _hides_front(op: Any) -> bool:
    all_of_them, front = producer(op.operands[0]), producer(op.operands[1])
    named = all_of_them is not None and all_of_them.name == "tt.get_program_id"
    return named and front is not None and front.name == "arith.constant"


def first_tile(fused: Fused) -> None:
    """Whatever its position, the first row of the tile table is read."""
    for op in fused.find(r"arith\.muli", "read_tile_entry"):
        op.operands[0] = constant(0, "i32", op)


def inverted_phase(fused: Fused) -> None:
    """mbarriers are waited for with the parity of the phase before."""
    for op in fused.find(r"ttng\.wait_barrier"):
        op.operands[1] = plus(op.operands[1], 1, op)


def ring_of(more: int) -> Edit:
    """The pipeline's slot numbers wrap around at another number of slots."""

    def edit(fused: Fused) -> None:
        for op in fused.find(r"arith\.cmpi", where=_wraps_slots):
            op.operands[1] = plus(op.operands[1], more, op)

    return edit


def _wraps_slots(op: Any) -> bool:
    bound = producer(op.operands[1])
    added = producer(op.operands[0])
    if integer(op, "predicate") != 5 or added is None or added.name != "arith.addi":
        return False
    if bound is None or bound.name != "arith.constant" or str(bound.results[0].type) != "i32":
        return False
    slots = [user for user in users(op) if user.name == "arith.select"]
    return any(inner.name == "ttg.memdesc_index" for user in slots for inner in users(user))


def slot_zero(of: str, operand: int) -> Edit:
    """An operand that is a slot of a ring is always its first one."""

    def edit(fused: Fused) -> None:
        for op in fused.find(of):
            made = producer(op.operands[operand])
            if made.name == "ttg.memdesc_index":
                made.operands[1] = constant(0, "i32", made)

    return edit


def load_target_zero(fused: Fused) -> None:
    """Loads of the pipeline all go to the first slot."""
    for op in fused.find(r"ttng\.async_tma_copy_global_to_local"):
        for value in op.operands:
            if "memdesc" in str(value.type) and "xi64" not in str(value.type):
                made = producer(value)
                if made.name == "ttg.memdesc_index":
                    made.operands[1] = constant(0, "i32", made)


def unpredicated(fused: Fused) -> None:
    """The pipeline goes on loading behind its last step."""
    for op in fused.find(r"ttng\.(async_tma_copy_global_to_local|barrier_expect)"):
        last = len(op.operands) - 1
        if str(op.operands[last].type) == "i1":
            op.operands[last] = constant(1, "i1", op)


def two_phases_ahead(fused: Fused) -> None:
    """mbarriers complete two phases that nobody waits for."""
    for op in fused.find(r"ttng\.init_barrier"):
        for _ in range(2):
            ir.Operation.create(
                "ttng.arrive_barrier",
                operands=[op.operands[0]],
                attributes={"count": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)},
                ip=ir.InsertionPoint(after(op)[0]),
            )


def early_end_of_barriers(fused: Fused) -> None:
    """mbarriers are invalidated before the loop that uses them."""
    for op in fused.find(r"ttng\.inval_barrier"):
        loops = [other for other in block_of(op) if other.name in ("scf.for", "scf.while")]
        op.move_before(loops[-1])


def pass_over(name: str, **options: Any) -> Edit:
    """Takes out operations that only wait."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, **options):
            bypass(op)

    return edit


def unmasked(name: str) -> Edit:
    """Accesses of the local kernel lose their mask."""

    def edit(fused: Fused) -> None:
        for op in fused.find(name, "gemm_pointers", where=_has_mask):
            for at, value in enumerate(op.operands):
                if "xi1" in str(value.type):
                    op.operands[at] = constant(1, str(value.type), op)

    return edit


def _has_mask(op: Any) -> bool:
    return any("xi1" in str(value.type) for value in op.operands)


def pending(number: int) -> Any:
    """A wait for all but so many operations."""
    return lambda op: integer(op, "pendings") == number
