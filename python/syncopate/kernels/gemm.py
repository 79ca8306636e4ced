# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A persistent GEMM on host TMA descriptors: C[M, N] = A · B, with both operands in either layout."""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.epilogue import finish_accumulator

__all__ = ["gemm", "tile_coordinates"]


@triton.jit
def tile_coordinates(t, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Returns the (m, n) of the ``t``-th tile when GROUP_M rows of tiles are walked together, column by column."""
    group_size = GROUP_M * tiles_n
    first_m = (t // group_size) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    m = first_m + (t % group_size) % rows
    n = (t % group_size) // rows
    return m, n


@triton.jit(do_not_specialize=["M", "K"])
def gemm(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    NUM_SMS: tl.constexpr,
    bias_ptr=None,
    TRANSPOSE_A: tl.constexpr = False,
    TRANSPOSE_B: tl.constexpr = False,
    ACTIVATION: tl.constexpr = None,
    PRECISION: tl.constexpr = "tf32",
):
    """Computes C = A · B, accumulating in float32, in a loop over output tiles on NUM_SMS programs.

    ``a_desc`` describes A as [M, K] in blocks of [BLOCK_M, BLOCK_K], or, with TRANSPOSE_A, as [K, M] in blocks of
    [BLOCK_K, BLOCK_M]; ``b_desc`` describes B as [N, K] in blocks of [BLOCK_N, BLOCK_K], or, with TRANSPOSE_B, as
    [K, N] in blocks of [BLOCK_K, BLOCK_N]; ``c_desc`` describes C[M, N] in blocks of [BLOCK_M, BLOCK_N]. Blocks need
    not divide M, N or K. See `finish_accumulator` for ``bias_ptr`` and ACTIVATION; PRECISION is how float32 operands
    are multiplied, ``input_precision`` of Triton's dot.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for t in tl.range(tl.program_id(0), tiles_m * tiles_n, NUM_SMS, flatten=True):
        m, n = tile_coordinates(t, tiles_m, tiles_n, GROUP_M)
        m, n, _ = sy.tile(t, m, n)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(steps):
            if TRANSPOSE_A:
                a = a_desc.load([step * BLOCK_K, m * BLOCK_M]).T
            else:
                a = a_desc.load([m * BLOCK_M, step * BLOCK_K])
            if TRANSPOSE_B:
                b = b_desc.load([step * BLOCK_K, n * BLOCK_N])
            else:
                b = b_desc.load([n * BLOCK_N, step * BLOCK_K]).T
            accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
        accumulator = finish_accumulator(accumulator, bias_ptr, columns, N, ACTIVATION)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], accumulator.to(c_desc.dtype))
