# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Reading the tile table: what takes the place of a tile marker."""

import triton
import triton.language as tl

from syncopate.device.abi import TILE_STRIDE, TILES
from syncopate.device.words import words32

__all__ = ["read_tile"]


@triton.jit
def read_tile(ctx, t):
    """Returns row ``t`` of the tile table: three coordinates, first wait, end of waits, all i32."""
    row = words32(tl.load(ctx + TILES)) + t * TILE_STRIDE
    return tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
