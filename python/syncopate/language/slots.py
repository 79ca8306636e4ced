# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Reading what library calls have left in slots, for the operation that comes next."""

import triton
import triton.language as tl

__all__ = ["slot_offsets"]


@triton.jit
def slot_offsets(rows_ptr, rows, columns, tiles_n, mask, SLOT_N: tl.constexpr):
    """Where elements of a matrix lie whose tiles stand in slots, one below the other.

    A kernel that reads such a matrix adds to its pointer what this returns, where it would otherwise add ``rows * N +
    columns``.

    Args:
        rows_ptr: For each row of the matrix and each column of its tiles, in which row of the slots it lies, i32, or -1
            for a row that nobody has sent: what is read of that is anything.
        rows: Rows of the elements, a block of [R, 1].
        columns: Columns of the elements, a block of [1, C] of adjacent ones, the first a multiple of 16.
        tiles_n: Tiles in a row of the matrix.
        mask: Which of the elements there are.
        SLOT_N: Columns of a tile.

    Returns:
        Offsets in elements, i64 [R, C].
    """
    # A step from one tile to the next is a multiple of this, so that several elements are loaded at once.
    RUN: tl.constexpr = 16 if SLOT_N % 16 == 0 else 1
    row = tl.load(rows_ptr + rows * tiles_n + columns // SLOT_N, mask=mask, other=0)
    at = tl.maximum(row, 0).to(tl.int64) * SLOT_N + columns % SLOT_N
    return tl.max_contiguous(tl.multiple_of(at, (1, RUN)), (1, RUN))
