"""GEMM + all-reduce with residual addition and RMSNorm, on several ranks of one GPU: two programs, call after call."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

import syncopate
from syncopate.kernels import GemmConfig, add_rms_norm, bind_add_rms_norm, bind_gemm, gemm
from syncopate.plan.templates import all_gather_tiles, reduce_scatter_tiles
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

CALLS, EPSILON = 30, 1e-5


def build(world, m, n, k, realization):
    strategy = syncopate.Strategy(realization=realization, splits=2, comm_ctas=8)
    plan = syncopate.Plan("gemm_rs", [world])
    c = plan.buffer("c", (m, n), "bf16")
    reduce_scatter_tiles(plan, c, strategy)
    config = GemmConfig(block_n=128, num_ctas=72 // world)
    bind = bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c)
    first = syncopate.compile(gemm, plan, **bind, timeout=10.0)
    plan = syncopate.Plan("norm_ag", [world])
    own = plan.buffer("own", (m // world, n), "bf16")
    y = plan.buffer("y", (m, n), "bf16")
    all_gather_tiles(plan, own, y, strategy)
    bind = bind_add_rms_norm(own, epsilon=EPSILON, num_ctas=72 // world)
    return first, syncopate.compile(add_rms_norm, plan, **bind, timeout=10.0)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("n", [512, 648])
@pytest.mark.parametrize(
    "realization",
    ["ldst_colocated", "ldst_dedicated", "tma_colocated", "tma_dedicated", "copy_engine"],
)
def test_every_call_is_right(groups, world, n, realization):
    m, k = 256 * world, 256
    gemm_rs, norm_ag = build(world, m, n, k, realization)
    rows = m // world
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(world)]
    scale = random_matrix((1, n), 8000)[0].contiguous()
    sets, expected = [], []
    for number in range(3):
        inputs = [random_matrix((m, k), 10 * number + rank) for rank in range(world)]
        residual = [random_matrix((rows, n), 500 + 10 * number + rank) for rank in range(world)]
        total = sum(a.float() @ b.float().T for a, b in zip(inputs, weights, strict=True))
        total += torch.cat(residual).float()
        mean = total.square().mean(1, keepdim=True)
        sets.append((inputs, residual))
        expected.append((total, total * torch.rsqrt(mean + EPSILON) * scale.float()))
    with load(gemm_rs, groups(world)) as first, load(norm_ag, groups(world)) as second:
        for call in range(CALLS):
            inputs, residual = sets[call % 3]
            total, right = expected[call % 3]
            blocks = first(a=inputs, b=weights)
            results = second(x=blocks, residual=residual, weight=[scale] * world)
            for rank, (added, y) in enumerate(results):
                error = ((y.float() - right).norm() / right.norm()).item()
                assert error < 1e-2, f"call {call}, rank {rank}: {error}"
                mine = total[rank * rows : (rank + 1) * rows]
                error = ((added.float() - mine).norm() / mine.norm()).item()
                assert error < 1e-2, f"call {call}, rank {rank}: {error}"
        first.synchronize()
        second.synchronize()
