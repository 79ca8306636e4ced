"""Small programs for the simulator's tests, compiled once each."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from mixed_plans import gather_by
from sim_compile import compile_program

import syncopate
from syncopate.kernels import GemmConfig, gemm, gemm_pointers
from syncopate.kernels.bind import bind_gemm, bind_gemm_pointers
from syncopate.sim.simulate import Result

SMALL = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)


@functools.cache
def ag_gemm(
    realization: str = "ldst_colocated",
    algorithm: str = "direct push",
    world: int = 2,
    shape: tuple[int, int, int] = (128, 128, 128),
    *,
    dtype: str = "bf16",
    out_dtype: str | None = None,
    splits: int = 1,
    order: str = "arrival",
    config: GemmConfig = SMALL,
    pointers: bool = False,
    target: str = "sm_90",
    mix: tuple[str, ...] = (),
    comm_ctas: int = 2,
) -> Any:
    """C = gather(A) Bᵀ; the algorithm comes with its direction.

    The transfers take their realization from `mix` in turn, if there is one.
    """
    m, n, k = shape
    plan = syncopate.Plan("ag_gemm", [world])
    a = plan.buffer("a", (m, k), dtype, shard_axis=0)
    if mix:
        gather_by(plan, a, algorithm, mix)
    else:
        plan.all_gather(a)
    bind = (bind_gemm_pointers if pointers else bind_gemm)(a, n, config, out_dtype=out_dtype)
    way, direction = algorithm.split()
    strategy = syncopate.Strategy(way, direction, realization, splits, order, comm_ctas=comm_ctas)
    kernel = gemm_pointers if pointers else gemm
    return compile_program(kernel, plan, **bind, strategy=strategy, target=target)


def largest_error(result: Result) -> float:
    """Of C = gather(A) Bᵀ, relative to the largest element."""
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        gathered = np.concatenate(inputs["a"]).astype(np.float64)
        for b, c in zip(inputs["b"], outputs["c"], strict=True):
            expected = gathered @ b.T.astype(np.float64)
            worst = float(np.maximum(worst, np.abs(c - expected).max() / np.abs(expected).max()))
    return worst


def with_fused(program: Any, text: str) -> Any:
    """The program with another fused kernel."""
    return dataclasses.replace(program, ir={**program.ir, "fused": text})
