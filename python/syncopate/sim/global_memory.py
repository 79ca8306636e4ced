"""Global memory of all ranks: one simulated address space, with a shadow that knows who wrote and read what, and when.

Every buffer, tensor, flag array, state, table upload and host record is a *region* far away from all others, so an
address that leaves its region is an error rather than a stray write. Three kinds:

* DATA holds elements. Its shadow has one entry for each *granule*, a number of bytes that divides every access to it:
  the last write (thread, clock, operation, call) and, for each thread that reads it, or adds to it by atomic
  operations, the clock of the last time. Such additions need no order among each other.
* WORDS holds flags and state, accessed word by word and atomically. Each word has the same shadow, and what was
  released.
* TABLE is written before the first call and only read afterwards.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from syncopate.sim.clocks import SyncWord, Vector
from syncopate.sim.findings import Kind, Stop
from syncopate.sim.values import Element

__all__ = [
    "Access",
    "Actor",
    "Descriptor",
    "Footprint",
    "GlobalMemory",
    "MemoryRegion",
    "RegionKind",
    "Reporter",
    "Word",
]

_SHIFT = 36
_FIRST = 0x1000

Array = np.ndarray[Any, Any]


class RegionKind(enum.Enum):
    """What a region is for."""

    DATA = "data"
    WORDS = "words"
    TABLE = "table"


class Reporter(Protocol):
    """Takes findings."""

    def report(self, kind: Kind, message: str) -> None:
        """Records a finding about the operation that is executing."""

    def name_thread(self, thread: int) -> str:
        """A thread in words."""

    def name_site(self, site: int) -> str:
        """Where in the source an operation is, by its number."""


@dataclass
class Access:
    """Who accesses, and what they have seen.

    Attributes:
        seen: Their vector.
        thread: Their thread.
        clock: Its component.
        call: Number of their call; data they read has to be of that call.
        site: Number of the operation.
        proxy_seen: For accesses through the asynchronous proxy, what had been seen when it was last fenced; None
        otherwise.
    """

    seen: Vector
    thread: int
    clock: int
    call: int
    site: int
    proxy_seen: Vector | None = None


@dataclass(frozen=True)
class Actor:
    """Who last changed a word atomically: thread and clock, scope of the operation, and the CTA it was in."""

    thread: int
    clock: int
    scope: int
    rank: int
    cta: int


class Word:
    """Shadow of one word of a WORDS region.

    `consumed` is who last took a binary twin down, and when.
    """

    __slots__ = ("atomics", "consumed", "reads", "sync", "version", "write")

    def __init__(self) -> None:
        self.write = (0, 0)
        self.consumed = (0, 0)
        self.atomics: dict[int, Actor] = {}
        self.reads: dict[int, int] = {}
        self.sync = SyncWord()
        self.version = 0

    def note_atomic(self, actor: Actor) -> None:
        """Notes an atomic change."""
        self.atomics[actor.thread] = actor
        self.version += 1


class MemoryRegion:
    """A contiguous piece of global memory."""

    def __init__(
        self, name: str, base: int, nbytes: int, kind: RegionKind, rank: int, granule: int
    ) -> None:
        self.name, self.base, self.nbytes, self.kind, self.rank = name, base, nbytes, kind, rank
        self.granule = granule
        self.data = np.zeros(-(-nbytes // 16) * 16, np.uint8)
        self._views: dict[np.dtype[Any], Array] = {}
        self.checks_call = False
        self.words: dict[int, Word] = {}
        if kind is RegionKind.DATA:
            count = -(-nbytes // granule)
            self.write_thread = np.zeros(count, np.int32)
            self.write_clock = np.zeros(count, np.int32)
            self.write_site = np.zeros(count, np.int32)
            self.write_async = np.zeros(count, np.bool_)
            self.call = np.zeros(count, np.int32)
            self.reads: dict[int, Array] = {}
            self.sums: dict[int, Array] = {}
            self.sums_async: set[int] = set()

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The whole region as elements of a type."""
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self.data.view(dtype)
        return view

    def word(self, offset: int) -> Word:
        """The shadow of the word at an offset."""
        word = self.words.get(offset)
        if word is None:
            word = self.words[offset] = Word()
        return word

    def check_read(self, reporter: Reporter, place: Footprint, access: Access) -> None:
        """Checks a read of granules and notes it."""
        threads, clocks = place.of(self.write_thread), place.of(self.write_clock)
        seen = access.seen[threads]
        late = clocks > seen
        if late.any():
            self._report_race(reporter, place, late, "reads", "written", access)
        elif access.proxy_seen is not None:
            unfenced = (clocks > access.proxy_seen[threads]) & ~place.of(self.write_async)
            if unfenced.any():
                self._report_race(reporter, place, unfenced, "reads through TMA", "written", access)
        if not self._check_threads(reporter, place, access, self.sums, "reads", "added to"):
            self._check_fenced_sums(reporter, place, access)
        self._check_call(reporter, place, access)
        self._note(self.reads, place, access)

    def check_write(self, reporter: Reporter, place: Footprint, access: Access) -> None:
        """Checks a write of granules and notes it."""
        self._check_last_write(reporter, place, access, "writes")
        self._check_threads(reporter, place, access, self.sums, "writes", "added to")
        self._check_threads(reporter, place, access, self.reads, "writes", "read")
        place.put(self.write_thread, access.thread)
        place.put(self.write_clock, access.clock)
        place.put(self.write_site, access.site)
        place.put(self.write_async, access.proxy_seen is not None)
        place.put(self.call, access.call)

    def check_sum(self, reporter: Reporter, place: Footprint, access: Access) -> None:
        """Checks atomic additions to granules and notes them."""
        self._check_last_write(reporter, place, access, "adds to")
        self._check_threads(reporter, place, access, self.reads, "adds to", "read")
        self._check_call(reporter, place, access)
        self._note(self.sums, place, access)
        if access.proxy_seen is not None:
            self.sums_async.add(access.thread)

    def _check_last_write(
        self, reporter: Reporter, place: Footprint, access: Access, verb: str
    ) -> None:
        late = place.of(self.write_clock) > access.seen[place.of(self.write_thread)]
        if late.any():
            self._report_race(reporter, place, late, verb, "written", access)

    def _check_threads(
        self,
        reporter: Reporter,
        place: Footprint,
        access: Access,
        tables: dict[int, Array],
        verb: str,
        before: str,
    ) -> bool:
        """Checks against the last accesses of a kind by each thread; says whether there was a race."""
        for thread, table in tables.items():
            late = place.of(table) > access.seen[thread]
            if late.any():
                self._report_race(reporter, place, late, verb, before, access, thread)
                return True
        return False

    def _check_fenced_sums(self, reporter: Reporter, place: Footprint, access: Access) -> None:
        if access.proxy_seen is None:
            return
        for thread in self.sums.keys() - self.sums_async:
            unfenced = place.of(self.sums[thread]) > access.proxy_seen[thread]
            if unfenced.any():
                verb = "reads through TMA"
                self._report_race(reporter, place, unfenced, verb, "added to", access, thread)

    def _check_call(self, reporter: Reporter, place: Footprint, access: Access) -> None:
        if self.checks_call:
            stale = place.of(self.call) != access.call
            if stale.any():
                self._report_stale(reporter, place, stale, access)

    def _note(self, tables: dict[int, Array], place: Footprint, access: Access) -> None:
        table = tables.get(access.thread)
        if table is None:
            table = tables[access.thread] = np.zeros(len(self.write_clock), np.int32)
        place.put(table, access.clock)

    def missing(self, place: Footprint, seen: Vector, call: int) -> int:
        """How many granules are of an earlier call, or of this one by a change that does not come before `seen`."""
        calls = place.of(self.call)
        late = place.of(self.write_clock) > seen[place.of(self.write_thread)]
        for thread, table in self.sums.items():
            late |= place.of(table) > seen[thread]
        return int(np.count_nonzero((calls < call) | ((calls == call) & late)))

    def _where(self, place: Footprint, bad: Array) -> int:
        """Index of the first bad granule."""
        numbers = place.of(np.arange(len(self.write_clock)))
        return int(numbers[bad].flat[0])

    def _report_race(
        self,
        reporter: Reporter,
        place: Footprint,
        bad: Array,
        verb: str,
        before: str,
        access: Access,
        thread: int | None = None,
    ) -> None:
        at = self._where(place, bad)
        site = int(self.write_site[at]) if thread is None else 0
        thread = int(self.write_thread[at]) if thread is None else thread
        unfenced = access.proxy_seen is not None and verb == "reads through TMA"
        why = "without a fence.proxy.async in between" if unfenced else "and nothing orders the two"
        place_text = f" ({reporter.name_site(site)})" if site else ""
        reporter.report(
            Kind.RACE,
            f"{reporter.name_thread(access.thread)} {verb} {self.describe(at * self.granule)}, "
            f"{before} by {reporter.name_thread(thread)}{place_text}, {why}",
        )

    def _report_stale(
        self, reporter: Reporter, place: Footprint, bad: Array, access: Access
    ) -> None:
        at = self._where(place, bad)
        found = int(self.call[at])
        what = f"which holds data of call {found}" if found else "which nobody has written"
        reporter.report(
            Kind.UNWRITTEN,
            f"{reporter.name_thread(access.thread)} in call {access.call} reads "
            f"{self.describe(at * self.granule)}, {what}",
        )

    def describe(self, offset: int) -> str:
        """A byte of the region in words."""
        return f"{self.name} at byte {offset}"


class Footprint:
    """The granules that an access touches: an index of the flat shadow, or a rectangle of it."""

    __slots__ = ("_index", "_offset", "_shape", "_strides")

    def __init__(self, index: Any, shape: Any = None, strides: Any = None, offset: int = 0) -> None:
        self._index, self._shape, self._strides, self._offset = index, shape, strides, offset

    def _view(self, table: Array) -> Array:
        if self._shape is None:
            return table
        item = table.itemsize
        strides = tuple(item * stride for stride in self._strides)
        view: Array = np.ndarray(self._shape, table.dtype, table, item * self._offset, strides)
        return view

    def of(self, table: Array) -> Array:
        """The entries of a table of one entry per granule."""
        entries: Array = self._view(table)[self._index]
        return entries

    def put(self, table: Array, value: Any) -> None:
        """Sets the entries."""
        self._view(table)[self._index] = value


class Descriptor:
    """A TMA descriptor over a region."""

    def __init__(
        self,
        region: MemoryRegion,
        offset: int,
        shape: Sequence[int],
        strides: Sequence[int],
        kind: Element,
        *,
        nan: bool,
    ) -> None:
        self.region, self.shape, self.kind = region, tuple(shape), kind
        self.fill = np.nan if nan else 0
        # Bulk operations by it that are not complete.
        self.in_flight = 0
        last = offset + kind.nbytes * (
            1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        )
        if offset < 0 or last > region.nbytes:
            raise ValueError(f"a descriptor leaves {region.name}")
        byte_strides = [kind.nbytes * stride for stride in strides]
        self.elements = np.ndarray(
            self.shape, kind.stored, region.data, offset, tuple(byte_strides)
        )
        granule = region.granule
        if any(stride % granule for stride in byte_strides[:-1]) or offset % granule:
            raise ValueError(f"granule {granule} does not divide the rows of {region.name}")
        self._shape = (*shape[:-1], -(-shape[-1] * kind.nbytes // granule))
        self._strides = (*(stride // granule for stride in byte_strides[:-1]), 1)
        self._offset = offset // granule

    def clip(
        self, coordinates: Sequence[int], block: Sequence[int]
    ) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """The part of a block that lies inside, as slices of the tensor and of the block; None if nothing does."""
        inside, of_block = [], []
        for start, size, limit in zip(coordinates, block, self.shape, strict=True):
            low, high = max(start, 0), min(start + size, limit)
            if low >= high:
                return None
            inside.append(slice(low, high))
            of_block.append(slice(low - start, high - start))
        return tuple(inside), tuple(of_block)

    def footprint(self, inside: tuple[slice, ...]) -> Footprint:
        """The granules of a part of the tensor."""
        nbytes, granule = self.kind.nbytes, self.region.granule
        last = inside[-1]
        columns = slice(last.start * nbytes // granule, -(-last.stop * nbytes // granule))
        return Footprint((*inside[:-1], columns), self._shape, self._strides, self._offset)


class GlobalMemory:
    """All regions."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.regions: list[MemoryRegion] = []

    def add(
        self, name: str, nbytes: int, kind: RegionKind, rank: int, granule: int = 16
    ) -> MemoryRegion:
        """Makes a region; its address is its `base`."""
        base = ((len(self.regions) + 1) << _SHIFT) + _FIRST
        region = MemoryRegion(name, base, nbytes, kind, rank, granule)
        self.regions.append(region)
        return region

    def find(self, address: int, nbytes: int) -> tuple[MemoryRegion, int]:
        """The region of an element, and its offset in it.

        Raises:
            Stop: Some of the bytes lie outside every region, or the address is no multiple of their number.
        """
        region, offset = self.find_bytes(address, nbytes)
        if offset % nbytes:
            self._stop(f"an access of {nbytes} bytes to {region.describe(offset)} is misaligned")
        return region, offset

    def find_bytes(self, address: int, nbytes: int) -> tuple[MemoryRegion, int]:
        """The region of a number of bytes, and their offset in it.

        Raises:
            Stop: Some of them lie outside every region.
        """
        index = (address >> _SHIFT) - 1
        if not 0 <= index < len(self.regions):
            self._stop(f"an access of {nbytes} bytes to address {address:#x}, where nothing is")
        region = self.regions[index]
        offset = address - region.base
        if offset < 0 or offset + nbytes > region.nbytes:
            self._stop(
                f"an access of {nbytes} bytes at offset {offset} of {region.name}, which has {region.nbytes} bytes"
            )
        return region, offset

    def _stop(self, message: str) -> NoReturn:
        self._reporter.report(Kind.OUT_OF_BOUNDS, message)
        raise Stop

    def locate(self, addresses: Array, kind: Element) -> tuple[MemoryRegion, Any, Footprint]:
        """Where elements at several addresses are: the region, an index of its elements, and their granules."""
        low, high = int(addresses.min()), int(addresses.max())
        region, offset = self.find(low, kind.nbytes)
        self.find(high, kind.nbytes)
        if high - region.base >= region.nbytes:
            self._stop(
                f"one access to both {region.name} and {self.find(high, kind.nbytes)[0].name}"
            )
        size, granule = kind.nbytes, region.granule
        if high - low == size * (addresses.size - 1) and (np.diff(addresses) == size).all():
            first = offset // size
            last = high - region.base + size
            place = Footprint(slice(offset // granule, -(-last // granule)))
            return region, slice(first, first + addresses.size), place
        offsets = addresses - region.base
        if (offsets % size).any():
            self._stop(f"a misaligned access to {region.name}")
        granules = offsets // granule
        if size > granule:
            granules = (granules[:, None] + np.arange(size // granule)).ravel()
        return region, offsets // size, Footprint(granules)
