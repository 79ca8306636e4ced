"""The moves of a collective that others take the place of, in groups of ranks, piece by piece.

What ranks hold between two stages follows from the first ones, or, where each is to end with a block of its own, from
the last ones.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from syncopate.importers.documents.items import Item, Place
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)

__all__ = ["Order", "Partition", "Primitive", "Stage"]


class Primitive(enum.Enum):
    """What a stage does in each of its groups."""

    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"


class Order(enum.Enum):
    """In which order ranks start what they send."""

    PIECES = "pieces"
    """All stages of a piece, then the next piece."""
    STAGES = "stages"
    """A stage of all pieces, then the next stage."""
    PIPELINE = "pipeline"
    """A stage of a piece beside the stage before of the next piece."""


@dataclass(frozen=True)
class Stage:
    """Collectives of groups; `position` is the place of the root in each."""

    item: Item
    primitive: Primitive
    groups: tuple[tuple[int, ...], ...]
    ring: bool
    position: int


class _Sent(NamedTuple):
    """Units of a piece that go from one rank to another."""

    src: int
    dst: int
    units: tuple[int, ...]
    reduces: bool


_Held = list[tuple[int, ...]]
"""By rank, the units of a piece that it holds, in order."""


@dataclass
class Partition:
    """A partitioned collective.

    Attributes:
        steps: Where its moves are added.
        stages: Its stages.
        pieces: Of the data, each of which goes through all stages.
        units: Parts of a piece of an all-reduce; else a piece has one for each rank.
    """

    steps: CollectiveSteps
    stages: Sequence[Stage]
    pieces: int
    units: int

    def add(self, order: Order) -> None:
        """Adds the moves of all stages of all pieces, in an order."""
        held = self._first()
        made: list[list[_Sent]] = []
        wanted = self._wanted()
        for number, stage in enumerate(self.stages):
            moves: list[_Sent] = []
            after = list(held)
            for group in stage.groups:
                moves += self._stage(stage, group, held, after, wanted[number])
            made.append(moves)
            held = after
        count = len(self.stages)
        pairs: Iterator[tuple[int, int]]
        if order is Order.PIECES:
            pairs = ((piece, stage) for piece in range(self.pieces) for stage in range(count))
        elif order is Order.STAGES:
            pairs = ((piece, stage) for stage in range(count) for piece in range(self.pieces))
        else:
            pairs = (
                (time - stage, stage)
                for time in range(self.pieces + count - 1)
                for stage in reversed(range(count))
                if 0 <= time - stage < self.pieces
            )
        for piece, number in pairs:
            place = self.stages[number].item.place
            for move in made[number]:
                self._move(piece, place, move)

    def _first(self) -> _Held:
        """What ranks hold in the beginning."""
        ranks = range(self.steps.ranks)
        if self.steps.collective is Collective.ALL_GATHER:
            return [(rank,) for rank in ranks]
        every = self.units if self.steps.collective is Collective.ALL_REDUCE else self.steps.ranks
        return [tuple(range(every)) for _ in ranks]

    def _wanted(self) -> list[_Held | None]:
        """By stage, what ranks are to hold behind it, where the end says so."""
        found: list[_Held | None] = [None] * len(self.stages)
        if self.steps.collective is not Collective.REDUCE_SCATTER:
            return found
        held: _Held = [(rank,) for rank in range(self.steps.ranks)]
        for number in reversed(range(len(self.stages))):
            found[number] = list(held)
            for group in self.stages[number].groups:
                every = tuple(sorted({unit for rank in group for unit in held[rank]}))
                for rank in group:
                    held[rank] = every
        return found

    def _stage(
        self,
        stage: Stage,
        group: Sequence[int],
        held: _Held,
        after: _Held,
        wanted: _Held | None,
    ) -> Iterator[_Sent]:
        """The moves of a collective of a group, and what its members hold then."""
        primitive, item = stage.primitive, stage.item
        match primitive:
            case Primitive.ALL_GATHER:
                yield from self._gather(stage, group, held, after)
            case Primitive.BROADCAST:
                root = group[stage.position]
                for rank in group:
                    if rank != root:
                        yield _Sent(root, rank, held[root], False)
                        after[rank] = tuple(sorted({*held[rank], *held[root]}))
            case Primitive.REDUCE:
                self._check_same(stage, group, held)
                root = group[stage.position]
                for rank in group:
                    if rank != root:
                        yield _Sent(rank, root, held[root], True)
                        after[rank] = ()
            case Primitive.ALL_TO_ALL:
                if self.steps.collective is not Collective.ALL_TO_ALL or len(self.stages) > 1:
                    item.fail("expects an all_to_all to be the one stage of an all_to_all")
                for distance in range(len(group)):
                    for position, rank in enumerate(group):
                        yield _Sent(rank, group[(position + distance) % len(group)], (), False)
            case _:
                self._check_same(stage, group, held)
                parts = self._cut(stage, group, held[group[0]], wanted)
                for rank, part in zip(group, parts, strict=True):
                    after[rank] = part
                yield from self._scatter(stage, group, parts)
                if primitive is Primitive.ALL_REDUCE:
                    between = list(after)
                    yield from self._gather(stage, group, between, after)

    def _check_same(self, stage: Stage, group: Sequence[int], held: _Held) -> None:
        if not self.steps.collective.reduces:
            stage.item.fail(
                f"expects no {stage.primitive.value} in an {self.steps.collective.value}"
            )
        if len({held[rank] for rank in group}) != 1 or not held[group[0]]:
            stage.item.fail(
                f"expects ranks {list(group)[:8]} to hold parts of the same sum, but what they hold differs"
            )

    def _cut(
        self, stage: Stage, group: Sequence[int], every: tuple[int, ...], wanted: _Held | None
    ) -> list[tuple[int, ...]]:
        """What members of a group keep of what all hold."""
        if wanted is not None and stage.primitive is Primitive.REDUCE_SCATTER:
            parts = [wanted[rank] for rank in group]
            if sorted(unit for part in parts for unit in part) != list(every):
                stage.item.fail(
                    f"expects ranks {list(group)[:8]} to have all of what they hold between them, as the stages behind "
                    "this one want it"
                )
            return parts
        size, rest = divmod(len(every), len(group))
        if rest:
            stage.item.fail(f"expects {len(every)} blocks to be cut for {len(group)} ranks evenly")
        return [every[number * size : (number + 1) * size] for number in range(len(group))]

    def _scatter(
        self, stage: Stage, group: Sequence[int], parts: Sequence[tuple[int, ...]]
    ) -> Iterator[_Sent]:
        """Adds each member's part up at that member."""
        count = len(group)
        for distance in range(1, count):
            for position, part in enumerate(parts):
                if stage.ring:
                    source = group[(position + distance) % count]
                    yield _Sent(source, group[(position + distance + 1) % count], part, True)
                else:
                    yield _Sent(group[(position + distance) % count], group[position], part, True)

    def _gather(
        self, stage: Stage, group: Sequence[int], held: _Held, after: _Held
    ) -> Iterator[_Sent]:
        """Brings each member's part to all."""
        every = [unit for rank in group for unit in held[rank]]
        if len(set(every)) != len(every):
            stage.item.fail(
                f"expects ranks {list(group)[:8]} to hold different blocks, but some are of several"
            )
        count = len(group)
        for distance in range(1, count):
            for position in range(count):
                source = group[position]
                if stage.ring:
                    source = group[(position + distance - 1) % count]
                target = group[(position + distance) % count]
                yield _Sent(source, target, held[group[position]], False)
        for rank in group:
            after[rank] = tuple(sorted(every))

    def _move(self, piece: int, place: Place, sent: _Sent) -> None:
        steps = self.steps
        if steps.collective is Collective.ALL_TO_ALL:
            ends = (sent.dst, Memory.INPUT), (sent.src, Memory.OUTPUT)
            cells = [
                Cells(rank, memory, block * self.pieces + piece, 1)
                for rank, (block, memory) in zip((sent.src, sent.dst), ends, strict=True)
            ]
            steps.admit(cells[0], place)
            steps.moves.append(Move(cells[0], cells[1], False, place))
            return
        blocks = steps.collective is not Collective.ALL_REDUCE
        offsets = [
            unit * self.pieces + piece if blocks else piece * self.units + unit
            for unit in sent.units
        ]
        begin = 0
        for end in range(1, len(offsets) + 1):
            if end == len(offsets) or offsets[end] != offsets[end - 1] + 1:
                source, target = (
                    steps.admit(Cells(rank, Memory.DATA, offsets[begin], end - begin), place)
                    for rank in (sent.src, sent.dst)
                )
                steps.moves.append(Move(source, target, sent.reduces, place))
                begin = end
