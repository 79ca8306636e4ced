# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Reading what the host has prepared: the tile table, in place of a tile marker, and the rows of the input."""

import triton
import triton.language as tl

from syncopate.device.abi import (
    INPUT_BEGIN,
    INPUT_END,
    TILE_C0,
    TILE_C1,
    TILE_C2,
    TILE_STRIDE,
    TILE_WAIT_BEGIN,
    TILE_WAIT_END,
    TILES,
)
from syncopate.device.words import words32

__all__ = ["input_rows", "read_tile"]


@triton.jit
def read_tile(ctx, t):
    """Returns row ``t`` of the tile table: three coordinates, first wait, end of waits, all i32."""
    row = words32(tl.load(ctx + TILES)) + t * TILE_STRIDE
    m, n, k = tl.load(row + TILE_C0), tl.load(row + TILE_C1), tl.load(row + TILE_C2)
    return m, n, k, tl.load(row + TILE_WAIT_BEGIN), tl.load(row + TILE_WAIT_END)


@triton.jit
def input_rows(ctx):
    """Returns the first row of the buffer that is the rank's own input and the row after the last, i32."""
    return tl.load(ctx + INPUT_BEGIN).to(tl.int32), tl.load(ctx + INPUT_END).to(tl.int32)
