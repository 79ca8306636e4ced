"""Roles on TMA that add at the destination, and that forward what other roles have brought."""

import numpy as np
import pytest
from faults_tma import COMMANDS
from fused_edits import drop, kernel
from sim_compile import compile_program
from sim_faults import find
from sim_programs import SMALL
from sim_table import LDST, RING_PULL, TMA_COLOCATED, Case

import syncopate
from syncopate import Strategy
from syncopate.compiler.binding import Tensor
from syncopate.kernels import bind_gemm, gemm
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate


def reduce_scatter(realization, algorithm, world, dtype, shape):
    """C = sum of all ranks' A Bᵀ, of which each rank gets a block of rows."""
    m, n, k = shape
    plan = syncopate.Plan("gemm_rs", [world])
    c = plan.buffer("c", (m, n), dtype)
    done = [plan.produce(c[0:m, 0:n], rank=rank) for rank in range(world)]
    plan.reduce_scatter(c, after=done)
    rows = m // world
    for rank in range(world):
        plan.output(c[rank * rows : (rank + 1) * rows, 0:n], rank=rank)
    bind = bind_gemm(Tensor("a", (m, k), "bf16"), n, SMALL, c=c)
    way, direction = algorithm.split()
    strategy = Strategy(way, direction, realization)
    return compile_program(gemm, plan, **bind, strategy=strategy, target="sm_90")


def scatter_error(result, rows):
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        parts = [
            a.astype(np.float64) @ b.astype(np.float64).T
            for a, b in zip(inputs["a"], inputs["b"], strict=True)
        ]
        expected = np.sum(parts, axis=0)
        for rank, block in enumerate(outputs["c"]):
            difference = block - expected[rank * rows : (rank + 1) * rows]
            worst = float(np.maximum(worst, np.abs(difference).max() / np.abs(expected).max()))
    return worst


@pytest.mark.parametrize(
    ("realization", "algorithm", "world", "dtype", "shape", "tolerance"),
    [
        ("tma_colocated", "direct push", 2, "f32", (128, 64, 64), 1e-6),
        ("tma_colocated", "direct pull", 3, "bf16", (192, 72, 64), 2e-2),
        ("tma_dedicated", "ring push", 3, "f16", (198, 64, 72), 3e-3),
        ("tma_dedicated", "direct push", 4, "bf16", (256, 64, 64), 2e-2),
    ],
)
def test_sums_are_added_at_the_destination(realization, algorithm, world, dtype, shape, tolerance):
    program = reduce_scatter(realization, algorithm, world, dtype, shape)
    assert "async_tma_reduce" in program.ir["fused"]
    for seed in range(4):
        result = simulate(program, calls=2, seed=seed)
        assert result.verdict.ok, str(result.verdict)
        assert scatter_error(result, shape[0] // world) < tolerance


def test_what_others_have_stored_is_fenced_before_tma_forwards_it():
    """Every rank of one parity forwards by TMA what the one before has fetched with loads and stores."""
    case = Case(mix=(TMA_COLOCATED, LDST), algorithm=RING_PULL, world=4, shape=(256, 64, 128))
    program = case.build()
    fence = r"tt\.elementwise_inline_asm"
    broken = kernel(drop(fence, COMMANDS, innermost="fence_tma"))(program)
    assert find(program, set(Kind)) is None
    finding = find(broken, {Kind.RACE})
    assert finding is not None
    assert "reads through TMA" in finding.message


@pytest.mark.parametrize("realization", ["tma_colocated", "tma_dedicated"])
@pytest.mark.parametrize(("algorithm", "columns"), [("direct push", 136), ("ring pull", 680)])
def test_columns_are_rows_with_a_stride(realization, algorithm, columns):
    """Rows of a shard are neither consecutive nor, if they are long, one block wide."""
    world, m, n = 3, 70, 64
    plan = syncopate.Plan("gather_columns", [world])
    a = plan.buffer("a", (m, world * columns), "bf16", shard_axis=1)
    plan.all_gather(a, axis=1)
    program = compile_program(
        gemm,
        plan,
        **bind_gemm(a, n, SMALL),
        strategy=Strategy(*algorithm.split(), realization),
        target="sm_90",
    )
    for seed in range(3):
        result = simulate(program, calls=2, seed=seed)
        assert result.verdict.ok, str(result.verdict)
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            gathered = np.concatenate(inputs["a"], axis=1).astype(np.float64)
            for b, c in zip(inputs["b"], outputs["c"], strict=True):
                expected = gathered @ b.T.astype(np.float64)
                assert np.abs(c - expected).max() <= 5e-3 * np.abs(expected).max()
