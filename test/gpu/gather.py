"""A program that gathers a matrix and copies it out tile by tile, without the compiler.

Its kernel is written against the device library by hand and its tables are those of
test/python/hand_tables.py: what fails here is the runtime or the device library.
"""

from __future__ import annotations

import functools

import hand_tables
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from syncopate.abi import Realization
from syncopate.device import compile_guard
from syncopate.device.abi import WHERE_TILE
from syncopate.device.calls import close_call, open_call
from syncopate.device.copy import run_commands_ldst
from syncopate.device.signals import wait_signals
from syncopate.device.tile import read_tile
from syncopate.runtime.interface import (
    BufferParam,
    KernelImage,
    ProgramData,
    ScalarParam,
    TensorParam,
)

ROLE = tl.constexpr(int(Realization.LDST_COLOCATED))
UNITS = {16: 512, 8: 1024, 4: 1024, 2: 1024}


@triton.jit
def gather(
    context,
    a,
    out,
    rows,
    columns,
    num_tiles,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    UNIT: tl.constexpr,
    UNITS_PER_BLOCK: tl.constexpr,
):
    """Communicates first and copies a to out afterwards, so every CTA has one role at a time."""
    open_call(context)
    run_commands_ldst(
        context, a, ROLE, UNIT, UNITS_PER_BLOCK, UNITS_PER_BLOCK, None, False, False, False
    )
    for t in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        m, n, _, wait_begin, wait_end = read_tile(context, t, False)
        wait_signals(context, wait_begin, wait_end, WHERE_TILE, False)
        tl.debug_barrier()
        row = m * TILE_M + tl.arange(0, TILE_M)[:, None]
        column = n * TILE_N + tl.arange(0, TILE_N)[None, :]
        inside = (row < rows) & (column < columns)
        at = row * columns + column
        tl.store(out + at, tl.load(a + at, mask=inside), mask=inside)
    close_call(context)


@functools.cache
def compile_gather(capability: int, tile: tuple[int, int], unit: int) -> KernelImage:
    """Compiles the kernel; needs no GPU."""
    constants = {
        "TILE_M": tile[0],
        "TILE_N": tile[1],
        "UNIT": unit,
        "UNITS_PER_BLOCK": UNITS[unit],
    }
    signature = {
        "context": "*i64",
        "a": "*bf16",
        "out": "*bf16",
        **dict.fromkeys(("rows", "columns", "num_tiles"), "i32"),
        **dict.fromkeys(constants, "constexpr"),
    }
    source = ASTSource(fn=gather, signature=signature, constexprs=constants, attrs={})
    target = GPUTarget("cuda", capability, 32)
    return KernelImage.from_triton(triton.compile(source, target=target, options={"num_warps": 4}))


def gather_program(
    world: int,
    algorithm: str,
    realization: Realization,
    shape: tuple[int, int],
    num_ctas: int,
    capability: int = 90,
    timeout_ns: int = 5_000_000_000,
    tile: tuple[int, int] = (32, 64),
) -> ProgramData:
    """An all-gather of a bf16 matrix of any shape whose rows are split over the ranks."""
    tables = hand_tables.all_gather(
        world, algorithm, int(realization), shape, tile, columns=shape[1], num_ctas=num_ctas
    )
    # Shards start at any row, so the row size alone says how much a load can take.
    unit = next(u for u in UNITS if 2 * shape[1] % u == 0)
    num_tiles = len(tables.per_rank[0]["tiles"])
    return ProgramData(
        name=f"gather_{algorithm}_{realization.name.lower()}_w{world}",
        world_size=world,
        buffers=tuple(tables.buffers),
        params=(
            BufferParam("a", "a", descriptor=False),
            TensorParam("out", "out", shape, "bf16", descriptor=False, output=True),
            ScalarParam("rows", shape[0]),
            ScalarParam("columns", shape[1]),
            ScalarParam("num_tiles", num_tiles),
        ),
        image=compile_gather(capability, tile, unit),
        grid=(num_ctas, 1, 1),
        num_ctas=num_ctas,
        signal_layout=tables.signal_layout,
        tables=tuple(tables.rank_tables(rank) for rank in range(world)),
        timeout_ns=timeout_ns,
        guard=compile_guard(GPUTarget("cuda", capability, 32)),
    )


CASES = [
    ("push", Realization.LDST_COLOCATED),
    ("pull", Realization.LDST_COLOCATED),
    ("ring", Realization.LDST_COLOCATED),
    ("push", Realization.COPY_ENGINE),
    ("pull", Realization.COPY_ENGINE),
]
"""(algorithm, realization) of every all-gather that the runtime supports."""
