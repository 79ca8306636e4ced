# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Small pieces that the other device functions share: reading the context, barriers, fences."""

import triton
import triton.language as tl

from syncopate.device.abi import (
    COMMAND_COUNT,
    COMMAND_COUNT_PAST,
    COMMAND_ROWS,
    FIRST_ROLE,
    FIRST_ROLE_WORD,
    STATE,
    STATE_EPOCH,
)

__all__ = [
    "command_rows",
    "epoch_of",
    "fence_system",
    "fence_tma",
    "global_timer",
    "role_part",
    "sleep",
    "state_of",
    "unpack_range",
    "wait_for_tma_stores",
    "words32",
    "words64",
]


@triton.jit
def words32(address):
    """Returns an address as a pointer to i32."""
    return address.to(tl.pointer_type(tl.int32))


@triton.jit
def words64(address):
    """Returns an address as a pointer to i64."""
    return address.to(tl.pointer_type(tl.int64))


@triton.jit
def state_of(ctx):
    """Returns the pointer to this rank's state words."""
    return words32(tl.load(ctx + STATE))


@triton.jit
def epoch_of(ctx):
    """Returns the number of the current call. It changes only when every CTA has come to the end of the call."""
    return tl.load(state_of(ctx) + STATE_EPOCH)


@triton.jit
def unpack_range(word):
    """Returns the begin and the end packed in a word of the context."""
    return (word >> 32).to(tl.int32), (word & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def role_part(ctx, ROLE: tl.constexpr):
    """Returns the rows of the commands of a role, and which part of each is this CTA's: begin, end, part, parts, i32.

    A CTA that is none of the role's has no rows.
    """
    word = ctx + FIRST_ROLE_WORD + 2 * (ROLE - FIRST_ROLE)
    begin, end = unpack_range(tl.load(word))
    first, last = unpack_range(tl.load(word + 1))
    part = tl.program_id(0) - first
    return begin, tl.where((part >= 0) & (part < last - first), end, begin), part, last - first


@triton.jit
def command_rows(command, COUNTED: tl.constexpr):
    """Returns how many rows a command moves, i64.

    Args:
        command: Pointer to the fields of the command.
        COUNTED: Whether there are commands whose rows are counted at run time.
    """
    rows = tl.load(command + COMMAND_ROWS)
    if COUNTED:
        address = tl.load(command + COMMAND_COUNT)
        count = tl.load(words32(address), mask=address != 0, other=0)
        left = count - tl.load(command + COMMAND_COUNT_PAST)
        rows = tl.where(address != 0, tl.minimum(tl.maximum(left, 0), rows), rows)
    return rows


@triton.jit
def global_timer():
    """Returns the GPU's clock in nanoseconds. Threads read different values: nothing uniform may depend on it."""
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def sleep(nanoseconds):
    """Rests for about that long."""
    tl.inline_asm_elementwise(
        "nanosleep.u32 $1;\nmov.b32 $0, 0;",
        "=r,r",
        [nanoseconds],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fence_tma():
    """Orders this thread's earlier view of memory before what TMA reads next.

    TMA reads through the asynchronous proxy, which an acquire does not cover: data that a peer's ordinary stores or a
    copy engine wrote needs this fence between the acquire and the load.
    """
    tl.inline_asm_elementwise(
        "fence.proxy.async;\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def fence_system():
    """Orders this thread's earlier stores before its later ones, for every observer, the host included."""
    tl.inline_asm_elementwise(
        "fence.acq_rel.sys;\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def wait_for_tma_stores():
    """Waits until all that this thread has stored by TMA can be seen, not only until its source may be overwritten."""
    tl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0;\nmov.b32 $0, 0;",
        "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
