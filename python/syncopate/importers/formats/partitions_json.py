"""Imports partitioned collectives, as Centauri and CoCoNet make them: others in their place, in groups, piece by piece.

A collective is replaced by others (primitive substitution), each of them in groups of ranks (group partition), for one
part of the data after another (workload partition).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncopate.importers.documents.items import Item
from syncopate.importers.documents.read_json import read_json
from syncopate.importers.formats.partitions import Order, Partition, Primitive, Stage
from syncopate.importers.steps.collective_steps import Collective, CollectiveSteps

__all__ = ["read_partitions_json"]

_MOST_RANKS: Final = 1024
_MOST_PIECES: Final = 256
_MOST_UNITS: Final = 4096
_MOST_STAGES: Final = 64


def read_partitions_json(text: str, file: str) -> CollectiveSteps:
    """The steps of a partitioned collective.

    Raises:
        PlanError: The file is malformed, or says something that has no meaning.
    """
    root = read_json(text, file).called("partition")
    kind = root.word("collective", {known.value: known for known in Collective})
    ranks = root.integer("ranks", 1, _MOST_RANKS + 1)
    pieces = root.integer("pieces", 1, _MOST_PIECES + 1, default=1)
    order = root.word("order", {known.value: known for known in Order}, default="pipeline")
    stages = [_read_stage(item, ranks) for item in root.items("stages", "stage")]
    if not 1 <= len(stages) <= _MOST_STAGES:
        root.fail(f"expects 1 to {_MOST_STAGES} stages, but got {len(stages)}", "stages")
    reduction = root.word(
        "reduction", {name: name for name in ("sum", "max", "min")}, default="sum"
    )
    exchange = kind is Collective.ALL_TO_ALL
    units = _count_units(root, stages) if kind is Collective.ALL_REDUCE else 1
    steps = CollectiveSteps(
        root.text("name", default=kind.value),
        kind,
        ranks,
        pieces * units,
        not exchange,
        reduction,
        root.place,
    )
    Partition(steps, stages, pieces, units).add(order)
    return steps


def _read_stage(item: Item, ranks: int) -> Stage:
    primitive = item.word("primitive", {known.value: known for known in Primitive})
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
    rooted = primitive in (Primitive.BROADCAST, Primitive.REDUCE)
    position = item.integer("root", 0, len(groups[0]), default=0)
    if item.has("root") and not rooted:
        item.fail(
            f"expects a root of a broadcast or reduce alone, not of an {primitive.value}", "root"
        )
    if ring and (rooted or primitive is Primitive.ALL_TO_ALL):
        item.fail(
            f"expects algorithm to be direct for {primitive.value}, but got ring", "algorithm"
        )
    return Stage(item, primitive, tuple(groups), ring, position)


def _count_units(root: Item, stages: Sequence[Stage]) -> int:
    """Into how many units a piece of an all-reduce is cut, so that every stage can cut what it is given."""
    units = 1
    for stage in stages:
        if stage.primitive in (Primitive.REDUCE_SCATTER, Primitive.ALL_REDUCE):
            units *= len(stage.groups[0])
        if units > _MOST_UNITS:
            root.fail(f"expects stages that cut a piece into at most {_MOST_UNITS} parts", "stages")
    return units
