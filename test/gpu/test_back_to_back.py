"""Ten thousand calls in a row of a small program of every realization and workload, each checked, on one GPU.

Also what compute-sanitizer is given: `compute-sanitizer --tool memcheck python -m pytest test/gpu/test_back_to_back.py`
with SYNCOPATE_CALLS=3 in the environment.
"""

import dataclasses
import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

import syncopate
from syncopate.abi import Realization
from syncopate.choices import Shots
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

CALLS = int(os.environ.get("SYNCOPATE_CALLS", "10000"))
M, N, K = 512, 256, 256
CONFIG = GemmConfig(block_n=128, num_ctas=24)
SUMS = {
    "reduce_scatter": (reduce_scatter_tiles, None),
    "all_reduce": (all_reduce_tiles, Shots.TWO),
    "all_reduce_once": (all_reduce_tiles, Shots.ONE),
}
REALIZATIONS = [realization for realization in Realization if realization is not Realization.NCCL]


def build(workload, realization, direction):
    strategy = syncopate.Strategy(
        realization=realization.spelling, direction=direction, splits=2, comm_ctas=4
    )
    plan = syncopate.Plan(workload, [2])
    if workload == "all_gather":
        a = plan.buffer("a", (M, K), "bf16", shard_axis=0)
        plan.all_gather(a)
        return syncopate.compile(gemm, plan, **bind_gemm(a, N, CONFIG), strategy=strategy)
    c = plan.buffer("c", (M, N), "bf16")
    template, shots = SUMS[workload]
    strategy = dataclasses.replace(
        strategy,
        shots=shots,
        reducing="ldst_dedicated" if realization.is_dedicated else "ldst_colocated",
    )
    template(plan, c, strategy)
    a = syncopate.Tensor("a", (M, K), "bf16")
    return syncopate.compile(gemm, plan, **bind_gemm(a, N, CONFIG, c=c), strategy=strategy)


def expect(workload, inputs, weights):
    if workload == "all_gather":
        whole = torch.cat(inputs).float()
        return [whole @ b.float().T for b in weights]
    total = sum(a.float() @ b.float().T for a, b in zip(inputs, weights, strict=True))
    halves = [total[: M // 2], total[M // 2 :]]
    return halves if workload == "reduce_scatter" else [total, total]


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("workload", ["all_gather", *SUMS])
@pytest.mark.parametrize("realization", REALIZATIONS, ids=lambda r: r.spelling)
def test_every_call_is_right(groups, realization, workload, direction):
    rows = M // 2 if workload == "all_gather" else M
    sets = [[random_matrix((rows, K), 10 * i + rank) for rank in range(2)] for i in range(3)]
    weights = [random_matrix((N, K), 7000 + rank) for rank in range(2)]
    expected = [expect(workload, inputs, weights) for inputs in sets]
    worst = torch.zeros((), device="cuda")
    with load(build(workload, realization, direction), groups(2)) as loaded:
        for call in range(CALLS):
            outputs = loaded(a=sets[call % 3], b=weights)
            for out, right in zip(outputs, expected[call % 3], strict=True):
                error = (out.float() - right).norm() / right.norm()
                worst = torch.maximum(worst, torch.nan_to_num(error, nan=torch.inf))
        loaded.synchronize()
    assert worst.item() < 1e-2
