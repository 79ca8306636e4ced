"""What tiles have ready for peers over time: by hand, against a count of elements, and how orders differ in it."""

import dataclasses
import random

import numpy as np
import pytest

import syncopate
from syncopate.choices import Combine, TileOrder
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset, find_readiness, gemm_cost, predict
from syncopate.model.schedules import schedule_gemm
from syncopate.plan.templates import reduce_scatter_tiles

SMALL = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=5)


def scatter(world, m, n, order, config=SMALL, k=256, **choices):
    plan = syncopate.Plan("scatter", [world])
    c = plan.buffer("c", (m, n), "bf16")
    strategy = syncopate.Strategy(order=order, combine=Combine.ROLE, **choices)
    reduce_scatter_tiles(plan, c, strategy)
    return schedule_gemm(plan, n, config, strategy, k=k, c=c)


def predicted(schedule, machine="h100-w8-predicted"):
    preset = find_preset(machine)
    return predict(schedule, gemm_cost(preset, 256, block_m=32, block_n=32, block_k=32), preset)


def with_ends(timeline, ends):
    """The timeline with tiles that end one after another, one each `ends`."""
    return dataclasses.replace(
        timeline,
        tile_begin=tuple(np.zeros(len(times)) for times in timeline.tile_end),
        tile_end=tuple(ends * np.arange(1.0, len(times) + 1) for times in timeline.tile_end),
    )


def test_two_peers_by_hand():
    """Three blocks of one tile for each rank: rank 0 makes one for rank 1, one for rank 2, and its own."""
    schedule = scatter(3, 96, 32, TileOrder.ARRIVAL)
    readiness = find_readiness(schedule, with_ends(predicted(schedule), 2.0))
    assert [ready.rank for ready in readiness] == [0, 1, 2]
    first = readiness[0]
    assert first.peers == (1, 2)
    block = 32 * 32 * 2
    assert first.times.tolist() == [2.0, 4.0, 6.0]
    assert first.nbytes.tolist() == [[block] * 3, [0, block, block]]
    # Between 2 and 4 µs of 6, everything is ready for one and nothing for the other.
    assert first.spread == pytest.approx(1 / 3)
    # All of it is ready after 4 µs of 6.
    assert first.unsteadiness == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(4))
def test_against_a_count_of_elements(seed):
    draw = random.Random(seed)
    world, m, n = draw.choice([2, 3, 4]), draw.randrange(70, 200), draw.choice([40, 72, 104])
    order = draw.choice([order for order in TileOrder if order is not TileOrder.GIVEN])
    config = dataclasses.replace(SMALL, parts=1)
    schedule = scatter(world, m, n, order, config, splits=draw.choice([1, 3]))
    timeline = with_ends(predicted(schedule), 1.0)
    rows = -(-m // world)
    for ready in find_readiness(schedule, timeline):
        tiles = schedule.rank_tables(ready.rank)["tiles"]
        for place, peer in enumerate(ready.peers):
            made = np.zeros((m, n), bool)
            mine = np.zeros((m, n), bool)
            mine[peer * rows : (peer + 1) * rows] = True
            for position, (c0, c1) in enumerate(
                zip(tiles.column("c0"), tiles.column("c1"), strict=True)
            ):
                made[c0 * 32 : c0 * 32 + 32, c1 * 32 : c1 * 32 + 32] = True
                assert ready.nbytes[place, position] == 2 * (made & mine).sum()


def test_paced_is_even_and_grouped_is_not():
    """On eight ranks with four waves of tiles for each peer."""
    spreads, peers = {}, 8
    for order in (TileOrder.ARRIVAL, TileOrder.GROUPED, TileOrder.PACED):
        schedule = scatter(peers, 32 * 8 * peers, 128, order, group_m=1)
        found = find_readiness(schedule, predicted(schedule))
        assert len(found) == peers
        spreads[order] = max(ready.spread for ready in found)
    assert spreads[TileOrder.PACED] < 0.1
    assert min(spreads[TileOrder.ARRIVAL], spreads[TileOrder.GROUPED]) > 0.5


def test_parts_count_when_the_last_is_stored():
    config = dataclasses.replace(SMALL, num_ctas=6, parts=2)
    schedule = scatter(2, 128, 64, TileOrder.ARRIVAL, config)
    timeline = predicted(schedule)
    ready = find_readiness(schedule, timeline)[0]
    assert len(timeline.tile_end[0]) > len(ready.times) == 8
    assert ready.nbytes[0, -1] == 64 * 64 * 2
    assert ready.times[-1] == timeline.tile_end[0].max()


def test_library_calls_are_for_nobody_in_particular():
    schedule = scatter(2, 128, 64, TileOrder.ARRIVAL)
    timeline = predicted(schedule)
    plan = syncopate.Plan("calls", [2])
    c = plan.buffer("c", (128, 64), "bf16")
    strategy = syncopate.Strategy(realization="nccl")
    reduce_scatter_tiles(plan, c, strategy)
    called = schedule_gemm(plan, 64, SMALL, strategy, k=256, c=c)
    with pytest.raises(
        SyncopateError, match="calls: expects transfers, but its ranks make library"
    ):
        find_readiness(called, timeline)
