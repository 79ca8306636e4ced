# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The communication roles on ordinary loads and stores: they copy, and they reduce.

Commands of a role are carried out in order. Its CTAs share each command block by block, without waiting for each other
between commands: the CTA that finds itself the last to finish a command raises its signals.

The counter of a command grows by one per CTA and call. It is acquired and released at system scope, so the stores of
every CTA, the ones to peers included, happen before the signals that the last one raises.

A command relies on the waits of the commands before it: each guard stands in the first command that needs it. So a CTA
that sees that the call was given up, by itself or by another one, neither copies nor counts any more: the counter then
never becomes full, and the signals of that command are never raised.

Who reduces is the only one to touch the destination meanwhile, by the order of the plan: it loads, combines in float32
if the elements are floating-point numbers, and stores, rounded once.
"""

import triton
import triton.language as tl

from syncopate.device.abi import (
    COMMAND_DST,
    COMMAND_DST_STRIDE,
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
    REDUCTION_MAX,
    REDUCTION_NONE,
    REDUCTION_SUM,
    STATE_COMMANDS,
    WHERE_COMMAND,
)
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
def reduce_region(
    command,
    part,
    parts,
    ELEMENT: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Combines blocks ``part``, ``part + parts``, … of the region of a command with what is at the destination.

    Args:
        command: Pointer to the fields of the command.
        part: First block, i32.
        parts: Blocks from one to the next, i32.
        ELEMENT: Type of the elements.
        UNIT: Bytes per load and store, as for `copy_region`.
        UNITS_PER_BLOCK: Units that the role has in flight at once.
        COUNTED: Whether rows may be counted at run time.
    """
    BYTES: tl.constexpr = ELEMENT.primitive_bitwidth // 8
    LANES: tl.constexpr = max(UNIT // BYTES, 1)
    src = tl.load(command + COMMAND_SRC).to(tl.pointer_type(ELEMENT))
    dst = tl.load(command + COMMAND_DST).to(tl.pointer_type(ELEMENT))
    src, dst = tl.multiple_of(src, LANES * BYTES), tl.multiple_of(dst, LANES * BYTES)
    src_stride = tl.load(command + COMMAND_SRC_STRIDE) // (LANES * BYTES)
    dst_stride = tl.load(command + COMMAND_DST_STRIDE) // (LANES * BYTES)
    row_units = (tl.load(command + COMMAND_ROW_BYTES) // (LANES * BYTES)).to(tl.int32)
    units = command_rows(command, COUNTED).to(tl.int32) * row_units
    reduction = tl.load(command + COMMAND_REDUCTION)
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
        there = tl.load(dst + dst_offset, mask=mask)
        if ELEMENT.is_floating() and BYTES < 4:
            arriving, there = arriving.to(tl.float32), there.to(tl.float32)
        if reduction == REDUCTION_SUM:
            there += arriving
        elif reduction == REDUCTION_MAX:
            there = tl.maximum(there, arriving, propagate_nan=tl.PropagateNan.ALL)
        else:
            there = tl.minimum(there, arriving, propagate_nan=tl.PropagateNan.ALL)
        tl.store(dst + dst_offset, there.to(ELEMENT), mask=mask)
        if pause > 0:
            sleep(pause)


@triton.jit
def run_commands_ldst(
    ctx,
    input,
    ROLE: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
    UNITS_PER_REDUCED_BLOCK: tl.constexpr,
    REDUCED: tl.constexpr,
    COUNTED: tl.constexpr,
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
        COUNTED: Whether there are commands whose rows are counted at run time.
    """
    commands = words64(tl.load(ctx + COMMANDS))
    counters = state_of(ctx) + STATE_COMMANDS
    epoch = epoch_of(ctx)
    begin, end, part, parts = role_part(ctx, ROLE)
    for k in range(begin, end):
        command = commands + k * COMMAND_STRIDE
        wait_begin = tl.load(command + COMMAND_WAIT_BEGIN).to(tl.int32)
        wait_end = tl.load(command + COMMAND_WAIT_END).to(tl.int32)
        wait_signals(ctx, wait_begin, wait_end, WHERE_COMMAND, False, ROLE)
        if aborted(ctx) == 0:
            if REDUCED is None:  # noqa: SIM114
                copy_region(command, input, part, parts, UNIT, UNITS_PER_BLOCK, COUNTED)
            elif tl.load(command + COMMAND_REDUCTION) == REDUCTION_NONE:
                copy_region(command, input, part, parts, UNIT, UNITS_PER_BLOCK, COUNTED)
            else:
                reduce_region(command, part, parts, REDUCED, UNIT, UNITS_PER_REDUCED_BLOCK, COUNTED)
            tl.debug_barrier()
            finished = tl.atomic_add(counters + k, 1, sem="acq_rel", scope="sys")
            if finished + 1 == epoch * parts:
                signal_begin = tl.load(command + COMMAND_SIGNAL_BEGIN).to(tl.int32)
                signal_end = tl.load(command + COMMAND_SIGNAL_END).to(tl.int32)
                raise_signals(ctx, signal_begin, signal_end)
