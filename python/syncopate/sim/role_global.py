"""Loads and stores of global memory by a role."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncopate.sim.clocks import Scope, Vector
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Access, MemoryRegion, RegionKind
from syncopate.sim.role import Role
from syncopate.sim.values import Element

__all__ = ["GlobalRole"]

Array = np.ndarray[Any, Any]


class GlobalRole(Role):
    """A role that loads and stores: scalars and tensors of pointers."""

    def lead_access(self) -> Access:
        """An access by the first thread, now."""
        return Access(self.lead, self.threads.lead, self.threads.clock, self.call, self.site)

    def rest_access(self) -> Access:
        """An access by all threads, now."""
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
            self.last_poll = None
            if region.kind is RegionKind.WORDS:
                thread = self.threads.lead if lead_only else self.threads.rest
                self._check_word(region, offset, "reads", self.lead if lead_only else self.rest)
                region.word(offset).reads[thread] = self.threads.clock
            else:
                _, _, place = self.memory.locate(np.array([address]), kind)
                access = self.lead_access() if lead_only else self.rest_access()
                region.check_read(self.machine, place, access)
        if kind.is_float:
            return float(kind.decode(np.asarray(stored).reshape(1))[0])
        return int(stored) if kind.name != "i1" else bool(stored)

    def store(self, address: int, value: Any, kind: Element) -> None:
        """A scalar store, by the first thread."""
        self.last_poll = None
        region, offset = self.memory.find(address, kind.nbytes)
        if region.kind is RegionKind.WORDS:
            self._check_word(region, offset, "writes", self.lead, readers=True)
            word = region.word(offset)
            word.write = (self.threads.lead, self.threads.clock)
            word.sync.clear()
            if self.fence is not None:
                word.sync.release(self.fence, Scope.SYS, self.rank, self.index)
            word.version += 1
        elif region.kind is RegionKind.DATA:
            _, _, place = self.memory.locate(np.array([address]), kind)
            region.check_write(self.machine, place, self.lead_access())
        else:
            self.machine.report(Kind.RACE, f"a store to {region.describe(offset)}, a table")
        region.view(kind.stored)[offset // kind.nbytes] = (
            kind.encode(np.array([value]))[0] if kind.is_float else value
        )
        self.machine.scheduler.wake(address)

    def _check_word(
        self, region: MemoryRegion, offset: int, verb: str, seen: Vector, *, readers: bool = False
    ) -> None:
        """Checks a plain access against atomics and plain writes of others, and a write against reads as well."""
        word = region.word(offset)
        thread, clock = word.write
        others = [
            (thread, clock, "written"),
            *((a.thread, a.clock, "changed") for a in word.atomics.values()),
        ]
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

    # Tensors.

    def load_tensor(self, addresses: Array, mask: Any, other: Any, kind: Element) -> Array:
        """A load by all threads."""
        self.last_poll = None
        shape = addresses.shape
        if mask is None:
            region, index, place = self.memory.locate(addresses.ravel(), kind)
            if region.kind is RegionKind.DATA:
                region.check_read(self.machine, place, self.rest_access())
            values: Array = kind.decode(region.view(kind.stored)[index]).reshape(shape)
            return values
        mask = np.broadcast_to(mask, shape)
        result: Array = np.zeros(shape, kind.value)
        if other is not None:
            result[...] = other
        if mask.any():
            region, index, place = self.memory.locate(addresses[mask], kind)
            if region.kind is RegionKind.DATA:
                region.check_read(self.machine, place, self.rest_access())
            result[mask] = kind.decode(region.view(kind.stored)[index])
        return result

    def store_tensor(self, addresses: Array, values: Array, mask: Any, kind: Element) -> None:
        """A store by all threads."""
        self.last_poll = None
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
        region.check_write(self.machine, place, self.rest_access())
        region.view(kind.stored)[index] = kind.encode(data)
        self.machine.scheduler.progress += 1
