"""Which queries and which steps each tile of attention has, on each rank that has a part of a sequence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from syncopate.compiler.steps import Steps
from syncopate.errors import SyncopateError
from syncopate.plan.sequence import SequenceShards

__all__ = ["SequenceTiles"]

_HEADS = 8
"""Heads whose longest tiles come together, so that few share L2 at a time, and the last tiles of all are short."""


@dataclass(frozen=True)
class _Segment:
    """Queries of one sequence that stand side by side on a rank.

    It has their rows, the place of the first, the keys of the sequence, and the first tile.
    """

    rows: tuple[int, int]
    place: int
    keys: tuple[int, int]
    tile: int


@dataclass(frozen=True)
class SequenceTiles:
    """The tiles of each head.

    Attributes:
        shards: Which queries a rank has.
        block_m: Queries of a tile.
        block_n: Keys of a step.
        causal: Whether a query takes the keys up to its own place only.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends; a tile then
            belongs to one of them. If it is left out, there is one.
    """

    shards: SequenceShards
    block_m: int
    block_n: int
    causal: bool
    cu_seqlens: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        given = self.cu_seqlens
        if given is None:
            return
        numbers = all(type(value) is int for value in given)
        if not (
            numbers
            and len(given) > 1
            and given[0] == 0
            and given[-1] == self.shards.length
            and list(given) == sorted(given)
        ):
            raise SyncopateError(
                f"cu_seqlens: expects integers that grow from 0 to {self.shards.length}, the length of all sequences, "
                f"but got {list(given)!r:.80}"
            )

    @property
    def count(self) -> int:
        """Tiles of a head; on ranks that need fewer of them, the last ones have no queries."""
        if self.cu_seqlens is None:
            return -(-self.shards.rows // self.block_m)
        return max(1, *(self._count(rank) for rank in range(self.shards.world_size)))

    def _count(self, rank: int) -> int:
        return sum(self._tiles_of(segment) for segment in self._segments(rank))

    def _tiles_of(self, segment: _Segment) -> int:
        begin, end = segment.rows
        return -(-(end - begin) // self.block_m)

    def _segments(self, rank: int) -> list[_Segment]:
        """The parts of sequences that a rank has, and rows that stand for no element, which have no keys."""
        assert self.cu_seqlens is not None
        block, length = self.shards.block, self.shards.length
        sequences = list(itertools.pairwise(self.cu_seqlens))
        segments: list[_Segment] = []
        tile = 0
        for number, begin in enumerate(self.shards.begins(rank)):
            row = number * block - begin
            for keys in (*sequences, None):
                first, last = keys or (length, begin + block)
                first, last = max(begin, first), min(begin + block, last)
                if first < last:
                    rows = (first + row, last + row)
                    segments.append(_Segment(rows, first, keys or (0, 0), tile))
                    tile += self._tiles_of(segments[-1])
        return segments

    def table(self, rank: int) -> npt.NDArray[np.int32]:
        """What `attention` takes as ``tiles_ptr``, i32 [count, 4].

        Of each tile it is the first row, and the one behind its last, and likewise the keys of its sequence.
        """
        result = np.zeros((self.count, 4), np.int32)
        for segment in self._segments(rank):
            begin, end = segment.rows
            for number, row in enumerate(range(begin, end, self.block_m)):
                rows = (row, min(row + self.block_m, end))
                result[segment.tile + number] = (*rows, *segment.keys)
        return result

    def places_of_queries(self, rank: int) -> dict[str, npt.NDArray[np.int32]]:
        """What `attention_backward_kv` takes to know which keys a query contributes to, by name; nothing if all do.

        It is `keys`, i32 [2, shards.rows], if there are several sequences, and else `positions`, i32 [shards.rows], if
        places are not rows: as ``keys_ptr`` and ``positions_ptr`` say.
        """
        shards = self.shards
        places = shards.positions(rank)
        if self.cu_seqlens is not None:
            bounds = np.array(self.cu_seqlens)
            number = np.searchsorted(bounds, places, side="right")
            last = places if self.causal else bounds[number] - 1
            keys = np.where(places < 0, [[shards.length], [-1]], [bounds[number - 1], last])
            return {"keys": keys.astype(np.int32)}
        ragged = shards.world_size * shards.rows > shards.length
        return {"positions": places} if ragged or (self.causal and shards.world_size > 1) else {}

    def steps(self) -> list[Steps]:
        """The steps of each tile; none where they follow from the kernel."""
        if self.cu_seqlens is None and not self.causal:
            return []
        if self.shards.world_size == 1:
            return [Steps(self._range(0))]
        return [Steps(self._range(rank), rank) for rank in range(self.shards.world_size)]

    def keys(self, rank: int) -> list[tuple[int, int]]:
        """Where the keys begin and end that tiles of a rank read: those of whole steps, masked or not.

        Where one step has all keys, what is read does not depend on steps, and tiles without any are taken to read it.
        """
        if self.shards.length <= self.block_n:
            return [(0, self.shards.length)]
        bn, steps = self.block_n, self._range(rank)
        spans = ((int(steps(0, m)[0]), self._length(rank, m)) for m in range(self.count))
        ranges = sorted(
            (begin * bn, min((begin + length) * bn, self.shards.length))
            for begin, length in spans
            if length
        )
        merged: list[tuple[int, int]] = []
        for begin, end in ranges:
            if merged and begin <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((begin, end))
        return merged

    def order(self, heads: int) -> npt.NDArray[np.int64]:
        """Numbers of the tiles of all heads, of each rank, or of all alike: those with the most steps first.

        So some heads at a time, which keeps the keys that CTAs load at the same time few.
        """
        count = self.count
        orders = []
        for rank in range(self.shards.world_size):
            lengths = [self._length(rank, m) for m in range(count)]
            longest = sorted(range(count), key=lambda m: -lengths[m])
            orders.append(
                [
                    head * count + m
                    for first in range(0, heads, _HEADS)
                    for m in longest
                    for head in range(first, min(first + _HEADS, heads))
                ]
            )
        return np.array(orders if len(orders) > 1 else orders[0], np.int64)

    def _length(self, rank: int, m: int) -> int:
        begin, end = self._range(rank)(0, m)
        ends = end if isinstance(end, tuple) else (end,)
        return max(0, int(min(ends)) - int(begin))

    def _range(self, rank: int) -> Callable[..., tuple[Any, Any]]:
        """The steps as affine expressions of a tile's coordinates, or as integers for integers."""
        return self._whole(rank) if self.cu_seqlens is None else self._packed(rank)

    def _whole(self, rank: int) -> Callable[..., tuple[Any, Any]]:
        """A tile ends with the key of its last query."""
        bm, bn, rows, shards = self.block_m, self.block_n, self.shards.rows, self.shards

        def end(row: Any) -> Any:
            return _floor_div(shards.place(rank, row) + bn, bn)

        most = -(-shards.length // bn)
        if not self.causal:
            return lambda h, m: (0, most)
        # Rows that stand for no query come last in each block, and take no key; all of the second one's may be such.
        places = shards.positions(rank)
        with_queries = -(-int(np.count_nonzero(places >= 0)) // bm)
        most = -(-(int(places.max()) + 1) // bn)

        def last(m: Any) -> tuple[Any, ...]:
            return end(m * bm + (bm - 1)), end(rows - 1), most, (with_queries - m) * most

        return lambda h, m: (0, last(m))

    def _packed(self, rank: int) -> Callable[..., tuple[Any, Any]]:
        """A tile has steps of its sequence only."""
        bm, bn, count = self.block_m, self.block_n, self.count
        segments = self._segments(rank)

        def of_segment(m: Any, value: Callable[[_Segment], int], rest: int = 0) -> Any:
            values = [(segment.tile, value(segment)) for segment in segments]
            behind = self._count(rank)
            return _step_function(m, [*values, (behind, rest)] if behind < count else values, count)

        def range_of(h: Any, m: Any) -> tuple[Any, Any]:
            begin = of_segment(m, lambda s: s.keys[0] // bn)
            if not self.causal:
                return begin, of_segment(m, lambda s: -(-s.keys[1] // bn))
            # Where the segment's first tile would be at the start of the grid, and the place of its last query.
            place = of_segment(m, lambda s: s.place - s.tile * bm, -count * bm - bm)
            most = of_segment(
                m, lambda s: (s.place + s.rows[1] - s.rows[0] - 1) // bn + 1 if s.keys[1] else 0
            )
            return begin, (_floor_div(m * bm + place + (bm - 1) + bn, bn), most)

        return range_of


def _floor_div(value: Any, divisor: int) -> Any:
    if isinstance(value, int):
        return value // divisor
    return type(value).get_floor_div(value, divisor)


def _step_function(x: Any, values: Sequence[tuple[int, int]], size: int) -> Any:
    """What is each value from its x in [0, size) on, as an affine expression of x; the first x is 0."""
    if not values:
        return 0
    result, current = values[0][1], values[0][1]
    for begin, value in values[1:]:
        if value != current:
            result = _floor_div(x + (size - begin), size) * (value - current) + result
            current = value
    return result
