"""Atomic operations of a role on words of global memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from syncopate.sim.clocks import Scope
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Actor, MemoryRegion, RegionKind, Word
from syncopate.sim.role_global import GlobalRole
from syncopate.sim.scheduler import Park
from syncopate.sim.values import Element, wrap

__all__ = ["AtomicRole"]

Array = np.ndarray[Any, Any]


RELAXED, ACQUIRE, RELEASE, ACQ_REL = 1, 2, 3, 4

_COMBINE: dict[int, Callable[[Any, Any], Any]] = {
    1: lambda a, b: a & b,
    2: lambda a, b: a | b,
    3: lambda a, b: a ^ b,
    4: lambda a, b: a + b,
    5: lambda a, b: a + b,
    6: max,
    7: min,
    10: lambda a, b: b,
}
_SUMS = (4, 5)
"""Numbers of additions of integers and of floating-point numbers."""


class AtomicRole(GlobalRole):
    """A role with atomic operations.

    A scalar one is the first thread's; if its result is used, Triton broadcasts it behind a barrier. Acquire, release
    and scope follow the PTX memory model, release sequences through read-modify-writes included.
    """

    def atomic(
        self,
        operation: int,
        address: int,
        value: Any,
        mask: bool,
        kind: Element,
        *orders: Any,
    ) -> Generator[Any, None, Any]:
        """A read-modify-write by the first thread; orders are semantics, scope, and whether the result is used."""
        semantics, scope, used = orders
        if not mask:
            return 0
        combine = _COMBINE[operation]

        def change(old: Any) -> Any:
            new = combine(old, value)
            return new if kind.is_float else wrap(new, 8 * kind.nbytes)

        poll = operation in (2, 3, 4) and value == 0
        old = yield from self._exchange(address, kind, change, semantics, scope, poll)
        if used:
            self.join()
        return old

    def compare_and_swap(
        self, address: int, compare: Any, value: Any, kind: Element, *orders: Any
    ) -> Generator[Any, None, Any]:
        """A compare-and-swap by the first thread."""
        semantics, scope, used = orders

        def change(old: Any) -> Any:
            return value if old == compare else old

        old = yield from self._exchange(address, kind, change, semantics, scope, compare == value)
        if used:
            self.join()
        return old

    def _exchange(
        self,
        address: int,
        kind: Element,
        change: Callable[[Any], Any],
        semantics: int,
        scope: int,
        poll: bool,
    ) -> Generator[Any, None, Any]:
        region, offset = self.memory.find(address, kind.nbytes)
        if region.kind is not RegionKind.WORDS:
            self.machine.report(
                Kind.RACE, f"an atomic operation on {region.describe(offset)}, which holds no words"
            )
            return 0
        word = region.word(offset)
        mark = (self.site, address, word.version)
        if poll and mark == self.last_poll:
            yield Park(address, lambda: self.machine.describe_poll(self, region, offset))
        self.last_poll = (self.site, address, word.version) if poll else None
        self._check_atomic(region, offset, word, scope)
        view = region.view(kind.stored)
        old = view[offset // kind.nbytes].item()
        new = change(old)
        changes = new != old or not poll
        if semantics in (ACQUIRE, ACQ_REL):
            word.sync.acquire(self.lead, scope, self.rank, self.index)
        else:
            self.observed = self.observed if self.observed is not None else self.lead.copy()
            word.sync.acquire(self.observed, scope, self.rank, self.index)
        if changes:
            if semantics in (RELEASE, ACQ_REL):
                word.sync.release(self.lead, scope, self.rank, self.index)
            elif self.fence is not None:
                word.sync.release(self.fence, scope, self.rank, self.index)
            view[offset // kind.nbytes] = new
            word.note_atomic(self._actor(scope))
            self.machine.on_word(self, region, offset, old, new)
            self.tick()
            self.machine.scheduler.wake(address)
        else:
            word.reads[self.threads.lead] = self.threads.clock
        return old

    def _actor(self, scope: int) -> Actor:
        return Actor(self.threads.lead, self.threads.clock, scope, self.rank, self.index)

    def _check_atomic(self, region: MemoryRegion, offset: int, word: Word, scope: int) -> None:
        thread, clock = word.write
        if clock > self.lead[thread]:
            self._report_word(region, offset, thread, "written with an ordinary store")
        for actor in word.atomics.values():
            if actor.clock > self.lead[actor.thread] and not self._reaches(actor, scope):
                self._report_word(
                    region, offset, actor.thread, "accessed at a scope that leaves one of them out"
                )

    def _reaches(self, actor: Actor, scope: int) -> bool:
        """Whether two atomic accesses are strong for each other: each one's scope includes the other."""
        narrowest = Scope.SYS
        if actor.rank == self.rank:
            narrowest = Scope.CTA if actor.cta == self.index else Scope.GPU
        width = {Scope.CTA: 0, Scope.GPU: 1, Scope.SYS: 2}
        return min(width[scope], width[actor.scope]) >= width[narrowest]

    def _report_word(self, region: MemoryRegion, offset: int, thread: int, what: str) -> None:
        self.machine.report(
            Kind.RACE,
            f"{self.threads.name} atomically accesses {self.machine.name_word(region, offset)}, {what} by "
            f"{self.machine.name_thread(thread)}, and nothing orders the two",
        )

    def atomic_tensor(
        self,
        operation: int,
        addresses: Array,
        values: Array,
        mask: Array | None,
        kind: Element,
        scope: int,
    ) -> Array:
        """Read-modify-writes by all threads on DATA; additions need no order among each other if all are in scope."""
        self.last_poll = None
        flat = addresses.ravel()
        keep = (
            np.ones(flat.size, np.bool_)
            if mask is None
            else np.broadcast_to(mask, addresses.shape).ravel()
        )
        result: Array = np.zeros(flat.size, kind.value)
        if keep.any():
            active = flat[keep]
            region, index, place = self.memory.locate(active, kind)
            is_sum = operation in _SUMS and (scope == Scope.SYS or region.rank == self.rank)
            check = region.check_sum if is_sum else region.check_write
            check(self.machine, place, self.rest_access())
            view = region.view(kind.stored)
            old = kind.decode(view[index])
            added = np.broadcast_to(values, addresses.shape).ravel()[keep]
            if np.unique(active).size != active.size:
                raise NotImplementedError("a tensor atomic that hits one address twice")
            combine = {6: np.maximum, 7: np.minimum}.get(operation, _COMBINE[operation])
            view[index] = kind.encode(combine(old, added))
            result[keep] = old
        shaped: Array = result.reshape(addresses.shape)
        return shaped
