"""Plans that are looked for: a schedule of a collective for the links that there are.

    fabric = Fabric.of(find_preset("rtx4090-pcie-w8-predicted").topology, 8, latency_us=8.0)
    found = synthesize("all_reduce", fabric, nbytes=64 << 20, chunks=2)
    plan = found.emit((8192, 4096), "bf16").plan

Importing it needs neither torch, nor a GPU, nor scipy.
"""

from syncopate.importers.steps.collective_steps import Collective
from syncopate.model.fabric import Fabric, Hop, Wire
from syncopate.synthesis.clock import MoveSpan, TimedSteps, find_bound_us, time_steps
from syncopate.synthesis.synthesis import Method, Synthesis, synthesize

__all__ = [
    "Collective",
    "Fabric",
    "Hop",
    "Method",
    "MoveSpan",
    "Synthesis",
    "TimedSteps",
    "Wire",
    "find_bound_us",
    "synthesize",
    "time_steps",
]
