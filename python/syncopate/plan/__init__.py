"""Plans: which chunks of which buffers move between which ranks, after what.

A plan is chunk IR from the beginning; the builders here only save typing. `Plan.text` is the `.mlir` file that
`syncopate-opt` takes. What the passes have made of a plan, `read_schedule` reads.
"""

from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan
from syncopate.plan.schedule import Access, Schedule, read_schedule

__all__ = ["Access", "Buffer", "Chunk", "Plan", "Schedule", "Token", "read_schedule"]
