"""Asynchronous operations of a role: TMA, wgmma, cp.async."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Access, Descriptor
from syncopate.sim.pending import AsyncCopy, PendingDot, TmaLoad, TmaStore
from syncopate.sim.role import RoleThreads
from syncopate.sim.role_maps import MapRole
from syncopate.sim.scheduler import Wait
from syncopate.sim.shared_memory import MemDesc
from syncopate.sim.values import Element, poison

if TYPE_CHECKING:
    from syncopate.sim.cta import Cta

__all__ = ["AsyncRole"]

Array = np.ndarray[Any, Any]


class AsyncRole(MapRole):
    """A role with all that Triton's pipelines use."""

    def __init__(self, cta: Cta, threads: RoleThreads, start: Vector) -> None:
        super().__init__(cta, threads, start)
        # In the order of their issue; what is known to be complete is taken out.
        self._bulk_stores: list[TmaStore] = []
        self._dots: list[PendingDot] = []
        self._copies: list[AsyncCopy] = []
        self._copy_groups: list[list[AsyncCopy]] = []

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
        self.last_poll = None
        if not predicate:
            return
        barrier = self.valid_barrier(barrier_desc)
        seen = self.joined()
        self.check_shared(target, seen, "loads by TMA into", write=True)
        self.note_write(target, barrier.thread, barrier.clock, generic=False)
        target.values[...] = poison(target.values.shape, target.buffer.kind)
        barrier.in_flight += 1
        source.in_flight += 1
        self.machine.event_of(self, "loads", source.region.name, coordinates)
        access = self.proxy_access(barrier.thread, barrier.clock)
        self.machine.scheduler.submit(TmaLoad(self, source, coordinates, barrier, target, access))

    def tma_store(
        self, target: Descriptor, coordinates: Sequence[int], source: MemDesc, reduce: int = 0
    ) -> None:
        """Issues a bulk store, as a group of its own."""
        self.last_poll = None
        seen = self.joined()
        self.check_shared(
            source, seen, "stores by TMA from", write=False, fenced=self.fenced_shared
        )
        threads = self.threads
        threads.bulk_issued += 1
        number = threads.bulk_issued
        source.buffer.cell(source.box).reads[threads.bulk_read] = number
        access = self.proxy_access(threads.bulk, number)
        store = TmaStore(self, target, coordinates, source, access, number, reduce)
        self._bulk_stores.append(store)
        target.in_flight += 1
        self.machine.event_of(self, "stores", target.region.name, coordinates)
        self.cta.bulk_in_flight += 1
        self.machine.scheduler.submit(store)

    def wait_stores(self, pendings: int, read_only: bool) -> Iterator[Any]:
        """cp.async.bulk.wait_group, by the thread that issued them."""
        older = self._bulk_stores[: max(0, len(self._bulk_stores) - pendings)]
        if not older:
            return
        yield Wait(
            self._bulk_stores[0].key,
            lambda: all(store.was_read if read_only else store.complete for store in older),
            lambda: "its TMA stores",
        )
        threads, last = self.threads, older[-1].number
        self.lead[threads.bulk_read] = self.rest[threads.bulk_read] = last
        if not read_only:
            # Only the thread that issued them knows, and which one that is is Triton's choice; a barrier tells all.
            self.written = last
            del self._bulk_stores[: len(older)]

    def finish(self) -> None:
        """Ends the role; a CTA's shared memory must outlive what reads it."""
        if self.threads.bulk_issued > self.lead[self.threads.bulk_read]:
            self.machine.report(
                Kind.SHARED_RACE,
                f"{self.threads.name} ends without having waited for its TMA stores to read shared memory",
            )
        super().finish()

    # wgmma.

    def dot(self, a: Any, b: Any, c: Any, use_c: bool, is_async: bool, kind: Element) -> Any:
        """A matrix product, now or in flight."""
        for operand in (a, b):
            if isinstance(operand, MemDesc):
                self.check_shared(
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
        self._dots.append(pending)
        # As late as possible, or at once: both may happen.
        if self.machine.scheduler.random.random() < 0.5:
            pending.value()
        return pending

    def wait_dots(self, pendings: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """Waits for all but the youngest products; gives the values that are complete."""
        older = self._dots[: max(0, len(self._dots) - pendings)]
        for dot in older:
            dot.value()
            dot.waited = True
        if older:
            last = older[-1].number
            self.lead[self.threads.mma] = self.rest[self.threads.mma] = last
            del self._dots[: len(older)]
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
        self.last_poll = None
        self.check_shared(target, self.joined(), "copies into", write=True)
        number = self.threads.copies_committed + 1
        # cp.async writes through the generic proxy, but neither Triton 3.6 nor CUTLASS puts a fence before wgmma
        # reads it.
        self.note_write(target, self.threads.copies, number, generic=False)
        target.values[...] = poison(target.values.shape, target.buffer.kind)
        access = Access(self.rest.copy(), self.threads.copies, number, self.call, self.site)
        copy = AsyncCopy(self, addresses, target, mask, other, kind, access)
        self._copies.append(copy)
        self.machine.scheduler.submit(copy)

    def commit_copies(self) -> None:
        """Makes the copies since the last commit a group."""
        self._copy_groups.append(self._copies)
        self._copies = []
        self.threads.copies_committed += 1

    def wait_copies(self, pendings: int) -> Iterator[Any]:
        """Waits for all but the youngest groups."""
        count = max(0, len(self._copy_groups) - pendings)
        older = [copy for group in self._copy_groups[:count] for copy in group]
        if older:
            yield Wait(
                ("copies", self),
                lambda: all(copy.complete for copy in older),
                lambda: "its asynchronous copies",
            )
        if count:
            del self._copy_groups[:count]
            done = self.threads.copies_committed - len(self._copy_groups)
            self.lead[self.threads.copies] = self.rest[self.threads.copies] = done
