# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Weighted sums of rows that are gathered: what a rank's experts have computed for each token."""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.gemm import tile_coordinates

__all__ = ["combine_rows"]


@triton.jit(do_not_specialize=["M"])
def combine_rows(
    y_ptr,
    places_ptr,
    weights_ptr,
    c_desc,
    M,
    N,
    stride_y,
    TOP_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes C[i] = Σ weights[i, k] · Y[places[i, k]] over k, in float32, on NUM_SMS programs.

    ``y_ptr`` leads to rows of N elements that are ``stride_y`` elements apart, ``places_ptr`` to i32 [M, TOP_K], of
    which one below zero adds nothing, and ``weights_ptr`` to f32 [M, TOP_K]. ``c_desc`` describes C[M, N] in blocks of
    [BLOCK_M, BLOCK_N], which need not divide M or N.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for t in tl.range(tl.program_id(0), tiles_m * tiles_n, NUM_SMS):
        m, n = tile_coordinates(t, tiles_m, tiles_n, GROUP_M)
        m, n, _ = sy.tile(t, m, n)
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in tl.static_range(TOP_K):
            place = tl.load(places_ptr + rows * TOP_K + k, mask=rows < M, other=-1)
            weight = tl.load(weights_ptr + rows * TOP_K + k, mask=place >= 0, other=0.0)
            mask = (place >= 0)[:, None] & (columns < N)[None, :]
            y_rows = y_ptr + place.to(tl.int64)[:, None] * stride_y
            y = tl.load(y_rows + columns[None, :], mask=mask, other=0.0)
            total += weight[:, None] * y.to(tl.float32)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], total.to(c_desc.dtype))
