# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Stores of tiles that have rows of several ranks: each row in a slot of its own.

A bulk store has the box of its descriptor, so rows that part company are stored by pointers, from the block of shared
memory that the kernel would have stored. Neither a bulk store nor what waits for it is in the way of that: the block is
read as it was written, and the kernel's own barrier before it is written again holds for reads of either kind.
"""

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from syncopate.device.abi import SLOT_COLUMNS, SLOT_ROWS, SLOTS
from syncopate.device.words import words32

__all__ = ["store_rows"]


@gluon.jit
def store_rows(
    ctx,
    rows,
    row,
    column,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ELEMENT: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    RUN: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Stores a block of a tile, [ROWS, COLUMNS] of ELEMENT, in shared memory.

    The block stands where this function allocates one: in a kernel that it is moved into, the allocation is the block
    that the kernel stores.

    Args:
        ctx: The context.
        rows: The word of the table of rows that is the tile's first, i32.
        row: First row of the block in the tile, i32.
        column: Its first column in a slot, i32.
        ROWS: Rows of the block.
        COLUMNS: Columns of the block.
        ELEMENT: Type of its elements.
        TILE_ROWS: Rows of the tile that the table has. A block may have more, if the matrix has not.
        RUN: Elements that a thread stores at once: 16 bytes, by which columns of a slot and of a block can be divided.
        WARPS: Warps of the kernel.
    """
    ACROSS: gl.constexpr = min(32, COLUMNS // RUN)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    layout: gl.constexpr = gl.BlockedLayout([1, RUN], [32 // ACROSS, ACROSS], [WARPS, 1], [1, 0])
    values = gl.allocate_shared_memory(ELEMENT, [ROWS, COLUMNS], shared).load(layout)
    r = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    # Columns of slots and of blocks are whole runs: descriptors of these could not be made else.
    c = column + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    c = gl.max_contiguous(gl.multiple_of(c, RUN), RUN)
    table = words32(gl.load(ctx + SLOT_ROWS)) + rows
    slots = gl.load(table + row + r, mask=row + r < TILE_ROWS, other=-1)
    columns = gl.multiple_of(gl.load(ctx + SLOT_COLUMNS), RUN)
    base = gl.multiple_of(gl.load(ctx + SLOTS).to(gl.pointer_type(ELEMENT)), 16)
    at = gl.expand_dims(slots.to(gl.int64) * columns, 1) + gl.expand_dims(c, 0)
    mask = gl.expand_dims(slots >= 0, 1) & gl.expand_dims(c < columns, 0)
    gl.store(base + at, values, mask=mask)
