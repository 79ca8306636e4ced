# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Bias, activation and residual: Y = f(X + b) + R, of an X that library calls have left in slots or of rows."""

import triton
import triton.language as tl

from syncopate.kernels.epilogue import finish_accumulator
from syncopate.language.slots import slot_offsets

__all__ = ["add_activate"]


@triton.jit
def add_activate(
    x_ptr,
    x_rows_ptr,
    bias_ptr,
    residual_ptr,
    y_ptr,
    M,
    N,
    ACTIVATION: tl.constexpr,
    SLOT_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Computes a block of [BLOCK_M, BLOCK_N] in float32, on a grid of as many programs as blocks.

    ``x_ptr`` points to X[M, N], or, with ``x_rows_ptr``, to slots of SLOT_N columns; ``bias_ptr`` to b[N] or None,
    ``residual_ptr`` to R[M, N] or None, ``y_ptr`` to Y[M, N]. ACTIVATION is "relu", "gelu", "silu" or None. BLOCK_N is
    a multiple of 16.
    """
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = column[None, :]
    mask = (rows < M) & (columns < N)
    at = rows.to(tl.int64) * N + columns
    x_at = at
    if x_rows_ptr is not None:
        x_at = slot_offsets(x_rows_ptr, rows, columns, tl.cdiv(N, SLOT_N), mask, SLOT_N)
    x = tl.load(x_ptr + x_at, mask=mask, other=0.0).to(tl.float32)
    y = finish_accumulator(x, bias_ptr, column, N, ACTIVATION)
    if residual_ptr is not None:
        y += tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)
