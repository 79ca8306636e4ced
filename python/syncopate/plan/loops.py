"""Ready-made loops over ranks and steps: which of some members sends which block to which other, and when.

Each loop is over hand-overs, in an order in which they can be made; those of algorithms are what passes make of a
collective. All but `reduce` and `broadcast` gather: in the end, every member has the block of every other, which it has
been handed once. Backwards, and with ends exchanged, they are sums: `reverse`.

    for hand in ring(4):
        moves.copy(blocks[hand.block], hand.src, hand.dst)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from syncopate.choices import Algorithm, Swizzle
from syncopate.errors import PlanError
from syncopate.ir import run_pipeline
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.builder import Plan
from syncopate.plan.kinds import Collective
from syncopate.plan.plan_file import only_plan

__all__ = [
    "Hand",
    "broadcast",
    "exchange",
    "gather",
    "recursive_doubling",
    "reduce",
    "reverse",
    "ring",
]


@dataclass(frozen=True)
class Hand:
    """A block on its way from one member to another.

    Attributes:
        src: Position of the member that has it.
        dst: Position of the member that gets it.
        block: The member that it began at.
        part: Of a ring in two directions, 0 for the half that goes to next members, 1 for the other. Else all of it
            goes.
    """

    src: int
    dst: int
    block: int
    part: int | None = None


def exchange(members: int, swizzle: Swizzle = Swizzle.SHIFT) -> Iterator[Hand]:
    """Each with every other, its own block; a swizzle says in which order each takes the others."""
    width = 1 << (members - 1).bit_length()
    for turn in range(width if swizzle is Swizzle.XOR else members):
        for src in range(members):
            match swizzle:
                case Swizzle.SHIFT:
                    dst = (src + turn) % members
                case Swizzle.REVERSE:
                    dst = (src - turn) % members
                case Swizzle.XOR:
                    dst = src ^ turn
                case Swizzle.SERIAL:
                    dst = turn
            if dst != src and dst < members:
                yield Hand(src, dst, src)


def ring(members: int, *, both_ways: bool = False) -> Iterator[Hand]:
    """From member to member: first each one's own block, then what it has been handed.

    Args:
        members: Number of members.
        both_ways: Whether part 1 of each block goes the other way around.
    """
    return gather(members, Algorithm.BIDIRECTIONAL_RING if both_ways else Algorithm.RING)


def recursive_doubling(members: int) -> Iterator[Hand]:
    """Everything that a member has, to the one at distance 1, then 2, then 4 and so on.

    Raises:
        PlanError: The number of members is no power of two.
    """
    return gather(members, Algorithm.RECURSIVE_DOUBLING)


def gather(members: int, algorithm: Algorithm, swizzle: Swizzle = Swizzle.SHIFT) -> Iterator[Hand]:
    """The loop of an algorithm; a swizzle is another order of the direct one.

    Raises:
        PlanError: The algorithm does not apply, or is hierarchical, which is one for each dimension of a mesh.
    """
    if swizzle is not Swizzle.SHIFT:
        return exchange(members, swizzle)
    return _ask_passes(Collective.ALL_GATHER, members, algorithm)


def reduce(members: int, algorithm: Algorithm, swizzle: Swizzle = Swizzle.SHIFT) -> Iterator[Hand]:
    """Each block, from member to member as it is added up, to the member that it belongs to; otherwise like `gather`.

    Raises:
        PlanError: As for `gather`.
    """
    if swizzle is not Swizzle.SHIFT:
        return iter(reverse(exchange(members, swizzle)))
    return _ask_passes(Collective.REDUCE_SCATTER, members, algorithm)


def broadcast(members: int, root: int, algorithm: Algorithm) -> Iterator[Hand]:
    """The block of one member, to all others; a ring in two directions sends its parts either way.

    Raises:
        PlanError: The algorithm is hierarchical.
    """
    hands = _ask_passes(Collective.BROADCAST, members, algorithm, root)
    return (dataclasses.replace(hand, block=root) for hand in hands)


def _ask_passes(
    kind: Collective, members: int, algorithm: Algorithm, root: int = 0
) -> Iterator[Hand]:
    """What `chunk-decompose-collectives` makes of a collective, so that each algorithm stands there alone."""
    if algorithm is Algorithm.HIERARCHICAL:
        raise PlanError(
            f"algorithm: expects one for each dimension, but got {algorithm.value} for one of them"
        )
    if members < 2:
        return
    parts = 2 if algorithm is Algorithm.BIDIRECTIONAL_RING else 1
    plan = Plan("loop", [members])
    # Each part is a row, and a broadcast has one block.
    rows = parts if kind is Collective.BROADCAST else members * parts
    buffer = plan.buffer("blocks", (rows,), "i8")
    match kind:
        case Collective.ALL_GATHER:
            plan.all_gather(buffer, algorithm=algorithm.value)
        case Collective.REDUCE_SCATTER:
            plan.reduce_scatter(buffer, algorithm=algorithm.value)
        case _:
            plan.broadcast(buffer, root=root, algorithm=algorithm.value)
    module = plan.copy_module()
    run_pipeline(module, "chunk.plan(chunk-decompose-collectives)")
    for op in only_plan(module).regions[0].blocks[0].operations:
        if isinstance(op, ops.PutOp):
            (begin,), (size,) = op.src_offsets, op.sizes
            for row in range(begin, begin + size):
                block, part = divmod(row, parts)
                yield Hand(op.src_rank.value, op.dst_rank.value, block, part if parts > 1 else None)


def reverse(hands: Iterable[Hand]) -> list[Hand]:
    """The same backwards: if what is handed over is added to what is there, each block is summed at its member."""
    return [dataclasses.replace(hand, src=hand.dst, dst=hand.src) for hand in reversed(list(hands))]
