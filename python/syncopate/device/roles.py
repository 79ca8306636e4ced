# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Outlines of the fused kernels: which roles a CTA has, and what surrounds them.

An outline is a whole kernel with holes. A hole is a marker, impure inline assembly whose text begins with
COMPUTE_MARKER, or COMMUNICATE_MARKER and a realization; the passes put the body of the local kernel and the
communication roles there. Where tiles hand commands over to the role beside them, the outline has the ring for that.

The CTAs of a launch are of two kinds. The first COMM_CTAS belong to dedicated roles, and each of them walks the
commands of each dedicated role; those of a role that it has no part in are none. All others compute, and have the
co-located roles beside that. Every CTA takes part in closing the call.
"""

from typing import Final

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from syncopate.device.abi import COMM_CTAS, ROLE_END
from syncopate.device.calls import close_call, open_call
from syncopate.device.profile import begin_role, stamp
from syncopate.device.ring import close_ring, open_ring, piece_hand_over, piece_take
from syncopate.device.words import epoch_of

__all__ = ["COMMUNICATE_MARKER", "COMPUTE_MARKER", "roles"]

COMPUTE_MARKER: Final = "// syncopate.compute"
COMMUNICATE_MARKER: Final = "// syncopate.communicate."

_ASM: Final = "\nmov.b32 $0, 0;\n// $1 $2"
_TMA_DEDICATED = tl.constexpr(f"{COMMUNICATE_MARKER}tma_dedicated{_ASM}")
_TMA_COLOCATED = tl.constexpr(f"{COMMUNICATE_MARKER}tma_colocated{_ASM}")
_LDST_DEDICATED = tl.constexpr(f"{COMMUNICATE_MARKER}ldst_dedicated{_ASM}")
_LDST_COLOCATED = tl.constexpr(f"{COMMUNICATE_MARKER}ldst_colocated{_ASM}")


@gluon.jit
def _compute(ctx, input, ring, PROFILE: tl.constexpr):
    gl.inline_asm_elementwise(
        "// syncopate.compute\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )
    if PROFILE:
        stamp(ctx, ROLE_END, epoch_of(ctx), 0)
    if len(ring) > 0:
        piece_hand_over(ring)


@gluon.jit
def _communicate(ctx, input, MARKER: tl.constexpr):
    gl.inline_asm_elementwise(MARKER, "=r,l,l", [ctx, input], dtype=tl.int32, is_pure=False, pack=1)


@gluon.jit
def _tma_colocated(ctx, input, ring):
    _communicate(ctx, input, _TMA_COLOCATED)
    if len(ring) > 0:
        piece_take(ring)


@gluon.jit
def _ldst_colocated(ctx, input, ring):
    _communicate(ctx, input, _LDST_COLOCATED)
    if len(ring) > 0:
        piece_take(ring)


@gluon.jit
def _compute_beside(
    ctx,
    input,
    TMA: tl.constexpr,
    LDST: tl.constexpr,
    TMA_RING: tl.constexpr,
    LDST_RING: tl.constexpr,
    WARPS: tl.constexpr,
    REGISTERS: tl.constexpr,
    PROFILE: tl.constexpr,
):
    """The kernel's warps compute; each co-located role has WARPS more of the CTA, with REGISTERS registers a thread."""
    ring = ()
    if TMA_RING or LDST_RING:
        ring = open_ring()
    # Who has no part in the ring gets none.
    tma = (ctx, input, ring if TMA_RING else ())
    ldst = (ctx, input, ring if LDST_RING else ())
    if TMA and LDST:
        gl.warp_specialize(
            [
                (_compute, (ctx, input, ring, PROFILE)),
                (_tma_colocated, tma),
                (_ldst_colocated, ldst),
            ],
            [WARPS, WARPS],
            [REGISTERS, REGISTERS],
        )
    elif TMA:
        gl.warp_specialize(
            [(_compute, (ctx, input, ring, PROFILE)), (_tma_colocated, tma)], [WARPS], [REGISTERS]
        )
    elif LDST:
        gl.warp_specialize(
            [(_compute, (ctx, input, ring, PROFILE)), (_ldst_colocated, ldst)], [WARPS], [REGISTERS]
        )
    else:
        _compute(ctx, input, ring, PROFILE)
    if TMA_RING or LDST_RING:
        close_ring(ring)


@gluon.jit
def roles(
    ctx,
    input,
    TMA_DEDICATED: tl.constexpr,
    TMA_COLOCATED: tl.constexpr,
    LDST_DEDICATED: tl.constexpr,
    LDST_COLOCATED: tl.constexpr,
    TMA_RING: tl.constexpr,
    LDST_RING: tl.constexpr,
    WARPS: tl.constexpr,
    REGISTERS: tl.constexpr,
    PROFILE: tl.constexpr,
):
    """One call: open it, run the roles of each CTA to their end, close it.

    Args:
        ctx: The context.
        input: Pointer to the rank's input.
        TMA_DEDICATED: Whether there is a role of this realization; for the other three, likewise.
        TMA_COLOCATED: See there.
        LDST_DEDICATED: See there.
        LDST_COLOCATED: See there.
        TMA_RING: Whether tiles hand commands over to the co-located role of that kind.
        LDST_RING: See there.
        WARPS: Warps of a co-located role.
        REGISTERS: Registers of each of their threads.
        PROFILE: Whether to leave records.
    """
    open_call(ctx)
    if PROFILE:
        # Also where nothing is computed: any CTA may be the one that closes the call.
        begin_role(ctx, 0)
    if TMA_DEDICATED or LDST_DEDICATED:
        if tl.program_id(0) < tl.load(ctx + COMM_CTAS):
            if TMA_DEDICATED:
                _communicate(ctx, input, _TMA_DEDICATED)
            if LDST_DEDICATED:
                _communicate(ctx, input, _LDST_DEDICATED)
        else:
            _compute_beside(
                ctx,
                input,
                TMA_COLOCATED,
                LDST_COLOCATED,
                TMA_RING,
                LDST_RING,
                WARPS,
                REGISTERS,
                PROFILE,
            )
    else:
        _compute_beside(
            ctx,
            input,
            TMA_COLOCATED,
            LDST_COLOCATED,
            TMA_RING,
            LDST_RING,
            WARPS,
            REGISTERS,
            PROFILE,
        )
    close_call(ctx, PROFILE)
