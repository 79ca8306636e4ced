"""Plans: which chunks of which buffers move between which ranks, after what.

A plan is chunk IR from the beginning; the builders here only save typing. `Plan.text` is the `.mlir` file that
`syncopate-opt` takes.
"""

from syncopate.plan.builder import Buffer, Chunk, Plan, Token

__all__ = ["Buffer", "Chunk", "Plan", "Token"]
