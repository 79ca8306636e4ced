"""Shared memory and mbarriers of a role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind, SimulationError, Stop
from syncopate.sim.role_atomics import AtomicRole
from syncopate.sim.scheduler import Wait
from syncopate.sim.shared_memory import Buffer, Mbarrier, MemDesc
from syncopate.sim.values import Element

__all__ = ["SharedRole"]

Array = np.ndarray[Any, Any]


class SharedRole(AtomicRole):
    """A role with buffers in shared memory and mbarriers."""

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

    def index_shared(self, desc: MemDesc, at: int) -> MemDesc:
        """One slot of a buffer."""
        slots = desc.values.shape[0]
        if not 0 <= at < slots:
            self.machine.report(
                Kind.OUT_OF_BOUNDS,
                f"{self.threads.name} takes slot {at} of {desc.buffer.name}, which has {slots}",
            )
            raise Stop
        return desc.index(at)

    def dealloc(self, desc: MemDesc) -> None:
        """Frees a buffer; nobody may still use it.

        Triton frees a buffer that several bulk stores share once for each of them: only the first time means anything.
        """
        if desc.buffer.freed:
            return
        self.check_shared(desc, self.joined(), "frees", write=True)
        for barrier in desc.buffer.barriers.values():
            if barrier.valid:
                self.machine.report(
                    Kind.BARRIER, f"{self.threads.name} frees {barrier.name}, which is still valid"
                )
        for buffer in (desc.buffer, *desc.buffer.aliases.values()):
            buffer.freed = True

    def reinterpret_shared(self, desc: MemDesc, shape: tuple[int, ...], kind: Element) -> MemDesc:
        """A whole buffer as elements of another type, in as many slots."""
        buffer = desc.buffer
        if (shape, kind) == (buffer.shape, buffer.kind):
            return desc
        if desc.values is not buffer.values or shape[0] != buffer.shape[0]:
            raise SimulationError(f"a part of {buffer.name} as another type is not simulated")
        return MemDesc.whole(buffer.reinterpret(shape, kind))

    def load_shared(self, desc: MemDesc) -> Array:
        """Reads a view, by all threads."""
        seen = self.joined()
        self.check_shared(desc, seen, "reads", write=False)
        desc.buffer.cell(desc.box).reads[self.threads.rest] = self.threads.clock
        return desc.values.copy()  # type: ignore[no-any-return]

    def store_shared(self, desc: MemDesc, values: Any) -> None:
        """Writes a view, by all threads."""
        self.check_shared(desc, self.joined(), "writes", write=True)
        self.note_write(desc, self.threads.rest, self.threads.clock, generic=True)
        desc.values[...] = np.asarray(values).reshape(desc.values.shape)

    def note_write(self, desc: MemDesc, thread: int, clock: int, *, generic: bool) -> None:
        """Notes a write of a view."""
        cell = desc.buffer.cell(desc.box)
        cell.write, cell.generic = (thread, clock), generic

    def check_shared(
        self, desc: MemDesc, seen: Vector, verb: str, *, write: bool, fenced: Vector | None = None
    ) -> None:
        """Checks an access to a view; `fenced` is what the asynchronous proxy sees of ordinary writes."""
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
        barrier = self.valid_barrier(desc)
        if barrier.in_flight or barrier.bytes:
            self.machine.report(
                Kind.BARRIER,
                f"{self.threads.name} invalidates {barrier.name}, on which {barrier.in_flight} copies and "
                f"{barrier.bytes} bytes are still to arrive",
            )
        barrier.valid = False
        # Whoever waits for the next one on the same thread holds for having seen what came to this one.
        last = barrier.first_clock + barrier.phases
        seen = min(self.lead[barrier.thread], self.rest[barrier.thread]) >= last
        if seen and not barrier.in_flight and not barrier.bytes:
            self.cta.drop_barrier(desc.buffer, desc.box[0][0])

    def valid_barrier(self, desc: MemDesc) -> Mbarrier:
        """The mbarrier of a view, which must be initialized."""
        barrier = self._barrier(desc)
        if not barrier.valid:
            self.machine.report(
                Kind.BARRIER, f"{self.threads.name} uses {barrier.name}, which is not initialized"
            )
        return barrier

    def expect(self, desc: MemDesc, size: int, predicate: bool = True) -> None:
        """Arrives once and announces bytes."""
        if predicate:
            barrier = self.valid_barrier(desc)
            barrier.bytes += size
            self._arrive(barrier, 1)

    def arrive(self, desc: MemDesc, count: int, predicate: bool = True) -> None:
        """Arrives `count` times, by the first thread; what it has seen is visible to who waits."""
        if predicate:
            self._arrive(self.valid_barrier(desc), count)

    def _arrive(self, barrier: Mbarrier, count: int) -> None:
        if count > barrier.pending:
            self.machine.report(
                Kind.BARRIER,
                f"{self.threads.name} arrives {count} times on {barrier.name}, which expects {barrier.pending} more",
            )
            return
        barrier.pending -= count
        np.maximum(barrier.gathering, self.lead, out=barrier.gathering)
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
        barrier = self.valid_barrier(desc)
        parity &= 1
        if barrier.phases - barrier.seen.get(self.threads.lead, 0) > 1:
            self.machine.report(
                Kind.BARRIER,
                f"{self.threads.name} waits for {barrier.name}, of which it has missed a phase: it has completed "
                f"{barrier.phases}, and a parity does not tell them from each other",
            )
        yield Wait(
            barrier,
            lambda: barrier.passed(parity),
            lambda: (
                f"{barrier.name} to complete a phase of parity {parity} (it has completed {barrier.phases}, "
                f"{barrier.pending} arrivals and {barrier.bytes} bytes are missing)"
            ),
        )
        barrier.seen[self.threads.lead] = barrier.phases
        np.maximum(self.lead, barrier.vector, out=self.lead)
        np.maximum(self.rest, barrier.vector, out=self.rest)
        self.last_poll = None
