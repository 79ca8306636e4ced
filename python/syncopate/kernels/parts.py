# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The last round of a persistent GEMM: its tiles do not fill it, so each is computed by several programs.

A program computes a part of the K loop of one tile and leaves the sum in float32 in its own slot of global memory. The
last one of the tile adds the parts up in their order, whoever it is, so a result does not depend on the time.
"""

import triton
import triton.language as tl

__all__ = ["load_parts", "part_steps", "store_part", "whole_tiles"]


@triton.jit
def whole_tiles(tiles, NUM_SMS: tl.constexpr, parts):
    """Returns how many tiles programs compute alone: those of rounds that they fill, or all if ``parts`` is 1."""
    return tiles - tiles % NUM_SMS * tl.minimum(parts - 1, 1)


@triton.jit
def part_steps(part, steps, parts):
    """Returns the first of the steps of a part, and the one after the last; parts differ by one step at most."""
    return part * steps // parts, (part + 1) * steps // parts


@triton.jit
def _slot(work_ptr, slot, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return work_ptr + slot.to(tl.int64) * (ROWS * COLUMNS) + offsets


@triton.jit
def store_part(work_ptr, slot, accumulator):
    """Stores a part, [ROWS, COLUMNS] of float32, in a slot."""
    tl.store(_slot(work_ptr, slot, accumulator.shape[0], accumulator.shape[1]), accumulator)


@triton.jit
def load_parts(work_ptr, slot, parts, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Returns the sum of the parts in ``parts`` slots, of which ``slot`` is the first, added up in this order."""
    accumulator = tl.load(_slot(work_ptr, slot, ROWS, COLUMNS))
    # Loads that were pipelined would need shared memory for another tile.
    for other in tl.range(1, parts, num_stages=1):
        accumulator += tl.load(_slot(work_ptr, slot + other, ROWS, COLUMNS))
    return accumulator
