"""What comes after what, by what is read and written.

Of two moves that use the same elements, of which one writes them, the later comes after the earlier. So the order in
which moves are given is a legal one, and they mean what they mean in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = ["Dependences", "PlacedRegion", "find_dependences"]

_MOST_TRACED: Final = 1 << 14
"""Moves up to which those are left out that another one comes after; with more, all are named."""


class PlacedRegion(NamedTuple):
    """A rectangle of a buffer of a rank, which is named by `where`."""

    where: Hashable
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass
class _Uses:
    """Who has used some rows: regions with numbers of moves, those only that nobody has written over since."""

    writes: list[tuple[PlacedRegion, int]] = field(default_factory=list)
    reads: list[tuple[PlacedRegion, int]] = field(default_factory=list)


class _Rows:
    """The uses of a buffer by row, as ranges of rows that are used alike."""

    def __init__(self) -> None:
        self.begins, self.uses = [0], [_Uses()]

    def between(self, begin: int, end: int) -> list[_Uses]:
        """The uses of rows from `begin` to `end`, and of no others."""
        return self.uses[self._cut(begin) : self._cut(end)]

    def _cut(self, row: int) -> int:
        at = bisect_right(self.begins, row) - 1
        if self.begins[at] < row:
            at += 1
            self.begins.insert(at, row)
            self.uses.insert(at, _Uses([*self.uses[at - 1].writes], [*self.uses[at - 1].reads]))
        return at


class Dependences:
    """Finds what each move has to come after, among those before it."""

    def __init__(self) -> None:
        """Begins without moves."""
        self._rows: dict[Hashable, _Rows] = defaultdict(_Rows)
        self._count = 0
        # By number, those that it comes after, one bit each.
        self._before: list[int] = []

    def find(self, reads: Sequence[PlacedRegion], writes: Sequence[PlacedRegion]) -> list[int]:
        """Numbers of the moves that another one has to come after, without those that others of these come after."""
        found: set[int] = set()
        for read in reads:
            for uses in self._uses(read):
                found.update(number for region, number in uses.writes if _overlap(region, read))
        for written in writes:
            for uses in self._uses(written):
                for region, number in (*uses.writes, *uses.reads):
                    if _overlap(region, written):
                        found.add(number)
        if self._count > _MOST_TRACED:
            return sorted(found)
        covered = 0
        for number in found:
            covered |= self._before[number]
        return sorted(number for number in found if not covered >> number & 1)

    def note(
        self,
        reads: Sequence[PlacedRegion],
        writes: Sequence[PlacedRegion],
        after: Iterable[int] = (),
    ) -> None:
        """Gives a move the next number, from 0 on; it comes after those that `find` has found for it."""
        number = self._count
        self._count += 1
        if number <= _MOST_TRACED:
            before = 0
            for other in after:
                before |= self._before[other] | 1 << other
            self._before.append(before)
        for read in reads:
            for uses in self._uses(read):
                uses.reads.append((read, number))
        for written in writes:
            for uses in self._uses(written):
                for some in (uses.writes, uses.reads):
                    some[:] = [
                        use for use in some if use[1] == number or not _covers(written, use[0])
                    ]
                uses.writes.append((written, number))

    def _uses(self, region: PlacedRegion) -> list[_Uses]:
        begin = region.offsets[0]
        return self._rows[region.where].between(begin, begin + region.sizes[0])


def find_dependences(moves: Iterable[tuple[PlacedRegion, PlacedRegion]]) -> list[list[int]]:
    """By move, of which is given what it reads and what it writes, those before it that it has to come after."""
    dependences, found = Dependences(), []
    for read, written in moves:
        found.append(dependences.find([read], [written]))
        dependences.note([read], [written], found[-1])
    return found


def _overlap(one: PlacedRegion, other: PlacedRegion) -> bool:
    """Whether two regions of the same rows have elements in common."""
    for a, n, b, m in zip(
        one.offsets[1:], one.sizes[1:], other.offsets[1:], other.sizes[1:], strict=True
    ):
        if a >= b + m or b >= a + n:
            return False
    return True


def _covers(one: PlacedRegion, other: PlacedRegion) -> bool:
    """Whether all elements in some rows of a region are in another that has these rows."""
    for a, n, b, m in zip(
        one.offsets[1:], one.sizes[1:], other.offsets[1:], other.sizes[1:], strict=True
    ):
        if a > b or b + m > a + n:
            return False
    return True
