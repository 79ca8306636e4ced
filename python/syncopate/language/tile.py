# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The tile marker.

The marker *returns* the coordinates, so whatever a kernel computes from them depends on the marker by SSA. That is
what keeps it before the loads of its tile through Triton's software pipeliner, and what lets a pass put a table
lookup and a wait in its place. Inline assembly is the one multi-result operation with side effects that Triton carries
unchanged through every pass and every version.
"""

from typing import Final

import triton
import triton.language as tl

__all__ = ["TILE_MARKER", "tile"]

TILE_MARKER: Final = "// syncopate.tile"
"""First line of the assembly text of a tile marker. Operands: coordinates, i, t. Results: coordinates, i."""


@triton.jit
def tile(t, m, n=None, k=None):
    """Marks the beginning of one output tile in a persistent loop.

    Args:
        t: Position of the tile in the order in which this kernel walks its tiles (the loop variable), an integer below
            2³¹.
        m: First tile coordinate that the kernel itself would take for position ``t``, likewise.
        n: Second tile coordinate, for kernels that have one.
        k: Third tile coordinate, for kernels that have one. Behind all coordinates of a tile that several programs
            compute stands the number of its part.

    Returns:
        The coordinates, i32, followed by ``i``, how many tiles this program has taken before: ``(m, i)``,
        ``(m, n, i)`` or ``(m, n, k, i)``. The kernel must use the returned coordinates for all its addresses.
    """
    # The registers of the assembly hold 32 bits.
    i = tl.cast((t - tl.program_id(0)) // tl.num_programs(0), tl.int32)
    t = tl.cast(t, tl.int32)
    m = tl.cast(m, tl.int32)
    if n is None:
        return tl.inline_asm_elementwise(
            "// syncopate.tile\nmov.b32 $0, $2;\nmov.b32 $1, $3;\n// $4",
            "=r,=r,r,r,r",
            [m, i, t],
            dtype=(tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
    elif k is None:
        n = tl.cast(n, tl.int32)
        return tl.inline_asm_elementwise(
            "// syncopate.tile\nmov.b32 $0, $3;\nmov.b32 $1, $4;\nmov.b32 $2, $5;\n// $6",
            "=r,=r,=r,r,r,r,r",
            [m, n, i, t],
            dtype=(tl.int32, tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
    else:
        n = tl.cast(n, tl.int32)
        k = tl.cast(k, tl.int32)
        return tl.inline_asm_elementwise(
            "// syncopate.tile\nmov.b32 $0, $4;\nmov.b32 $1, $5;\nmov.b32 $2, $6;\nmov.b32 $3, $7;\n// $8",
            "=r,=r,=r,=r,r,r,r,r,r",
            [m, n, k, i, t],
            dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
