# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The communication roles on bulk TMA, through a ring of slots in shared memory: they copy, and they add.

Commands are carried out as by `syncopate.device.copy`: in order, the CTAs of a role sharing the blocks of each, and the
last CTA to finish one raises its signals. What differs is who moves the bytes: one thread issues bulk loads into the
ring and bulk stores from it, and no data passes through registers.

Tensor maps. A CTA describes both regions of a command just before it moves its first block of them, by the bounds of
the command itself, so TMA clips what a block would read or write beyond. A region of consecutive bytes is walked as
rows of `ROW` elements, and what is left behind the last whole row is a region of its own. The next maps take the place
of the last ones, so a region ends when all that was issued for it is complete.

Ring. Block b of all that a CTA moves in a call uses slot b % SLOTS, and its load completes phase b // SLOTS of the
slot's mbarrier. A load takes the place of the block that was stored LAG stores ago, when that has been read.

Order. A wait for flags ends with a proxy fence, since TMA reads, and overwrites, what ordinary instructions accessed.
Stores are followed by a full wait of the thread that has issued them, a barrier of the role, and the counter, which is
acquired and released at system scope.
"""

import triton.language as tl
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import _unwrap_if_constexpr, builtin
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from syncopate.device.abi import (
    COMMAND_BEGIN,
    COMMAND_DST,
    COMMAND_DST_STRIDE,
    COMMAND_END,
    COMMAND_FROM_INPUT,
    COMMAND_PAUSE,
    COMMAND_REDUCTION,
    COMMAND_ROW_BYTES,
    COMMAND_SIGNAL_BEGIN,
    COMMAND_SIGNAL_END,
    COMMAND_SRC,
    COMMAND_SRC_STRIDE,
    COMMAND_STRIDE,
    COMMAND_WAIT_BEGIN,
    COMMAND_WAIT_END,
    COMMANDS,
    REDUCTION_NONE,
    ROLE_END,
    STATE_COMMANDS,
    WHERE_COMMAND,
)
from syncopate.device.profile import begin_role, stamp
from syncopate.device.ring import next_commands, ring_part
from syncopate.device.signals import aborted, raise_signals, wait_signals
from syncopate.device.words import (
    command_rows,
    epoch_of,
    role_part,
    sleep,
    state_of,
    wait_for_tma_stores,
    words64,
)

__all__ = ["run_commands_tma"]

ROW = tl.constexpr(256)
"""Elements of a row of a block: as many as a box may have in one dimension."""

# The names differ between versions of Triton.
_load = getattr(tma, "async_load", tma.async_copy_global_to_shared)
_store = getattr(tma, "async_store", tma.async_copy_shared_to_global)


@builtin
def _add(descriptor, coordinates, source, _semantic=None):
    """Issues a bulk addition to global memory. Gluon has a name for it in some versions only."""
    _semantic.builder.create_async_tma_reduce(
        ir.DESCRIPTOR_REDUCE_KIND.ADD,
        descriptor.handle,
        _semantic._convert_to_ir_values(coordinates, require_i64=False),
        source.handle,
    )


@builtin
def _retype(memory, dtype, shape, layout, _semantic=None):
    """Shared memory as elements of another type. This, too, has two names."""
    sizes = [_unwrap_if_constexpr(size) for size in shape]
    dtype, layout = _unwrap_if_constexpr(dtype), _unwrap_if_constexpr(layout)
    return _semantic.memdesc_reinterpret(memory, dtype, sizes, layout)


@gluon.jit
def _move_region(
    src,
    dst,
    rows,
    width,
    src_stride,
    dst_stride,
    part,
    parts,
    pause,
    ring,
    full,
    moved,
    LAG: tl.constexpr,
    ADDS: tl.constexpr,
):
    """Moves blocks ``part``, ``part + parts``, … of a region, and waits until they have been written.

    Args:
        src: Pointer to the first element of the region that is read.
        dst: Pointer to the first element of the one that is written.
        rows: Rows of the region, i32.
        width: Elements of a row, i32.
        src_stride: Elements from one row to the next, i64.
        dst_stride: The same for the region that is written.
        part: First block to move, i32.
        parts: Blocks from one to the next, i32.
        pause: Nanoseconds to rest after each block, i32.
        ring: Slots in shared memory, of the type of the elements.
        full: The mbarrier of each slot.
        moved: Blocks that this CTA has moved before, i32.
        LAG: Stores that may still have to be read from shared memory when the next load is issued.
        ADDS: Whether blocks are added to what is there.

    Returns:
        Blocks that the CTA has moved now.
    """
    SLOTS: gl.constexpr = ring.shape[0]
    ROWS: gl.constexpr = ring.shape[1]
    SLOT_BYTES: gl.constexpr = ROWS * ROW * (ring.dtype.primitive_bitwidth // 8)
    columns = tl.cdiv(width, ROW)
    blocks = tl.cdiv(rows, ROWS) * columns
    count = tl.cdiv(max(blocks - part, 0), parts)
    if count > 0:
        source = tma.make_tensor_descriptor(
            src, [rows, width], [src_stride, 1], [ROWS, ROW], ring.layout
        )
        target = tma.make_tensor_descriptor(
            dst, [rows, width], [dst_stride, 1], [ROWS, ROW], ring.layout
        )
        # The first iterations only load, the last ones only store.
        for i in range(LAG - SLOTS, count):
            if i >= 0:
                block = part + i * parts
                row = block // columns
                at = [row * ROWS, (block - row * columns) * ROW]
                slot = (moved + i) % SLOTS
                mbarrier.wait(full.index(slot), ((moved + i) // SLOTS) & 1)
                if ADDS:
                    _add(target, at, ring.index(slot))
                else:
                    _store(target, at, ring.index(slot))
                if pause > 0:
                    sleep(pause)
            tma.store_wait(LAG)
            ahead = i + SLOTS - LAG
            if ahead < count:
                block = part + ahead * parts
                row = block // columns
                at = [row * ROWS, (block - row * columns) * ROW]
                slot = (moved + ahead) % SLOTS
                mbarrier.expect(full.index(slot), SLOT_BYTES)
                _load(source, at, full.index(slot), ring.index(slot))
        wait_for_tma_stores()
    return moved + count


@gluon.jit
def _move_command(
    command,
    input,
    part,
    parts,
    ring,
    full,
    moved,
    LAG: tl.constexpr,
    ELEMENT: tl.constexpr,
    ADDS: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Moves this CTA's blocks of a command as elements of a type; returns how many blocks it has moved now."""
    BYTES: gl.constexpr = ELEMENT.primitive_bitwidth // 8
    WIDE: gl.constexpr = ROW * BYTES
    ROWS: gl.constexpr = ring.shape[1] * ring.shape[2] * 4 // WIDE
    layout: gl.constexpr = gl.NVMMASharedLayout(
        swizzle_byte_width=0, element_bitwidth=8 * BYTES, rank=2
    )
    typed_ring = _retype(ring, ELEMENT, [ring.shape[0], ROWS, ROW], layout)
    for region in range(2):
        # Loaded again for each region, which costs less than registers to keep what they have in common.
        base = tl.load(command + COMMAND_FROM_INPUT) * input.to(tl.int64, bitcast=True)
        src = base + tl.load(command + COMMAND_SRC)
        dst = tl.load(command + COMMAND_DST)
        src_stride = tl.load(command + COMMAND_SRC_STRIDE)
        dst_stride = tl.load(command + COMMAND_DST_STRIDE)
        row_bytes = tl.load(command + COMMAND_ROW_BYTES)
        rows = command_rows(command, COUNTED)
        dense = (rows == 1) | ((src_stride == row_bytes) & (dst_stride == row_bytes))
        whole = rows * row_bytes // WIDE
        rest = rows * row_bytes - whole * WIDE
        first = tl.where(dense, region * whole * WIDE, 0)
        behind = tl.where(dense, (rest + WIDE - 1) // WIDE, 0)
        lines = tl.where(region == 0, tl.where(dense, whole, rows), behind)
        # What is where it should be already: input that the caller wrote in place.
        lines = tl.where(src == dst, 0, lines)
        width = tl.where(dense, tl.where(region == 0, WIDE, rest), row_bytes)
        moved = _move_region(
            (src + first).to(tl.pointer_type(ELEMENT)),
            (dst + first).to(tl.pointer_type(ELEMENT)),
            lines.to(tl.int32),
            (width // BYTES).to(tl.int32),
            tl.where(dense, WIDE, src_stride) // BYTES,
            tl.where(dense, WIDE, dst_stride) // BYTES,
            part,
            parts,
            tl.load(command + COMMAND_PAUSE).to(tl.int32),
            typed_ring,
            full,
            moved,
            LAG,
            ADDS,
        )
    return moved


@gluon.jit
def run_commands_tma(
    ctx,
    input,
    ROLE: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
    LAG: tl.constexpr,
    REDUCED: tl.constexpr,
    RING: tl.constexpr,
    COUNTED: tl.constexpr,
    PROFILE: tl.constexpr,
):
    """Carries out a role's commands of this rank: wait, move, count, and raise signals when the last CTA is through.

    Args:
        ctx: The context.
        input: Pointer to the rank's input.
        ROLE: Number of the realization.
        SLOTS: Slots of the ring.
        ROWS: Rows of 1024 bytes of a slot.
        LAG: Stores that may still have to be read from shared memory when the next load is issued; less than SLOTS.
        REDUCED: Element type of the commands that reduce, by addition; None if there are none.
        RING: Whether tiles hand commands over to the role.
        COUNTED: Whether there are commands whose rows are counted at run time.
        PROFILE: Whether to leave records.
    """
    layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    ring = gl.allocate_shared_memory(gl.int32, [SLOTS, ROWS, ROW], layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
    moved = 0
    commands = words64(tl.load(ctx + COMMANDS))
    counters = state_of(ctx) + STATE_COMMANDS
    epoch = epoch_of(ctx)
    queue, end, part, parts = role_part(ctx, ROLE)
    if PROFILE:
        begin_role(ctx, ROLE)
    records, before = 0, 0
    if RING:
        records, before = ring_part(ctx, ROLE)
    record = 0
    while (queue < end) | (record < records):
        first, last, shared = queue, end, True
        if RING:
            first, last, shared, queue, record = next_commands(
                ctx, queue, end, record, records, before, ROLE, PROFILE
            )
        else:
            queue = end
        share, shares = tl.where(shared, part, 0), tl.where(shared, parts, 1)
        for k in range(first, last):
            command = commands + k * COMMAND_STRIDE
            wait_begin = tl.load(command + COMMAND_WAIT_BEGIN).to(tl.int32)
            wait_end = tl.load(command + COMMAND_WAIT_END).to(tl.int32)
            wait_signals(ctx, wait_begin, wait_end, WHERE_COMMAND, True, ROLE, PROFILE)
            if aborted(ctx) == 0:
                if PROFILE:
                    stamp(ctx, COMMAND_BEGIN, k, ROLE)
                # Two branches, since what comes first decides what is compiled.
                if REDUCED is None:  # noqa: SIM114
                    moved = _move_command(
                        command,
                        input,
                        share,
                        shares,
                        ring,
                        full,
                        moved,
                        LAG,
                        gl.int32,
                        False,
                        COUNTED,
                    )
                elif tl.load(command + COMMAND_REDUCTION) == REDUCTION_NONE:
                    moved = _move_command(
                        command,
                        input,
                        share,
                        shares,
                        ring,
                        full,
                        moved,
                        LAG,
                        gl.int32,
                        False,
                        COUNTED,
                    )
                else:
                    moved = _move_command(
                        command,
                        input,
                        share,
                        shares,
                        ring,
                        full,
                        moved,
                        LAG,
                        REDUCED,
                        True,
                        COUNTED,
                    )
                tl.debug_barrier()
                if PROFILE:
                    stamp(ctx, COMMAND_END, k, ROLE)
                finished = tl.atomic_add(counters + k, 1, mask=shared, sem="acq_rel", scope="sys")
                if (finished + 1 == epoch * parts) | (not shared):
                    signal_begin = tl.load(command + COMMAND_SIGNAL_BEGIN).to(tl.int32)
                    signal_end = tl.load(command + COMMAND_SIGNAL_END).to(tl.int32)
                    raise_signals(ctx, signal_begin, signal_end)
    if PROFILE:
        stamp(ctx, ROLE_END, epoch, ROLE)
    for slot in gl.static_range(SLOTS):
        mbarrier.invalidate(full.index(slot))
