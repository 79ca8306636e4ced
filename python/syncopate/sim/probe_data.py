"""What the tiles of a probe kernel compute, and what a plan that moves it means.

Tiles store what a tensor `made…` of the shape of their buffer holds where their footprint is. Where a plan adds, all
data are small integers, so that sums are exact in every element type: in which order transfers add is the plan's
choice, which the meaning of a collective leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from syncopate.ir import new_context, parse
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.interpreter import place_input

__all__ = ["draw_inputs", "name_made", "place_made"]

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]

_EXACT = {"f8E5M2": 8, "f8E4M3FN": 16}
_EXACT_ELSE = 256
"""Element types have all integers up to this; bf16 has the fewest but for those that are named."""


def name_made(number: int) -> str:
    """The tensor of what tiles store by their footprint of that number."""
    return f"made{number}"


def draw_inputs(probe: Any, calls: int, seed: int) -> list[dict[str, list[Array]]] | None:
    """What goes into each call, for a plan whose tiles store something, or that adds; else None: anything may go in."""
    if not probe.writes and " reduce " not in probe.plan:
        return None
    generator = np.random.default_rng(seed)
    exact = min(_EXACT.get(spec.dtype, _EXACT_ELSE) for spec in probe.buffers)
    most = max(1, min(8, exact // probe.world_size))

    def draw(shape: Sequence[int], rank: int) -> Array:
        drawn = generator.integers(-most, most, tuple(shape), endpoint=True)
        # Of more ranks than that, not all can have something to add.
        return drawn if rank < exact else np.zeros_like(drawn)

    drawn = []
    for _ in range(calls):
        inputs = {}
        for spec in probe.buffers:
            if any(spec.inputs):
                shapes = [
                    () if not regions else regions[0].sizes if len(regions) == 1 else spec.shape
                    for regions in spec.inputs
                ]
                inputs[spec.name] = [draw(shape or (0,), rank) for rank, shape in enumerate(shapes)]
        for number, access in enumerate(probe.writes):
            shape = probe.buffers[access.buffer].shape
            inputs[name_made(number)] = [draw(shape, rank) for rank in range(probe.world_size)]
        drawn.append(inputs)
    return drawn


def place_made(probe: Any, inputs: Mapping[str, Sequence[Array]]) -> Mapping[str, Sequence[Array]]:
    """What ranks provide, and tiles compute, as the interpreter of plans takes it: by buffer, for each rank."""
    if not probe.writes:
        return inputs
    placed: dict[str, Sequence[Array]] = dict(inputs)
    made = {
        probe.buffers[access.buffer].name: inputs[name_made(number)]
        for number, access in enumerate(probe.writes)
    }
    provided = _find_regions(probe.plan)
    for spec in probe.buffers:
        if spec.name not in made:
            continue
        arrays = []
        for rank in range(probe.world_size):
            whole = made[spec.name][rank].copy()
            boxes = [
                tuple(slice(a, a + n) for a, n in zip(part.offsets, part.sizes, strict=True))
                for part in spec.inputs[rank]
            ]
            parts = place_input(inputs[spec.name][rank], boxes) if boxes else ()
            for box, part in zip(boxes, parts, strict=True):
                whole[box] = part
            regions = provided.get((spec.name, rank), [])
            arrays.append(whole[regions[0]] if len(regions) == 1 else whole)
        placed[spec.name] = arrays
    return placed


def _find_regions(plan: str) -> dict[tuple[str, int], list[Box]]:
    """By buffer and rank, the regions that are there before any transfer, or computed by tiles."""
    found: dict[tuple[str, int], list[Box]] = {}
    for op in parse(plan, new_context()).body.operations:
        for step in op.regions[0].blocks[0].operations if isinstance(op, ops.PlanOp) else ():
            if isinstance(step, ops.InputOp | ops.ProduceOp):
                about = step.attributes
                key = step.operands[0].owner.attributes["name"].value, about["rank"].value
                box = tuple(
                    slice(a, a + n) for a, n in zip(about["offsets"], about["sizes"], strict=True)
                )
                found.setdefault(key, []).append(box)
    return found
