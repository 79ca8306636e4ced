"""One pool of symmetric memory for the programs of a group.

Connecting memory of all ranks is slow, and nobody can take it back from a peer that still uses it. So ranks connect
**arenas**, and programs get **blocks** of them, at the same place on every rank. Rules:

* Blocks are given out collectively, and all ranks have the same pool: whatever changes it, all of them have said.
* A rank **lets go** of a block when nothing there refers to it any more: no program, and no tensor that a call or a
  user has taken of it. That happens at any time, and in any thread, so it is only noted.
* The next time that blocks are given out, each rank waits for its GPU, and says of which blocks it has let go. A block
  is free when all ranks have. So no kernel, copy or stream of any rank that could read or write it is left, nor one
  that could raise its flags, and whoever gets it next finds zeros and begins to count epochs anew.
* Where no free place is large enough, all ranks give up arenas of which nothing is in use, and connect another one.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from syncopate.abi import align
from syncopate.agreement import Agreement, require
from syncopate.errors import SyncopateError
from syncopate.forks import expect_process, this_process
from syncopate.runtime.groups import PoolUse, SymmetricAllocation

__all__ = ["ALIGNMENT", "ARENA_BYTES", "Arena", "ArenaSource", "Places", "Pool"]

ALIGNMENT: Final = 1024
"""Of blocks."""

ARENA_BYTES: Final = 32 << 20
"""The least that is connected at once, so that small programs share it."""

_GRANULARITY: Final = 2 << 20
"""Of what GPUs map for each other."""


@dataclass(frozen=True)
class Arena:
    """Memory of the same size on every rank.

    Attributes:
        addresses: For each rank, where its memory is as this process sees it; 0 for those that are out of reach.
        memory: What keeps it there.
        inset: How many bytes behind that a rank of this process begins, which only itself knows.
    """

    addresses: tuple[int, ...]
    memory: Any
    inset: int = 0


class ArenaSource(Protocol):
    """Where arenas come from."""

    @property
    def local_ranks(self) -> Sequence[int]:
        """The ranks of this process."""

    def settle(self) -> None:
        """Waits until this process's GPUs have nothing left to do."""

    def prepare(self) -> None:
        """What comes before the first arena. Collective."""

    def reserve(self, nbytes: int) -> Any:
        """Memory of this process's ranks; not collective."""

    def connect(self, memory: Any) -> Arena:
        """Makes it an arena with that of the others. Collective, but nothing is exchanged through the agreement."""

    def view(self, owner: Any, rank: int, address: int, nbytes: int) -> Any:
        """A tensor of bytes at an address of a local rank, whose storage keeps `owner` alive and is its only one."""


class Places:
    """Which parts of arenas are free. What it does follows from what it is told alone, so all ranks have the same."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        # By arena: begins and ends of what is free, ascending, with something in use between any two.
        self._free: dict[int, list[tuple[int, int]]] = {}
        self._next = 0

    def add(self, nbytes: int) -> int:
        """Adds an arena; returns its number, which no other has had."""
        number, self._next = self._next, self._next + 1
        self.sizes[number], self._free[number] = nbytes, [(0, nbytes)]
        return number

    def take(self, nbytes: int) -> tuple[int, int] | None:
        """Arena and offset of the smallest free part that is large enough, if there is one."""
        fits = [
            (end - begin, number, begin)
            for number, parts in self._free.items()
            for begin, end in parts
            if end - begin >= nbytes
        ]
        if not fits:
            return None
        size, number, begin = min(fits)
        parts = self._free[number]
        place = parts.index((begin, begin + size))
        parts[place : place + 1] = [(begin + nbytes, begin + size)] if size > nbytes else []
        return number, begin

    def give(self, number: int, offset: int, nbytes: int) -> None:
        """Makes a part free that was taken."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self._free[number], (offset, offset + nbytes)]):
            if merged and merged[-1][1] == begin:
                begin = merged.pop()[0]
            merged.append((begin, end))
        self._free[number] = merged

    def drop_unused(self) -> list[int]:
        """Takes away arenas of which nothing is in use; returns their numbers."""
        unused = [n for n, size in self.sizes.items() if self._free[n] == [(0, size)]]
        for number in unused:
            del self.sizes[number], self._free[number]
        return unused

    @property
    def use(self) -> PoolUse:
        """How much there is, and how much of it is taken."""
        parts = [end - begin for free in self._free.values() for begin, end in free]
        reserved = sum(self.sizes.values())
        return PoolUse(reserved, reserved - sum(parts))


@dataclass(frozen=True)
class _Block:
    arena: int
    offset: int
    nbytes: int


class _Owner:
    """What the tensors of a block have in common; when it goes, this process has let go of the block."""

    def __init__(self, arena: Arena, dropped: deque[int], number: int) -> None:
        self.arena = arena
        weakref.finalize(self, dropped.append, number).atexit = False


class Pool:
    """The symmetric memory of a group."""

    def __init__(self, agreement: Agreement, source: ArenaSource) -> None:
        """Has nothing yet.

        Args:
            agreement: The processes of the group.
            source: Where memory comes from.
        """
        self._agreement, self._source = agreement, source
        self._places = Places()
        self._arenas: dict[int, Arena] = {}
        self._blocks: dict[int, _Block] = {}
        self._count, self._prepared = 0, False
        self._process = this_process()
        # Finalizers may run at any point of any thread; a deque takes what they append without a lock.
        self._dropped: deque[int] = deque()
        self._let_go: dict[int, set[int]] = {}

    @property
    def use(self) -> PoolUse:
        """How much is reserved, and in use as far as all ranks have said."""
        return self._places.use

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Zeroed memory. Collective; not during a graph capture.

        Args:
            nbytes: How much, the same on all ranks.

        Raises:
            SyncopateError: Another rank wants something else, or has no memory.
        """
        expect_process(self._process, "symmetric memory")
        size = align(max(nbytes, 1), ALIGNMENT)
        self._collect(size)
        found = self._places.take(size)
        if found is None:
            # Programs that nobody refers to may wait for the collector; it is slow, but so is what comes next.
            gc.collect()
            self._collect(size)
            found = self._places.take(size)
        if found is None:
            self._grow(size)
            found = self._places.take(size)
            assert found is not None
        arena, offset = found
        number, self._count = self._count, self._count + 1
        self._blocks[number] = _Block(arena, offset, size)
        what = f"{nbytes:,} bytes of symmetric memory"
        return require(self._agreement, what, lambda: self._hand_out(number, nbytes))

    def _collect(self, nbytes: int) -> None:
        """Frees the blocks of which all ranks have let go."""
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        # Whatever used them has been enqueued before.
        self._source.settle()
        told: list[Mapping[str, Any]] = self._agreement.exchange(
            "an allocation",
            {"nbytes": nbytes, "dropped": dropped},
            f"{nbytes:,} bytes of symmetric memory",
        )
        for rank, said in enumerate(told):
            for number in said["dropped"]:
                self._let_go.setdefault(number, set()).add(rank)
        for number in sorted(self._let_go):
            if len(self._let_go[number]) == len(told):
                del self._let_go[number]
                block = self._blocks.pop(number)
                self._places.give(block.arena, block.offset, block.nbytes)
        for rank, said in enumerate(told):
            if said["nbytes"] != told[0]["nbytes"]:
                raise SyncopateError(
                    f"rank {rank} asks for {said['nbytes']:,} bytes of symmetric memory, but rank 0 for "
                    f"{told[0]['nbytes']:,}; all ranks of a group have to load the same programs, in the same order"
                )

    def _grow(self, size: int) -> None:
        for number in self._places.drop_unused():
            del self._arenas[number]
        if not self._prepared:
            self._source.prepare()
            self._prepared = True
        nbytes = align(max(size, ARENA_BYTES), _GRANULARITY)
        what = f"{nbytes:,} bytes of symmetric memory"
        # No rank connects before all have memory, since connecting waits for all.
        memory = require(self._agreement, what, lambda: self._source.reserve(nbytes))
        arena = require(self._agreement, what, lambda: self._source.connect(memory))
        own = [[rank, arena.inset] for rank in self._source.local_ranks]
        told = self._agreement.exchange("a new arena", own)
        insets = dict(pair for said in told for pair in said)
        addresses = tuple(base and base + insets[rank] for rank, base in enumerate(arena.addresses))
        self._arenas[self._places.add(nbytes)] = Arena(addresses, arena.memory)

    def _hand_out(self, number: int, nbytes: int) -> SymmetricAllocation:
        block = self._blocks[number]
        arena = self._arenas[block.arena]
        addresses = tuple(base and base + block.offset for base in arena.addresses)
        owner = _Owner(arena, self._dropped, number)
        tensors = {
            rank: self._source.view(owner, rank, addresses[rank], nbytes)
            for rank in self._source.local_ranks
        }
        for tensor in tensors.values():
            tensor.zero_()
        return SymmetricAllocation(addresses, tensors)
