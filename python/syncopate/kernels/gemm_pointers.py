# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A persistent GEMM on plain pointers, for rows that TMA cannot address: C[M, N] = A[M, K] · B[N, K]ᵀ.

TMA needs rows that are a multiple of 16 bytes apart; here nothing has to be a multiple of anything.
"""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.gemm import tile_coordinates

__all__ = ["gemm_pointers"]


@triton.jit
def gemm_pointers(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_a,
    stride_b,
    stride_c,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes C = A Bᵀ, accumulating in float32, in a loop over output tiles on NUM_SMS programs.

    The pointers lead to A[M, K], B[N, K] and C[M, N], whose rows are ``stride_a``, ``stride_b`` and ``stride_c``
    elements apart and contiguous. Blocks need not divide M, N or K.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for t in tl.range(tl.program_id(0), tiles_m * tiles_n, NUM_SMS, flatten=True):
        m, n = tile_coordinates(t, tiles_m, tiles_n, GROUP_M)
        m, n, _ = sy.tile(t, m, n)
        rows_m = m * BLOCK_M + tl.arange(0, BLOCK_M)
        rows_n = n * BLOCK_N + tl.arange(0, BLOCK_N)
        a_rows = a_ptr + rows_m.to(tl.int64)[:, None] * stride_a
        b_rows = b_ptr + rows_n.to(tl.int64)[:, None] * stride_b
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(steps):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            a = tl.load(
                a_rows + k[None, :], mask=(rows_m[:, None] < M) & (k[None, :] < K), other=0.0
            )
            b = tl.load(
                b_rows + k[None, :], mask=(rows_n[:, None] < N) & (k[None, :] < K), other=0.0
            )
            accumulator = tl.dot(a, b.T, accumulator)
        c = c_ptr + rows_m.to(tl.int64)[:, None] * stride_c + rows_n[None, :]
        mask = (rows_m[:, None] < M) & (rows_n[None, :] < N)
        tl.store(c, accumulator.to(c_ptr.dtype.element_ty), mask=mask)
