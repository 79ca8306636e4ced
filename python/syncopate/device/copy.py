# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The communication roles on ordinary loads and stores: they copy, and they reduce.

Commands of a role are carried out in order. Its CTAs share each command block by block, without waiting for each other
between commands: the CTA that finds itself the last to finish a command raises its signals. A command that a tile hands
over is carried out by the CTA of the tile alone, and counted by nobody; see `syncopate.device.ring`.

The counter of a command grows by one per CTA and call. It is acquired and released at system scope, so the stores of
every CTA, the ones to peers included, happen before the signals that the last one raises.

A command relies on the waits of the commands before it: each guard stands in the first command that needs it. So a CTA
that sees that the call was given up, by itself or by another one, neither copies nor counts any more: the counter then
never becomes full, and the signals of that command are never raised.

Who reduces is the only one to touch the destination meanwhile, by the order of the plan: it loads all that is combined
in the order that the command gives, combines in float32 if the elements are smaller floating-point numbers, and stores,
rounded once. Where a plan lets several ranks add to one place without an order, they do so by relaxed atomic additions
at system scope, each rounded in the type of the elements; the counter releases them as it does stores.
"""

import triton
import triton.language as tl

from syncopate.device.abi import (
    COMMAND_BEGIN,
    COMMAND_BEHIND,
    COMMAND_DST,
    COMMAND_DST_STRIDE,
    COMMAND_END,
    COMMAND_FROM_INPUT,
    COMMAND_PART_STRIDE,
    COMMAND_PARTS,
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
    REDUCTION_MAX,
    REDUCTION_NONE,
    REDUCTION_SUM,
    REDUCTION_UNORDERED_SUM,
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
    words64,
)

__all__ = ["COPY_WARPS", "copy_region", "run_commands_ldst"]

COPY_WARPS = tl.constexpr(4)


@triton.jit
def copy_region(
    command,
    input,
    part,
    parts,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Copies blocks ``part``, ``part + parts``, … of the region of a command.

    The region is walked as one row of units, whatever its shape, so short rows cost no idle threads. All loads of a
    block are issued before its first store.

    Args:
        command: Pointer to the fields of the command.
        input: Pointer to the rank's input.
        part: First block to copy, i32.
        parts: Blocks from one to the next, i32.
        UNIT: Bytes per load and store; divides addresses, strides and row size. The region has fewer than 2³¹ units.
        UNITS_PER_BLOCK: Units that the role has in flight at once.
        COUNTED: Whether rows may be counted at run time.
    """
    # Elements of at most 4 bytes: an unit of 8 or 16 bytes is a vector of them.
    BYTES: tl.constexpr = min(UNIT, 4)
    LANES: tl.constexpr = UNIT // BYTES
    element: tl.constexpr = tl.int32 if BYTES == 4 else (tl.int16 if BYTES == 2 else tl.int8)
    base = tl.load(command + COMMAND_FROM_INPUT) * input.to(tl.int64, bitcast=True)
    src = (base + tl.load(command + COMMAND_SRC)).to(tl.pointer_type(element))
    src = tl.multiple_of(src, UNIT)
    dst = tl.multiple_of(tl.load(command + COMMAND_DST).to(tl.pointer_type(element)), UNIT)
    src_stride = tl.load(command + COMMAND_SRC_STRIDE) // UNIT
    dst_stride = tl.load(command + COMMAND_DST_STRIDE) // UNIT
    row_units = (tl.load(command + COMMAND_ROW_BYTES) // UNIT).to(tl.int32)
    units = command_rows(command, COUNTED).to(tl.int32) * row_units
    # What is where it should be already: input that the caller wrote in place.
    units = tl.where(src.to(tl.int64, bitcast=True) == dst.to(tl.int64, bitcast=True), 0, units)
    pause = tl.load(command + COMMAND_PAUSE).to(tl.int32)
    for block in range(part, tl.cdiv(units, UNITS_PER_BLOCK), parts):
        unit = block * UNITS_PER_BLOCK + tl.arange(0, UNITS_PER_BLOCK)
        row = unit // row_units
        column = unit - row * row_units
        src_offset = (row * src_stride + column) * LANES
        dst_offset = (row * dst_stride + column) * LANES
        mask = unit < units
        if LANES == 1:
            tl.store(dst + dst_offset, tl.load(src + src_offset, mask=mask), mask=mask)
        else:
            lane = tl.arange(0, LANES)[None, :]
            data = tl.load(src + (src_offset[:, None] + lane), mask=mask[:, None])
            tl.store(dst + (dst_offset[:, None] + lane), data, mask=mask[:, None])
        if pause > 0:
            sleep(pause)


@triton.jit
def _combine(reduction, one, other):
    if reduction == REDUCTION_SUM:
        one += other
    elif reduction == REDUCTION_MAX:
        one = tl.maximum(one, other, propagate_nan=tl.PropagateNan.ALL)
    else:
        one = tl.minimum(one, other, propagate_nan=tl.PropagateNan.ALL)
    return one


@triton.jit
def _load_summand(
    command, src, dst, number, row, column, mask, ELEMENT: tl.constexpr, LANES: tl.constexpr
):
    """Loads units of one of the regions that a command combines, small floating-point numbers as float32."""
    UNIT: tl.constexpr = LANES * ELEMENT.primitive_bitwidth // 8
    behind = tl.load(command + COMMAND_BEHIND).to(tl.int32)
    ahead = (number - tl.where(behind < number, 1, 0)).to(tl.int64)
    at = src + ahead * tl.load(command + COMMAND_PART_STRIDE)
    at = tl.where(behind == number, dst, at)
    stride = tl.where(
        behind == number,
        tl.load(command + COMMAND_DST_STRIDE),
        tl.load(command + COMMAND_SRC_STRIDE),
    )
    pointer = tl.multiple_of(at.to(tl.pointer_type(ELEMENT)), UNIT)
    offset = (row * (stride // UNIT) + column) * LANES
    values = tl.load(pointer + (offset[:, None] + tl.arange(0, LANES)[None, :]), mask=mask)
    if ELEMENT.is_floating() and ELEMENT.primitive_bitwidth < 32:
        values = values.to(tl.float32)
    return values


@triton.jit
def reduce_region(
    command,
    input,
    part,
    parts,
    ELEMENT: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    PAIRS: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Combines blocks ``part``, ``part + parts``, … of the regions of a command with what is at the destination.

    The regions of the source and the destination are summands in an order that the command gives. The sum stays in
    registers and is rounded when it is stored.

    Args:
        command: Pointer to the fields of the command.
        input: Pointer to the rank's input.
        part: First block, i32.
        parts: Blocks from one to the next, i32.
        ELEMENT: Type of the elements.
        UNIT: Bytes per load and store, as for `copy_region`.
        UNITS_PER_BLOCK: Units of a summand that the role has in flight at once.
        PAIRS: Whether the summands behind the first two are loaded two at a time as well, where registers are left.
        COUNTED: Whether rows may be counted at run time.
    """
    BYTES: tl.constexpr = ELEMENT.primitive_bitwidth // 8
    # Of bytes only eight at a time: as float32 they take four times the registers.
    LANES: tl.constexpr = max(min(UNIT // BYTES, 8), 1)
    base = tl.load(command + COMMAND_FROM_INPUT) * input.to(tl.int64, bitcast=True)
    src = base + tl.load(command + COMMAND_SRC)
    dst = tl.load(command + COMMAND_DST)
    there = tl.multiple_of(dst.to(tl.pointer_type(ELEMENT)), LANES * BYTES)
    stride = tl.load(command + COMMAND_DST_STRIDE) // (LANES * BYTES)
    row_units = (tl.load(command + COMMAND_ROW_BYTES) // (LANES * BYTES)).to(tl.int32)
    units = command_rows(command, COUNTED).to(tl.int32) * row_units
    reduction = tl.load(command + COMMAND_REDUCTION)
    summands = tl.load(command + COMMAND_PARTS).to(tl.int32) + 1
    pause = tl.load(command + COMMAND_PAUSE).to(tl.int32)
    for block in range(part, tl.cdiv(units, UNITS_PER_BLOCK), parts):
        unit = block * UNITS_PER_BLOCK + tl.arange(0, UNITS_PER_BLOCK)
        row = unit // row_units
        column = unit - row * row_units
        mask = (unit < units)[:, None]
        total = _load_summand(command, src, dst, 0, row, column, mask, ELEMENT, LANES)
        other = _load_summand(command, src, dst, 1, row, column, mask, ELEMENT, LANES)
        total = _combine(reduction, total, other)
        AHEAD: tl.constexpr = 2 if PAIRS else 1
        for i in range(2, summands, AHEAD):
            one = _load_summand(command, src, dst, i, row, column, mask, ELEMENT, LANES)
            if PAIRS:
                is_more = i + 1 < summands
                other = _load_summand(
                    command, src, dst, i + 1, row, column, mask & is_more, ELEMENT, LANES
                )
                total = _combine(reduction, total, one)
                total = tl.where(is_more, _combine(reduction, total, other), total)
            else:
                total = _combine(reduction, total, one)
        offset = ((row * stride + column) * LANES)[:, None] + tl.arange(0, LANES)[None, :]
        tl.store(there + offset, total.to(ELEMENT), mask=mask)
        if pause > 0:
            sleep(pause)


@triton.jit
def add_region(
    command,
    input,
    part,
    parts,
    ELEMENT: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Adds blocks ``part``, ``part + parts``, … of a region to what is there, by atomic operations.

    Args:
        command: Pointer to the fields of the command.
        input: Pointer to the rank's input.
        part: First block, i32.
        parts: Blocks from one to the next, i32.
        ELEMENT: Type of the elements.
        UNIT: Bytes per load, as for `copy_region`.
        UNITS_PER_BLOCK: Units that the role has in flight at once.
        COUNTED: Whether rows may be counted at run time.
    """
    BYTES: tl.constexpr = ELEMENT.primitive_bitwidth // 8
    LANES: tl.constexpr = max(UNIT // BYTES, 1)
    base = tl.load(command + COMMAND_FROM_INPUT) * input.to(tl.int64, bitcast=True)
    src = (base + tl.load(command + COMMAND_SRC)).to(tl.pointer_type(ELEMENT))
    dst = tl.load(command + COMMAND_DST).to(tl.pointer_type(ELEMENT))
    src, dst = tl.multiple_of(src, LANES * BYTES), tl.multiple_of(dst, LANES * BYTES)
    src_stride = tl.load(command + COMMAND_SRC_STRIDE) // (LANES * BYTES)
    dst_stride = tl.load(command + COMMAND_DST_STRIDE) // (LANES * BYTES)
    row_units = (tl.load(command + COMMAND_ROW_BYTES) // (LANES * BYTES)).to(tl.int32)
    units = command_rows(command, COUNTED).to(tl.int32) * row_units
    pause = tl.load(command + COMMAND_PAUSE).to(tl.int32)
    for block in range(part, tl.cdiv(units, UNITS_PER_BLOCK), parts):
        unit = block * UNITS_PER_BLOCK + tl.arange(0, UNITS_PER_BLOCK)
        row = unit // row_units
        column = unit - row * row_units
        lane = tl.arange(0, LANES)[None, :]
        src_offset = ((row * src_stride + column) * LANES)[:, None] + lane
        dst_offset = ((row * dst_stride + column) * LANES)[:, None] + lane
        mask = (unit < units)[:, None]
        arriving = tl.load(src + src_offset, mask=mask)
        tl.atomic_add(dst + dst_offset, arriving, mask=mask, sem="relaxed", scope="sys")
        if pause > 0:
            sleep(pause)


@triton.jit
def _combine_region(
    command,
    input,
    part,
    parts,
    ELEMENT: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    UNORDERED: tl.constexpr,
    PAIRS: tl.constexpr,
    COUNTED: tl.constexpr,
):
    if UNORDERED:
        if tl.load(command + COMMAND_REDUCTION) == REDUCTION_UNORDERED_SUM:
            add_region(command, input, part, parts, ELEMENT, UNIT, UNITS_PER_BLOCK, COUNTED)
        else:
            reduce_region(
                command, input, part, parts, ELEMENT, UNIT, UNITS_PER_BLOCK, PAIRS, COUNTED
            )
    else:
        reduce_region(command, input, part, parts, ELEMENT, UNIT, UNITS_PER_BLOCK, PAIRS, COUNTED)


@triton.jit
def run_commands_ldst(
    ctx,
    input,
    ROLE: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    UNITS_PER_REDUCED_BLOCK: tl.constexpr,
    REDUCED: tl.constexpr,
    RING: tl.constexpr,
    UNORDERED: tl.constexpr,
    COUNTED: tl.constexpr,
    PAIRS: tl.constexpr = True,
    PROFILE: tl.constexpr = False,
):
    """Carries out a role's commands of this rank: wait, copy, count, and raise signals when the last CTA is through.

    Args:
        ctx: The context.
        input: Pointer to the rank's input.
        ROLE: Number of the realization.
        UNIT: Bytes per load and store, as for `copy_region`.
        UNITS_PER_BLOCK: Units that the role has in flight at once when it copies.
        UNITS_PER_REDUCED_BLOCK: The same when it reduces.
        REDUCED: Element type of the commands that reduce; None if there are none.
        RING: Whether tiles hand commands over to the role.
        UNORDERED: Whether some of them add by atomic operations.
        COUNTED: Whether there are commands whose rows are counted at run time.
        PAIRS: As for `reduce_region`.
        PROFILE: Whether to leave records.
    """
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
            wait_signals(ctx, wait_begin, wait_end, WHERE_COMMAND, False, ROLE, PROFILE)
            if aborted(ctx) == 0:
                if PROFILE:
                    stamp(ctx, COMMAND_BEGIN, k, ROLE)
                if REDUCED is None:  # noqa: SIM114
                    copy_region(command, input, share, shares, UNIT, UNITS_PER_BLOCK, COUNTED)
                elif tl.load(command + COMMAND_REDUCTION) == REDUCTION_NONE:
                    copy_region(command, input, share, shares, UNIT, UNITS_PER_BLOCK, COUNTED)
                else:
                    _combine_region(
                        command,
                        input,
                        share,
                        shares,
                        REDUCED,
                        UNIT,
                        UNITS_PER_REDUCED_BLOCK,
                        UNORDERED,
                        PAIRS,
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
