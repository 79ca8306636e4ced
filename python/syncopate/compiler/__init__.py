"""From a plan and a local kernel to a program: one fused kernel, and the schedule tables of every rank."""

from syncopate.choices import (
    Algorithm,
    Combine,
    Direction,
    Realization,
    Shots,
    SlotShape,
    TileOrder,
)
from syncopate.compiler.binding import (
    Ctas,
    Descriptor,
    Footprint,
    HasParts,
    Parts,
    Pointer,
    Scratch,
    Tensor,
)
from syncopate.compiler.driver import compile
from syncopate.compiler.program import Program
from syncopate.compiler.steps import Steps
from syncopate.compiler.target import Target
from syncopate.strategy import Strategy

__all__ = [
    "Algorithm",
    "Combine",
    "Ctas",
    "Descriptor",
    "Direction",
    "Footprint",
    "HasParts",
    "Parts",
    "Pointer",
    "Program",
    "Realization",
    "Scratch",
    "Shots",
    "SlotShape",
    "Steps",
    "Strategy",
    "Target",
    "Tensor",
    "TileOrder",
    "compile",
]
