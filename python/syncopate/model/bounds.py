"""What no schedule can be faster than."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from syncopate.model.fabric import Wire
from syncopate.model.gemm import KernelCost
from syncopate.model.machine import Machine
from syncopate.model.tables import read_tables

__all__ = ["LowerBound", "find_lower_bound"]


@dataclass(frozen=True)
class LowerBound:
    """A bound of a program on a machine, in microseconds.

    Attributes:
        compute_us: Tiles of the CTA with most work, one after another without a stall, at the speed of a GPU whose
            other multiprocessors are idle. Adding up parts counts for none, since any may be the last.
        link_us: What goes over the busiest link, at its peak.
    """

    compute_us: float
    link_us: float

    @property
    def us(self) -> float:
        """The larger one."""
        return max(self.compute_us, self.link_us)


def find_lower_bound(program: Any, cost: KernelCost, machine: Machine) -> LowerBound:
    """The bound of a program's tables; `predict` is never below it.

    Args:
        program: As for `predict`.
        cost: What its tiles take.
        machine: What it runs on.
    """
    compute, carried = 0.0, Counter[Wire]()
    for rank in range(program.world_size):
        tables = read_tables(program, rank)
        work = [0.0] * program.num_ctas
        for position, tile in enumerate(tables.tiles):
            work[position % program.num_ctas] += cost.part_us(
                tile.number, tile.parts, machine.latencies
            )
        compute = max(compute, max(work))
        for command in tables.commands:
            for wire in machine.route(program.world_size, command.src, command.dst):
                carried[wire] += command.nbytes
    busiest = max((nbytes / (wire.gbps * 1e3) for wire, nbytes in carried.items()), default=0.0)
    return LowerBound(compute * (1.0 - machine.idle_gain), busiest)
