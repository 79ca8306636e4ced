"""Programs whose tiles compute parts of a sum, on several ranks of one GPU: many calls in a row, the same bits."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

import syncopate
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import Combine, all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

TEMPLATES = {"reduce_scatter": reduce_scatter_tiles, "all_reduce": all_reduce_tiles}
CASES = [
    ("reduce_scatter", Combine.TILES, "push", "ldst_colocated", "ldst_colocated"),
    ("reduce_scatter", Combine.TILES, "push", "copy_engine", "ldst_colocated"),
    ("reduce_scatter", Combine.TILES, "pull", "ldst_dedicated", "ldst_dedicated"),
    ("reduce_scatter", Combine.TILES, "push", "tma_colocated", "ldst_colocated"),
    ("reduce_scatter", Combine.TILES, "push", "tma_dedicated", "ldst_dedicated"),
    ("reduce_scatter", Combine.ROLE, "pull", "ldst_colocated", "ldst_colocated"),
    ("reduce_scatter", Combine.ROLE, "push", "copy_engine", "ldst_colocated"),
    ("all_reduce", Combine.TILES, "push", "ldst_colocated", "ldst_colocated"),
    ("all_reduce", Combine.TILES, "push", "copy_engine", "ldst_colocated"),
    ("all_reduce", Combine.TILES, "pull", "tma_dedicated", "ldst_dedicated"),
    ("all_reduce", Combine.ROLE, "pull", "ldst_dedicated", "ldst_dedicated"),
]
CALLS = 40


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize(("what", "combine", "direction", "realization", "reducing"), CASES)
def test_sums_are_right_and_repeat(groups, world, what, combine, direction, realization, reducing):
    m, n, k = 256 * world, 512, 256
    plan = syncopate.Plan("sum", [world])
    parts = plan.buffer("c", (m, n), "bf16")
    TEMPLATES[what](
        plan,
        parts,
        splits=2,
        combine=combine,
        direction=direction,
        realization=realization,
        reducing=reducing,
    )
    config = GemmConfig(block_n=128, num_ctas=96 // world)
    program = syncopate.compile(
        gemm,
        plan,
        **bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=parts),
        strategy=syncopate.Strategy(comm_ctas=16 // world),
        timeout=10.0,
    )
    weights = [random_matrix((n, k), 7000 + rank) for rank in range(world)]
    inputs = [[random_matrix((m, k), 10 * i + rank) for rank in range(world)] for i in range(3)]
    rows = m // world
    expected = []
    for given in inputs:
        total = sum(a.float() @ b.float().T for a, b in zip(given, weights, strict=True))
        blocks = [total] * world
        if what == "reduce_scatter":
            blocks = [total[rank * rows : (rank + 1) * rows] for rank in range(world)]
        expected.append(blocks)
    first: dict[int, list[torch.Tensor]] = {}
    with load(program, groups(world)) as loaded:
        for call in range(CALLS):
            which = call % len(inputs)
            outputs = [out.clone() for out in loaded(a=inputs[which], b=weights)]
            for out, right in zip(outputs, expected[which], strict=True):
                error = ((out.float() - right).norm() / right.norm()).item()
                assert error < 1e-2, f"call {call}"
            for out, before in zip(outputs, first.setdefault(which, outputs), strict=True):
                assert torch.equal(out, before), f"call {call} gives other bits"
        loaded.synchronize()
