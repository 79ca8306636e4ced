"""Programs whose tiles walk steps: a GEMM that gathers A along K, and waits inside its loop over K."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl
from sim_compile import compile_program

import syncopate
import syncopate.language as sy
from syncopate.sim.simulate import Result

__all__ = ["build_gemm", "gemm_along_k", "gemm_error"]


@triton.jit(do_not_specialize=["M", "K"])
def gemm_along_k(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CTAS: tl.constexpr,
    FLATTEN: tl.constexpr = False,
):
    """C[M, N] = A[M, K] · B[N, K]ᵀ; blocks of K in any order."""
    tiles_n = tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, CTAS, flatten=FLATTEN):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        begin, end = sy.steps(0, tl.cdiv(K, BK))
        acc = tl.zeros((BM, BN), tl.float32)
        for i in tl.range(begin, end):
            k = sy.step(i)
            a = a_desc.load([m * BM, k * BK])
            b = b_desc.load([n * BN, k * BK])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([m * BM, n * BN], acc.to(c_desc.dtype))


def build_gemm(
    world: int,
    shape: tuple[int, int, int],
    strategy: syncopate.Strategy,
    *,
    ctas: int = 3,
    stages: int = 3,
    block: tuple[int, int, int] = (64, 64, 32),
    flatten: bool = False,
    **options: Any,
) -> Any:
    """C = gather(A) · Bᵀ, where each rank holds some columns of A."""
    m, n, k = shape
    plan = syncopate.Plan("ag_along_k", [world])
    a = plan.buffer("a", (m, k), "f16", shard_axis=1)
    plan.all_gather(a, axis=1)
    bm, bn, bk = block
    bind = {
        "a_desc": syncopate.Descriptor(a, (bm, bk)),
        "b_desc": syncopate.Descriptor(syncopate.Tensor("b", (n, k), "f16"), (bn, bk)),
        "c_desc": syncopate.Descriptor(syncopate.Tensor("c", (m, n), "f16", output=True), (bm, bn)),
        "M": m,
        "N": n,
        "K": k,
        "BM": bm,
        "BN": bn,
        "BK": bk,
        "CTAS": syncopate.Ctas(),
    }
    return compile_program(
        gemm_along_k,
        plan,
        bind=bind,
        tiles=(-(-m // bm), -(-n // bn)),
        ctas=ctas,
        strategy=strategy,
        options={"num_warps": 4, "num_stages": stages},
        **options,
    )


def gemm_error(result: Result) -> float:
    """The largest difference from a float64 reference."""
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a = np.concatenate(inputs["a"], axis=1).astype(np.float64)
        for b, c in zip(inputs["b"], outputs["c"], strict=True):
            expected = a @ b.astype(np.float64).T
            worst = float(np.maximum(worst, np.abs(c - expected).max()))
    return worst
