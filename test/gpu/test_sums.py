"""Programs whose tiles compute parts of a sum, on several ranks of one GPU: many calls in a row, the same bits."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from workloads import random_matrix

import syncopate
from syncopate.choices import Combine, Shots
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

TEMPLATES = {
    "reduce_scatter": (reduce_scatter_tiles, None),
    "all_reduce": (all_reduce_tiles, Shots.TWO),
    "all_reduce_once": (all_reduce_tiles, Shots.ONE),
}
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
    ("all_reduce", Combine.ROLE, "push", "tma_dedicated", "ldst_dedicated"),
    ("all_reduce_once", Combine.ROLE, "push", "ldst_colocated", "ldst_colocated"),
    ("all_reduce_once", Combine.ROLE, "push", "copy_engine", "ldst_colocated"),
    ("all_reduce_once", Combine.ROLE, "pull", "ldst_dedicated", "ldst_dedicated"),
    ("all_reduce_once", Combine.ROLE, "pull", "tma_colocated", "ldst_colocated"),
    ("reduce_scatter", Combine.DESTINATION, "push", "ldst_colocated", None),
    ("reduce_scatter", Combine.DESTINATION, "push", "ldst_dedicated", None),
    ("reduce_scatter", Combine.DESTINATION, "push", "tma_colocated", None),
    ("reduce_scatter", Combine.DESTINATION, "push", "tma_dedicated", None),
    ("all_reduce", Combine.DESTINATION, "push", "ldst_colocated", None),
]
CALLS = 40


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize(("what", "combine", "direction", "realization", "reducing"), CASES)
def test_sums_are_right_and_repeat(groups, world, what, combine, direction, realization, reducing):
    m, n, k = 256 * world, 512, 256
    plan = syncopate.Plan("sum", [world])
    parts = plan.buffer("c", (m, n), "bf16")
    template, shots = TEMPLATES[what]
    strategy = syncopate.Strategy(
        direction=direction,
        realization=realization,
        splits=2,
        comm_ctas=16 // world,
        combine=combine,
        shots=shots,
        reducing=reducing,
    )
    template(plan, parts, strategy)
    config = GemmConfig(block_n=128, num_ctas=96 // world)
    program = syncopate.compile(
        gemm,
        plan,
        **bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=parts),
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
    # Additions of two ranks or more may come in any order.
    repeats = combine is not Combine.DESTINATION or world == 2
    first: dict[int, list[torch.Tensor]] = {}
    with load(program, groups(world)) as loaded:
        for call in range(CALLS):
            which = call % len(inputs)
            outputs = [out.clone() for out in loaded(a=inputs[which], b=weights)]
            for out, right in zip(outputs, expected[which], strict=True):
                error = ((out.float() - right).norm() / right.norm()).item()
                assert error < 1e-2, f"call {call}"
            for out, before in zip(outputs, first.setdefault(which, outputs), strict=True):
                assert not repeats or torch.equal(out, before), f"call {call} gives other bits"
            if what != "reduce_scatter":
                assert all(torch.equal(out, outputs[0]) for out in outputs), "ranks differ"
        loaded.synchronize()


@pytest.mark.parametrize("what", ["reduce_scatter", "all_reduce_once"])
def test_sum_of_eight_parts_is_rounded_once(groups, what):
    """Every part is a number of bf16 and every sum one of float32, so nothing but the end can be rounded."""
    world, m, n, k = 8, 1000, 256, 64
    plan = syncopate.Plan("sum", [world])
    parts = plan.buffer("c", (m, n), "bf16")
    template, shots = TEMPLATES[what]
    template(plan, parts, syncopate.Strategy(combine=Combine.ROLE, shots=shots))
    config = GemmConfig(block_n=128, num_ctas=12)
    program = syncopate.compile(
        gemm,
        plan,
        **bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=parts),
        timeout=10.0,
    )
    a = [torch.zeros(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(world)]
    for block in a:
        block[:, 0] = torch.randint(-255, 256, (m,), device="cuda").to(torch.bfloat16)
    b = [
        torch.exp2(torch.randint(-4, 5, (n, k), device="cuda").float()).to(torch.bfloat16)
        for _ in range(world)
    ]
    total = sum(x.double() @ y.double().T for x, y in zip(a, b, strict=True))
    with load(program, groups(world)) as loaded:
        outputs = [out.clone() for out in loaded(a=a, b=b)]
        loaded.synchronize()
    found = torch.cat(outputs) if what == "reduce_scatter" else outputs[0]
    half_step = torch.ldexp(torch.full_like(total, 0.5), torch.frexp(total).exponent - 8)
    assert bool(((found.double() - total).abs() <= half_step).all())
