# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Which program stores a tile that several of them compute.

None of them waits for another: whichever comes last finds the parts of all others in memory. A store to memory by any
thread of a program happens before the barrier, that before the addition, which releases it to the next one that
acquires it, and so to the last. The counter is 0 again when the kernel ends, as it was when it began.

What `last_part` returns has gone through a marker, so that the compiler knows the branch that stores the tile.
"""

from typing import Final

import triton
import triton.language as tl

__all__ = ["LAST_PART_MARKER", "last_part"]

LAST_PART_MARKER: Final = "// syncopate.last_part"
"""First line of the assembly text of the marker. Operand and result: 1 in the last program of a tile, else 0."""


@triton.jit
def last_part(counter, parts):
    """Says that this program has stored its part of a tile, and returns whether all others have stored theirs.

    Args:
        counter: Leads to an i32 of the tile, 0 when the kernel starts, and again when it ends.
        parts: How many programs compute the tile, each of which calls this once.

    Returns:
        True in the program that calls it last. It may read what the others have stored, adds it up, and stores the
        tile, in the branch ``if last_part(...):``; the others do nothing more for the tile.
    """
    tl.debug_barrier()
    stored = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
    tl.store(counter, 0, mask=stored == parts)
    last = tl.inline_asm_elementwise(
        "// syncopate.last_part\nmov.b32 $0, $1;",
        "=r,r",
        [tl.cast(stored == parts, tl.int32)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    return last != 0
