# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The beginning and the end of a call.

A call opens when CTA 0 tells the peers that this rank's input is in place; the launch of the kernel itself orders
that input before, so there is nothing to wait for. It closes when the last CTA to finish has seen everything that
this rank owes to others done; only that CTA changes the epoch, when nobody reads it any more.
"""

import triton
import triton.language as tl

from syncopate.device.abi import (
    CLOSE_SIGNAL,
    CLOSE_WAIT,
    NUM_CTAS,
    OPEN,
    STATE_ENGINE_EPOCH,
    STATE_EPOCH,
    STATE_FINISHED,
    WHERE_CLOSE,
)
from syncopate.device.signals import aborted, raise_signals, wait_signals
from syncopate.device.words import epoch_of, state_of, unpack_range

__all__ = ["close_call", "open_call"]


@triton.jit
def open_call(ctx):
    """Raises the opening signals, from CTA 0, unless an earlier call was given up."""
    begin, end = unpack_range(tl.load(ctx + OPEN))
    # Two branches, since Triton evaluates both sides of an `and`, and most CTAs and programs have nothing to raise.
    if (tl.program_id(0) == 0) & (begin < end):  # noqa: SIM102
        if aborted(ctx) == 0:
            raise_signals(ctx, begin, end)


@triton.jit
def close_call(ctx, PROFILE: tl.constexpr = False):
    """Counts this CTA as finished; the last one waits, raises the closing signals and advances the epoch.

    The counter is acquired and released, so what every CTA did happens before what the last one signals, and what the
    last one reads of the state is final. A call that was given up raises nothing, and its epoch stays: nothing can
    take what is left in the flags for the work of a later call.

    Args:
        ctx: The context.
        PROFILE: Whether to leave records.
    """
    state = state_of(ctx)
    epoch = epoch_of(ctx)
    tl.debug_barrier()
    finished = tl.atomic_add(state + STATE_FINISHED, 1, sem="acq_rel", scope="gpu")
    if finished + 1 == epoch * tl.load(ctx + NUM_CTAS).to(tl.int32):
        begin, end = unpack_range(tl.load(ctx + CLOSE_WAIT))
        wait_signals(ctx, begin, end, WHERE_CLOSE, False, 0, PROFILE)
        if aborted(ctx) == 0:
            begin, end = unpack_range(tl.load(ctx + CLOSE_SIGNAL))
            raise_signals(ctx, begin, end)
            tl.store(state + STATE_ENGINE_EPOCH, epoch + 1)
            tl.store(state + STATE_EPOCH, epoch + 1)
