"""From a plan and a local kernel to a program: one fused kernel, and the schedule tables of every rank."""

from syncopate.compiler.binding import (
    Ctas,
    Descriptor,
    Footprint,
    Parts,
    Pointer,
    Scratch,
    Tensor,
)
from syncopate.compiler.driver import compile
from syncopate.compiler.program import Program
from syncopate.compiler.strategy import Algorithm, Direction, Realization, Strategy, TileOrder
from syncopate.compiler.target import Target

__all__ = [
    "Algorithm",
    "Ctas",
    "Descriptor",
    "Direction",
    "Footprint",
    "Parts",
    "Pointer",
    "Program",
    "Realization",
    "Scratch",
    "Strategy",
    "Target",
    "Tensor",
    "TileOrder",
    "compile",
]
