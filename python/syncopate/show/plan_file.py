"""The schedule of a plan in `.mlir`: what the passes make of it, without a kernel or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from syncopate.compiler.tables import read_buffers, read_signal_layout, read_tables
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir.dialects import chunk
from syncopate.runtime.interface import BufferSpec, SignalLayout, Table


@dataclass(frozen=True)
class PlanSchedule:
    """The members of a program that need no kernel; see `syncopate.runtime.interface`.

    Attributes:
      tiles: sizes of the tile grid.
      tile_shape: rows and columns of the first buffer that a tile reads.
      scheduled: the module after the passes.
    """

    name: str
    world_size: int
    num_ctas: int
    tiles: tuple[int, ...]
    tile_shape: tuple[int, ...]
    buffers: tuple[BufferSpec, ...]
    signal_layout: SignalLayout
    tables: tuple[Mapping[str, Table], ...]
    scheduled: str

    def rank_tables(self, rank: int) -> Mapping[str, Table]:
        """The schedule tables of one rank."""
        return self.tables[rank]


def schedule_plan(text: str, options: str = "") -> PlanSchedule:
    """Runs `syncopate-plan-pipeline` on a module with one plan and one kernel binding.

    Args:
      text: the module; footprints stand in it.
      options: of the pipeline, such as `splits=2 realization=copy_engine`.

    Raises:
      PlanError: the module is malformed, a pass refuses it, or it has no kernel.
    """
    context = new_context()
    module = parse(text, context)
    run_pipeline(module, f"syncopate-plan-pipeline{{{options}}}")
    plans = [op for op in module.body.operations if isinstance(op, chunk.PlanOp)]
    body = list(plans[0].regions[0].blocks[0].operations) if len(plans) == 1 else []
    kernels = [op for op in body if isinstance(op, chunk.KernelOp)]
    if len(kernels) != 1:
        raise PlanError("expects a module with one chunk.plan that holds one chunk.kernel")
    world = prod(plans[0].attributes["mesh"])
    footprint = kernels[0].regions[0].blocks[0].operations[0]
    return PlanSchedule(
        name=plans[0].attributes["sym_name"].value,
        world_size=world,
        num_ctas=_int(kernels[0], "ctas"),
        tiles=tuple(kernels[0].attributes["tiles"]),
        tile_shape=tuple(footprint.attributes["sizes"]),
        buffers=read_buffers(plans[0], world),
        signal_layout=read_signal_layout(plans[0]),
        tables=read_tables(plans[0], world),
        scheduled=str(module),
    )


def _int(op: Any, name: str) -> int:
    return int(op.attributes[name].value)
