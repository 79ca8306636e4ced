# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A persistent GEMM on plain pointers, for rows that TMA cannot address: C[M, N] = A · B, operands in either layout.

TMA needs rows that are a multiple of 16 bytes apart; here nothing has to be a multiple of anything.
"""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.epilogue import finish_accumulator
from syncopate.kernels.gemm import tile_coordinates
from syncopate.kernels.parts import load_parts, part_steps, store_part, whole_tiles

__all__ = ["gemm_pointers"]


@triton.jit
def load_block(ptr, rows, columns, stride, ROWS, COLUMNS):
    """Loads the elements at ``rows`` and ``columns`` of a [ROWS, COLUMNS] matrix, zero outside of it."""
    mask = (rows[:, None] < ROWS) & (columns[None, :] < COLUMNS)
    return tl.load(
        ptr + rows.to(tl.int64)[:, None] * stride + columns[None, :], mask=mask, other=0.0
    )


@triton.jit
def _multiply(
    a_ptr,
    b_ptr,
    rows_m,
    rows_n,
    first,
    end,
    M,
    N,
    K,
    stride_a,
    stride_b,
    BLOCK_K: tl.constexpr,
    TRANSPOSE_A: tl.constexpr,
    TRANSPOSE_B: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Returns the sum of the products of the blocks from step ``first`` to before ``end`` of a tile's K loop."""
    accumulator = tl.zeros((rows_m.shape[0], rows_n.shape[0]), tl.float32)
    for step in range(first, end):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        if TRANSPOSE_A:
            a = load_block(a_ptr, k, rows_m, stride_a, K, M).T
        else:
            a = load_block(a_ptr, rows_m, k, stride_a, M, K)
        if TRANSPOSE_B:
            b = load_block(b_ptr, k, rows_n, stride_b, K, N)
        else:
            b = load_block(b_ptr, rows_n, k, stride_b, N, K).T
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    return accumulator


@triton.jit
def _store(accumulator, c_ptr, bias_ptr, rows_m, rows_n, M, N, stride_c, ACTIVATION: tl.constexpr):
    accumulator = finish_accumulator(accumulator, bias_ptr, rows_n, N, ACTIVATION)
    c = c_ptr + rows_m.to(tl.int64)[:, None] * stride_c + rows_n[None, :]
    mask = (rows_m[:, None] < M) & (rows_n[None, :] < N)
    tl.store(c, accumulator.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["parts"])
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
    bias_ptr=None,
    TRANSPOSE_A: tl.constexpr = False,
    TRANSPOSE_B: tl.constexpr = False,
    ACTIVATION: tl.constexpr = None,
    PRECISION: tl.constexpr = "tf32",
    SPLIT: tl.constexpr = False,
    work_ptr=None,
    counters_ptr=None,
    parts=1,
):
    """Computes C = A · B, accumulating in float32, in a loop over output tiles on NUM_SMS programs.

    The pointers lead to A as [M, K] or, with TRANSPOSE_A, [K, M], to B as [N, K] or, with TRANSPOSE_B, [K, N], and to
    C[M, N], whose rows are ``stride_a``, ``stride_b`` and ``stride_c`` elements apart and contiguous. Blocks need not
    divide M, N or K. The rest is as in `gemm`.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    whole = whole_tiles(tiles_m * tiles_n, NUM_SMS, parts)
    for t in tl.range(tl.program_id(0), whole, NUM_SMS, flatten=True):
        m, n = tile_coordinates(t, tiles_m, tiles_n, GROUP_M)
        m, n, _ = sy.tile(t, m, n)
        rows_m = m * BLOCK_M + tl.arange(0, BLOCK_M)
        rows_n = n * BLOCK_N + tl.arange(0, BLOCK_N)
        accumulator = _multiply(
            a_ptr, b_ptr, rows_m, rows_n, 0, steps, M, N, K, stride_a, stride_b,
            BLOCK_K, TRANSPOSE_A, TRANSPOSE_B, PRECISION,
        )  # fmt: skip
        _store(accumulator, c_ptr, bias_ptr, rows_m, rows_n, M, N, stride_c, ACTIVATION)
    if SPLIT:
        slot = tl.program_id(0)
        end = whole + (tiles_m * tiles_n - whole) * parts
        for t in tl.range(whole + slot, end, NUM_SMS):
            m, n = tile_coordinates(whole + slot // parts, tiles_m, tiles_n, GROUP_M)
            m, n, part, _ = sy.tile(t, m, n, slot % parts)
            first, last = part_steps(part, steps, parts)
            rows_m = m * BLOCK_M + tl.arange(0, BLOCK_M)
            rows_n = n * BLOCK_N + tl.arange(0, BLOCK_N)
            accumulator = _multiply(
                a_ptr, b_ptr, rows_m, rows_n, first, last, M, N, K, stride_a, stride_b,
                BLOCK_K, TRANSPOSE_A, TRANSPOSE_B, PRECISION,
            )  # fmt: skip
            store_part(work_ptr, slot, accumulator)
            if sy.last_part(counters_ptr + slot // parts, parts):
                accumulator = load_parts(work_ptr, slot // parts * parts, parts, BLOCK_M, BLOCK_N)
                _store(accumulator, c_ptr, bias_ptr, rows_m, rows_n, M, N, stride_c, ACTIVATION)
