"""The schedule of a plan in `.mlir`: what the passes make of it, without a kernel or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir.dialects import chunk
from syncopate.runtime.interface import BufferSpec, Region, SignalLayout, Table

TABLES = ("tiles", "waits", "commands", "signals", "calls")


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
    schedules = sorted(
        (op for op in body if isinstance(op, chunk.ScheduleOp)), key=lambda op: _int(op, "rank")
    )
    return PlanSchedule(
        name=plans[0].attributes["sym_name"].value,
        world_size=world,
        num_ctas=_int(kernels[0], "ctas"),
        tiles=tuple(kernels[0].attributes["tiles"]),
        tile_shape=tuple(footprint.attributes["sizes"]),
        buffers=tuple(_buffer(op, body, world) for op in body if isinstance(op, chunk.BufferOp)),
        signal_layout=_layout(_table(plans[0], "signals").rows()[0]),
        tables=tuple({name: _table(op, name) for name in TABLES} for op in schedules),
        scheduled=str(module),
    )


def _int(op: Any, name: str) -> int:
    return int(op.attributes[name].value)


def _table(op: Any, name: str) -> Table:
    attribute = op.attributes[name]
    columns = (column.replace("open_signal", "open") for column in attribute.columns)
    return Table(tuple(columns), np.array(attribute.values))


def _buffer(op: Any, body: list[Any], world: int) -> BufferSpec:
    regions: list[list[Region]] = [[] for _ in range(world)]
    for other in body:
        if isinstance(other, chunk.InputOp) and other.operands[0] == op.results[0]:
            region = Region(tuple(other.attributes["offsets"]), tuple(other.attributes["sizes"]))
            regions[_int(other, "rank")].append(region)
    kind = chunk.BufferType(op.results[0].type)
    name = op.attributes["name"].value
    return BufferSpec(name, kind.shape, str(kind.element_type), tuple(map(tuple, regions)))


def _layout(row: dict[str, int]) -> SignalLayout:
    return SignalLayout(
        data=row["data_twin"],
        ready=row["ready"],
        done=row["done"],
        ready1=row["ready_twin"],
        credit=row["done_twin"],
        engine_done=row["engine_done"],
        total=row["total"],
    )
