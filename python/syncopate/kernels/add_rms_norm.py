# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Residual addition and RMSNorm, row by row: H = X + R, Y = H / sqrt(mean(H²) + ε) · w."""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.language.slots import slot_offsets

__all__ = ["add_rms_norm"]


@triton.jit(do_not_specialize=["M"])
def add_rms_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    sum_ptr,
    y_desc,
    M,
    N,
    EPSILON: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    NUM_SMS: tl.constexpr,
    x_rows_ptr=None,
    SLOT_N: tl.constexpr = 0,
):
    """Adds and normalizes in float32, in a loop over tiles of whole rows on NUM_SMS programs.

    ``x_ptr``, ``residual_ptr`` and ``sum_ptr`` point to X, R and H[M, N], ``weight_ptr`` to w[N]; ``y_desc`` describes
    Y[M, N] in blocks of [BLOCK_M, BLOCK_N]. BLOCK_N is a power of two that is not below N; BLOCK_M need not divide M.
    With ``x_rows_ptr``, X stands in slots of SLOT_N columns; see `syncopate.language.slot_offsets`.
    """
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    for t in range(tl.program_id(0), tl.cdiv(M, BLOCK_M), NUM_SMS):
        m, _ = sy.tile(t, t)
        rows = (m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
        at = rows.to(tl.int64) * N + columns
        mask = (rows < M) & (columns < N)
        x_at = at
        if x_rows_ptr is not None:
            x_at = slot_offsets(x_rows_ptr, rows, columns, tl.cdiv(N, SLOT_N), mask, SLOT_N)
        x = tl.load(x_ptr + x_at, mask=mask, other=0.0).to(tl.float32)
        total = x + tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(sum_ptr + at, total.to(sum_ptr.dtype.element_ty), mask=mask)
        mean = tl.sum(total * total, axis=1, keep_dims=True) / N
        y = total * tl.rsqrt(mean + EPSILON) * weight
        y_desc.store([m * BLOCK_M, 0], y.to(y_desc.dtype))
