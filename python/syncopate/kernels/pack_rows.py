# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Copies a matrix to where its rows start at multiples of a cache line."""

import triton
import triton.language as tl

__all__ = ["pack_rows"]


@triton.jit(do_not_specialize=["rows"])
def pack_rows(
    src,
    dst,
    rows,
    columns,
    src_pitch,
    dst_pitch,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Copies src[rows, columns] to dst and fills what follows each row with zeros; a block for each program.

    Rows are ``src_pitch`` and ``dst_pitch`` elements apart. The second dimension of the grid covers ``dst_pitch``.
    """
    r = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    c = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    values = tl.load(
        src + r.to(tl.int64) * src_pitch + c, mask=(r < rows) & (c < columns), other=0.0
    )
    tl.store(dst + r.to(tl.int64) * dst_pitch + c, values, mask=(r < rows) & (c < dst_pitch))
