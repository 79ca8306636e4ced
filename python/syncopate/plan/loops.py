"""Ready-made loops over ranks and steps: which of some members sends which block to which other, and when.

Each loop is over hand-overs, in an order in which they can be made. All of them gather: in the end, every member has
the block of every other, which it has been handed once. Backwards, and with ends exchanged, they are sums: `reverse`.

    for hand in ring(4):
        moves.copy(blocks[hand.block], hand.src, hand.dst)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from syncopate.choices import Algorithm, Swizzle
from syncopate.errors import PlanError

__all__ = ["Hand", "broadcast", "exchange", "gather", "recursive_doubling", "reverse", "ring"]


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
    for step in range(members - 1):
        for src in range(members):
            part = 0 if both_ways else None
            yield Hand(src, (src + 1) % members, (src - step) % members, part)
            if both_ways:
                yield Hand(src, (src - 1) % members, (src + step) % members, 1)


def recursive_doubling(members: int) -> Iterator[Hand]:
    """Everything that a member has, to the one at distance 1, then 2, then 4 and so on.

    Raises:
        PlanError: The number of members is no power of two.
    """
    if members & (members - 1):
        raise PlanError(
            f"algorithm: recursive_doubling expects a power of two of members, but got {members}"
        )
    distance = 1
    while distance < members:
        for src in range(members):
            first = src & -distance
            for block in range(first, first + distance):
                yield Hand(src, src ^ distance, block)
        distance *= 2


def gather(members: int, algorithm: Algorithm, swizzle: Swizzle = Swizzle.SHIFT) -> Iterator[Hand]:
    """The loop of an algorithm.

    Raises:
        PlanError: The algorithm does not apply, or is hierarchical, which is one for each dimension of a mesh.
    """
    match algorithm:
        case Algorithm.DIRECT:
            return exchange(members, swizzle)
        case Algorithm.RING | Algorithm.BIDIRECTIONAL_RING:
            return ring(members, both_ways=algorithm is Algorithm.BIDIRECTIONAL_RING)
        case Algorithm.RECURSIVE_DOUBLING:
            return recursive_doubling(members)
        case _:
            raise PlanError(
                f"algorithm: expects one for each dimension, but got {algorithm.value} for one of them"
            )


def broadcast(members: int, root: int, algorithm: Algorithm) -> Iterator[Hand]:
    """The block of one member, to all others; a ring in two directions sends its parts either way.

    Raises:
        PlanError: The algorithm is hierarchical.
    """
    match algorithm:
        case Algorithm.DIRECT:
            yield from (Hand(root, (root + far) % members, root) for far in range(1, members))
        case Algorithm.RING | Algorithm.BIDIRECTIONAL_RING:
            for far in range(members - 1):
                both_ways = algorithm is Algorithm.BIDIRECTIONAL_RING
                part = 0 if both_ways else None
                yield Hand((root + far) % members, (root + far + 1) % members, root, part)
                if both_ways:
                    yield Hand((root - far) % members, (root - far - 1) % members, root, 1)
        case Algorithm.RECURSIVE_DOUBLING:
            have = 1
            while have < members:
                for far in range(min(have, members - have)):
                    yield Hand((root + far) % members, (root + far + have) % members, root)
                have *= 2
        case _:
            raise PlanError(
                f"algorithm: expects one for each dimension, but got {algorithm.value} for one of them"
            )


def reverse(hands: Iterable[Hand]) -> list[Hand]:
    """The same backwards: if what is handed over is added to what is there, each block is summed at its member."""
    return [dataclasses.replace(hand, src=hand.dst, dst=hand.src) for hand in reversed(list(hands))]
