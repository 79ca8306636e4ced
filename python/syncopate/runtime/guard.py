"""The kernel that holds a rank's stream until its input may be overwritten.

Peers may still be getting that of the previous call. One warp of one CTA waits for a range of the packed waits table by
the protocol of the fused kernel, time limit and fault record included. On a time-out it marks the state as aborted, so
the fused kernel behind it on the stream drains.
"""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from syncopate.device.signals import wait_signals
from syncopate.runtime.interface import KernelImage
from syncopate.runtime.layout import FaultPlace

_WHERE_GUARD = tl.constexpr(int(FaultPlace.GUARD))


@triton.jit
def guard(context, begin, end):  # type: ignore[no-untyped-def]
    """Waits for the waits begin .. end of the context's table."""
    # The next kernel is what reads by TMA, so this one needs no proxy fence.
    wait_signals(context, begin, end, _WHERE_GUARD, False)


@functools.cache
def compile_guard(capability: int) -> KernelImage:
    """Compiles the kernel for a compute capability such as 90. Needs no GPU."""
    source = ASTSource(
        fn=guard,
        signature={"context": "*i64", "begin": "i32", "end": "i32"},
        constexprs={},
        attrs={},
    )
    compiled = triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 1}
    )
    return KernelImage.from_triton(compiled)
