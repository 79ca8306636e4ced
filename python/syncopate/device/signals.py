# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Waiting for signals and raising them.

Consumer. One thread polls the flag with an acquire load at system scope; Triton broadcasts what it saw through shared
memory, with a barrier, so all threads of the role are ordered behind the acquire. A fence then extends that to the
asynchronous proxy, through which TMA reads.

Producer. All stores of the role's threads, a barrier, then one thread's release at system scope. The barrier is the
caller's: only the caller knows when its stores are issued. The release is an exchange rather than a store because
that is the releasing write which Triton performs in exactly one thread, in any partition.

Uniformity. A scalar in Triton is assumed to be the same in every thread, and a loop whose condition is not would hang
in its barriers. What decides control flow here therefore always comes out of an atomic operation (one thread, then a
broadcast). The clock differs from thread to thread, so it only ever decides the *operand* of an atomic operation.

Giving up. The fast path is one poll. The slow path polls on and now and then offers its claim, once the time limit
has passed, to STATE_ABORTED by compare-and-swap: the first claim stays, its owner silences the copy engine and writes
the fault record, and every wait that would have to block returns at once from then on, so that the kernel drains. Who
is about to write where a peer can see it asks `aborted` before: a wait that was given up may have been the guard of
what comes after it. The program has to be loaded again.
"""

import triton
import triton.language as tl

from syncopate.device.abi import (
    FAULT,
    FAULT_EPOCH,
    FAULT_RANK,
    FAULT_SEEN,
    FAULT_SET,
    FAULT_SIGNAL,
    FAULT_WANTED,
    FAULT_WHERE,
    FLAGS,
    KIND_ADD,
    KIND_EPOCH,
    NUM_REALIZATIONS,
    RANK,
    SIGNAL_ADDRESS,
    SIGNAL_KIND,
    SIGNAL_STRIDE,
    SIGNALS,
    STATE_ABORTED,
    STATE_ENGINE_EPOCH,
    STATE_ENGINE_ONE,
    STATE_LOST,
    TIMEOUT_NS,
    WAIT_BEGIN,
    WAIT_COUNT,
    WAIT_END,
    WAIT_SIGNAL,
    WAIT_STRIDE,
    WAITS,
)
from syncopate.device.profile import stamp
from syncopate.device.words import (
    epoch_of,
    fence_system,
    fence_tma,
    global_timer,
    state_of,
    words32,
    words64,
)

__all__ = ["aborted", "have_arrived", "hold_input", "raise_signals", "wait_signals"]

_POLLS = tl.constexpr(64)
"""Polls between two looks at the clock and at STATE_ABORTED."""


@triton.jit
def _poll(flag):
    # Triton lowers an acquiring addition of zero to an acquiring load.
    return tl.atomic_add(flag, 0, sem="acquire", scope="sys")


@triton.jit
def aborted(ctx):
    """Returns whether a call was given up, i32 and the same in every thread: 0, or who did so."""
    return tl.atomic_cas(state_of(ctx) + STATE_ABORTED, 0, 0, sem="relaxed", scope="gpu")


@triton.jit
def _silence_engine(ctx):
    """Lets what a copy engine still has to raise change nothing at the peers."""
    state = state_of(ctx)
    tl.store(state + STATE_ENGINE_EPOCH, epoch_of(ctx) - 1)
    tl.store(state + STATE_ENGINE_ONE, 0)


@triton.jit
def _report(ctx, index, wanted, seen, WHERE: tl.constexpr):
    """Writes the fault record: everything else first, then the word that says so."""
    address = tl.load(ctx + FAULT)
    if address != 0:
        record = words64(address)
        tl.store(record + FAULT_RANK, tl.load(ctx + RANK))
        tl.store(record + FAULT_SIGNAL, index)
        tl.store(record + FAULT_WANTED, wanted)
        tl.store(record + FAULT_SEEN, seen)
        tl.store(record + FAULT_WHERE, WHERE)
        tl.store(record + FAULT_EPOCH, epoch_of(ctx))
        fence_system()
        tl.store(record + FAULT_SET, 1)


@triton.jit
def _block(ctx, index, wanted, seen, WHERE: tl.constexpr, ROLE: tl.constexpr):
    """Polls until the flag has come or somebody has given up; returns the value last seen."""
    flag = words32(tl.load(ctx + FLAGS)) + index
    owner_word = state_of(ctx) + STATE_ABORTED
    limit = tl.load(ctx + TIMEOUT_NS)
    start = global_timer()
    # Several roles of a CTA may wait at once, and one of them has to know that it is the owner.
    claim = 1 + NUM_REALIZATIONS * tl.program_id(0) + ROLE
    owner_before = aborted(ctx)
    owner = owner_before
    while (seen - wanted < 0) & (owner == 0):
        polls = 0
        while (seen - wanted < 0) & (polls < _POLLS):
            seen = _poll(flag)
            polls += 1
        late = (limit > 0) & (global_timer() - start > limit)
        owner = tl.atomic_cas(owner_word, 0, tl.where(late, claim, 0), sem="relaxed", scope="gpu")
    # The last exchange may have been the one that claimed, and it returned what was there before.
    owner = aborted(ctx)
    if (owner == claim) & (owner_before == 0):
        _silence_engine(ctx)
        _report(ctx, index, wanted, seen, WHERE)
    return seen


@triton.jit
def wait_signals(
    ctx,
    begin,
    end,
    WHERE: tl.constexpr,
    TMA_READS: tl.constexpr,
    ROLE: tl.constexpr = 0,
    PROFILE: tl.constexpr = False,
):
    """Waits until the flags of the waits ``[begin, end)`` have come.

    A wait with count c > 0 is over when its flag is at least ``epoch * c``; one with count 0 guards a buffer of the
    call before and is over at ``epoch - 1``.

    Args:
        ctx: The context.
        begin: First row of the wait table, i32.
        end: Row after the last, i32.
        WHERE: What the fault record says about who waited.
        TMA_READS: Whether TMA may read the data next.
        ROLE: Number of the realization of the role that waits; 0 for whom no realization names.
        PROFILE: Whether to leave records of the waits that take time.

    Returns:
        i32, the same in every thread: 1 when all flags have come, 0 when the call has been given up.
    """
    arrived = 1
    # Most tiles wait for nothing and should pay one comparison for it.
    if begin < end:
        flags = words32(tl.load(ctx + FLAGS))
        waits = words32(tl.load(ctx + WAITS))
        epoch = epoch_of(ctx)
        for w in range(begin, end):
            index = tl.load(waits + w * WAIT_STRIDE + WAIT_SIGNAL)
            count = tl.load(waits + w * WAIT_STRIDE + WAIT_COUNT)
            wanted = tl.where(count == 0, epoch - 1, epoch * count)
            seen = _poll(flags + index)
            if seen - wanted < 0:
                if PROFILE:
                    stamp(ctx, WAIT_BEGIN, w, ROLE)
                seen = _block(ctx, index, wanted, seen, WHERE, ROLE)
                if PROFILE:
                    stamp(ctx, WAIT_END, w, ROLE)
            arrived = tl.where(seen - wanted < 0, 0, arrived)
        if TMA_READS:
            fence_tma()
    return arrived


@triton.jit
def have_arrived(ctx, begin, end):
    """Returns whether the waits ``[begin, end)`` are over, i32 and the same in every thread, without waiting."""
    flags = words32(tl.load(ctx + FLAGS))
    waits = words32(tl.load(ctx + WAITS))
    epoch = epoch_of(ctx)
    arrived = 1
    for w in range(begin, end):
        count = tl.load(waits + w * WAIT_STRIDE + WAIT_COUNT)
        wanted = tl.where(count == 0, epoch - 1, epoch * count)
        seen = _poll(flags + tl.load(waits + w * WAIT_STRIDE + WAIT_SIGNAL))
        arrived = tl.where(seen - wanted < 0, 0, arrived)
    return arrived


@triton.jit
def hold_input(ctx, begin, end):
    """Waits, after a call was given up, until the flags of the guard ``[begin, end)`` have reached that call.

    Its epoch has stayed, so the guard itself would be over before those who got the input of that very call are
    through. This wait is limited as well, once for all calls that follow: a peer that has gone for good must not hold
    the stream for ever.
    """
    flags = words32(tl.load(ctx + FLAGS))
    waits = words32(tl.load(ctx + WAITS))
    lost_word = state_of(ctx) + STATE_LOST
    wanted = epoch_of(ctx)
    limit = tl.load(ctx + TIMEOUT_NS)
    start = global_timer()
    lost = tl.atomic_cas(lost_word, 0, 0, sem="relaxed", scope="gpu")
    for w in range(begin, end):
        flag = flags + tl.load(waits + w * WAIT_STRIDE + WAIT_SIGNAL)
        seen = _poll(flag)
        while (seen - wanted < 0) & (lost == 0):
            polls = 0
            while (seen - wanted < 0) & (polls < _POLLS):
                seen = _poll(flag)
                polls += 1
            late = global_timer() - start > limit
            lost = tl.atomic_cas(lost_word, 0, tl.where(late, 1, 0), sem="relaxed", scope="gpu")


@triton.jit
def raise_signals(ctx, begin, end):
    """Raises the signals ``[begin, end)``, each with a release at system scope by one thread.

    Requires a barrier between the stores that the signals announce and this call.
    """
    signals = words64(tl.load(ctx + SIGNALS))
    epoch = epoch_of(ctx)
    for s in range(begin, end):
        flag = words32(tl.load(signals + s * SIGNAL_STRIDE + SIGNAL_ADDRESS))
        kind = tl.load(signals + s * SIGNAL_STRIDE + SIGNAL_KIND)
        if kind == KIND_ADD:
            tl.atomic_add(flag, 1, sem="release", scope="sys")
        else:
            tl.atomic_xchg(flag, tl.where(kind == KIND_EPOCH, epoch, 1), sem="release", scope="sys")
