"""Residual addition and RMSNorm between the two halves of an all-reduce, against float64."""

import numpy as np
import pytest
from sim_compile import compile_program
from sim_table import options_of

import syncopate
from syncopate.errors import PlanError
from syncopate.kernels import GemmConfig, add_rms_norm, bind_add_rms_norm, bind_gemm, gemm
from syncopate.plan.templates import all_gather_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import simulate

EPSILON = 1e-5
SMALL = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)


def norm_program(world, rows, n, *, total=None, block_m=1, realization="ldst_colocated", **choices):
    plan = syncopate.Plan("norm", [world])
    own = plan.buffer("own", (rows, n), "bf16")
    y = plan.buffer("y", (total or world * rows, n), "bf16")
    strategy = syncopate.Strategy(realization=realization, comm_ctas=2, **choices)
    all_gather_tiles(plan, own, y, strategy)
    bind = bind_add_rms_norm(own, epsilon=EPSILON, block_m=block_m, num_warps=4, num_ctas=2)
    return compile_program(add_rms_norm, plan, **bind)


def expect(blocks, residuals, weight):
    total = np.concatenate(blocks).astype(np.float64) + np.concatenate(residuals)
    scale = 1 / np.sqrt(np.square(total).mean(1, keepdims=True) + EPSILON)
    return total, total * scale * weight


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    ("realization", "direction", "block_m", "rows", "n"),
    [
        ("ldst_colocated", "push", 1, 7, 96),
        ("ldst_colocated", "pull", 2, 5, 200),
        ("ldst_dedicated", "push", 4, 6, 64),
        ("copy_engine", "push", 1, 6, 128),
        ("copy_engine", "pull", 2, 3, 40),
        ("tma_colocated", "pull", 1, 5, 72),
    ],
)
def test_rows_are_normalized_and_gathered(world, realization, direction, block_m, rows, n):
    program = norm_program(
        world, rows, n, block_m=block_m, realization=realization, direction=direction, splits=2
    )
    for seed in range(2):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            for rank in range(world):
                total, y = expect(inputs["x"], inputs["residual"], 1)
                weights = np.repeat(inputs["weight"], rows, axis=0)  # each rank's own, here
                assert error(outputs["y"][rank], y * weights) < 1e-2
                own = total[rank * rows : (rank + 1) * rows]
                assert error(outputs["sum"][rank], own) < 1e-2


def test_last_block_may_be_shorter():
    program = norm_program(3, 4, 64, total=10)
    result = simulate(program, **options_of(0))
    assert result.verdict.ok, result.verdict
    inputs, outputs = result.inputs[0], result.outputs[0]
    _, y = expect(inputs["x"], inputs["residual"], 1)
    weights = np.repeat(inputs["weight"], 4, axis=0)
    for found in outputs["y"]:
        assert error(found, (y * weights)[:10]) < 1e-2


def test_blocks_of_another_size_are_refused():
    with pytest.raises(
        PlanError, match=r"own: expects 4 rows, those of a block of buffer y, but got 5"
    ):
        norm_program(2, 5, 64, total=8)


@pytest.mark.parametrize("world", [2, 3])
def test_gemm_all_reduce_norm(world):
    m, n, k = 64 * world, 96, 64
    plan = syncopate.Plan("gemm_rs", [world])
    c = plan.buffer("c", (m, n), "bf16")
    reduce_scatter_tiles(plan, c)
    bind = bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, SMALL, c=c)
    first = simulate(compile_program(gemm, plan, **bind))
    assert first.verdict.ok, first.verdict
    draw = np.random.default_rng()
    residual = [draw.standard_normal((64, n), np.float32) for _ in range(world)]
    weight = draw.standard_normal(n, np.float32)
    second = simulate(
        norm_program(world, 64, n),
        {"x": first.outputs[0]["c"], "residual": residual, "weight": [weight] * world},
    )
    assert second.verdict.ok, second.verdict
    pairs = zip(first.inputs[0]["a"], first.inputs[0]["b"], strict=True)
    product = sum(a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs)
    _, expected = expect([product], second.inputs[0]["residual"], second.inputs[0]["weight"][0])
    for found in second.outputs[0]["y"]:
        assert error(found, expected) < 2e-2
