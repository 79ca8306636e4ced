# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The kernel that holds a rank's stream until its input may be replaced.

Peers may still be getting that of the previous call. One warp of one CTA waits for a range of the waits table by the
protocol of the fused kernel, time limit and fault record included. On a time-out it marks the state as aborted, so the
fused kernel behind it on the stream drains.
"""

import functools

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from syncopate.device.abi import WHERE_GUARD
from syncopate.device.signals import aborted, hold_input, wait_signals
from syncopate.runtime.interface import KernelImage

__all__ = ["compile_guard", "guard"]


@triton.jit
def guard(context, begin, end):
    """Waits for the waits begin .. end of the context's table."""
    # The next kernel is what reads by TMA, so this one needs no proxy fence.
    wait_signals(context, begin, end, WHERE_GUARD, False)
    if aborted(context) != 0:
        hold_input(context, begin, end)


@functools.cache
def compile_guard(target: GPUTarget) -> KernelImage:
    """Compiles the kernel. Needs no GPU."""
    source = ASTSource(
        fn=guard,
        signature={"context": "*i64", "begin": "i32", "end": "i32"},
        constexprs={},
        attrs={},
    )
    return KernelImage.from_triton(triton.compile(source, target=target, options={"num_warps": 1}))
