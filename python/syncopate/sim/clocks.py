"""Vector clocks: who has seen what of whom.

A *thread* here is whatever the memory model orders accesses by: the thread of a role that performs scalar atomics, the
other threads of the role, a queue of asynchronous operations, an mbarrier's deliveries, a stream. Each has one
component in every vector. An access is stamped with its thread and that thread's component; it happens before
whatever has a vector whose component is at least the stamp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Clocks", "Scope", "SyncWord", "Vector"]

Vector = np.ndarray[Any, np.dtype[np.int32]]


class Clocks:
    """Numbers threads and makes vectors."""

    def __init__(self, capacity: int) -> None:
        self.names: list[str] = []
        self.asynchronous = np.zeros(capacity, np.bool_)
        self.capacity = capacity

    def thread(self, name: str, *, asynchronous: bool = False) -> int:
        """A new thread; an asynchronous one writes through the asynchronous proxy."""
        index = len(self.names)
        if index >= self.capacity:
            raise OverflowError(f"more than {self.capacity} threads; raise the capacity")
        self.names.append(name)
        self.asynchronous[index] = asynchronous
        return index

    def vector(self) -> Vector:
        """A vector that has seen nothing."""
        return np.zeros(self.capacity, np.int32)


class Scope:
    """Scopes of the PTX memory model by Triton's numbers."""

    GPU, CTA, SYS = 1, 2, 3


class SyncWord:
    """What acquiring a word gives: the vectors that were released into it, by how far each release reaches."""

    def __init__(self) -> None:
        self._released: dict[tuple[int, ...], Vector] = {}

    def clear(self) -> None:
        """Ends the release sequence: a plain store does."""
        self._released.clear()

    def release(self, vector: Vector, scope: int, rank: int, cta: int) -> None:
        """Adds a release by a CTA of a rank; a later acquire of a matching scope sees it."""
        for reach in _reaches(scope, rank, cta):
            if reach in self._released:
                np.maximum(self._released[reach], vector, out=self._released[reach])
            else:
                self._released[reach] = vector.copy()

    def acquire(self, vector: Vector, scope: int, rank: int, cta: int) -> None:
        """Joins into `vector` what an acquire at `scope` by a CTA of a rank sees."""
        for reach in _reaches(scope, rank, cta):
            if reach in self._released:
                np.maximum(vector, self._released[reach], out=vector)


def _reaches(scope: int, rank: int, cta: int) -> list[tuple[int, ...]]:
    # Release and acquire synchronize if each scope contains the other's thread. A system-scope release reaches
    # everybody, but who acquires at a narrower scope only sees its own GPU or CTA.
    reaches: list[tuple[int, ...]] = [(rank, cta)]
    if scope in (Scope.GPU, Scope.SYS):
        reaches.append((rank,))
    if scope == Scope.SYS:
        reaches.append(())
    return reaches
