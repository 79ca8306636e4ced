# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Stamps: what a CTA's roles were doing when, in kernels that are compiled for it.

Each role of each CTA has a lane of its own in the rank's buffer, and only the first thread of the role writes to it:
Triton performs scalar stores in that thread, and the number of records that is read for a stamp is used by these stores
alone. So a stamp needs no atomic operation and no barrier. What other threads read there may be newer by one, and
nothing is made of it.

A lane that is full counts on: the host learns how many records it has not got.
"""

import triton
import triton.language as tl

from syncopate.device.abi import (
    LANE_COUNT,
    LANE_RECORDS,
    LANE_SM,
    LANES,
    PROFILE,
    PROFILE_RECORDS,
    RECORD_EVENT,
    RECORD_STRIDE,
    RECORD_TIME,
    ROLE_BEGIN,
)
from syncopate.device.words import epoch_of, global_timer, words64

__all__ = ["begin_role", "stamp"]


@triton.jit
def _lane(ctx, ROLE: tl.constexpr):
    stride = LANE_RECORDS + RECORD_STRIDE * tl.load(ctx + PROFILE_RECORDS)
    return words64(tl.load(ctx + PROFILE)) + (tl.program_id(0) * LANES + ROLE) * stride


@triton.jit
def stamp(ctx, EVENT: tl.constexpr, subject, ROLE: tl.constexpr):
    """Writes a record: what happens now, to what.

    Args:
        ctx: The context.
        EVENT: A ProfileEvent.
        subject: Which tile, command or wait, i32.
        ROLE: Number of the realization of the role; 0 for whom no realization names.
    """
    lane = _lane(ctx, ROLE)
    count = tl.load(lane + LANE_COUNT)
    fits = count < tl.load(ctx + PROFILE_RECORDS)
    record = lane + LANE_RECORDS + RECORD_STRIDE * count
    tl.store(record + RECORD_TIME, global_timer(), mask=fits)
    tl.store(record + RECORD_EVENT, (subject.to(tl.int64) << 32) | EVENT, mask=fits)
    tl.store(lane + LANE_COUNT, count + 1)


@triton.jit
def begin_role(ctx, ROLE: tl.constexpr):
    """Says that a role starts, in which call, and on which multiprocessor."""
    multiprocessor = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(_lane(ctx, ROLE) + LANE_SM, multiprocessor.to(tl.int64))
    stamp(ctx, ROLE_BEGIN, epoch_of(ctx), ROLE)
