"""Where a program's flags and buffers lie inside its one symmetric allocation per rank. Pure numpy.

One allocation means one rendezvous. Flags come first, so that a stray index hits the padding rather than data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.abi import align
from syncopate.runtime.interface import Program
from syncopate.runtime.linking import Addresses

BUFFER_ALIGNMENT = 1024


@dataclass(frozen=True)
class MemoryPlan:
    """Byte offsets inside the allocation, the same on every rank.

    Attributes:
        flags: Offset of flag 0.
        buffers: Offset of each buffer of the plan.
        nbytes: Size of the allocation.
    """

    flags: int
    buffers: tuple[int, ...]
    nbytes: int


def plan_memory(program: Program) -> MemoryPlan:
    """Lays out the symmetric allocation of a program."""
    offset = align(4 * program.signal_layout.total, BUFFER_ALIGNMENT)
    buffers = []
    for buffer in program.buffers:
        buffers.append(offset)
        offset = align(offset + buffer.nbytes, BUFFER_ALIGNMENT)
    return MemoryPlan(0, tuple(buffers), offset)


def resolve(plan: MemoryPlan, bases: Sequence[int]) -> Addresses:
    """Absolute addresses, from the base of the allocation of every rank."""
    return Addresses(
        buffers=tuple(tuple(base + offset for offset in plan.buffers) for base in bases),
        flags=tuple(base + plan.flags for base in bases),
    )
