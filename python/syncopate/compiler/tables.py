"""Reads schedule tables out of a lowered plan."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.runtime.interface import (
    BufferSpec,
    Realization,
    Region,
    SignalLayout,
    Table,
)

__all__ = ["copy_unit", "loads_remotely", "read_buffers", "read_signal_layout", "read_tables"]

_UNITS = (16, 8, 4, 2, 1)


def _to_table(attribute: ir.Attribute) -> Table:
    return Table(tuple(attribute.columns), np.array(attribute.values, dtype=np.int64))


def read_tables(plan: ir.OpView, world_size: int) -> tuple[Mapping[str, Table], ...]:
    """The tables of every rank, by name, from the `chunk.schedule` operations of a plan with one kernel."""
    tables: list[Mapping[str, Table]] = [{} for _ in range(world_size)]
    for op in plan.regions[0].blocks[0].operations:
        if isinstance(op, ops.ScheduleOp):
            tables[op.attributes["rank"].value] = {
                name: _to_table(op.attributes[name])
                for name in ("tiles", "waits", "commands", "signals", "calls")
            }
    return tuple(tables)


def read_signal_layout(plan: ir.OpView) -> SignalLayout:
    """Where each kind of flag lies, from the `signals` attribute of a plan."""
    table = _to_table(plan.attributes["signals"])
    return SignalLayout(**table.rows()[0])


def read_buffers(plan: ir.OpView, world_size: int) -> tuple[BufferSpec, ...]:
    """The buffers of a plan and what every rank holds of them when a call starts."""
    operations = list(plan.regions[0].blocks[0].operations)
    inputs: dict[str, list[list[Region]]] = {}
    specs = []
    for op in operations:
        if isinstance(op, ops.BufferOp):
            inputs[op.attributes["name"].value] = [[] for _ in range(world_size)]
    for op in operations:
        if isinstance(op, ops.InputOp):
            name = op.operands[0].owner.attributes["name"].value
            inputs[name][op.attributes["rank"].value].append(
                Region(tuple(op.attributes["offsets"]), tuple(op.attributes["sizes"]))
            )
    for op in operations:
        if isinstance(op, ops.BufferOp):
            name, kind = op.attributes["name"].value, op.results[0].type
            held = tuple(tuple(regions) for regions in inputs[name])
            specs.append(BufferSpec(name, tuple(kind.shape), str(kind.element_type), held))
    return tuple(specs)


def copy_unit(tables: tuple[Mapping[str, Table], ...]) -> int:
    """Bytes per load and store of the communication roles: the largest unit that divides every row and offset."""
    divisor = _UNITS[0]
    for rank_tables in tables:
        commands = rank_tables["commands"]
        device = commands.column("realization") != Realization.COPY_ENGINE
        for name in ("src_offset", "dst_offset", "row_bytes", "src_stride", "dst_stride"):
            divisor = math.gcd(divisor, int(np.gcd.reduce(commands.column(name)[device])))
    return next(unit for unit in _UNITS if divisor % unit == 0)


def loads_remotely(tables: tuple[Mapping[str, Table], ...]) -> bool:
    """Whether some communication role loads from another rank."""
    for rank, rank_tables in enumerate(tables):
        commands = rank_tables["commands"]
        device = commands.column("realization") != Realization.COPY_ENGINE
        if bool((device & (commands.column("src_rank") != rank)).any()):
            return True
    return False
