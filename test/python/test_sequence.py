"""Who has which element of a sequence, and the plans that bring all of it to all ranks."""

import re

import numpy as np
import pytest

import syncopate
from syncopate import Plan
from syncopate.errors import PlanError
from syncopate.plan.body import MOST_TRANSFERS
from syncopate.plan.plan_file import decompose_plan
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence

SHARDINGS = list(Sharding)


@pytest.mark.parametrize("sharding", SHARDINGS, ids=lambda s: s.value)
@pytest.mark.parametrize(("length", "world"), [(64, 4), (67, 4), (41, 3), (10, 2), (9, 1)])
def test_each_element_has_one_place(sharding, length, world):
    shards = SequenceShards(length, world, sharding)
    whole = [
        i for rank in range(world) for begin, end in shards.ranges(rank) for i in range(begin, end)
    ]
    assert sorted(whole) == list(range(length))
    for rank in range(world):
        places = shards.positions(rank)
        assert places.shape == (shards.rows,) and places.dtype == np.int32
        has = places >= 0
        assert places[has].tolist() == [
            i for begin, end in shards.ranges(rank) for i in range(begin, end)
        ]
        # The expression that tables are made of says the same, and grows with the row.
        said = [shards.place(rank, row) for row in range(shards.rows + shards.block)]
        assert [place for place, kept in zip(said, has, strict=False) if kept] == places[
            has
        ].tolist()
        assert said == sorted(said)


def test_sequence_that_is_too_short_for_two_blocks_is_refused():
    with pytest.raises(PlanError, match="too few for the first block of each of 4 ranks"):
        SequenceShards(3, 4, Sharding.ZIGZAG)
    with pytest.raises(PlanError, match="length: expects a positive integer, but got 0"):
        SequenceShards(0, 4)


def test_wrong_gathers_are_refused():
    plan = Plan("p", [2])
    k = plan.buffer("k", (64, 16), "bf16")
    with pytest.raises(PlanError, match="expects 65 rows, as many as the sequence has elements"):
        gather_sequence(plan, k, SequenceShards(65, 2))
    with pytest.raises(PlanError, match="expects a sequence of 2 ranks"):
        gather_sequence(plan, k, SequenceShards(64, 4))
    with pytest.raises(PlanError, match="expects algorithm direct, ring or hier"):
        strategy = syncopate.Strategy(algorithm="bidirectional_ring")
        gather_sequence(plan, k, SequenceShards(64, 2), strategy)
    with pytest.raises(PlanError, match="taken: expects an entry for each of 2 ranks, but got 1"):
        gather_sequence(plan, k, SequenceShards(64, 2), taken=[[(0, 64)]])
    with pytest.raises(PlanError, match="groups: expects a divisor of the 16 columns of buffer k"):
        gather_sequence(plan, k, SequenceShards(64, 2), groups=3)


def test_columns_come_one_group_after_another():
    plan = Plan("p", [3])
    buffers = [plan.buffer(name, (40, 16), "bf16") for name in "kv"]
    strategy = syncopate.Strategy(algorithm="ring")
    gather_sequence(plan, buffers, SequenceShards(40, 3), strategy, groups=4)
    columns = [int(first) for first in re.findall(r"chunk\.put %\w+\[\d+, (\d+)\]", plan.text)]
    # Of each group, two buffers go two hops around three ranks.
    assert columns == [group * 4 for group in range(4) for _ in range(12)]


def test_plans_of_too_many_transfers_are_refused_before_they_are_written():
    workload = syncopate.AttentionWorkload("ring", 1, 1, 64, 4096, 4096)
    with pytest.raises(PlanError, match=rf"at most {MOST_TRANSFERS} transfers, but 4096 ranks"):
        workload.make_plan(syncopate.Strategy())
    # The dialect has the same limit.
    plan = Plan("p", [17])
    plan.all_gather(plan.buffer("a", (17 * 4096, 1), "f32", shard_axis=0))
    with pytest.raises(PlanError, match=rf"expects at most {MOST_TRANSFERS} transfers"):
        decompose_plan(plan.text, "splits=4096")
