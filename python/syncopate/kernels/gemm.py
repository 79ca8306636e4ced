# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""A persistent GEMM on host TMA descriptors: C[M, N] = A · B, with both operands in either layout."""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.epilogue import finish_accumulator
from syncopate.kernels.parts import load_parts, part_steps, store_part, whole_tiles

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


@triton.jit
def _multiply(
    a_desc,
    b_desc,
    m,
    n,
    first,
    end,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    TRANSPOSE_A: tl.constexpr,
    TRANSPOSE_B: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Returns the sum of the products of the blocks from step ``first`` to before ``end`` of a tile's K loop."""
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(first, end):
        k = step * BLOCK_K
        a = a_desc.load([k, m * BLOCK_M]).T if TRANSPOSE_A else a_desc.load([m * BLOCK_M, k])
        b = b_desc.load([k, n * BLOCK_N]) if TRANSPOSE_B else b_desc.load([n * BLOCK_N, k]).T
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    return accumulator


@triton.jit
def _store(accumulator, c_desc, bias_ptr, m, n, N, ACTIVATION: tl.constexpr):
    BLOCK_M: tl.constexpr = accumulator.shape[0]
    BLOCK_N: tl.constexpr = accumulator.shape[1]
    columns = n * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = finish_accumulator(accumulator, bias_ptr, columns, N, ACTIVATION)
    c_desc.store([m * BLOCK_M, n * BLOCK_N], accumulator.to(c_desc.dtype))


@triton.jit(do_not_specialize=["M", "K", "parts"])
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
    SPLIT: tl.constexpr = False,
    work_ptr=None,
    counters_ptr=None,
    parts=1,
):
    """Computes C = A · B, accumulating in float32, in a loop over output tiles on NUM_SMS programs.

    ``a_desc`` describes A as [M, K] in blocks of [BLOCK_M, BLOCK_K], or, with TRANSPOSE_A, as [K, M] in blocks of
    [BLOCK_K, BLOCK_M]; ``b_desc`` describes B as [N, K] in blocks of [BLOCK_N, BLOCK_K], or, with TRANSPOSE_B, as
    [K, N] in blocks of [BLOCK_K, BLOCK_N]; ``c_desc`` describes C[M, N] in blocks of [BLOCK_M, BLOCK_N]. Blocks need
    not divide M, N or K. See `finish_accumulator` for ``bias_ptr`` and ACTIVATION; PRECISION is how float32 operands
    are multiplied, ``input_precision`` of Triton's dot.

    With SPLIT, each of the tiles that are left when all programs have computed equally many is computed by ``parts``
    programs, of which there have to be as many; 1 lets each be computed by one. Several need ``work_ptr``, memory for
    [NUM_SMS, BLOCK_M, BLOCK_N] of float32, and ``counters_ptr``, NUM_SMS of i32 that are 0, and stay so.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    whole = whole_tiles(tiles_m * tiles_n, NUM_SMS, parts)
    for t in tl.range(tl.program_id(0), whole, NUM_SMS, flatten=True):
        m, n = tile_coordinates(t, tiles_m, tiles_n, GROUP_M)
        m, n, _ = sy.tile(t, m, n)
        accumulator = _multiply(
            a_desc, b_desc, m, n, 0, steps, BLOCK_M, BLOCK_N, BLOCK_K, TRANSPOSE_A, TRANSPOSE_B, PRECISION
        )  # fmt: skip
        _store(accumulator, c_desc, bias_ptr, m, n, N, ACTIVATION)
    if SPLIT:
        slot = tl.program_id(0)
        end = whole + (tiles_m * tiles_n - whole) * parts
        for t in tl.range(whole + slot, end, NUM_SMS):
            m, n = tile_coordinates(whole + slot // parts, tiles_m, tiles_n, GROUP_M)
            m, n, part, _ = sy.tile(t, m, n, slot % parts)
            first, last = part_steps(part, steps, parts)
            accumulator = _multiply(
                a_desc, b_desc, m, n, first, last, BLOCK_M, BLOCK_N, BLOCK_K, TRANSPOSE_A, TRANSPOSE_B, PRECISION
            )  # fmt: skip
            store_part(work_ptr, slot, accumulator)
            if sy.last_part(counters_ptr + slot // parts, parts):
                accumulator = load_parts(work_ptr, slot // parts * parts, parts, BLOCK_M, BLOCK_N)
                _store(accumulator, c_desc, bias_ptr, m, n, N, ACTIVATION)
