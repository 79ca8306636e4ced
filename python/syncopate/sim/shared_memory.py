"""Shared memory of a CTA: buffers, views of them, and mbarriers.

A buffer holds values rather than bytes. Its shadow has one *cell* for each box of elements that is accessed as a
whole: a pipeline slot, usually. Two accesses conflict if their boxes overlap, whatever elements the threads touch in
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.values import Element, poison

__all__ = ["Buffer", "Cell", "Mbarrier", "MemDesc"]

Box = tuple[tuple[int, int], ...]


@dataclass
class Cell:
    """Shadow of one box of a buffer."""

    write: tuple[int, int] = (0, 0)
    generic: bool = False
    reads: dict[int, int] = field(default_factory=dict)


class Buffer:
    """One allocation."""

    def __init__(self, name: str, shape: tuple[int, ...], kind: Element) -> None:
        self.name, self.shape, self.kind = name, shape, kind
        self.values = poison(shape, kind)
        self.cells: dict[Box, Cell] = {}
        self.barriers: dict[int, Mbarrier] = {}
        self.freed = False
        self.aliases: dict[tuple[str, tuple[int, ...]], Buffer] = {}

    def reinterpret(self, shape: tuple[int, ...], kind: Element) -> Buffer:
        """The same memory as elements of another type.

        The shadow is shared, by boxes that are whole slots in either shape. The values are not: what was written as
        another type is poison.
        """
        key = (kind.name, shape)
        if key not in self.aliases:
            alias = self.aliases[key] = Buffer(self.name, shape, kind)
            alias.cells, alias.barriers = self.cells, self.barriers
        return self.aliases[key]

    def overlapping(self, box: Box) -> list[Cell]:
        """The cells that share elements with a box."""
        return [
            cell
            for other, cell in self.cells.items()
            if other == box
            or all(a < d and c < b for (a, b), (c, d) in zip(box, other, strict=True))
        ]

    def cell(self, box: Box) -> Cell:
        """The cell of a box."""
        cell = self.cells.get(box)
        if cell is None:
            cell = self.cells[box] = Cell()
        return cell


class MemDesc:
    """A view of a buffer: the box of the buffer it covers, and its dimensions in the view's order."""

    __slots__ = ("axes", "box", "buffer", "values")

    def __init__(self, buffer: Buffer, values: Any, box: Box, axes: tuple[int, ...]) -> None:
        self.buffer, self.values, self.box, self.axes = buffer, values, box, axes

    @staticmethod
    def whole(buffer: Buffer) -> MemDesc:
        """The view of all of a buffer."""
        box = tuple((0, size) for size in buffer.shape)
        return MemDesc(buffer, buffer.values, box, tuple(range(len(box))))

    def index(self, at: int) -> MemDesc:
        """The part at one index of the first dimension."""
        axis = self.axes[0]
        low = self.box[axis][0] + at
        box = (*self.box[:axis], (low, low + 1), *self.box[axis + 1 :])
        return MemDesc(self.buffer, self.values[at], box, self.axes[1:])

    def slice(self, offsets: Sequence[int], sizes: Sequence[int]) -> MemDesc:
        """A rectangle of the view."""
        box = list(self.box)
        skip = len(offsets) - len(self.axes)
        for axis, offset, size in zip(self.axes, offsets[skip:], sizes, strict=True):
            low = box[axis][0] + offset
            box[axis] = (low, low + size)
        index = tuple(slice(o, o + s) for o, s in zip(offsets[skip:], sizes, strict=True))
        return MemDesc(self.buffer, self.values[index], tuple(box), self.axes)

    def transpose(self, order: Sequence[int]) -> MemDesc:
        """The view with its dimensions permuted."""
        axes = tuple(self.axes[i] for i in order)
        return MemDesc(self.buffer, self.values.transpose(order), self.box, axes)


class Mbarrier:
    """An mbarrier: arrivals and bytes that are still to come in its phase, and what a completed phase makes visible."""

    def __init__(self, name: str, thread: int, first_clock: int, vector: Vector) -> None:
        self.name, self.thread, self.vector = name, thread, vector
        self.first_clock = first_clock
        self.count = 0
        self.phases = 0
        self.pending = 0
        self.bytes = 0
        self.gathering = vector.copy()
        self.in_flight = 0
        self.valid = False
        # Of the CTA, which of its barriers it is.
        self.number = 0
        # How many phases each role that waits has seen complete, by its thread.
        self.seen: dict[int, int] = {}

    def init(self, count: int) -> None:
        """Starts over with a number of arrivals per phase."""
        self.count = self.pending = count
        self.phases = self.bytes = self.in_flight = 0
        self.valid = True
        self.seen.clear()

    @property
    def clock(self) -> int:
        """Component of deliveries in the current phase."""
        return self.first_clock + self.phases + 1

    def settle(self) -> bool:
        """Completes the phase if nothing is left to come; says whether it did."""
        if self.pending or self.bytes:
            return False
        self.gathering[self.thread] = max(self.gathering[self.thread], self.clock)
        np.maximum(self.vector, self.gathering, out=self.vector)
        self.phases += 1
        self.pending = self.count
        return True

    def passed(self, parity: int) -> bool:
        """Whether a wait for the phase of that parity is over."""
        return (self.phases & 1) != parity
