# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The ring through which computing warps hand tiles over to the communication role beside them.

Record r, the number of the tile in the grid, stands in slot r % SLOTS. Records are counted from 0 in each call, by both
sides: a tile's row in the tables says which record it writes, and the role takes as many as the tables say, in order.

Who owns what. A slot belongs to the computing warps when the role has arrived on its mbarrier ``empty``, as often as
they have used it before, and to the role when they have arrived on ``full``. Both count one arrival a phase, by one
thread, so record r waits for the phase of parity r // SLOTS & 1 of ``full``, and for the one before of ``empty``.

Order. All that the tile's threads have stored, waited for if it was by TMA, and the record itself; a barrier of the
computing warps; the arrival. The wait of the role; a proxy fence, since one of the two may have written by TMA what the
other reads by ordinary loads, or the other way round; the record and the bytes of the tile. Both sides are of one CTA,
so no flag, no counter and no release at a wider scope is needed.

Progress. The computing warps wait when the ring is full. The role never waits for anything else while records are to
come, but for flags that depend on no tile of this call (see `next_commands`), and these waits are limited in time. A
call that was given up changes nothing of this: every tile writes its record, and every record is taken.

The outline of a kernel holds the mbarriers, and in each of its parts the code that uses them, as a *piece*: it begins
with a marker, which gives what the piece is given, and ends with a yield. Passes put a copy of it wherever code of that
part says by a marker that it uses the piece.
"""

from typing import Final

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from syncopate.device.abi import (
    BEFORE_TILES,
    COMM_CTAS,
    COMMAND_STRIDE,
    COMMAND_WAIT_BEGIN,
    COMMAND_WAIT_END,
    COMMANDS,
    RECORDS,
    RING_BEGIN,
    RING_END,
    RING_ROLE,
    TILE_GROUP_COMMAND_BEGIN,
    TILE_GROUP_COMMAND_END,
    TILE_GROUP_STRIDE,
    TILE_GROUPS,
)
from syncopate.device.profile import stamp
from syncopate.device.signals import have_arrived
from syncopate.device.words import fence_tma, words32, words64

__all__ = [
    "close_ring",
    "hand_over",
    "next_commands",
    "open_ring",
    "piece_hand_over",
    "piece_take",
    "ring_part",
]

SLOTS: Final = tl.constexpr(4)
"""Tiles that may be done while the role is still at an earlier one."""


@gluon.jit
def open_ring():
    """Returns the records and the two mbarriers of each slot, ready for use by all warps behind their next barrier."""
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    records = gl.allocate_shared_memory(gl.int32, [SLOTS, 1], layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=1)
    return records, full, empty


@gluon.jit
def close_ring(ring):
    """Ends the mbarriers, when all records have been taken."""
    _, full, empty = ring
    for slot in gl.static_range(SLOTS):
        mbarrier.invalidate(full.index(slot))
        mbarrier.invalidate(empty.index(slot))


@gluon.jit
def piece_hand_over(ring):
    """Writes a record; for the computing warps, whose stores of the tile are complete."""
    records, full, empty = ring
    record, tile = gl.inline_asm_elementwise(
        "// syncopate.piece.hand_over\nmov.b32 $0, 0;\nmov.b32 $1, 0;",
        "=r,=r",
        [],
        dtype=(gl.int32, gl.int32),
        is_pure=False,
        pack=1,
    )
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    slot = record % SLOTS
    phase = (record // SLOTS) & 1
    mbarrier.wait(empty.index(slot), phase ^ 1)
    records.index(slot).store(gl.full([1], tile, gl.int32, layout))
    tl.debug_barrier()
    mbarrier.arrive(full.index(slot))
    gl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def piece_take(ring):
    """Waits for a record and yields it, for the role."""
    records, full, empty = ring
    record = gl.inline_asm_elementwise(
        "// syncopate.piece.take\nmov.b32 $0, 0;", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    slot = record % SLOTS
    phase = (record // SLOTS) & 1
    mbarrier.wait(full.index(slot), phase)
    fence_tma()
    tile = gl.max(records.index(slot).load(layout), axis=0)
    tl.debug_barrier()
    mbarrier.arrive(empty.index(slot))
    gl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1",
        "=r,r",
        [tile],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def hand_over(record, tile):
    """Uses `piece_hand_over`."""
    tl.inline_asm_elementwise(
        "// syncopate.use.hand_over\nmov.b32 $0, 0;\n// $1 $2",
        "=r,r,r",
        [record, tile],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _take(record):
    """Uses `piece_take`; returns the tile."""
    return tl.inline_asm_elementwise(
        "// syncopate.use.take\nmov.b32 $0, $1;",
        "=r,r",
        [record],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def ring_part(ctx, ROLE: tl.constexpr):
    """Returns what a role of this CTA has of the ring.

    Returns:
        How many records it takes; the row after the last of its commands that come before the first record, i32.
    """
    cta = tl.program_id(0) - tl.load(ctx + COMM_CTAS).to(tl.int32)
    records = tl.load(words32(tl.load(ctx + RECORDS)) + cta)
    before = tl.load(ctx + BEFORE_TILES).to(tl.int32)
    return tl.where(tl.load(ctx + RING_ROLE) == ROLE, records, 0), before


@triton.jit
def next_commands(
    ctx, queue, end, record, records, before, ROLE: tl.constexpr, PROFILE: tl.constexpr
):
    """Chooses what the role carries out next: from its queue, or what a tile hands over.

    What stands in the queue in front of ``before`` depends on no tile of this call, and is waited for first. Behind the
    last record the rest of the queue is waited for. In between the role only looks whether the next command of the
    queue can start at once, and waits for the next record if not.

    Args:
        ctx: The context.
        queue: Row of the next command of the queue, i32.
        end: Row after its last.
        record: The next record.
        records: All of the CTA.
        before: As `ring_part` returns it.
        ROLE: Number of the realization of the role.
        PROFILE: Whether to leave records.

    Returns:
        The rows of the commands: begin, end, i32; whether all CTAs of the role share them, i1; the next command of the
        queue then; the next record then, i32.
    """
    shared = True
    first, last = queue, tl.where(record == records, end, tl.minimum(before, end))
    if first >= last:
        arrived = 0
        if queue < end:
            command = words64(tl.load(ctx + COMMANDS)) + queue * COMMAND_STRIDE
            begin = tl.load(command + COMMAND_WAIT_BEGIN).to(tl.int32)
            arrived = have_arrived(ctx, begin, tl.load(command + COMMAND_WAIT_END).to(tl.int32))
        if arrived != 0:
            last = queue + 1
            queue = last
        else:
            if PROFILE:
                stamp(ctx, RING_BEGIN, record, ROLE)
            tile = _take(record)
            if PROFILE:
                stamp(ctx, RING_END, record, ROLE)
            row = words32(tl.load(ctx + TILE_GROUPS)) + tile * TILE_GROUP_STRIDE
            first, last = (
                tl.load(row + TILE_GROUP_COMMAND_BEGIN),
                tl.load(row + TILE_GROUP_COMMAND_END),
            )
            shared = False
            record += 1
    else:
        queue = last
    return first, last, shared, queue, record
