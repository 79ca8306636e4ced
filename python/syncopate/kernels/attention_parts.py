# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""What kernels of attention whose tiles are blocks of queries have in common."""

import triton
import triton.language as tl

__all__ = ["find_kept", "find_queries", "store_rows"]


@triton.jit
def find_queries(
    m,
    positions_ptr,
    tiles_ptr,
    SQ,
    SK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    PACKED: tl.constexpr,
):
    """Which queries block m has, and which keys they take; parameters are those of `attention`.

    Returns the first row; all rows; which of them the block has; the first key of its sequence; the last key that each
    row takes, before the first if it takes none; the block of keys behind the last; and the key behind the last that
    all rows take, of those that the block has.
    """
    first_row = m * BLOCK_M
    end_row = SQ
    first_key = 0
    end_key = SK
    if PACKED:
        first_row = tl.load(tiles_ptr + m * 4)
        end_row = tl.load(tiles_ptr + m * 4 + 1)
        first_key = tl.load(tiles_ptr + m * 4 + 2)
        end_key = tl.load(tiles_ptr + m * 4 + 3)
    rows = first_row + tl.arange(0, BLOCK_M)
    inside = rows < end_row
    last = tl.full((BLOCK_M,), 0, tl.int32) + (end_key - 1)
    end = tl.cdiv(end_key, BLOCK_N)
    whole = end_key
    if CAUSAL:
        if positions_ptr is None:
            places = tl.where(inside, rows, -1)
        else:
            places = tl.load(positions_ptr + rows, mask=inside, other=-1)
        last = tl.minimum(places, last)
        end = (tl.max(last) + BLOCK_N) // BLOCK_N
        # Rows that are not stored need no mask.
        whole = tl.min(tl.where(inside, last, end_key - 1)) + 1
    return first_row, rows, inside, first_key, last, end, whole


@triton.jit
def find_kept(key, first_key, last, BLOCK_N: tl.constexpr, PACKED: tl.constexpr):
    """Which of the keys from some key on each row takes: those up to its last, and with PACKED from the first on."""
    columns = tl.arange(0, BLOCK_N)
    kept = columns[None, :] <= (last - key)[:, None]
    if PACKED:
        kept = kept & (columns >= first_key - key)[None, :]
    return kept


@triton.jit
def store_rows(ptr, values, rows, inside, h, HEADS, HEAD_DIM: tl.constexpr):
    """Stores a head of those rows that are inside, into [rows, HEADS · HEAD_DIM]."""
    at = rows[:, None].to(tl.int64) * (HEADS * HEAD_DIM) + h * HEAD_DIM
    at += tl.arange(0, HEAD_DIM)[None, :]
    tl.store(ptr + at, values.to(ptr.dtype.element_ty), mask=inside[:, None])
