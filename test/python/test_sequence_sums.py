"""The plans that add what ranks contribute to each element of a sequence, carried out for what they mean."""

import itertools
import re

import numpy as np
import pytest

from syncopate import Plan, Strategy
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence
from syncopate.plan.sequence_sums import reduce_sequence

PROVE = "chunk.plan(chunk-decompose-collectives,chunk-check-plan,chunk-check-claims)"

pytestmark = pytest.mark.any_triton

WAYS = {
    "direct push": Strategy(),
    "direct pull": Strategy(direction="pull"),
    "ring push": Strategy(algorithm="ring"),
    "ring pull": Strategy(algorithm="ring", direction="pull"),
    "ring push by tiles": Strategy(algorithm="ring", combine="tiles"),
    "ring pull by tiles": Strategy(algorithm="ring", direction="pull", combine="tiles"),
}


def _contributions(shards: SequenceShards, causal: bool, bounds=None) -> list[np.ndarray]:
    """Integers, so that sums are exact; what comes behind a rank's last element gets nothing from it, if causal.

    Nor do other sequences than those between `bounds` of which it has elements.
    """
    generator = np.random.default_rng(shards.world_size)
    whole = generator.integers(1, 1000, (shards.world_size, shards.length, 2)).astype(np.float32)
    if causal:
        for rank, own in enumerate(whole):
            own[shards.positions(rank).max() + 1 :] = 0
    for rank, own in enumerate(whole):
        places = shards.positions(rank)
        for begin, end in itertools.pairwise(bounds or ()):
            inside = places[(begin <= places) & (places < end)]
            own[begin if not len(inside) else inside.max() + 1 if causal else end : end] = 0
    return list(whole)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("sharding", Sharding, ids=lambda sharding: sharding.value)
@pytest.mark.parametrize("strategy", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("causal", [False, True])
def test_sums_come_to_the_rank_that_has_the_element(world, sharding, strategy, causal):
    _check_sums(SequenceShards(4 * world * world + 3, world, sharding), strategy, causal)


@pytest.mark.parametrize("sharding", Sharding, ids=lambda sharding: sharding.value)
@pytest.mark.parametrize("strategy", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_packed_sequences_come_to_the_rank_that_has_the_element(sharding, strategy, causal):
    bounds = (0, 12, 12, 19, 60, 61, 67)
    _check_sums(SequenceShards(67, 4, sharding), strategy, causal, bounds)


def _check_sums(shards, strategy, causal, bounds=None):
    world, sharding = shards.world_size, shards.sharding
    plan = Plan("sums", [world])
    dk, dv = (plan.buffer(name, (shards.length, 2), "f32") for name in ("dk", "dv"))
    reduce_sequence(plan, [dk, dv], shards, strategy, causal=causal, cu_seqlens=bounds)
    parts = _contributions(shards, causal, bounds)
    computed = []
    for rank, own in enumerate(parts):
        # What a rank computes is given as it is in the buffer, but if that is one region, only that.
        regions = re.findall(
            rf"chunk.produce %0\[(\d+), 0\] sizes \[(\d+), 2\]( reduce.*)? on {rank} ", plan.text
        )
        first, size = int(regions[0][0]), int(regions[0][1])
        computed.append(own if len(regions) > 1 else own[first : first + size])
    run_pipeline(parse(plan.text, new_context()), PROVE)
    memory = interpret_plan(plan.text, {"dk": computed, "dv": [-own for own in computed]})
    total = np.sum(parts, axis=0)
    for rank in range(world):
        places = shards.positions(rank)
        has = places >= 0
        for name, sign in (("dk", 1), ("dv", -1)):
            found = memory[name][rank].data[places[has]]
            if sharding is Sharding.ZIGZAG:
                found = memory[f"{name}_own"][rank].data[: has.sum()]
            assert np.array_equal(found, sign * total[places[has]])


def test_causal_ranks_send_nothing_behind_their_own_elements():
    shards = SequenceShards(40, 4)
    for algorithm, hops in (("direct", 6), ("ring", 6)):
        plan = Plan("sums", [4])
        dkv = plan.buffer("dkv", (40, 2), "f32")
        reduce_sequence(plan, dkv, shards, Strategy(algorithm=algorithm), causal=True)
        moved = [line for line in plan.text.splitlines() if "chunk.put" in line]
        between = [line for line in moved if line.split(" from ")[1][0] != line.split(" to ")[2][0]]
        assert len(between) == hops


def test_ranks_send_nothing_to_sequences_of_which_they_have_no_elements():
    plan = Plan("sums", [4])
    dkv = plan.buffer("dkv", (40, 2), "f32")
    reduce_sequence(plan, dkv, SequenceShards(40, 4), Strategy(), cu_seqlens=(0, 10, 25, 40))
    moved = re.findall(r"chunk\.put .* from (\d) to (\d)", plan.text)
    between = {(source, rank) for source, rank in moved if source != rank}
    assert between == {("1", "2"), ("2", "1"), ("2", "3"), ("3", "2")}


@pytest.mark.parametrize("strategy", WAYS.values(), ids=WAYS)
def test_rank_without_elements_gets_and_gives_nothing(strategy):
    plan = Plan("sums", [4])
    reduce_sequence(plan, plan.buffer("dkv", (9, 2), "f32"), SequenceShards(9, 4), strategy)
    run_pipeline(parse(plan.text, new_context()), PROVE)
    assert not re.search(r"(on|from|to) 3\b", plan.text)


def test_wrong_sums_are_refused():
    plan = Plan("sums", [2])
    dkv = plan.buffer("dkv", (64, 2), "f32")
    with pytest.raises(PlanError, match="expects 66 rows, as many as the sequence has elements"):
        reduce_sequence(plan, dkv, SequenceShards(66, 2))
    with pytest.raises(PlanError, match="expects algorithm direct or ring for sums of a sequence"):
        reduce_sequence(plan, dkv, SequenceShards(64, 2), Strategy(algorithm="hierarchical"))
    with pytest.raises(
        PlanError, match="combine: expects a role to add sums of a sequence, or tiles"
    ):
        reduce_sequence(plan, dkv, SequenceShards(64, 2), Strategy(combine="tiles"))


@pytest.mark.parametrize("mesh", [(2, 2), (2, 3), (3, 2), (1, 4), (4, 1), (2, 2, 2)])
@pytest.mark.parametrize("sharding", Sharding)
@pytest.mark.parametrize("direction", ["push", "pull"])
def test_ring_of_rings_brings_all_elements_everywhere(mesh, sharding, direction):
    plan = Plan("rings", mesh)
    world = plan.world_size
    shards = SequenceShards(8 * world + 5, world, sharding)
    k = plan.buffer("k", (shards.length, 2), "f32")
    gather_sequence(plan, k, shards, Strategy(algorithm="hierarchical", direction=direction))
    whole = np.random.default_rng(1).standard_normal((shards.length, 2)).astype(np.float32)
    given = [shards.ranges(rank) for rank in range(world)]
    own = [whole if len(ranges) > 1 else whole[slice(*ranges[0])] for ranges in given]
    for contents in interpret_plan(plan.text, {"k": own})["k"]:
        assert np.all(contents.defined) and np.array_equal(contents.data, whole)
