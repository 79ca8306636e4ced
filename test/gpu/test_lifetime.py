"""Programs of several ranks on one GPU that come and go: whoever gets memory of another finds no trace of it."""

import gc
import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from test_workloads import check, expect, make_inputs
from workloads import random_matrix

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.runtime import LocalGroup

pytestmark = pytest.mark.gpu(1)

CONFIG = GemmConfig(block_n=128, num_warps=4, num_ctas=24)
KINDS = ("ag_gemm", "gemm_rs", "gemm_ar", "gemm_a2a")
WAYS = ("ldst_colocated", "copy_engine", "tma_dedicated")


def test_memory_goes_from_program_to_program():
    """Flags of the last one would end waits of the next at once, and it would compute with what is not there yet."""
    world, draw = 2, random.Random(5)
    group, live = LocalGroup(world), []
    sizes = []
    for turn in range(24):
        kind, way = KINDS[turn % len(KINDS)], WAYS[turn % len(WAYS)]
        workload = GemmWorkload(kind, draw.choice([256, 512]), 264, 200, world)
        strategy = Strategy(realization=way, comm_ctas=4)
        live.append(workload.load(group, strategy, config=CONFIG))
        sizes.append(live[-1].loaded.workspace_bytes)
        a = make_inputs(workload, turn)
        b = [random_matrix(workload.weight_shape, 100 * turn + rank) for rank in range(world)]
        right = expect(workload, a, b)
        for _ in range(1 + turn % 5):
            check(live[-1](a=a, b=b), right)
        live[-1].synchronize()
        while len(live) > draw.randrange(1, 5):
            chosen = live.pop(draw.randrange(len(live)))
            if draw.random() < 0.7:
                chosen.close()
            del chosen
    live.clear()
    gc.collect()
    workload.load(group, strategy, config=CONFIG).close()
    assert group.memory.used <= 2 * max(sizes)
    assert group.memory.reserved <= 64 << 20


def test_result_outlives_its_program():
    world = 2
    group, workload = LocalGroup(world), GemmWorkload("gemm_rs", 512, 264, 200, world)
    a = make_inputs(workload, 1)
    b = [random_matrix(workload.weight_shape, rank) for rank in range(world)]
    loaded = workload.load(group, Strategy(), config=CONFIG)
    out = loaded(a=a, b=b)
    loaded.synchronize()
    loaded.close()
    kept = [each.clone() for each in out]
    with workload.load(group, Strategy(), config=CONFIG) as again:
        again(a=[-each for each in a], b=b)
        again.synchronize()
    torch.cuda.synchronize()
    for each, before in zip(out, kept, strict=True):
        assert torch.equal(each, before)


def test_calls_from_stream_to_stream():
    world = 2
    group, workload = LocalGroup(world), GemmWorkload("ag_gemm", 512, 264, 200, world)
    a = make_inputs(workload, 1)
    b = [random_matrix(workload.weight_shape, rank) for rank in range(world)]
    right = expect(workload, a, b)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    with workload.load(group, Strategy(), config=CONFIG) as loaded:
        for call in range(60):
            with torch.cuda.stream(streams[call % 3]):
                check(loaded(a=a, b=b), right)
        torch.cuda.synchronize()
