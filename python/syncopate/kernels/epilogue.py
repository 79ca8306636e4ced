# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""What the GEMMs do to a tile of C in float32, before it is rounded: add a bias, apply an activation."""

import triton
import triton.language as tl

__all__ = ["finish_accumulator"]


@triton.jit
def finish_accumulator(accumulator, bias_ptr, columns, N, ACTIVATION: tl.constexpr):
    """Returns what is stored of a tile's sum.

    Args:
        accumulator: The sum, float32.
        bias_ptr: Leads to a value for each of N columns, or None.
        columns: Columns of the tile; those behind N have no bias.
        N: Columns of C.
        ACTIVATION: "relu", "gelu" (by the error function) or "silu", or None.
    """
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
        accumulator += bias.to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        accumulator = tl.maximum(accumulator, 0.0)
    elif ACTIVATION == "gelu":
        accumulator = 0.5 * accumulator * (1.0 + tl.erf(accumulator * 0.7071067811865476))
    elif ACTIVATION == "silu":
        accumulator = accumulator / (1.0 + tl.exp(-accumulator))
    return accumulator
