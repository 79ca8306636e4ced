"""What a lowered plan says: its buffers, flags, kernel and schedule tables, as plain data."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate.errors import PlanError
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.affine import Expression, to_function
from syncopate.plan.slots import place_slots
from syncopate.tables import BufferSpec, Region, SignalLayout, Table

__all__ = ["Access", "Schedule", "read_schedule"]

_TABLES = ("tiles", "waits", "commands", "signals", "calls", "groups", "tile_groups")
_LEFT_OUT = {
    "slots": ("call", "slot", "second"),
    "outputs": ("row", "rows", "column", "slot", "inside"),
    "steps": ("step", "wait_begin", "wait_end"),
    "tile_steps": ("begin", "end"),
}
"""Tables that a schedule may lack, with their columns."""


@dataclass(frozen=True)
class Access:
    """A region of a buffer that every tile of the kernel reads or writes.

    Attributes:
        argument: The kernel's argument.
        buffer: Index of the buffer in the plan.
        writes: Whether tiles write it.
        at_step: Whether it is read at a step of a tile, whose number stands behind the coordinates.
        offsets: Gives the region's offsets, in elements, for the coordinates of a tile: for integers, or for anything
            else that one can calculate with.
        sizes: Its sizes; what lies outside the buffer does not count.
        map: The offsets as an affine map, as MLIR prints it.
    """

    argument: str
    buffer: int
    writes: bool
    at_step: bool
    offsets: Callable[[Sequence[Any]], tuple[Any, ...]]
    sizes: tuple[int, ...]
    map: str


@dataclass(frozen=True)
class Schedule:
    """The members of a program that need no kernel; see `syncopate.runtime.interface.Program`.

    Attributes:
        name: Name of the plan.
        world_size: Number of ranks.
        num_ctas: CTAs over which the kernel distributes its tiles.
        comm_ctas: CTAs in front of those, which dedicated realizations have.
        tiles: Sizes of the grid of tiles.
        parts: Among how many CTAs each tile of the last round is split.
        accesses: What a tile reads and writes.
        buffers: The plan's buffers.
        bound: Names of the buffers by the argument of the kernel that is bound to them.
        produced: The buffers that tiles compute, by name, and whether some tile adds to what is there.
        separate: Buffers whose input nothing reads together with what is beside it; see `chunk-separate-inputs`.
        signal_layout: Numbering of the flags.
        tables: Schedule tables of every rank, by name.
        steps: For each rank, what gives the first step of a tile and the one behind its last, by its coordinates;
            nothing if tiles walk none.
    """

    name: str
    world_size: int
    num_ctas: int
    comm_ctas: int
    tiles: tuple[int, ...]
    parts: int
    accesses: tuple[Access, ...]
    buffers: tuple[BufferSpec, ...]
    bound: Mapping[str, str]
    produced: Mapping[str, bool]
    separate: tuple[str, ...]
    signal_layout: SignalLayout
    tables: tuple[Mapping[str, Table], ...]
    steps: tuple[Callable[[Sequence[int]], tuple[int, int]], ...] = ()

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Sizes of the region of the first buffer that a tile reads.

        Raises:
            PlanError: It reads none.
        """
        for access in self.accesses:
            if access.buffer == 0 and not access.writes:
                return access.sizes
        raise PlanError(f"plan {self.name}: no tile reads its first buffer")

    def rank_tables(self, rank: int) -> Mapping[str, Table]:
        """The tables of one rank, by name; see `syncopate.runtime.interface.Program`."""
        return self.tables[rank]


def read_schedule(plan: ir.OpView) -> Schedule:
    """Reads a plan with one kernel that all passes up to the tables have run on.

    Raises:
        PlanError: It has no kernel, or more than one.
    """
    body = list(plan.regions[0].blocks[0].operations)
    name = plan.attributes["sym_name"].value
    kernels = [op for op in body if isinstance(op, ops.KernelOp)]
    if len(kernels) != 1:
        raise PlanError(f"plan {name}: expects one chunk.kernel, but got {len(kernels)}")
    world_size = math.prod(plan.attributes["mesh"])
    buffers = _read_buffers(body, world_size)
    tables: list[Mapping[str, Table]] = [{} for _ in range(world_size)]
    for op in body:
        if isinstance(op, ops.ScheduleOp):
            found = {table: _to_table(op.attributes[table]) for table in _TABLES}
            for table, columns in _LEFT_OUT.items():
                empty = np.zeros((0, len(columns)), np.int64)
                found[table] = (
                    _to_table(op.attributes[table])
                    if table in op.attributes
                    else Table(columns, empty)
                )
            tables[op.attributes["rank"].value] = found
    accesses = tuple(_read_accesses(kernels[0], [buffer.name for buffer in buffers]))
    tiles = tuple(kernels[0].attributes["tiles"])
    return Schedule(
        name=name,
        world_size=world_size,
        num_ctas=int(kernels[0].attributes["ctas"].value),
        comm_ctas=int(kernels[0].attributes["comm_ctas"].value)
        if "comm_ctas" in kernels[0].attributes
        else 0,
        tiles=tiles,
        parts=int(kernels[0].attributes["parts"].value) if "parts" in kernels[0].attributes else 1,
        accesses=accesses,
        buffers=place_slots(
            buffers,
            _to_table(plan.attributes["slots"]) if "slots" in plan.attributes else None,
            tables,
        ),
        bound=_read_bound(kernels[0]),
        produced=_read_produced(body),
        separate=tuple(name.value for name in kernels[0].attributes["separate"])
        if "separate" in kernels[0].attributes
        else (),
        signal_layout=SignalLayout(**_to_table(plan.attributes["signals"]).rows()[0]),
        tables=tuple(tables),
        steps=_read_steps(kernels[0], world_size),
    )


def _to_table(attribute: ir.Attribute) -> Table:
    return Table(tuple(attribute.columns), np.array(attribute.values, dtype=np.int64))


def _read_buffers(body: Sequence[ir.OpView], world_size: int) -> tuple[BufferSpec, ...]:
    """The buffers, what every rank holds of them when a call starts, and what the call gives back."""
    held = _read_regions(body, ops.InputOp, world_size)
    given = _read_regions(body, ops.OutputOp, world_size)
    specs = []
    for op in body:
        if isinstance(op, ops.BufferOp):
            name, kind = op.attributes["name"].value, op.results[0].type
            specs.append(
                BufferSpec(
                    name,
                    tuple(kind.shape),
                    str(kind.element_type),
                    tuple(tuple(held[name, rank]) for rank in range(world_size)),
                    tuple(tuple(given[name, rank]) for rank in range(world_size)),
                )
            )
    return tuple(specs)


def _read_regions(
    body: Sequence[ir.OpView], kind: type[ir.OpView], world_size: int
) -> Mapping[tuple[str, int], list[Region]]:
    """By buffer and rank, the regions that operations of a kind name."""
    regions: defaultdict[tuple[str, int], list[Region]] = defaultdict(list)
    for op in body:
        if isinstance(op, kind):
            name = op.operands[0].owner.attributes["name"].value
            regions[name, op.attributes["rank"].value].append(
                Region(tuple(op.attributes["offsets"]), tuple(op.attributes["sizes"]))
            )
    return regions


def _read_produced(body: Sequence[ir.OpView]) -> Mapping[str, bool]:
    """The buffers that tiles compute, and whether some tile adds to what is there."""
    produced: dict[str, bool] = {}
    for op in body:
        if isinstance(op, ops.ProduceOp):
            name = op.operands[0].owner.attributes["name"].value
            produced[name] = produced.get(name, False) or "reduction" in op.attributes
    return produced


def _read_bound(kernel: ir.OpView) -> dict[str, str]:
    names = [name.value for name in kernel.attributes["arg_names"]]
    buffers = list(kernel.operands)[: len(names)]
    return {
        name: operand.owner.attributes["name"].value
        for name, operand in zip(names, buffers, strict=True)
    }


def _read_accesses(kernel: ir.OpView, buffers: Sequence[str]) -> Iterator[Access]:
    bound = _read_bound(kernel)
    dims = len(kernel.attributes["tiles"])
    for op in kernel.regions[0].blocks[0].operations:
        if not isinstance(op, ops.FootprintOp):
            continue
        argument = op.attributes["arg"].value
        results = [to_function(expr) for expr in op.attributes["map"].value.results]
        yield Access(
            argument=argument,
            buffer=buffers.index(bound[argument]),
            writes=str(op.attributes["access"]) == "#chunk<access write>",
            at_step=op.attributes["map"].value.n_dims > dims,
            offsets=functools.partial(_apply, results),
            sizes=tuple(op.attributes["sizes"]),
            map=str(op.attributes["map"]),
        )


def _read_steps(
    kernel: ir.OpView, world_size: int
) -> tuple[Callable[[Sequence[int]], tuple[int, int]], ...]:
    said = {}
    for op in kernel.regions[0].blocks[0].operations:
        if isinstance(op, ops.StepsOp):
            rank = op.attributes["rank"].value if "rank" in op.attributes else None
            begins, ends = (
                [to_function(expr) for expr in op.attributes[name].value.results]
                for name in ("begin", "end")
            )
            said[rank] = functools.partial(_range, begins, ends)
    return tuple(said[None if None in said else rank] for rank in range(world_size if said else 0))


def _range(
    begins: Sequence[Expression], ends: Sequence[Expression], coordinates: Sequence[int]
) -> tuple[int, int]:
    begin = max(0, *_apply(begins, coordinates))
    return begin, max(begin, min(_apply(ends, coordinates)))


def _apply(results: Sequence[Expression], coordinates: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(result(coordinates) for result in results)
