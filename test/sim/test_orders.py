"""Every order of tiles, of those who consume, who produce, and who do both: sound and right on the simulator."""

import dataclasses
import itertools
import random
import re

import numpy as np
import pytest
from sim_orders import (
    CONFIG,
    POLICIES,
    Ends,
    build,
    by_policy,
    largest_error,
    random_orders,
    shape_of,
)
from sim_table import options_of

import syncopate
from syncopate.choices import Combine, Realization, TileOrder
from syncopate.errors import PlanError, SyncopateError
from syncopate.kernels import bind_gemm, gemm
from syncopate.plan.templates import reduce_scatter_tiles
from syncopate.sim.simulate import simulate

WORLDS = (2, 3, 4)
# All parts are rounded once, and so is their sum.
TOLERANCE = 2e-2


def check(ends, program, seeds=2):
    for seed in range(seeds):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        assert largest_error(ends, result) < TOLERANCE


def numbers(program, rank):
    """The tiles of a rank by their numbers, in order."""
    table = program.rank_tables(rank)["tiles"]
    return (table.column("c0") * program.tiles[1] + table.column("c1")).tolist()


@pytest.mark.parametrize("order", POLICIES, ids=lambda order: order.value)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("ends", Ends, ids=lambda ends: ends.value)
def test_policy(ends, world, order):
    program = by_policy(ends, world, order, "rows")
    check(ends, program)
    for rank in range(world):
        assert sorted(numbers(program, rank)) == list(range(np.prod(program.tiles)))


@pytest.mark.parametrize("order", POLICIES, ids=lambda order: order.value)
@pytest.mark.parametrize("world", WORLDS)
def test_policy_with_slots_of_tiles(world, order):
    check(
        Ends.SCATTERED_BY_CALLS, by_policy(Ends.SCATTERED_BY_CALLS, world, order, "tiles"), seeds=1
    )


@pytest.mark.parametrize("realization", [Realization.COPY_ENGINE, Realization.LDST_COLOCATED])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("ends", Ends, ids=lambda ends: ends.value)
def test_given_for_each_rank(ends, world, realization):
    """Nobody waits for a tile but who moves what it computes, so any order will do."""
    seed = random.randrange(1 << 30)
    orders = random_orders(ends, world, np.random.default_rng(seed))
    program = build(ends, world, tile_order=orders, realization=realization)
    for rank in range(world):
        assert numbers(program, rank) == orders[rank].tolist(), seed
    assert program.strategy.order is TileOrder.GIVEN
    check(ends, program)


def test_given_for_all_ranks_and_as_sequences():
    count = int(np.prod(CONFIG.tiles(*shape_of(Ends.CONSUMER, 2)[:2])))
    backwards = list(range(count))[::-1]
    for given in (backwards, tuple(backwards), [backwards] * 2, np.array(backwards, np.uint8)):
        program = build(Ends.CONSUMER, 2, tile_order=given)
        assert [numbers(program, rank) for rank in range(2)] == [backwards] * 2
    other = build(Ends.CONSUMER, 2, tile_order=range(count))
    assert numbers(other, 0) == list(range(count))
    # Another order is other tables, and no other code.
    assert other.image is program.image


def test_tiles_that_add_in_an_order_that_cannot_end():
    """A tile that adds waits for one of another rank, which stands behind a tile there that waits for this rank."""
    plan = syncopate.Plan("circle", [2])
    c = plan.buffer("c", (128, 32), "bf16")
    reduce_scatter_tiles(plan, c, syncopate.Strategy(combine=Combine.TILES))
    a = syncopate.Tensor("a", (128, 64), "bf16")
    config = dataclasses.replace(CONFIG, num_ctas=1)
    own_last, own_first = [[2, 3, 0, 1], [0, 1, 2, 3]], [[0, 1, 2, 3], [2, 3, 0, 1]]
    arguments = bind_gemm(a, 32, config, c=c)
    assert syncopate.compile(gemm, plan, **arguments, tile_order=own_last)
    with pytest.raises(PlanError, match="waits for itself, in a circle"):
        syncopate.compile(gemm, plan, **arguments, tile_order=own_first)


def test_groups_of_calls_are_complete_together():
    """`wave` computes all tiles of a library call before any of the next one, on every rank."""
    for ends in (Ends.SCATTERED_BY_CALLS, Ends.EXCHANGED_BY_CALLS):
        late = dict.fromkeys((TileOrder.WAVE, TileOrder.ARRIVAL), 0)
        for world, order in itertools.product(WORLDS, late):
            program = by_policy(ends, world, order, "tiles")
            for rank in range(world):
                calls = program.rank_tables(rank)["slots"].column("call")
                turns = calls[numbers(program, rank)]
                late[order] += int((np.diff(turns) < 0).sum())
        assert late[TileOrder.WAVE] == 0
        # Tiles of the blocks of several ranks take turns, and some blocks have fewer of them.
        assert late[TileOrder.ARRIVAL] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1], "expects integers of shape [N] or [2, N], the numbers of all tiles of the grid"),
        ("abc", "but got 'abc'"),
        ([[0, 1], [2]], "tile_order: expects integers of shape"),
        (np.zeros((3, 12)), "but got an array of float64 of shape [3, 12]"),
    ],
)
def test_given_is_an_array_of_all_tiles(given, message):
    count = int(np.prod(CONFIG.tiles(*shape_of(Ends.CONSUMER, 2)[:2])))
    with pytest.raises(SyncopateError, match=re.escape(message.replace("N", str(count)))):
        build(Ends.CONSUMER, 2, tile_order=given)


def test_given_is_a_permutation():
    count = int(np.prod(CONFIG.tiles(*shape_of(Ends.CONSUMER, 2)[:2])))
    order = np.random.default_rng().permutation(count)
    twice = order.copy()
    twice[5] = twice[2]
    message = (
        f"tile_order: expects each tile once, but tile {order[2]} stands at positions 2 and 5, and tile {order[5]} "
        "is missing"
    )
    with pytest.raises(SyncopateError, match=re.escape(message)):
        build(Ends.CONSUMER, 2, tile_order=twice)
    with pytest.raises(SyncopateError, match="tile_order: rank 1: expects each tile once"):
        build(Ends.CONSUMER, 2, tile_order=[order, twice])
    twice[5] = count
    with pytest.raises(
        SyncopateError,
        match=re.escape(f"expects tiles in [0, {count}), but got {count} at position 5"),
    ):
        build(Ends.CONSUMER, 2, tile_order=twice)


def test_given_is_needed_where_the_strategy_says_so():
    with pytest.raises(
        SyncopateError, match="tile_order: strategy leaves the order of tiles to it"
    ):
        build(Ends.CONSUMER, 2, TileOrder.GIVEN)


def test_given_with_a_split_last_round():
    """Each tile of the last round stands there once for each of its parts."""
    plan = syncopate.Plan("split", [2])
    a = plan.buffer("a", (128, 256), "bf16", shard_axis=0)
    plan.all_gather(a)
    config = dataclasses.replace(CONFIG, num_ctas=6, parts=2)
    order = np.random.default_rng().permutation(8)
    program = syncopate.compile(gemm, plan, **bind_gemm(a, 64, config), tile_order=order)
    expected = [*order[:6], order[6], order[6], order[7], order[7]]
    assert numbers(program, 0) == expected
    result = simulate(program, calls=2)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = np.concatenate(inputs["a"]).astype(np.float64)
        for b, c in zip(inputs["b"], outputs["c"], strict=True):
            right = whole @ b.T.astype(np.float64)
            assert np.abs(c - right).max() < 5e-3 * np.abs(right).max()
