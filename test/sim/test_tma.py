"""Roles on TMA beyond all-gathers: sums at the destination, and several realizations in one plan."""

import numpy as np
import pytest
from sim_programs import SMALL

import syncopate
from syncopate import Strategy
from syncopate.compiler.binding import Tensor
from syncopate.kernels import bind_gemm, gemm
from syncopate.sim.simulate import simulate

ROLES = ("tma_colocated", "tma_dedicated", "ldst_colocated", "ldst_dedicated")


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
    strategy = Strategy(algorithm=algorithm, realization=realization)
    return syncopate.compile(gemm, plan, **bind, strategy=strategy, target="sm_90")


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
            worst = max(worst, float(np.abs(difference).max() / np.abs(expected).max()))
    return worst


@pytest.mark.parametrize(
    ("realization", "algorithm", "world", "dtype", "shape", "tolerance"),
    [
        ("tma_colocated", "direct_push", 2, "f32", (128, 64, 64), 1e-6),
        ("tma_colocated", "direct_pull", 3, "bf16", (192, 72, 64), 2e-2),
        ("tma_dedicated", "ring_push", 3, "f16", (198, 64, 72), 3e-3),
        ("tma_dedicated", "direct_push", 4, "bf16", (256, 64, 64), 2e-2),
    ],
)
def test_sums_are_added_at_the_destination(realization, algorithm, world, dtype, shape, tolerance):
    program = reduce_scatter(realization, algorithm, world, dtype, shape)
    assert "async_tma_reduce" in program.ir["fused"]
    for seed in range(4):
        result = simulate(program, calls=2, seed=seed)
        assert result.verdict.ok, str(result.verdict)
        assert scatter_error(result, shape[0] // world) < tolerance


def gather_by(realizations, algorithm, shape=(192, 64, 136)):
    """An all-gather of which every transfer names its realization, in turn."""
    world, (m, n, k) = 3, shape
    rows = m // world
    plan = syncopate.Plan("mixed", [world])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    move = plan.put if algorithm == "push" else plan.get
    pairs = [(src, dst) for src in range(world) for dst in range(world) if src != dst]
    for number, (src, dst) in enumerate(pairs):
        block = a[src * rows : (src + 1) * rows, 0:k]
        realization = realizations[number % len(realizations)]
        move(block, block, src_rank=src, dst_rank=dst, realization=realization)
    return syncopate.compile(gemm, plan, **bind_gemm(a, n, SMALL), target="sm_90")


@pytest.mark.parametrize("algorithm", ["push", "pull"])
@pytest.mark.parametrize(
    "realizations",
    [
        ROLES,
        ("tma_colocated", "copy_engine"),
        ("ldst_colocated", "tma_colocated"),
        ("tma_dedicated", "ldst_dedicated"),
        ("tma_dedicated", "tma_colocated", "copy_engine"),
    ],
    ids="+".join,
)
def test_several_realizations_in_one_plan(realizations, algorithm):
    program = gather_by(realizations, algorithm)
    for seed in range(3):
        result = simulate(program, calls=2, seed=seed)
        assert result.verdict.ok, str(result.verdict)
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            gathered = np.concatenate(inputs["a"]).astype(np.float64)
            for b, c in zip(inputs["b"], outputs["c"], strict=True):
                expected = gathered @ b.T.astype(np.float64)
                assert np.abs(c - expected).max() <= 5e-3 * np.abs(expected).max()
