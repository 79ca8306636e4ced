"""Asynchronous operations on their way: what the scheduler completes when it pleases."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate.sim.findings import Kind, SimulationError
from syncopate.sim.global_memory import Access, Descriptor, Footprint, RegionKind
from syncopate.sim.role_shared import SharedRole
from syncopate.sim.shared_memory import Mbarrier, MemDesc
from syncopate.sim.values import Element

__all__ = ["AsyncCopy", "PendingDot", "TmaLoad", "TmaStore"]

Array = np.ndarray[Any, Any]


class PendingDot:
    """A matrix product whose operands may not have been read yet."""

    def __init__(self, a: Any, b: Any, c: Any, kind: Element, number: int) -> None:
        self._operands, self._kind, self.number = (a, b, c), kind, number
        self._value: Array | None = None
        self.waited = False

    def value(self) -> Array:
        """The product, computed the first time."""
        if self._value is None:
            a, b, c = (
                x.values
                if isinstance(x, MemDesc)
                else x.value()
                if isinstance(x, PendingDot)
                else x
                for x in self._operands
            )
            accumulate = self._kind.value
            product = _multiply(a.astype(accumulate), b.astype(accumulate))
            self._value = product if c is None else product + c
            self._operands = ()  # type: ignore[assignment]
        return self._value


_ALONE = 1 << 18
"""Multiplications up to which a BLAS does not wake other threads, which takes it longer than so small a product."""


def _multiply(a: Array, b: Array) -> Array:
    """The matrix product, by rows that are multiplied at a time."""
    rows = max(1, _ALONE // (a.shape[-1] * b.shape[-1]))
    if a.ndim > 2 or a.shape[0] % rows or rows >= a.shape[0]:
        product: Array = np.matmul(a, b)
    else:
        product = (a.reshape(-1, rows, a.shape[-1]) @ b).reshape(a.shape[0], b.shape[-1])
    return product


@dataclass
class TmaLoad:
    """A bulk load: reads global memory, writes shared memory, arrives on its mbarrier."""

    role: SharedRole
    source: Descriptor
    coordinates: Sequence[int]
    barrier: Mbarrier
    target: MemDesc
    access: Access

    def advance(self) -> bool:
        """Does the next part; says whether it was the last."""
        source, target = self.source, self.target
        machine = self.role.machine
        machine.executing = (self.role, self.access.site)
        block = target.values.shape
        shape = (
            block[len(block) - len(self.coordinates) :]
            if len(block) >= len(self.coordinates)
            else block
        )
        values = np.full(shape, source.fill, source.kind.value)
        part = source.clip(self.coordinates, shape)
        if part is not None:
            inside, of_block = part
            if source.region.kind is RegionKind.DATA:
                source.region.check_read(machine, source.footprint(inside), self.access)
            values[of_block] = source.kind.decode(source.elements[inside])
        target.values[...] = values.reshape(block)
        barrier = self.barrier
        barrier.in_flight -= 1
        source.in_flight -= 1
        barrier.bytes -= values.size * source.kind.nbytes
        if barrier.bytes < 0:
            machine.report(
                Kind.BARRIER,
                f"{-barrier.bytes} bytes more arrive on {barrier.name} than its phase expects",
            )
        self.role.settle(barrier)
        machine.executing = None
        return True


class TmaStore:
    """A bulk store: first reads shared memory, later writes global memory."""

    def __init__(
        self,
        role: SharedRole,
        target: Descriptor,
        coordinates: Sequence[int],
        source: MemDesc,
        access: Access,
        number: int,
        reduce: int,
    ) -> None:
        self.role, self.target, self.coordinates, self.source = role, target, coordinates, source
        self.access, self.number, self.reduce = access, number, reduce
        self.key = ("bulk", role)
        self.was_read = self.complete = False
        self._values: Any = None

    def advance(self) -> bool:
        """Does the next part; says whether it was the last."""
        machine = self.role.machine
        if not self.was_read:
            self._values = self.source.values.copy()
            self.was_read = True
            machine.scheduler.wake(self.key)
            return False
        machine.executing = (self.role, self.access.site)
        target = self.target
        values = self._values.reshape(self._values.shape[-len(self.coordinates) :])
        part = target.clip(self.coordinates, values.shape)
        if part is not None:
            inside, of_block = part
            place, access, new = target.footprint(inside), self.access, values[of_block]
            if self.reduce:
                if self.reduce != 1:
                    raise SimulationError(f"a TMA reduction of kind {self.reduce} is not simulated")
                new = new + target.kind.decode(target.elements[inside])
                self._check_sum(place)
            else:
                target.region.check_write(machine, place, access)
            target.elements[inside] = target.kind.encode(new)
        self.complete = True
        target.in_flight -= 1
        self.role.cta.bulk_in_flight -= 1
        machine.scheduler.wake(self.key)
        self.role.cta.check_end()
        machine.executing = None
        return True

    def _check_sum(self, place: Footprint) -> None:
        """An addition is atomic, but only where the plan says that they may come in any order is none expected."""
        machine, region, access = self.role.machine, self.target.region, self.access
        if machine.adds_unordered:
            region.check_sum(machine, place, access)
            return
        region.check_read(machine, place, access)
        # Its own read comes before its write.
        seen = access.seen.copy()
        seen[access.thread] = access.clock
        region.check_write(machine, place, dataclasses.replace(access, seen=seen))


@dataclass
class AsyncCopy:
    """A cp.async of all threads of a role."""

    role: SharedRole
    addresses: Array
    target: MemDesc
    mask: Any
    other: Any
    kind: Element
    access: Access
    complete: bool = False

    def advance(self) -> bool:
        """Does the next part; says whether it was the last."""
        role, shape = self.role, self.addresses.shape
        role.machine.executing = (role, self.access.site)
        mask = np.broadcast_to(True if self.mask is None else self.mask, shape)
        values = np.zeros(shape, self.kind.value)
        if self.other is not None:
            values[...] = self.other
        if mask.any():
            region, index, place = role.memory.locate(self.addresses[mask], self.kind)
            if region.kind is RegionKind.DATA:
                region.check_read(role.machine, place, self.access)
            values[mask] = self.kind.decode(region.view(self.kind.stored)[index])
        self.target.values[...] = values.reshape(self.target.values.shape)
        self.complete = True
        role.machine.scheduler.wake(("copies", role))
        role.machine.executing = None
        return True
