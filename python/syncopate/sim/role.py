"""One role of a CTA as the interpreted kernel sees it: memory, atomics, barriers, asynchronous operations.

The threads of a role are two threads of the memory model: the *lead*, which alone performs scalar stores, scalar atomics
and the issue of bulk operations, and the *rest*, which stand for all threads when a tensor or a scalar is loaded and when
a tensor is stored. Only barriers join the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Access, Region, RegionKind, Word
from syncopate.sim.scheduler import Agent, Park, Wait
from syncopate.sim.values import Element, wrap

if TYPE_CHECKING:
    from syncopate.sim.cta import Cta

__all__ = ["Role", "RoleThreads"]

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


class RoleThreads:
    """The threads of a role in the memory model; they outlive a launch."""

    def __init__(self, clocks: Any, name: str) -> None:
        self.name = name
        self.lead = clocks.thread(f"{name} (its first thread)")
        self.rest = clocks.thread(name)
        self.bulk_read = clocks.thread(f"a TMA store of {name}", asynchronous=True)
        self.bulk = clocks.thread(f"a TMA store of {name}", asynchronous=True)
        self.mma = clocks.thread(f"a wgmma of {name}", asynchronous=True)
        self.copies = clocks.thread(f"a cp.async of {name}")
        self.clock = 1
        self.bulk_issued = 0
        self.mma_issued = 0
        self.copies_committed = 0


class Role:
    """What the interpreted function of one role calls."""

    def __init__(self, cta: Cta, threads: RoleThreads, start: Vector) -> None:
        self.cta, self.threads = cta, threads
        self.machine = cta.machine
        self.memory = cta.machine.memory
        self.lead, self.rest = start.copy(), start.copy()
        self.fenced = start.copy()
        self.fenced_shared = start.copy()
        self._fence: Vector | None = None
        self._observed: Vector | None = None
        self.tick()
        self.code: Agent | None = None
        self._last_poll: Any = None
        self.call = cta.call
        self.rank = cta.rank
        self.index = cta.index
        # Bulk stores in issue order whose group is not known to be complete, and wgmmas in flight.
        self.bulk_stores: list[Any] = []
        self.mmas: list[Any] = []
        self.copies: list[Any] = []
        self.copy_groups: list[list[Any]] = []

    # Clocks.

    def tick(self) -> None:
        """What comes next is not covered by what was released so far."""
        threads = self.threads
        threads.clock += 1
        self.lead[threads.lead] = threads.clock
        self.rest[threads.rest] = threads.clock

    def join(self) -> None:
        """A barrier among the role's threads."""
        np.maximum(self.lead, self.rest, out=self.lead)
        self.rest[:] = self.lead
        self.tick()

    def joined(self) -> Vector:
        """What all threads together have seen, for shared memory, where Triton puts barriers itself."""
        return np.maximum(self.lead, self.rest)

    @property
    def site(self) -> int:
        """Number of the operation that is executing."""
        if self.code is None or self.code.gi_frame is None:
            return 0
        return self.code.gi_frame.f_lineno

    def _lead_access(self) -> Access:
        return Access(self.lead, self.threads.lead, self.threads.clock, self.call, self.site)

    def _rest_access(self) -> Access:
        return Access(self.rest, self.threads.rest, self.threads.clock, self.call, self.site)

    def proxy_access(self, thread: int, clock: int) -> Access:
        """An access through the asynchronous proxy, issued now."""
        seen = self.rest.copy()
        return Access(seen, thread, clock, self.call, self.site, self.fenced.copy())

    # Scalars.

    def load(self, address: int, kind: Element, lead_only: bool = False) -> Any:
        """A scalar load, by all threads; `lead_only` if only the first one uses what it gets."""
        region, offset = self.memory.find(address, kind.nbytes)
        stored = region.view(kind.stored)[offset // kind.nbytes]
        if region.kind is not RegionKind.TABLE:
            self._last_poll = None
            if region.kind is RegionKind.WORDS:
                thread = self.threads.lead if lead_only else self.threads.rest
                self._check_word(region, offset, "reads", self.lead if lead_only else self.rest)
                region.word(offset).reads[thread] = self.threads.clock
            else:
                _, _, place = self.memory.locate(np.array([address]), kind)
                access = self._lead_access() if lead_only else self._rest_access()
                region.check_read(self.machine, place, access)
        if kind.is_float:
            return float(kind.decode(np.asarray(stored).reshape(1))[0])
        return int(stored) if kind.name != "i1" else bool(stored)

    def store(self, address: int, value: Any, kind: Element) -> None:
        """A scalar store, by the first thread."""
        self._last_poll = None
        region, offset = self.memory.find(address, kind.nbytes)
        if region.kind is RegionKind.WORDS:
            self._check_word(region, offset, "writes", self.lead, readers=True)
            word = region.word(offset)
            word.write = (self.threads.lead, self.threads.clock)
            word.sync.clear()
            if self._fence is not None:
                word.sync.release(self._fence, 3, self.rank, self.index)
            word.version += 1
        elif region.kind is RegionKind.DATA:
            _, _, place = self.memory.locate(np.array([address]), kind)
            region.check_write(self.machine, place, self._lead_access())
        else:
            self.machine.report(Kind.RACE, f"a store to {region.describe(offset)}, a table")
        region.view(kind.stored)[offset // kind.nbytes] = (
            kind.encode(np.array([value]))[0] if kind.is_float else value
        )
        self.machine.scheduler.wake(address)

    def _check_word(
        self, region: Region, offset: int, verb: str, seen: Vector, *, readers: bool = False
    ) -> None:
        """Checks a plain access against atomics and plain writes of others, and a write against reads as well."""
        word = region.word(offset)
        thread, clock = word.write
        others = [(thread, clock, "written"), *((t, c, "changed") for t, c in word.atomics.items())]
        if readers:
            others += [(t, c, "read") for t, c in word.reads.items()]
        for thread, clock, what in others:
            if clock > seen[thread]:
                self.machine.report(
                    Kind.RACE,
                    f"{self.threads.name} {verb} {self.machine.name_word(region, offset)}, {what} by "
                    f"{self.machine.name_thread(thread)}, and nothing orders the two",
                )
                return

    # Atomics.

    def atomic(
        self,
        operation: int,
        address: int,
        value: Any,
        mask: bool,
        kind: Element,
        *orders: Any,
    ) -> Iterator[Any]:
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
    ) -> Iterator[Any]:
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
    ) -> Iterator[Any]:
        region, offset = self.memory.find(address, kind.nbytes)
        if region.kind is not RegionKind.WORDS:
            self.machine.report(
                Kind.RACE, f"an atomic operation on {region.describe(offset)}, which holds no words"
            )
            return 0
        word = region.word(offset)
        mark = (self.site, address, word.version)
        if poll and mark == self._last_poll:
            yield Park(address, lambda: self.machine.describe_poll(self, region, offset))
        self._last_poll = (self.site, address, word.version) if poll else None
        self._check_atomic(region, offset, word, scope)
        view = region.view(kind.stored)
        old = view[offset // kind.nbytes].item()
        new = change(old)
        changes = new != old or not poll
        if semantics in (ACQUIRE, ACQ_REL):
            word.sync.acquire(self.lead, scope, self.rank, self.index)
        else:
            self._observed = self._observed if self._observed is not None else self.lead.copy()
            word.sync.acquire(self._observed, scope, self.rank, self.index)
        if changes:
            if semantics in (RELEASE, ACQ_REL):
                word.sync.release(self.lead, scope, self.rank, self.index)
            elif self._fence is not None:
                word.sync.release(self._fence, scope, self.rank, self.index)
            view[offset // kind.nbytes] = new
            word.atomics[self.threads.lead] = self.threads.clock
            word.version += 1
            self.machine.on_word(self, region, offset, old, new)
            self.tick()
            self.machine.scheduler.wake(address)
        else:
            word.reads[self.threads.lead] = self.threads.clock
        return old

    def _check_atomic(self, region: Region, offset: int, word: Word, scope: int) -> None:
        thread, clock = word.write
        if clock > self.lead[thread]:
            self.machine.report(
                Kind.RACE,
                f"{self.threads.name} atomically accesses {self.machine.name_word(region, offset)}, written by "
                f"{self.machine.name_thread(thread)} with an ordinary store, and nothing orders the two",
            )
        if scope == 2 or (scope == 1 and region.rank != self.rank):
            self.machine.report(
                Kind.RACE,
                f"{self.threads.name} atomically accesses {self.machine.name_word(region, offset)} at a scope that "
                f"leaves out others who access it",
            )

    def atomic_tensor(
        self, operation: int, addresses: Array, values: Array, mask: Array | None, kind: Element
    ) -> Array:
        """Read-modify-writes by all threads on DATA; ordered only among each other."""
        self._last_poll = None
        flat = addresses.ravel()
        keep = (
            np.ones(flat.size, np.bool_)
            if mask is None
            else np.broadcast_to(mask, addresses.shape).ravel()
        )
        result = np.zeros(flat.size, kind.value)
        if keep.any():
            active = flat[keep]
            region, index, place = self.memory.locate(active, kind)
            region.check_write(self.machine, place, self._rest_access())
            view = region.view(kind.stored)
            old = kind.decode(view[index])
            added = np.broadcast_to(values, addresses.shape).ravel()[keep]
            if np.unique(active).size != active.size:
                raise NotImplementedError("a tensor atomic that hits one address twice")
            combine = {6: np.maximum, 7: np.minimum}.get(operation, _COMBINE[operation])
            view[index] = kind.encode(combine(old, added))
            result[keep] = old
        return result.reshape(addresses.shape)

    # Tensors.

    def load_tensor(self, addresses: Array, mask: Any, other: Any, kind: Element) -> Array:
        """A load by all threads."""
        self._last_poll = None
        shape = addresses.shape
        if mask is None:
            region, index, place = self.memory.locate(addresses.ravel(), kind)
            region.check_read(
                self.machine, place, self._rest_access()
            ) if region.kind is RegionKind.DATA else None
            return kind.decode(region.view(kind.stored)[index]).reshape(shape)
        mask = np.broadcast_to(mask, shape)
        result = (
            np.zeros(shape, kind.value)
            if other is None
            else np.array(np.broadcast_to(other, shape), kind.value)
        )
        if mask.any():
            region, index, place = self.memory.locate(addresses[mask], kind)
            if region.kind is RegionKind.DATA:
                region.check_read(self.machine, place, self._rest_access())
            result[mask] = kind.decode(region.view(kind.stored)[index])
        return result

    def store_tensor(self, addresses: Array, values: Array, mask: Any, kind: Element) -> None:
        """A store by all threads."""
        self._last_poll = None
        values = np.broadcast_to(values, addresses.shape)
        if mask is None:
            active, data = addresses.ravel(), values.ravel()
        else:
            mask = np.broadcast_to(mask, addresses.shape)
            if not mask.any():
                return
            active, data = addresses[mask], values[mask]
        region, index, place = self.memory.locate(active, kind)
        if region.kind is not RegionKind.DATA:
            self.machine.report(
                Kind.RACE, f"a tensor is stored to {region.name}, which holds no data"
            )
            return
        region.check_write(self.machine, place, self._rest_access())
        region.view(kind.stored)[index] = kind.encode(data)
        self.machine.scheduler.progress += 1

    # Fences and time.

    def fence_proxy(self) -> None:
        """fence.proxy.async, by every thread."""
        self._last_poll = None
        self.fenced[:] = self.rest
        self.fenced_shared[:] = self.joined()

    def fence_shared(self) -> None:
        """fence.proxy.async.shared::cta, by every thread."""
        self.fenced_shared[:] = self.joined()

    def fence_system(self) -> None:
        """fence.acq_rel.sys, by every thread."""
        if self._observed is not None:
            np.maximum(self.lead, self._observed, out=self.lead)
            self._observed = None
        self._fence = self.lead.copy()
        self.tick()

    def program_id(self, axis: int) -> int:
        """The CTA's coordinate in the grid."""
        x, y, _ = self.cta.grid
        return (self.index % x, self.index // x % y, self.index // (x * y))[axis]

    def timer(self) -> int:
        """The clock in nanoseconds."""
        return self.machine.now()

    # Warp specialization.

    def fork(
        self, functions: Sequence[Callable[..., Agent]], captures: Sequence[Any]
    ) -> list[Role]:
        """Starts the partitions; every warp has passed a barrier."""
        self.join()
        roles = []
        for number, function in enumerate(functions):
            role = self.cta.add_role(f"partition {number}", self.lead)
            role.code = function(role, *captures)
            self.machine.scheduler.spawn(role.threads.name, role.run(), role)
            role.fenced[:] = self.fenced
            roles.append(role)
        return roles

    def run(self) -> Agent:
        """The role's code, and the bookkeeping of its end."""
        assert self.code is not None
        yield from self.code
        self.finish()

    def finish(self) -> None:
        """Ends the role."""
        self.join()
        self.ended = True
        self.machine.scheduler.wake(("role", self))

    ended = False

    def wait_for(self, roles: Sequence[Role]) -> Agent:
        """Waits for partitions to end, at a barrier of all warps."""
        for role in roles:
            yield Wait(
                ("role", role),
                lambda role=role: role.ended,
                lambda role=role: f"{role.threads.name} to end",  # type: ignore[misc]
            )
            np.maximum(self.lead, role.lead, out=self.lead)
            for name in ("bulk_stores", "mmas"):
                getattr(self, name).extend(getattr(role, name))
        self.join()

    def check(self, condition: Any, message: str) -> None:
        """A device assertion."""
        if not np.all(condition):
            self.machine.report(Kind.ASSERTION, message)
