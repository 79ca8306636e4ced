"""Shared memory, mbarriers, TMA, wgmma and cp.async of a role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind, SimulationError
from syncopate.sim.global_memory import Access, Descriptor, RegionKind
from syncopate.sim.role import Role
from syncopate.sim.scheduler import Wait
from syncopate.sim.shared_memory import Buffer, Mbarrier, MemDesc
from syncopate.sim.values import Element, poison

if TYPE_CHECKING:
    from syncopate.sim.cta import Cta

__all__ = ["AsyncRole", "PendingDot"]

Array = np.ndarray[Any, Any]


class AsyncRole(Role):
    """A role with all that Triton's pipelines use."""

    # Buffers.

    def alloc(
        self, shape: tuple[int, ...], kind: Element, name: str, values: Any = None
    ) -> MemDesc:
        """Allocates a buffer, with values if it is initialized."""
        buffer = Buffer(f"shared memory {name}", shape, kind)
        self.cta.buffers.append(buffer)
        whole = MemDesc.whole(buffer)
        if values is not None:
            self.store_shared(whole, values)
        return whole

    def dealloc(self, desc: MemDesc) -> None:
        """Frees a buffer; nobody may still use it."""
        self._check_shared(desc, self.joined(), "frees", write=True)
        desc.buffer.freed = True

    def load_shared(self, desc: MemDesc) -> Array:
        """Reads a view, by all threads."""
        seen = self.joined()
        self._check_shared(desc, seen, "reads", write=False)
        desc.buffer.cell(desc.box).reads[self.threads.rest] = self.threads.clock
        return desc.values.copy()  # type: ignore[no-any-return]

    def store_shared(self, desc: MemDesc, values: Any) -> None:
        """Writes a view, by all threads."""
        self._check_shared(desc, self.joined(), "writes", write=True)
        self._note_write(desc, self.threads.rest, self.threads.clock, generic=True)
        desc.values[...] = np.asarray(values).reshape(desc.values.shape)

    def _note_write(self, desc: MemDesc, thread: int, clock: int, *, generic: bool) -> None:
        cell = desc.buffer.cell(desc.box)
        cell.write, cell.generic = (thread, clock), generic

    def _check_shared(
        self, desc: MemDesc, seen: Vector, verb: str, *, write: bool, fenced: Vector | None = None
    ) -> None:
        if desc.buffer.freed:
            self.machine.report(
                Kind.SHARED_RACE, f"{self.threads.name} {verb} {desc.buffer.name}, which is freed"
            )
        for cell in desc.buffer.overlapping(desc.box):
            thread, clock = cell.write
            if clock > seen[thread]:
                self._report_shared(desc, verb, thread, "written")
            elif fenced is not None and cell.generic and clock > fenced[thread]:
                self._report_shared(
                    desc, verb, thread, "written", "without a fence.proxy.async in between"
                )
            if write:
                for thread, clock in cell.reads.items():
                    if clock > seen[thread]:
                        self._report_shared(desc, verb, thread, "read")

    def _report_shared(
        self,
        desc: MemDesc,
        verb: str,
        thread: int,
        what: str,
        why: str = "and nothing orders the two",
    ) -> None:
        self.machine.report(
            Kind.SHARED_RACE,
            f"{self.threads.name} {verb} {desc.buffer.name} {list(desc.box)}, {what} by "
            f"{self.machine.name_thread(thread)}, {why}",
        )

    # Mbarriers.

    def _barrier(self, desc: MemDesc) -> Mbarrier:
        index = desc.box[0][0]
        barrier = desc.buffer.barriers.get(index)
        if barrier is None:
            barrier = desc.buffer.barriers[index] = self.cta.make_barrier(desc.buffer, index)
        return barrier

    def init_barrier(self, desc: MemDesc, count: int) -> None:
        """Starts an mbarrier; Triton orders this before other roles begin."""
        barrier = self._barrier(desc)
        barrier.init(count)

    def inval_barrier(self, desc: MemDesc) -> None:
        """Ends an mbarrier; nothing may be on its way to it."""
        barrier = self._valid(desc)
        if barrier.in_flight or barrier.bytes:
            self.machine.report(
                Kind.BARRIER,
                f"{self.threads.name} invalidates {barrier.name}, on which {barrier.in_flight} copies and "
                f"{barrier.bytes} bytes are still to arrive",
            )
        barrier.valid = False

    def _valid(self, desc: MemDesc) -> Mbarrier:
        barrier = self._barrier(desc)
        if not barrier.valid:
            self.machine.report(
                Kind.BARRIER, f"{self.threads.name} uses {barrier.name}, which is not initialized"
            )
        return barrier

    def expect(self, desc: MemDesc, size: int, predicate: bool = True) -> None:
        """Arrives once and announces bytes."""
        if predicate:
            barrier = self._valid(desc)
            barrier.bytes += size
            self._arrive(barrier, 1)

    def arrive(self, desc: MemDesc, count: int, predicate: bool = True) -> None:
        """Arrives `count` times; what all threads of the role did before is visible to who waits."""
        if predicate:
            self._arrive(self._valid(desc), count)

    def _arrive(self, barrier: Mbarrier, count: int) -> None:
        if count > barrier.pending:
            self.machine.report(
                Kind.BARRIER,
                f"{self.threads.name} arrives {count} times on {barrier.name}, which expects {barrier.pending} more",
            )
            return
        barrier.pending -= count
        np.maximum(barrier.gathering, self.joined(), out=barrier.gathering)
        self.tick()
        self.settle(barrier)

    def settle(self, barrier: Mbarrier) -> None:
        """Completes the phase of an mbarrier if nothing is missing."""
        if barrier.settle():
            self.machine.scheduler.wake(barrier)

    def wait_barrier(self, desc: MemDesc, parity: int, predicate: bool = True) -> Iterator[Any]:
        """Waits, with all threads, for the phase of that parity to complete."""
        if not predicate:
            return
        barrier = self._valid(desc)
        parity &= 1
        yield Wait(
            barrier,
            lambda: barrier.passed(parity),
            lambda: (
                f"{barrier.name} to complete a phase of parity {parity} (it has completed {barrier.phases}, "
                f"{barrier.pending} arrivals and {barrier.bytes} bytes are missing)"
            ),
        )
        np.maximum(self.lead, barrier.vector, out=self.lead)
        np.maximum(self.rest, barrier.vector, out=self.rest)
        self._last_poll = None

    # TMA.

    def tma_load(
        self,
        source: Descriptor,
        coordinates: Sequence[int],
        barrier_desc: MemDesc,
        target: MemDesc,
        predicate: bool,
    ) -> None:
        """Issues a bulk load that arrives on an mbarrier."""
        self._last_poll = None
        if not predicate:
            return
        barrier = self._valid(barrier_desc)
        seen = self.joined()
        self._check_shared(target, seen, "loads by TMA into", write=True)
        self._note_write(target, barrier.thread, barrier.clock, generic=False)
        target.values[...] = poison(target.values.shape, target.buffer.kind)
        barrier.in_flight += 1
        access = self.proxy_access(barrier.thread, barrier.clock)
        self.machine.scheduler.submit(_TmaLoad(self, source, coordinates, barrier, target, access))

    def tma_store(
        self, target: Descriptor, coordinates: Sequence[int], source: MemDesc, reduce: int = 0
    ) -> None:
        """Issues a bulk store, as a group of its own."""
        self._last_poll = None
        seen = self.joined()
        self._check_shared(
            source, seen, "stores by TMA from", write=False, fenced=self.fenced_shared
        )
        threads = self.threads
        threads.bulk_issued += 1
        number = threads.bulk_issued
        source.buffer.cell(source.box).reads[threads.bulk_read] = number
        access = self.proxy_access(threads.bulk, number)
        store = _TmaStore(self, target, coordinates, source, access, number, reduce)
        self.bulk_stores.append(store)
        self.cta.bulk_in_flight += 1
        self.machine.scheduler.submit(store)

    def wait_stores(self, pendings: int, read_only: bool) -> Iterator[Any]:
        """cp.async.bulk.wait_group, by the thread that issued them."""
        older = self.bulk_stores[: max(0, len(self.bulk_stores) - pendings)]
        if not older:
            return
        yield Wait(
            self.bulk_stores[0].key,
            lambda: all(store.was_read if read_only else store.complete for store in older),
            lambda: "its TMA stores",
        )
        threads, last = self.threads, older[-1].number
        self.lead[threads.bulk_read] = self.rest[threads.bulk_read] = last
        if not read_only:
            # Only the thread that issued them knows; a barrier tells the others.
            self.lead[threads.bulk] = last
            del self.bulk_stores[: len(older)]

    # wgmma.

    def dot(self, a: Any, b: Any, c: Any, use_c: bool, is_async: bool, kind: Element) -> Any:
        """A matrix product, now or in flight."""
        for operand in (a, b):
            if isinstance(operand, MemDesc):
                self._check_shared(
                    operand, self.joined(), "multiplies", write=False, fenced=self.fenced_shared
                )
            elif isinstance(operand, PendingDot):
                self._report_in_flight()
        threads = self.threads
        threads.mma_issued += 1
        for operand in (a, b):
            if isinstance(operand, MemDesc):
                operand.buffer.cell(operand.box).reads[threads.mma] = threads.mma_issued
        pending = PendingDot(a, b, c if use_c else None, kind, threads.mma_issued)
        if not is_async:
            return pending.value()
        self.mmas.append(pending)
        # As late as possible, or at once: both may happen.
        if self.machine.scheduler.random.random() < 0.5:
            pending.value()
        return pending

    def wait_dots(self, pendings: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """Waits for all but the youngest products; gives the values that are complete."""
        older = self.mmas[: max(0, len(self.mmas) - pendings)]
        for dot in older:
            dot.value()
            dot.waited = True
        if older:
            last = older[-1].number
            self.lead[self.threads.mma] = self.rest[self.threads.mma] = last
            del self.mmas[: len(older)]
        return tuple(
            value.value() if isinstance(value, PendingDot) and value.waited else value
            for value in values
        )

    def registers(self, value: Any) -> Any:
        """The values of a tensor, which must not be in flight."""
        if isinstance(value, PendingDot):
            if not value.waited:
                self._report_in_flight()
            return value.value()
        return value

    def _report_in_flight(self) -> None:
        self.machine.report(
            Kind.REGISTER, f"{self.threads.name} uses the result of a wgmma that is in flight"
        )

    # cp.async.

    def copy_async(
        self, addresses: Array, target: MemDesc, mask: Any, other: Any, kind: Element
    ) -> None:
        """Issues a copy by all threads from global to shared memory."""
        self._last_poll = None
        self._check_shared(target, self.joined(), "copies into", write=True)
        number = self.threads.copies_committed + 1
        # cp.async writes through the generic proxy, but neither Triton 3.6 nor CUTLASS puts a fence before wgmma reads it.
        self._note_write(target, self.threads.copies, number, generic=False)
        target.values[...] = poison(target.values.shape, target.buffer.kind)
        access = Access(self.rest.copy(), self.threads.copies, number, self.call, self.site)
        copy = _AsyncCopy(self, addresses, target, mask, other, kind, access)
        self.copies.append(copy)
        self.machine.scheduler.submit(copy)

    def commit_copies(self) -> None:
        """Makes the copies since the last commit a group."""
        self.copy_groups.append(self.copies)
        self.copies = []
        self.threads.copies_committed += 1

    def wait_copies(self, pendings: int) -> Iterator[Any]:
        """Waits for all but the youngest groups."""
        count = max(0, len(self.copy_groups) - pendings)
        older = [copy for group in self.copy_groups[:count] for copy in group]
        if older:
            yield Wait(
                ("copies", self),
                lambda: all(copy.complete for copy in older),
                lambda: "its asynchronous copies",
            )
        if count:
            del self.copy_groups[:count]
            done = self.threads.copies_committed - len(self.copy_groups)
            self.lead[self.threads.copies] = self.rest[self.threads.copies] = done


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
            product = np.matmul(a.astype(accumulate), b.astype(accumulate))
            self._value = product if c is None else product + c
            self._operands = ()  # type: ignore[assignment]
        return self._value


@dataclass
class _TmaLoad:
    role: AsyncRole
    source: Descriptor
    coordinates: Sequence[int]
    barrier: Mbarrier
    target: MemDesc
    access: Access

    def advance(self) -> bool:
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
        barrier.bytes -= values.size * source.kind.nbytes
        if barrier.bytes < 0:
            machine.report(
                Kind.BARRIER,
                f"{-barrier.bytes} bytes more arrive on {barrier.name} than its phase expects",
            )
        self.role.settle(barrier)
        machine.executing = None
        return True


class _TmaStore:
    def __init__(
        self,
        role: AsyncRole,
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
            target.region.check_write(machine, target.footprint(inside), self.access)
            new = values[of_block]
            if self.reduce:
                if self.reduce != 1:
                    raise SimulationError(f"a TMA reduction of kind {self.reduce} is not simulated")
                new = new + target.kind.decode(target.elements[inside])
            target.elements[inside] = target.kind.encode(new)
        self.complete = True
        self.role.cta.bulk_in_flight -= 1
        machine.scheduler.wake(self.key)
        self.role.cta.check_end()
        machine.executing = None
        return True


@dataclass
class _AsyncCopy:
    role: AsyncRole
    addresses: Array
    target: MemDesc
    mask: Any
    other: Any
    kind: Element
    access: Access
    complete: bool = False

    def advance(self) -> bool:
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
