"""A kernel that knows nothing of Syncopate's own kernels, annotated for fusion.

It differs from an ordinary persistent GEMM in one line, the call of `sy.tile`, and
still runs under plain Triton, where that call changes nothing. It takes pointers
instead of descriptors, walks its tiles row by row, and ends in a bias and a ReLU.
"""

import triton
import triton.language as tl

import syncopate.language as sy


@triton.jit
def biased_gemm(
    x,
    w,
    bias,
    y,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Y[M, N] = relu(X[M, K] · W[N, K]ᵀ + bias[N])."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tiles_n, NUM_SMS, flatten=True):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = n * BLOCK_N + tl.arange(0, BLOCK_N)
        steps = tl.arange(0, BLOCK_K)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            inside = k + steps < K
            a_ok = (rows[:, None] < M) & inside[None, :]
            b_ok = (cols[None, :] < N) & inside[:, None]
            a = tl.load(x + rows[:, None] * K + (k + steps)[None, :], a_ok, 0.0)
            b = tl.load(w + cols[None, :] * K + (k + steps)[:, None], b_ok, 0.0)
            total = tl.dot(a, b, total)
        total += tl.load(bias + cols, cols < N, 0.0)[None, :]
        keep = (rows[:, None] < M) & (cols[None, :] < N)
        where = y + rows[:, None] * N + cols[None, :]
        tl.store(where, tl.maximum(total, 0.0).to(y.dtype.element_ty), keep)
