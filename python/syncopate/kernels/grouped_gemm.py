# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A persistent GEMM of rows that are gathered, block by block with the weights of one expert.

Which rows and which expert a block of rows has is read from tables in device memory, so one kernel serves every
routing.
"""

import triton
import triton.language as tl

import syncopate.language as sy

__all__ = ["grouped_gemm"]


@triton.jit(do_not_specialize=["M", "K"])
def grouped_gemm(
    x_ptr,
    rows_ptr,
    experts_ptr,
    used_ptr,
    b_desc,
    c_desc,
    M,
    N,
    K,
    stride_x,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes C[i] = X[rows[i]] · B[experts[i // BLOCK_M]]ᵀ, accumulating in float32, on NUM_SMS programs.

    ``x_ptr`` leads to rows of K elements that are ``stride_x`` elements apart, ``rows_ptr`` to M i32, of which one
    below zero stands for a row of zeros, ``experts_ptr`` to an i32 for each block, and ``used_ptr`` to an i32: how many
    blocks are computed; the others stay as they are. ``b_desc`` describes B[experts · N, K] in blocks of [BLOCK_N,
    BLOCK_K], and ``c_desc`` C[M, N] in blocks of [BLOCK_M, BLOCK_N]. BLOCK_M divides M; blocks need not divide N or K.
    """
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.minimum(tl.cdiv(M, BLOCK_M) * tiles_n, tl.load(used_ptr) * tiles_n)
    for t in tl.range(tl.program_id(0), tiles, NUM_SMS, flatten=True):
        # Blocks that are used come first, and their tiles do as well.
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        expert = tl.load(experts_ptr + m)
        rows = tl.load(rows_ptr + m * BLOCK_M + tl.arange(0, BLOCK_M))
        x_rows = x_ptr + rows.to(tl.int64)[:, None] * stride_x
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            mask = (rows >= 0)[:, None] & (k < K)[None, :]
            x = tl.load(x_rows + k[None, :], mask=mask, other=0.0)
            # The last block of an expert may run on into the next one, in columns that C does not have.
            b = b_desc.load([expert * N + n * BLOCK_N, step * BLOCK_K])
            accumulator = tl.dot(x, b.T, accumulator)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], accumulator.to(c_desc.dtype))
