"""Transfers whose dependences follow from what they read and write.

`Moves` adds puts and gets to a plan, each after those before it that use the same elements of a rank's buffer, if one
of the two writes them. The order in which they are added is thus a legal one, and the plan means what it means in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from syncopate.choices import Direction
from syncopate.plan.body import Chunk, Token
from syncopate.plan.builder import Plan
from syncopate.plan.dependences import Dependences, PlacedRegion

__all__ = ["Moves"]


class Moves:
    """Adds transfers to a plan, and finds what each has to come after.

        moves = Moves(plan)
        for hand in ring(4):
            moves.copy(blocks[hand.block], hand.src, hand.dst)
        with plan.claim(after=moves.tokens):
            plan.all_gather(a)

    Attributes:
        tokens: Those of all transfers so far.
    """

    def __init__(
        self, plan: Plan, *, direction: Direction = Direction.PUSH, after: Iterable[Token] = ()
    ) -> None:
        """Begins with a plan as it is.

        Args:
            plan: The plan.
            direction: Who carries transfers out.
            after: What all of them have to come after.
        """
        self.plan, self.direction, self.after = plan, direction, list(after)
        self.tokens: list[Token] = []
        self._known: list[Token] = []
        self._dependences = Dependences()

    def produced(self, chunk: Chunk, rank: int) -> Token:
        """Says that tiles of a rank compute a chunk, as `Plan.produce` does; transfers of it come after them."""
        token = self.plan.produce(chunk, rank=rank)
        self._dependences.note([], [_region(chunk, rank)])
        self._known.append(token)
        return token

    def copy(self, src: Chunk, src_rank: int, dst_rank: int, dst: Chunk | None = None) -> Token:
        """Copies a chunk from one rank to another, to the same place if no other is given."""
        return self.move(src, src_rank, dst_rank, dst)

    def add(
        self,
        src: Chunk,
        src_rank: int,
        dst_rank: int,
        dst: Chunk | None = None,
        *,
        reduction: str = "sum",
    ) -> Token:
        """Combines a chunk of one rank with what is at another."""
        return self.move(src, src_rank, dst_rank, dst, reduction=reduction)

    def move(
        self,
        src: Chunk,
        src_rank: int,
        dst_rank: int,
        dst: Chunk | None = None,
        *,
        reduction: str | None = None,
        direction: Direction | None = None,
        realization: str | None = None,
    ) -> Token:
        """Copies a chunk, or combines it with what is there.

        Args:
            src: The chunk.
            src_rank: The rank that has it.
            dst_rank: The rank that gets it.
            dst: Where to; by default to the same place.
            reduction: sum, max or min, if it is combined.
            direction: Who carries it out; by default who does all others.
            realization: How it is carried out, if the strategy is not to choose.
        """
        target = src if dst is None else dst
        uses = [_region(src, src_rank)], [_region(target, dst_rank)]
        needed = self._dependences.find(*uses)
        pushes = (direction or self.direction) is Direction.PUSH
        token = (self.plan.put if pushes else self.plan.get)(
            src,
            target,
            src_rank=src_rank,
            dst_rank=dst_rank,
            reduction=reduction,
            after=[*self.after, *(self._known[number] for number in needed)],
            realization=realization,
        )
        self._dependences.note(*uses, needed)
        self._known.append(token)
        self.tokens.append(token)
        return token


def _region(chunk: Chunk, rank: int) -> PlacedRegion:
    return PlacedRegion((rank, chunk.buffer.name), chunk.offsets, chunk.sizes)
