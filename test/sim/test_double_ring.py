"""Attention of a sequence that goes around two rings, one within a node and one between nodes, on the simulator."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import pytest
from sim_compile import MACHINE_CODE, compile_program
from sim_sequences import AttentionCase
from sim_table import options_of

import syncopate
from syncopate import Strategy
from syncopate.kernels import AttentionConfig, attention, bind_attention
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence
from syncopate.sim.simulate import simulate
from syncopate.workloads import AttentionKind, AttentionWorkload

OUT, LSE = 4e-3, 1e-5
"""Weights are rounded to f16 before they are summed up; outputs are of the order of 1."""


@dataclass(frozen=True)
class DoubleRing(AttentionCase):
    """The same on a mesh of nodes and ranks of each."""

    mesh: tuple[int, int] = (2, 2)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        workload = AttentionWorkload(
            AttentionKind.RING,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.length,
            self.world,
            causal=self.causal,
            dtype=self.dtype,
            sharding=self.sharding,
            node_size=self.mesh[1],
        )
        return workload.compile(self.strategy, config=self.config, machine_code=MACHINE_CODE)


RINGS = {"algorithm": "hierarchical"}
CASES = {
    "pushed": DoubleRing(4, 250, strategy=Strategy(**RINGS)),
    # The last tile of rank 0 has no row that stands for a query.
    "got, zig-zag": DoubleRing(
        4,
        260,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=Strategy(**RINGS, direction="pull", realization="tma_colocated"),
    ),
    "three in a node, zig-zag, NCCL between": DoubleRing(
        6,
        370,
        heads=1,
        kv_heads=1,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=Strategy(**RINGS, between="nccl"),
        mesh=(2, 3),
    ),
    "three nodes, causal": DoubleRing(
        6,
        190,
        heads=1,
        kv_heads=1,
        causal=True,
        strategy=Strategy(**RINGS, direction="pull"),
        config=AttentionConfig(block_m=64, block_n=16, num_warps=4, num_ctas=1),
        mesh=(3, 2),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_attention_of_a_double_ring_is_sound_and_right(case):
    options = options_of(1)
    result = simulate(case.build(), case.draw(1, options.pop("calls")), **options)
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        out, lse = case.errors(inputs, outputs)
        assert out < OUT, out
        assert lse < LSE, lse


def _first_steps(world: int, mesh: tuple[int, int]) -> list[list[int]]:
    """By rank, the origins of the keys in the order in which its first tile takes them, a step for each rank."""
    plan = syncopate.Plan("double_ring", mesh)
    shards = SequenceShards(16 * world, world)
    k, v = (plan.buffer(name, (shards.length, 64), "f16") for name in "kv")
    gather_sequence(plan, [k, v], shards, Strategy(**RINGS))
    config = AttentionConfig(block_m=64, block_n=16, num_warps=4, num_ctas=1)
    program = compile_program(attention, plan, **bind_attention(k, v, 1, 64, shards, config))
    return [
        [row["step"] for row in program.rank_tables(rank)["steps"].rows()][:world]
        for rank in range(world)
    ]


def test_steps_take_the_own_node_first_and_other_nodes_as_they_arrive():
    # The next node's keys set out behind the first hop within the node, and arrive before those of the second one.
    expected = [[0, 2, 3, 1, 5, 4], [1, 0, 4, 2, 3, 5], [2, 1, 5, 0, 4, 3]]
    other = [[(origin + 3) % 6 for origin in order] for order in expected]
    assert _first_steps(6, (2, 3)) == expected + other


@pytest.mark.parametrize(("direction", "mesh"), [("push", (3, 2)), ("pull", (2, 4))])
def test_each_part_comes_to_a_node_once(direction, mesh):
    nodes, places = mesh
    world = nodes * places
    plan = syncopate.Plan("double_ring", mesh)
    shards = SequenceShards(8 * world + 3, world, Sharding.ZIGZAG)
    k = plan.buffer("k", (shards.length, 64), "f16")
    gather_sequence(plan, k, shards, Strategy(**RINGS, direction=direction))
    moved = re.findall(r"chunk\.(\w+) %0\[(\d+), .* from (\d) to (\d)", plan.text)
    assert {verb for verb, *_ in moved} == {"put" if direction == "push" else "get"}
    arrived = [(int(rank), int(begin)) for _, begin, _, rank in moved]
    own = [(rank, begin) for rank in range(world) for begin, _ in shards.ranges(rank)]
    assert len(set(arrived + own)) == len(arrived + own) == world * len(own)
    between = [
        (int(rank) // places, int(begin))
        for _, begin, source, rank in moved
        if int(source) // places != int(rank) // places
    ]
    assert len(set(between)) == len(between) == (nodes - 1) * len(own)
