# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Entry points of the device library: each is compiled alone and moved into fused kernels by the passes.

A function "returns" values to the kernel that it is moved into by a yield marker: impure inline assembly whose text
begins with YIELD_MARKER and whose operands are the values.
"""

from typing import Final

import triton
import triton.language as tl

from syncopate.device.abi import WHERE_TILE
from syncopate.device.calls import close_call, open_call
from syncopate.device.copy import run_commands_ldst
from syncopate.device.copy_tma import run_commands_tma
from syncopate.device.roles import roles
from syncopate.device.signals import wait_signals
from syncopate.device.store_rows import store_rows
from syncopate.device.tile import (
    finish_tile,
    input_rows,
    read_step,
    read_tile,
    tile_number,
    tile_slot,
    tile_steps,
    tile_sum,
)

__all__ = [
    "YIELD_MARKER",
    "close_call",
    "finish_tile",
    "input_rows_entry",
    "open_call",
    "read_step_entry",
    "read_tile_entry",
    "roles",
    "run_commands_ldst",
    "run_commands_tma",
    "store_rows",
    "tile_number_entry",
    "tile_slot_entry",
    "tile_steps_entry",
    "tile_sum_entry",
    "wait_signals_entry",
]

YIELD_MARKER: Final = "// syncopate.yield"


@triton.jit
def read_tile_entry(ctx, t, COUNTED: tl.constexpr, PROFILE: tl.constexpr):
    """Yields row ``t`` of the tile table."""
    m, n, k, wait_begin, wait_end = read_tile(ctx, t, COUNTED, PROFILE)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2 $3 $4 $5",
        "=r,r,r,r,r,r",
        [m, n, k, wait_begin, wait_end],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def tile_steps_entry(ctx, t, own_begin, own_end):
    """Yields the rows of the step table that the tile at position ``t`` walks."""
    begin, end = tile_steps(ctx, t, own_begin, own_end)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2",
        "=r,r,r",
        [begin, end],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def read_step_entry(ctx, row):
    """Yields row ``row`` of the step table."""
    step, wait_begin, wait_end = read_step(ctx, row)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2 $3",
        "=r,r,r,r",
        [step, wait_begin, wait_end],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def tile_number_entry(ctx, t):
    """Yields the number of the tile at position ``t``."""
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1",
        "=r,r",
        [tile_number(ctx, t)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def tile_sum_entry(ctx, tile):
    """Yields whether a tile adds to what is there, and what it waits for before."""
    adds, wait_begin, wait_end = tile_sum(ctx, tile)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2 $3",
        "=r,r,r,r",
        [adds, wait_begin, wait_end],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def tile_slot_entry(ctx, tile):
    """Yields where a tile is stored."""
    slot, rows = tile_slot(ctx, tile)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2",
        "=r,r,r",
        [slot, rows],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def input_rows_entry(ctx):
    """Yields the range of rows that are the rank's own input."""
    begin, end = input_rows(ctx)
    tl.inline_asm_elementwise(
        "// syncopate.yield\nmov.b32 $0, 0;\n// $1 $2",
        "=r,r,r",
        [begin, end],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def wait_signals_entry(ctx, begin, end, TMA_READS: tl.constexpr, PROFILE: tl.constexpr):
    """Waits on behalf of a tile."""
    wait_signals(ctx, begin, end, WHERE_TILE, TMA_READS, 0, PROFILE)
