"""Imports partitioned collectives, as Centauri and CoCoNet make them: others in their place, in groups, piece by piece.

A collective is replaced by others (primitive substitution), each of them in groups of ranks (group partition), for one
part of the data after another (workload partition). What ranks hold between two of them follows from the first ones,
or, where each is to end with a block of its own, from the last ones.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncopate.importers.items import Item, Place
from syncopate.importers.read_json import read_json
from syncopate.importers.steps import Cells, Collective, Memory, Move, Steps

__all__ = ["read_partitions_json"]

_MOST_RANKS: Final = 1024
_MOST_PIECES: Final = 256
_MOST_UNITS: Final = 4096
_MOST_STAGES: Final = 64


class _Primitive(enum.Enum):
    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"


class _Order(enum.Enum):
    PIECES = "pieces"
    """All stages of a piece, then the next piece."""
    STAGES = "stages"
    """A stage of all pieces, then the next stage."""
    PIPELINE = "pipeline"
    """A stage of a piece beside the stage before of the next piece."""


@dataclass(frozen=True)
class _Stage:
    """Collectives of groups; `position` is the place of the root in each."""

    item: Item
    primitive: _Primitive
    groups: tuple[tuple[int, ...], ...]
    ring: bool
    position: int


Held = list[tuple[int, ...]]
"""By rank, the units of a piece that it holds, in order."""


def read_partitions_json(text: str, file: str) -> Steps:
    """The steps of a partitioned collective.

    Raises:
        PlanError: The file is malformed, or says something that has no meaning.
    """
    root = read_json(text, file).called("partition")
    kind = root.word("collective", {known.value: known for known in Collective})
    ranks = root.integer("ranks", 1, _MOST_RANKS + 1)
    pieces = root.integer("pieces", 1, _MOST_PIECES + 1, default=1)
    order = root.word("order", {known.value: known for known in _Order}, default="pipeline")
    stages = [_read_stage(item, ranks) for item in root.items("stages", "stage")]
    if not 1 <= len(stages) <= _MOST_STAGES:
        root.fail(f"expects 1 to {_MOST_STAGES} stages, but got {len(stages)}", "stages")
    reduction = root.word(
        "reduction", {name: name for name in ("sum", "max", "min")}, default="sum"
    )
    exchange = kind is Collective.ALL_TO_ALL
    units = _count_units(root, stages) if kind is Collective.ALL_REDUCE else 1
    steps = Steps(
        root.text("name", default=kind.value),
        kind,
        ranks,
        pieces * units,
        not exchange,
        reduction,
        root.place,
    )
    _Partition(steps, stages, pieces, units).add(order)
    return steps


def _read_stage(item: Item, ranks: int) -> _Stage:
    primitive = item.word("primitive", {known.value: known for known in _Primitive})
    groups = []
    if item.has("groups"):
        for group in item.entries("groups", "group"):
            groups.append(tuple(group.integer(name, 0, ranks) for name in group.fields))
    else:
        groups.append(tuple(range(ranks)))
    if sorted(rank for group in groups for rank in group) != list(range(ranks)):
        item.fail(f"expects groups to have each of {ranks} ranks once", "groups")
    if len({len(group) for group in groups}) != 1:
        item.fail("expects groups of one size", "groups")
    ring = item.word("algorithm", {"direct": False, "ring": True}, default="direct")
    rooted = primitive in (_Primitive.BROADCAST, _Primitive.REDUCE)
    position = item.integer("root", 0, len(groups[0]), default=0)
    if item.has("root") and not rooted:
        item.fail(
            f"expects a root of a broadcast or reduce alone, not of an {primitive.value}", "root"
        )
    if ring and (rooted or primitive is _Primitive.ALL_TO_ALL):
        item.fail(
            f"expects algorithm to be direct for {primitive.value}, but got ring", "algorithm"
        )
    return _Stage(item, primitive, tuple(groups), ring, position)


def _count_units(root: Item, stages: Sequence[_Stage]) -> int:
    """Into how many units a piece of an all-reduce is cut, so that every stage can cut what it is given."""
    units = 1
    for stage in stages:
        if stage.primitive in (_Primitive.REDUCE_SCATTER, _Primitive.ALL_REDUCE):
            units *= len(stage.groups[0])
        if units > _MOST_UNITS:
            root.fail(f"expects stages that cut a piece into at most {_MOST_UNITS} parts", "stages")
    return units


@dataclass
class _Partition:
    steps: Steps
    stages: Sequence[_Stage]
    pieces: int
    units: int

    def add(self, order: _Order) -> None:
        """Adds the moves of all stages of all pieces, in an order."""
        held = self._first()
        made: list[list[tuple[Any, ...]]] = []
        wanted = self._wanted()
        for number, stage in enumerate(self.stages):
            moves: list[tuple[Any, ...]] = []
            after = list(held)
            for group in stage.groups:
                moves += self._stage(stage, group, held, after, wanted[number])
            made.append(moves)
            held = after
        count = len(self.stages)
        pairs: Iterator[tuple[int, int]]
        if order is _Order.PIECES:
            pairs = ((piece, stage) for piece in range(self.pieces) for stage in range(count))
        elif order is _Order.STAGES:
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
                self._move(piece, place, *move)

    def _first(self) -> Held:
        """What ranks hold in the beginning."""
        ranks = range(self.steps.ranks)
        if self.steps.collective is Collective.ALL_GATHER:
            return [(rank,) for rank in ranks]
        every = self.units if self.steps.collective is Collective.ALL_REDUCE else self.steps.ranks
        return [tuple(range(every)) for _ in ranks]

    def _wanted(self) -> list[Held | None]:
        """By stage, what ranks are to hold behind it, where the end says so."""
        found: list[Held | None] = [None] * len(self.stages)
        if self.steps.collective is not Collective.REDUCE_SCATTER:
            return found
        held: Held = [(rank,) for rank in range(self.steps.ranks)]
        for number in reversed(range(len(self.stages))):
            found[number] = list(held)
            for group in self.stages[number].groups:
                every = tuple(sorted({unit for rank in group for unit in held[rank]}))
                for rank in group:
                    held[rank] = every
        return found

    def _stage(
        self,
        stage: _Stage,
        group: Sequence[int],
        held: Held,
        after: Held,
        wanted: Held | None,
    ) -> Iterator[tuple[Any, ...]]:
        """The moves of a collective of a group, and what its members hold then."""
        primitive, item = stage.primitive, stage.item
        match primitive:
            case _Primitive.ALL_GATHER:
                yield from self._gather(stage, group, held, after)
            case _Primitive.BROADCAST:
                root = group[stage.position]
                for rank in group:
                    if rank != root:
                        yield root, rank, held[root], False
                        after[rank] = tuple(sorted({*held[rank], *held[root]}))
            case _Primitive.REDUCE:
                self._check_same(stage, group, held)
                root = group[stage.position]
                for rank in group:
                    if rank != root:
                        yield rank, root, held[root], True
                        after[rank] = ()
            case _Primitive.ALL_TO_ALL:
                if self.steps.collective is not Collective.ALL_TO_ALL or len(self.stages) > 1:
                    item.fail("expects an all_to_all to be the one stage of an all_to_all")
                for distance in range(len(group)):
                    for position, rank in enumerate(group):
                        yield rank, group[(position + distance) % len(group)], (), False
            case _:
                self._check_same(stage, group, held)
                parts = self._cut(stage, group, held[group[0]], wanted)
                for rank, part in zip(group, parts, strict=True):
                    after[rank] = part
                yield from self._scatter(stage, group, parts)
                if primitive is _Primitive.ALL_REDUCE:
                    between = list(after)
                    yield from self._gather(stage, group, between, after)

    def _check_same(self, stage: _Stage, group: Sequence[int], held: Held) -> None:
        if not self.steps.collective.reduces:
            stage.item.fail(
                f"expects no {stage.primitive.value} in an {self.steps.collective.value}"
            )
        if len({held[rank] for rank in group}) != 1 or not held[group[0]]:
            stage.item.fail(
                f"expects ranks {list(group)[:8]} to hold parts of the same sum, but what they hold differs"
            )

    def _cut(
        self, stage: _Stage, group: Sequence[int], every: tuple[int, ...], wanted: Held | None
    ) -> list[tuple[int, ...]]:
        """What members of a group keep of what all hold."""
        if wanted is not None and stage.primitive is _Primitive.REDUCE_SCATTER:
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
        self, stage: _Stage, group: Sequence[int], parts: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        """Adds each member's part up at that member."""
        count = len(group)
        for distance in range(1, count):
            for position, part in enumerate(parts):
                if stage.ring:
                    source = group[(position + distance) % count]
                    yield source, group[(position + distance + 1) % count], part, True
                else:
                    yield group[(position + distance) % count], group[position], part, True

    def _gather(
        self, stage: _Stage, group: Sequence[int], held: Held, after: Held
    ) -> Iterator[tuple[Any, ...]]:
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
                yield source, target, held[group[position]], False
        for rank in group:
            after[rank] = tuple(sorted(every))

    def _move(
        self, piece: int, place: Place, src: int, dst: int, units: tuple[int, ...], reduces: bool
    ) -> None:
        steps = self.steps
        if steps.collective is Collective.ALL_TO_ALL:
            ends = (dst, Memory.INPUT), (src, Memory.OUTPUT)
            cells = [
                Cells(rank, memory, block * self.pieces + piece, 1)
                for rank, (block, memory) in zip((src, dst), ends, strict=True)
            ]
            steps.admit(cells[0], place)
            steps.moves.append(Move(cells[0], cells[1], False, place))
            return
        blocks = steps.collective is not Collective.ALL_REDUCE
        offsets = [
            unit * self.pieces + piece if blocks else piece * self.units + unit for unit in units
        ]
        begin = 0
        for end in range(1, len(offsets) + 1):
            if end == len(offsets) or offsets[end] != offsets[end - 1] + 1:
                source, target = (
                    steps.admit(Cells(rank, Memory.DATA, offsets[begin], end - begin), place)
                    for rank in (src, dst)
                )
                steps.moves.append(Move(source, target, reduces, place))
                begin = end
