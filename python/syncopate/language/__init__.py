"""Markers that a local Triton kernel carries so that Syncopate can fuse it, and how one reads what is stored in slots.

A marker changes nothing: under plain Triton the annotated kernel computes what it would compute without it.

    import syncopate.language as sy

    for t in tl.range(tl.program_id(0), num_tiles, NUM_SMS, flatten=True):
        m, n = t // tiles_n, t % tiles_n
        m, n, i = sy.tile(t, m, n)
"""

from syncopate.language.last_part import LAST_PART_MARKER, last_part
from syncopate.language.slots import slot_offsets
from syncopate.language.steps import (
    ORDERED_STEPS_MARKER,
    STEP_MARKER,
    STEPS_MARKER,
    step,
    steps,
)
from syncopate.language.tile import TILE_MARKER, tile

__all__ = [
    "LAST_PART_MARKER",
    "ORDERED_STEPS_MARKER",
    "STEPS_MARKER",
    "STEP_MARKER",
    "TILE_MARKER",
    "last_part",
    "slot_offsets",
    "step",
    "steps",
    "tile",
]
