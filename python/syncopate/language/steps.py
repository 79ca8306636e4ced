# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The markers of the steps that a tile walks: blocks of keys, or of K.

    for t in tl.range(tl.program_id(0), num_tiles, CTAS):
        m, _ = sy.tile(t, t)
        begin, end = sy.steps(0, tl.cdiv(K, BK))
        for i in tl.range(begin, end):
            k = sy.step(i)

In a fused kernel `i` is a row of a table of the schedule, which says the step, and what to wait for before it. What is
loaded at a step depends on what `step` returns, and so comes behind the marker wherever Triton's pipeliner puts it.
"""

from typing import Final

import triton
import triton.language as tl

__all__ = ["ORDERED_STEPS_MARKER", "STEPS_MARKER", "STEP_MARKER", "step", "steps"]

STEPS_MARKER: Final = "// syncopate.steps"
"""First line of the assembly text of the marker before the loop. Operands and results: begin, end."""

ORDERED_STEPS_MARKER: Final = "// syncopate.ordered_steps"
"""The same, of steps that keep their order."""

STEP_MARKER: Final = "// syncopate.step"
"""First line of the assembly text of the marker in the loop. Operand: what the loop counts. Result: the step."""


@triton.jit
def steps(begin, end, ordered: tl.constexpr = False):
    """Marks the loops over the steps of a tile, behind the marker of the tile and in the same body.

    Args:
        begin: First step that the kernel itself would take, an integer in [0, 2²⁴].
        end: The step behind the last one, likewise.
        ordered: Whether the steps have to be taken in ascending order. If not, the schedule decides.

    Returns:
        Where loops over the steps begin and end, i32: ``(begin, end)``. They are for these loops only, each of which
        takes its steps from `step`.
    """
    begin = tl.cast(begin, tl.int32)
    end = tl.cast(end, tl.int32)
    if ordered:
        return tl.inline_asm_elementwise(
            "// syncopate.ordered_steps\nmov.b32 $0, $2;\nmov.b32 $1, $3;",
            "=r,=r,r,r",
            [begin, end],
            dtype=(tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
    else:
        return tl.inline_asm_elementwise(
            "// syncopate.steps\nmov.b32 $0, $2;\nmov.b32 $1, $3;",
            "=r,=r,r,r",
            [begin, end],
            dtype=(tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )


@triton.jit
def step(i):
    """Marks the beginning of one step of a tile.

    Args:
        i: What the loop over the steps counts, i32, which is used for nothing else.

    Returns:
        The step, i32. The kernel must use it for the addresses of all that it loads for this step.
    """
    taken = tl.cast(0, tl.int32)
    # It is always true. A pipelined loop runs ahead of its end by turns whose effects it takes back, and Triton knows
    # how to do that with a branch only.
    if i >= 0:
        taken = tl.inline_asm_elementwise(
            "// syncopate.step\nmov.b32 $0, $1;",
            "=r,r",
            [i],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    return taken
