# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""What computing warps do at a tile: read the table, in place of a tile marker, and say that the tile is done."""

import triton
import triton.language as tl

from syncopate.device.abi import (
    COMM_CTAS,
    GROUP_COUNT,
    GROUP_COUNTERS,
    GROUP_SIGNAL_BEGIN,
    GROUP_SIGNAL_END,
    GROUP_STRIDE,
    GROUPS,
    INPUT_BEGIN,
    INPUT_END,
    NEEDS,
    NUM_CTAS,
    RING_BEGIN,
    RING_END,
    STEP_STEP,
    STEP_STRIDE,
    STEP_WAIT_BEGIN,
    STEP_WAIT_END,
    STEPS,
    TILE_BEGIN,
    TILE_C0,
    TILE_C1,
    TILE_C2,
    TILE_END,
    TILE_GROUP_ACCUMULATES,
    TILE_GROUP_GROUP,
    TILE_GROUP_RECORD,
    TILE_GROUP_ROWS,
    TILE_GROUP_SLOT,
    TILE_GROUP_STRIDE,
    TILE_GROUP_WAIT_BEGIN,
    TILE_GROUP_WAIT_END,
    TILE_GROUPS,
    TILE_NUMBER,
    TILE_STEP_BEGIN,
    TILE_STEP_END,
    TILE_STRIDE,
    TILE_WAIT_BEGIN,
    TILE_WAIT_END,
    TILES,
)
from syncopate.device.profile import stamp
from syncopate.device.ring import hand_over
from syncopate.device.signals import aborted, raise_signals
from syncopate.device.words import epoch_of, wait_for_tma_stores, words32

__all__ = [
    "finish_tile",
    "input_rows",
    "read_step",
    "read_tile",
    "tile_number",
    "tile_slot",
    "tile_steps",
    "tile_sum",
]


@triton.jit
def read_tile(ctx, t, COUNTED: tl.constexpr, PROFILE: tl.constexpr = False):
    """Returns row ``t`` of the tile table: three coordinates, first wait, end of waits, all i32.

    Args:
        ctx: The context.
        t: Position in the order, i32.
        COUNTED: Whether there may be kernels that find out at run time how many of its waits a tile needs. All tiles
            then name the same ones, and those that the tile before it on its CTA needed are left out.
        PROFILE: Whether to leave records.
    """
    if PROFILE:
        stamp(ctx, TILE_BEGIN, t, 0)
    row = words32(tl.load(ctx + TILES)) + t * TILE_STRIDE
    m, n, k = tl.load(row + TILE_C0), tl.load(row + TILE_C1), tl.load(row + TILE_C2)
    begin, end = tl.load(row + TILE_WAIT_BEGIN), tl.load(row + TILE_WAIT_END)
    if COUNTED:
        needs = tl.load(ctx + NEEDS)
        step = (tl.load(ctx + NUM_CTAS) - tl.load(ctx + COMM_CTAS)).to(tl.int32)
        is_counted = needs != 0
        is_later = is_counted & (t >= step)
        needed = tl.load(words32(needs) + m, mask=is_counted, other=0)
        before = tl.load(row - step * TILE_STRIDE + TILE_C0, mask=is_later, other=0)
        seen = tl.load(words32(needs) + before, mask=is_later, other=0)
        # Neither leaves the tile's own range, whatever the buffer holds.
        last = begin + tl.minimum(tl.maximum(needed, 0), end - begin)
        first = begin + tl.minimum(tl.maximum(seen, 0), end - begin)
        begin = tl.where(is_counted, tl.minimum(first, last), begin)
        end = tl.where(is_counted, last, end)
    return m, n, k, begin, end


@triton.jit
def tile_steps(ctx, t, own_begin, own_end):
    """Returns the rows of the step table that the tile at position ``t`` walks: first, behind the last; i32.

    Args:
        ctx: The context.
        t: Position in the order, i32.
        own_begin: First step that the kernel itself would take, i32; a negative one says nothing.
        own_end: The step behind the last one. Both are compared with the table by a simulator only.
    """
    row = words32(tl.load(ctx + TILES)) + t * TILE_STRIDE
    begin, end = tl.load(row + TILE_STEP_BEGIN), tl.load(row + TILE_STEP_END)
    agrees = (own_begin < 0) | (tl.maximum(own_end - own_begin, 0) == end - begin)
    tl.inline_asm_elementwise(
        "// syncopate.agrees $1\nmov.b32 $0, 0;",
        "=r,r",
        [agrees.to(tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    return begin, end


@triton.jit
def read_step(ctx, row):
    """Returns row ``row`` of the step table: the step, first wait, end of waits, all i32."""
    step = words32(tl.load(ctx + STEPS)) + row * STEP_STRIDE
    return tl.load(step + STEP_STEP), tl.load(step + STEP_WAIT_BEGIN), tl.load(step + STEP_WAIT_END)


@triton.jit
def tile_number(ctx, t):
    """Returns the number, row-major in the grid, of the tile at position ``t`` of the order, i32."""
    return tl.load(words32(tl.load(ctx + TILES)) + t * TILE_STRIDE + TILE_NUMBER)


@triton.jit
def input_rows(ctx):
    """Returns the first row of the buffer that is the rank's own input and the row after the last, i32."""
    return tl.load(ctx + INPUT_BEGIN).to(tl.int32), tl.load(ctx + INPUT_END).to(tl.int32)


@triton.jit
def _tile_group(ctx, tile):
    return words32(tl.load(ctx + TILE_GROUPS)) + tile * TILE_GROUP_STRIDE


@triton.jit
def tile_sum(ctx, tile):
    """Returns 1 if a tile, row-major in the grid, adds to what is there, else 0; first wait before that; end; i32."""
    row = _tile_group(ctx, tile)
    begin, end = tl.load(row + TILE_GROUP_WAIT_BEGIN), tl.load(row + TILE_GROUP_WAIT_END)
    return tl.load(row + TILE_GROUP_ACCUMULATES), begin, end


@triton.jit
def tile_slot(ctx, tile):
    """Returns the slot in which a tile, row-major in the grid, is stored, and where those of its rows are, i32.

    One of the two is -1: a tile is stored whole or row by row.
    """
    row = _tile_group(ctx, tile)
    return tl.load(row + TILE_GROUP_SLOT), tl.load(row + TILE_GROUP_ROWS)


@triton.jit
def finish_tile(ctx, tile, TMA_STORES: tl.constexpr, RING: tl.constexpr, PROFILE: tl.constexpr):
    """Says that a tile is done: to the role beside it, and to who waits for its group.

    If the tile hands commands over, it writes its record to the ring, in whatever state the call is. In its group it
    is counted; whoever makes the group full raises its signals.

    The counter is acquired and released at system scope, so the stores of every tile of the group happen before the
    signals that the last one raises. A CTA that sees that the call was given up counts no more: what it has stored may
    be made of data that never came.

    Args:
        ctx: The context.
        tile: Number of the tile, row-major in the grid, i32.
        TMA_STORES: Whether some of its stores are TMA's, which are complete only when the issuing thread has waited for
            them.
        RING: Whether tiles of the kernel hand commands over.
        PROFILE: Whether to leave records.
    """
    if PROFILE:
        stamp(ctx, TILE_END, tile, 0)
    if RING:
        record = tl.load(_tile_group(ctx, tile) + TILE_GROUP_RECORD)
        if record >= 0:
            if TMA_STORES:
                wait_for_tma_stores()
            if PROFILE:
                stamp(ctx, RING_BEGIN, record, 0)
            hand_over(record, tile)
            if PROFILE:
                stamp(ctx, RING_END, record, 0)
    group = tl.load(_tile_group(ctx, tile) + TILE_GROUP_GROUP)
    if group >= 0:
        if TMA_STORES:
            wait_for_tma_stores()
        tl.debug_barrier()
        if aborted(ctx) == 0:
            row = words32(tl.load(ctx + GROUPS)) + group * GROUP_STRIDE
            counters = words32(tl.load(ctx + GROUP_COUNTERS))
            done = tl.atomic_add(counters + group, 1, sem="acq_rel", scope="sys")
            if done + 1 == epoch_of(ctx) * tl.load(row + GROUP_COUNT):
                begin = tl.load(row + GROUP_SIGNAL_BEGIN)
                raise_signals(ctx, begin, tl.load(row + GROUP_SIGNAL_END))
