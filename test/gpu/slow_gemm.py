# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A GEMM whose tiles rest as long as they are told to."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

import syncopate
import syncopate.language as sy
from syncopate.kernels import GemmConfig, bind_gemm

__all__ = ["bind_slow_gemm", "slow_gemm"]


@triton.jit
def slow_gemm(
    a_desc,
    b_desc,
    c_desc,
    delays,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes C = A Bᵀ; tile (m, n) rests for that entry of ``delays``, in nanoseconds, before and after its store."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tiles_n, NUM_SMS):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        delay = tl.load(delays + m * tiles_n + n)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m * BLOCK_M, step * BLOCK_K])
            b = b_desc.load([n * BLOCK_N, step * BLOCK_K])
            accumulator = tl.dot(a, b.T, accumulator)
        _rest(delay)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], accumulator.to(c_desc.dtype))
        _rest(delay)


@triton.jit
def _rest(nanoseconds):
    tl.inline_asm_elementwise(
        "nanosleep.u32 $1;\nmov.b32 $0, 0;",
        "=r,r",
        [nanoseconds],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


def bind_slow_gemm(a: Any, n: int, config: GemmConfig, **more: Any) -> dict[str, Any]:
    """Binds `slow_gemm` as `bind_gemm` does `gemm`; a call also takes `delays`, i32, one for each tile."""
    arguments = bind_gemm(a, n, config, **more)
    tiles = arguments["tiles"][0] * arguments["tiles"][1]
    delays = syncopate.Pointer(syncopate.Tensor("delays", (tiles,), "i32"))
    wanted = slow_gemm.arg_names
    bind = {name: value for name, value in arguments["bind"].items() if name in wanted}
    return {**arguments, "bind": {**bind, "delays": delays}}
