# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Outlines of the fused kernel: which roles a CTA has, and what surrounds them.

An outline is a whole kernel with holes. A hole is a marker, impure inline assembly whose text begins with
COMPUTE_MARKER or COMMUNICATE_MARKER; the passes put the body of the local kernel and a communication role there.
"""

from typing import Final

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from syncopate.device.calls import close_call, open_call

__all__ = ["COMMUNICATE_MARKER", "COMPUTE_MARKER", "roles_colocated", "roles_plain"]

COMPUTE_MARKER: Final = "// syncopate.compute"
COMMUNICATE_MARKER: Final = "// syncopate.communicate"


@gluon.jit
def _compute(ctx, input):
    gl.inline_asm_elementwise(
        "// syncopate.compute\nmov.b32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _communicate(ctx, input):
    gl.inline_asm_elementwise(
        "// syncopate.communicate\nmov.b32 $0, 0;\n// $1 $2",
        "=r,l,l",
        [ctx, input],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def roles_plain(ctx, input):
    """Every warp computes; communication is somebody else's, a copy engine's for instance."""
    open_call(ctx)
    _compute(ctx, input)
    close_call(ctx)


@gluon.jit
def roles_colocated(ctx, input, WARPS: tl.constexpr, REGISTERS: tl.constexpr):
    """The kernel's warps compute; WARPS more warps of the same CTA communicate, with REGISTERS registers each thread.

    Both roles end before the call is closed.
    """
    open_call(ctx)
    gl.warp_specialize(
        [(_compute, (ctx, input)), (_communicate, (ctx, input))], [WARPS], [REGISTERS]
    )
    close_call(ctx)
