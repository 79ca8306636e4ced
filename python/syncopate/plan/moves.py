"""Transfers whose dependences follow from what they read and write.

`Moves` adds puts and gets to a plan, each after those before it that use the same elements of a rank's buffer, if one
of the two writes them. The order in which they are added is thus a legal one, and the plan means what it means in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from syncopate.choices import Direction
from syncopate.plan.body import Chunk, Token
from syncopate.plan.builder import Plan

__all__ = ["Moves"]

_MOST_STRIPES: Final = 128

_MOST_TRACED: Final = 1 << 14
"""Transfers up to which those are left out that another one comes after; with more, all are named."""


class _Uses:
    """Regions of a rank's buffer that transfers have used, with numbers of their tokens.

    They are kept by stripes of the first dimension, so that looking for those at one place does not pass all others.
    """

    def __init__(self, rows: int) -> None:
        self._step = max(1, -(-rows // _MOST_STRIPES))
        self._stripes: dict[int, list[tuple[Chunk, int]]] = defaultdict(list)

    def _touched(self, chunk: Chunk) -> Iterator[list[tuple[Chunk, int]]]:
        begin, end = chunk.offsets[0], chunk.offsets[0] + chunk.sizes[0]
        for number in range(begin // self._step, -(-end // self._step)):
            yield self._stripes[number]

    def add(self, chunk: Chunk, number: int) -> None:
        for stripe in self._touched(chunk):
            stripe.append((chunk, number))

    def find(self, chunk: Chunk) -> set[int]:
        """Numbers of those that overlap a chunk."""
        touched = self._touched(chunk)
        return {number for stripe in touched for used, number in stripe if _overlap(used, chunk)}

    def forget(self, chunk: Chunk, but: int) -> None:
        """Forgets those that lie in a chunk, but for those of one number."""
        for stripe in self._touched(chunk):
            stripe[:] = [use for use in stripe if use[1] == but or not _covers(chunk, use[0])]


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
        # By number of a token, those before it, one bit each.
        self._before: list[int] = []
        # By rank and name of a buffer, what has been written there that nobody has written over since, and read.
        self._uses: dict[tuple[int, str], tuple[_Uses, _Uses]] = {}

    def produced(self, chunk: Chunk, rank: int) -> Token:
        """Says that tiles of a rank compute a chunk, as `Plan.produce` does; transfers of it come after them."""
        token = self.plan.produce(chunk, rank=rank)
        self._note(token, (), None, (rank, chunk))
        return token

    def copy(self, src: Chunk, src_rank: int, dst_rank: int, dst: Chunk | None = None) -> Token:
        """Copies a chunk from one rank to another, to the same place if no other is given."""
        return self._move(src, src_rank, dst_rank, dst, None)

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
        return self._move(src, src_rank, dst_rank, dst, reduction)

    def _move(
        self, src: Chunk, src_rank: int, dst_rank: int, dst: Chunk | None, reduction: str | None
    ) -> Token:
        target = src if dst is None else dst
        source, place = (src_rank, src), (dst_rank, target)
        needed = self._find(source, place)
        add = self.plan.put if self.direction is Direction.PUSH else self.plan.get
        token = add(
            src,
            target,
            src_rank=src_rank,
            dst_rank=dst_rank,
            reduction=reduction,
            after=[*self.after, *(self._known[number] for number in needed)],
        )
        self.tokens.append(token)
        self._note(token, needed, source, place)
        return token

    def _find(self, source: tuple[int, Chunk], place: tuple[int, Chunk]) -> list[int]:
        """Numbers of tokens to come after, without those that others of them come after."""
        written, read = self._used(*place)
        found = self._used(*source)[0].find(source[1])
        found |= written.find(place[1]) | read.find(place[1])
        if len(self._known) > _MOST_TRACED:
            return sorted(found)
        covered = 0
        for number in found:
            covered |= self._before[number]
        return sorted(number for number in found if not covered >> number & 1)

    def _note(
        self,
        token: Token,
        needed: Iterable[int],
        source: tuple[int, Chunk] | None,
        place: tuple[int, Chunk],
    ) -> None:
        number, before = len(self._known), 0
        self._known.append(token)
        if number <= _MOST_TRACED:
            for other in needed:
                before |= self._before[other] | 1 << other
            self._before.append(before)
        if source is not None:
            self._used(*source)[1].add(source[1], number)
        written, read = self._used(*place)
        for uses in (written, read):
            uses.forget(place[1], but=number)
        written.add(place[1], number)

    def _used(self, rank: int, chunk: Chunk) -> tuple[_Uses, _Uses]:
        rows, key = chunk.buffer.shape[0], (rank, chunk.buffer.name)
        if key not in self._uses:
            self._uses[key] = _Uses(rows), _Uses(rows)
        return self._uses[key]


def _overlap(one: Chunk, other: Chunk) -> bool:
    return all(
        a < b + m and b < a + n
        for a, n, b, m in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True)
    )


def _covers(one: Chunk, other: Chunk) -> bool:
    return all(
        a <= b and b + m <= a + n
        for a, n, b, m in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True)
    )
