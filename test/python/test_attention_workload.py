"""Attention workloads and their kernels' bindings: what is refused, and what is chosen."""

import re

import numpy as np
import pytest

from syncopate import AttentionWorkload, Descriptor, Plan, Strategy
from syncopate.choices import Algorithm, Realization
from syncopate.compiler.budgets import read_resources
from syncopate.errors import SyncopateError
from syncopate.kernels import AttentionConfig, DecodeConfig, bind_attention
from syncopate.kernels.sequence_tiles import SequenceTiles
from syncopate.plan.heads import gather_heads
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.workloads import AttentionGradients

GOOD = {
    "kind": "ring",
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 64,
    "sequence": 130,
    "world_size": 4,
}


@pytest.mark.parametrize(
    ("kind", "sequence", "groups"),
    [
        ("ring", 32768, 4),
        ("sequence_parallel", 1024, 2),
        ("sequence_parallel", 512, 1),
        ("ulysses", 2048, 2),
        ("ulysses", 1 << 20, 2),
        ("ulysses", 256, 1),
    ],
)
def test_heads_come_in_groups_that_are_worth_a_transfer(kind, sequence, groups):
    work = AttentionWorkload(kind, 32, 16, 128, sequence, 2)
    assert work.count_groups(work.count_own(16) if work.exchanges else 16) == groups


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "double"}, "kind: expects one of sequence_parallel, ring, ulysses, decode, but"),
        ({"heads": 3}, "heads: expects a multiple of the 2 heads of keys and values, but got 3"),
        ({"causal": "no"}, "causal: expects True or False, but got 'no'"),
        (
            {"cu_seqlens": 5},
            "cu_seqlens: expects integers that grow from 0 to",
        ),
        ({"cu_seqlens": (0, 2.5)}, "cu_seqlens: expects integers"),
        ({"batch": 0}, "batch: expects an integer of at least 1, but got 0"),
        ({"world_size": 1}, "world_size: expects an integer of at least 2, but got 1"),
        ({"dtype": "f32"}, "dtype: expects one of f16, bf16, but got 'f32'"),
        (
            {"kind": "ulysses", "heads": 6},
            "heads: expects a multiple of 4 ranks in batch · heads, but got 6",
        ),
        (
            {"kind": "ulysses", "heads": 12, "kv_heads": 3},
            "kv_heads: expects batch · kv_heads to be a multiple or a divisor of 4 ranks, but got 3",
        ),
        (
            {"kind": "decode", "sharding": Sharding.ZIGZAG},
            "sharding: expects Sharding.CONTIGUOUS for decode",
        ),
        (
            {"kind": "ulysses", "cu_seqlens": (0, 130)},
            "cu_seqlens: expects None for ulysses, but got (0, 130)",
        ),
        ({"node_size": 3}, "node_size: expects a divisor of 4 ranks, but got 3"),
        (
            {"kind": "sequence_parallel", "node_size": 2},
            "node_size: expects None for sequence_parallel, but got 2",
        ),
        ({"groups": 3}, "groups: expects a divisor of the 2 heads of keys that a rank computes wi"),
        ({"kind": "ulysses", "groups": 2}, "groups: expects a divisor of the 1 heads of keys"),
        ({"kind": "decode", "groups": 1}, "groups: expects None for decode, but got 1"),
    ],
)
def test_wrong_workload_is_refused(change, message):
    with pytest.raises(SyncopateError, match=re.escape(message)):
        AttentionWorkload(**{**GOOD, **change})


@pytest.mark.parametrize("bounds", [(0, 70), (1, 130), (0, 80, 60, 130), (130,), (0, 1.0, 130)])
def test_wrong_bounds_of_sequences_are_refused(bounds):
    with pytest.raises(
        SyncopateError, match="cu_seqlens: expects integers that grow from 0 to 130"
    ):
        AttentionWorkload(**GOOD, cu_seqlens=bounds).compile()


def test_strategy_is_not_chosen():
    with pytest.raises(SyncopateError, match="strategy: expects a Strategy"):
        AttentionWorkload(**GOOD).compile("auto")


@pytest.mark.parametrize(
    ("node_size", "mesh", "algorithm"),
    [(None, [4], "ring"), (4, [4], "ring"), (2, [2, 2], "hierarchical")],
)
def test_ring_of_several_nodes_is_one_of_rings(node_size, mesh, algorithm):
    workload = AttentionWorkload(**GOOD, node_size=node_size)
    plan, _ = workload.make_plan(Strategy())
    assert list(plan.mesh) == mesh
    assert plan.strategy.algorithm is Algorithm(algorithm)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_scale_that_is_not_positive_is_refused(scale):
    plan = Plan("p", [2])
    k, v = (plan.buffer(name, (64, 64), "f16") for name in "kv")
    with pytest.raises(SyncopateError, match="scale: expects a positive number"):
        bind_attention(k, v, 1, 64, SequenceShards(64, 2), scale=scale)


def test_outputs_of_packed_sequences_stay_on_their_rank():
    plan = Plan("p", [2])
    k, v, o = (plan.buffer(name, (64, 64), "f16") for name in "kvo")
    with pytest.raises(SyncopateError, match="o: expects None with cu_seqlens"):
        bind_attention(k, v, 1, 64, SequenceShards(64, 1), cu_seqlens=(0, 3, 64), o=o)


def test_packed_outputs_are_stored_by_pointers():
    plan = Plan("p", [2])
    k, v = (plan.buffer(name, (64, 64), "f16") for name in "kv")
    whole, packed = (
        bind_attention(k, v, 1, 64, SequenceShards(64, 1), cu_seqlens=bounds)["bind"]
        for bounds in (None, (0, 3, 64))
    )
    assert isinstance(whole["o_desc"], Descriptor) and whole["o_ptr"] is None
    assert packed["o_desc"] is None and packed["o_ptr"] is not None


def test_decoding_cuts_keys_into_as_many_parts_as_there_are_multiprocessors_for():
    assert DecodeConfig.choose(1, 8, 65536) == DecodeConfig(16, num_ctas=128)
    assert DecodeConfig.choose(64, 8, 65536) == DecodeConfig(1, num_ctas=132)
    # No part is less than some blocks.
    assert DecodeConfig.choose(1, 1, 600) == DecodeConfig(2, num_ctas=2)


@pytest.mark.parametrize("realization", ["ldst_dedicated", "tma_colocated"])
def test_decoding_leaves_multiprocessors_to_ctas_that_communicate(realization):
    work = AttentionWorkload("decode", 32, 8, 128, 8192, 2, batch=2)
    strategy = Strategy(realization=realization)
    program = work.compile(strategy, machine_code=False)
    assert program.num_ctas + program.comm_ctas <= 132
    assert (program.comm_ctas > 0) == (realization == "ldst_dedicated")


@pytest.mark.parametrize("kind", ["ring", "decode"])
def test_chosen_tiles_fit_with_roles_beside_them(kind):
    more = {"causal": True} if kind == "ring" else {"batch": 2}
    workload = AttentionWorkload(kind, 16, 4, 128, 8192, 2, **more)
    # Machine code is made, and budgets are checked.
    program = workload.compile()
    assert "mma" in program.ir["ptx"]


def test_chosen_tiles_of_gradients_fit_with_roles_beside_them():
    workload = AttentionWorkload("ring", 16, 4, 128, 8192, 2, causal=True)
    # Machine code is made, and budgets are checked.
    for program in AttentionGradients(workload).compile():
        assert "mma" in program.ir["ptx"]


def test_parts_of_the_same_heads_are_added_in_the_order_of_their_ranks():
    plan, shards = Plan("p", [3]), SequenceShards(8, 3)
    computed, returned = plan.buffer("c", (8, 16), "f32"), plan.buffer("r", (3, 16), "f32")
    gather_heads(plan, computed, returned, [(0, 16)] * 3, shards)
    # Rank 0's part goes where the sum is to be, those of the others side by side.
    moved = re.findall(r"put %0.* to %(\d)\[(\d), 0\] .* from (\d) to \d", plan.text)
    assert set(moved) == {("1", "0", "0"), ("5", "0", "1"), ("5", "3", "2")} and len(moved) == 9
    added = re.findall(
        r"put %5.* parts 2 step \[3, 0\] to %1.* sizes \[(\d), .* from (\d)", plan.text
    )
    assert added == [("3", "0"), ("3", "1"), ("2", "2")]


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        ({"kind": "decode"}, {}, "workload: expects another kind than decode, of which there are"),
        ({"kind": "ulysses"}, {"keeps": False}, "keeps: expects True for ulysses, but got False"),
        ({"node_size": 2}, {"keeps": False}, "keeps: expects True with several nodes"),
        ({}, {"sums": "f16"}, "sums: expects f32 or bf16, but got 'f16'"),
    ],
)
def test_gradients_that_there_are_none_of_are_refused(change, more, message):
    with pytest.raises(SyncopateError, match=re.escape(message)):
        AttentionGradients(AttentionWorkload(**{**GOOD, **change}), **more)


def test_sums_of_several_nodes_go_around_one_ring():
    gradients = AttentionGradients(AttentionWorkload(**GOOD, node_size=2))
    first, second = (
        make(Strategy())[0] for make in (gradients.make_plan_q, gradients.make_plan_kv)
    )
    assert first.strategy.algorithm is Algorithm.HIERARCHICAL
    assert second.strategy.algorithm is Algorithm.RING


@pytest.mark.parametrize(
    "realization", ["copy_engine", "ldst_colocated", "tma_colocated", "tma_dedicated"]
)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_chosen_tiles_fit_beside_roles(head_dim, realization):
    work = AttentionWorkload("ring", 4, 2, head_dim, 4096, 2, causal=True)
    strategy = Strategy(realization=realization)
    program = work.compile(strategy)
    config = work.choose_config(strategy)
    assert program.num_ctas + program.comm_ctas == 132 * config.ctas_per_sm
    used = read_resources(program.image.cubin)
    assert used.registers * 32 * program.image.num_warps * config.ctas_per_sm <= 65536
    assert config.ctas_per_sm * (program.image.shared_bytes + 1024) <= 228 * 1024


def test_packed_sequences_of_wide_heads_fit_beside_a_role():
    work = AttentionWorkload("ring", 4, 2, 256, 4096, 2, causal=True, cu_seqlens=(0, 1000, 4096))
    assert work.compile(Strategy(realization="ldst_colocated")).image.cubin


def test_gathered_keys_go_by_engines_unless_told_otherwise():
    for kind in ("ring", "sequence_parallel"):
        strategy = AttentionWorkload(kind, 4, 2, 64, 4096, 2).default_strategy()
        assert strategy == Strategy(realization=Realization.COPY_ENGINE)
    for kind in ("ulysses", "decode"):
        assert AttentionWorkload(kind, 4, 2, 64, 4096, 2).default_strategy() == Strategy()


def moved_rows(work, config):
    """How many rows of keys each rank gets of others."""
    program = work.compile(Strategy(realization="copy_engine"), config=config, machine_code=False)
    heard = [0] * work.world_size
    for rank in range(work.world_size):
        for row in program.rank_tables(rank)["commands"].rows():
            if program.buffers[row["dst_buffer"]].name == "k":
                heard[row["dst_rank"]] += row["rows"] * row["row_bytes"]
    return [nbytes // (work.row[1] * 2) for nbytes in heard]


@pytest.mark.parametrize(
    ("kind", "sequences", "causal_sequences"),
    [
        ("sequence_parallel", [32, 128, 32], [0, 64, 32]),
        # Ranks get what they pass on, besides: rank 0 all of what rank 2 has.
        ("ring", [96, 128, 64], [0, 64, 32]),
    ],
)
def test_keys_go_only_where_tiles_read_them(kind, sequences, causal_sequences):
    config = AttentionConfig(64, 32, 4, 2, 3)

    def count(world, **more):
        return moved_rows(AttentionWorkload(kind, 2, 1, 64, 64 * world, world, **more), config)

    assert count(3) == [128, 128, 128]
    assert count(3, causal=True) == [0, 64, 128]
    # Each rank has a sequence of its own.
    assert count(3, cu_seqlens=(0, 64, 128, 192)) == [0, 0, 0]
    # The first sequence ends, and the second begins, in the middle of rank 1.
    assert count(3, cu_seqlens=(0, 96, 192)) == sequences
    assert count(3, cu_seqlens=(0, 96, 192), causal=True) == causal_sequences


@pytest.mark.parametrize("sharding", list(Sharding))
def test_all_keys_that_tiles_read_are_theirs(sharding):
    """A query of a sequence takes keys of its own place, and what stands in the same step."""
    shards = SequenceShards(500, 3, sharding)
    bounds = (0, 33, 34, 400, 500)
    for causal in (False, True):
        tiles = SequenceTiles(shards, 64, 32, causal, bounds)
        for rank in range(3):
            read = np.zeros(512, bool)
            for begin, end in tiles.keys(rank):
                assert 0 <= begin < end <= 500
                read[begin:end] = True
            for place in (place for place in shards.positions(rank) if place >= 0):
                first = max(bound for bound in bounds if bound <= place)
                last = place + 1 if causal else min(bound for bound in bounds if bound > place)
                assert read[first:last].all()
