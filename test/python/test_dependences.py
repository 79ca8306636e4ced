"""What moves come after, against what follows from single elements."""

import itertools
import random

import pytest

from syncopate.plan import dependences
from syncopate.plan.dependences import PlacedRegion, find_dependences

pytestmark = pytest.mark.any_triton


def elements(region):
    ranges = [range(a, a + n) for a, n in zip(region.offsets, region.sizes, strict=True)]
    return {(region.where, *place) for place in itertools.product(*ranges)}


def ancestors(found):
    """By move, all that it comes after, through others or not."""
    every = []
    for before in found:
        every.append(set(before).union(*(every[number] for number in before)))
    return every


def draw_moves(random_, dims):
    def region():
        offsets = tuple(random_.randrange(6) for _ in range(dims))
        return PlacedRegion(
            random_.randrange(2), offsets, tuple(random_.randint(1, 4) for _ in offsets)
        )

    return [(region(), region()) for _ in range(30)]


@pytest.mark.parametrize("traced", [1 << 14, 0])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_moves_come_after_all_that_use_their_elements_and_no_others(dims, traced, monkeypatch):
    monkeypatch.setattr(dependences, "_MOST_TRACED", traced)
    for seed in range(10):
        moves = draw_moves(random.Random(f"{dims} {seed}"), dims)
        uses = [(elements(read), elements(written)) for read, written in moves]
        needed = [
            [
                other
                for other, (read, written) in enumerate(uses[:number])
                if written & (reads | writes) or read & writes
            ]
            for number, (reads, writes) in enumerate(uses)
        ]
        found = find_dependences(moves)
        assert ancestors(found) == ancestors(needed)
        if traced:
            # None is named that another one comes after.
            every = ancestors(found)
            assert not any(a in every[b] for before in found for a in before for b in before)
