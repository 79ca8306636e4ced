"""What the tables of another shape cost, in C++, for 8 ranks of about 1,000 tiles each."""

import time

import pytest
from studies import load

import syncopate
from syncopate.choices import Combine
from syncopate.ir import new_context, parse
from syncopate.mlir.passmanager import PassManager
from syncopate.plan.templates import reduce_scatter_tiles

pytestmark = pytest.mark.any_triton

schedule_build = load("schedule_build")

RANKS, N, TILE = 8, 2048, (128, 256)
MOST_MS = 3.0
"""The goal is one, but machines that run tests are shared. A pass that takes the long way for each tile takes more."""


def gathered(rows):
    plan = syncopate.Plan("gather", [RANKS])
    a = plan.buffer("a", (rows, 1024), "bf16", shard_axis=0)
    token = plan.all_gather(a)
    tiles = (-(-rows // TILE[0]), N // TILE[1])
    plan.bind_tiles("k", tiles, reads={a: (TILE[0], 1024)}, after=[token], ctas=132)
    return plan


def summed(rows):
    plan = syncopate.Plan("sum", [RANKS])
    c = plan.buffer("c", (rows, N), "bf16")
    tokens = reduce_scatter_tiles(plan, c, syncopate.Strategy(combine=Combine.ROLE))
    tiles = (-(-rows // TILE[0]), N // TILE[1])
    plan.bind_tiles("k", tiles, writes={c: TILE}, after=tokens, ctas=132)
    return plan


@pytest.mark.parametrize("make", [gathered, summed])
def test_tables_of_another_shape_take_about_a_millisecond(make):
    times = []
    for run in range(1, 13):
        rows = 128 * TILE[0] - RANKS * run
        context = new_context()
        module = parse(make(rows).text, context)
        with context:
            pipeline = schedule_build.PIPELINES["tables"]
            manager = PassManager.parse(f"builtin.module({pipeline})")
            manager.enable_verifier(False)
            begin = time.thread_time()
            manager.run(module.operation)
            times.append(1e3 * (time.thread_time() - begin))
        schedules = [
            op
            for op in module.body.operations[0].regions[0].blocks[0].operations
            if "tile_groups" in op.attributes
        ]
        assert len(schedules) == RANKS
        assert all(
            len(op.attributes["tiles"].values) == -(-rows // TILE[0]) * N // TILE[1]
            for op in schedules
        )
    assert min(times) <= MOST_MS, times
