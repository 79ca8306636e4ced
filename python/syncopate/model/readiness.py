"""How evenly tiles compute what each of a rank's peers gets: what an order of tiles is judged by, beside its time.

A link is busy all the time only if there is always something to send over it. So of two orders with the same tiles, the
one that has some bytes ready for every peer at any time leaves transfers more time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from syncopate.abi import STAGING
from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.model.timeline import Timeline, Times

if TYPE_CHECKING:
    from syncopate.plan.schedule import Schedule

__all__ = ["Readiness", "find_readiness"]

_Rectangle = tuple[int, int, int, int]
"""Rows from, to, and bytes of a row from, to."""


@dataclass(frozen=True)
class Readiness:
    """What the tiles of a rank have computed for its peers, over time.

    Attributes:
        rank: The rank.
        peers: Those that get some of what it computes, ascending.
        begin_us: When its first tile begins.
        end_us: When its last one is stored.
        times: When tiles are stored, in microseconds, ascending, [tiles].
        nbytes: Bytes that are ready for each peer from then on, [peers, tiles].
    """

    rank: int
    peers: tuple[int, ...]
    begin_us: float
    end_us: float
    times: Times
    nbytes: npt.NDArray[np.int64]

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """The same as a share of what each peer gets in all, [peers, tiles]."""
        return self.nbytes / self.nbytes[:, -1:]

    @property
    def spread(self) -> float:
        """By how much the share that is ready for one peer is ahead of that for another, averaged over the tiles' time.

        0 if all have the same at any time. 1 would be all for one before anything for another, at once.
        """
        shares = self.shares
        return self._average(shares.max(axis=0) - shares.min(axis=0))

    @property
    def unsteadiness(self) -> float:
        """How far the share that is ready for all peers together is from the share of time that has passed, at most.

        0 if bytes become ready at one rate from the first tile to the last one, 0.5 if all do in one half of the time.
        """
        ready = self.nbytes.sum(axis=0)
        shares = ready / ready[-1]
        passed = (self.times - self.begin_us) / (self.end_us - self.begin_us)
        before = np.concatenate([[0.0], shares[:-1]])
        return float(np.maximum(np.abs(shares - passed), np.abs(before - passed)).max())

    def _average(self, values: npt.NDArray[np.float64]) -> float:
        """Over time, of what holds from each of the times on; before the first one it is 0."""
        lasts = np.diff(self.times, append=self.end_us)
        return float((values * lasts).sum() / (self.end_us - self.begin_us))


def find_readiness(schedule: Schedule, timeline: Timeline) -> tuple[Readiness, ...]:
    """Counts, for each rank that computes something for others, what is ready for each of them over time.

    Args:
        schedule: One whose tiles compute what transfers move, such as `syncopate.model.schedules.schedule_gemm` makes.
        timeline: When its tiles end, as `predict` says, or with times in their place that were measured.

    Returns:
        In the order of the ranks. Bytes that several transfers bring to one peer count once.

    Raises:
        SyncopateError: The schedule has library calls, or its tiles compute a buffer of other than two dimensions.
    """
    found = (_find(schedule, timeline, rank) for rank in range(schedule.world_size))
    return tuple(readiness for readiness in found if readiness is not None)


def _find(schedule: Schedule, timeline: Timeline, rank: int) -> Readiness | None:
    moved = _moved(schedule, rank)
    peers = sorted({peer for peer, _ in moved})
    tiles = _tile_bytes(schedule, rank, moved, peers)
    if not tiles.any():
        return None
    numbers, ends = timeline.tile_numbers[rank], timeline.tile_end[rank]
    # A tile of which several CTAs compute parts is stored with the last one.
    stored = np.zeros(math.prod(schedule.tiles))
    np.maximum.at(stored, numbers, ends)
    order = np.argsort(stored, kind="stable")
    used = [bool(row.any()) for row in tiles]
    return Readiness(
        rank=rank,
        peers=tuple(peer for peer, is_used in zip(peers, used, strict=True) if is_used),
        begin_us=float(timeline.tile_begin[rank].min()),
        end_us=float(stored.max()),
        times=stored[order],
        nbytes=np.cumsum(tiles[used][:, order], axis=1),
    )


def _moved(schedule: Schedule, rank: int) -> Mapping[tuple[int, int], list[_Rectangle]]:
    """What others get of a rank's memory, by peer and buffer."""
    moved: dict[tuple[int, int], list[_Rectangle]] = {}
    for by in range(schedule.world_size):
        for row in schedule.rank_tables(by)["commands"].rows():
            if row["transfer"] < STAGING:
                raise SyncopateError(
                    f"schedule {schedule.name}: expects transfers, but its ranks make library calls, which take tiles "
                    "for all peers at once"
                )
            if row["src_rank"] == rank != row["dst_rank"]:
                spec = schedule.buffers[row["src_buffer"]]
                pitch = spec.shape[-1] * DTYPES[spec.dtype].nbytes
                moved.setdefault((row["dst_rank"], row["src_buffer"]), []).extend(
                    _rectangles(row, pitch)
                )
    return moved


def _rectangles(row: Mapping[str, int], pitch: int) -> Iterator[_Rectangle]:
    """What a command reads, of a buffer with rows of `pitch` bytes."""
    rows, row_bytes = row["rows"], row["row_bytes"]
    if row["src_stride"] == row_bytes:
        rows, row_bytes = 1, rows * row_bytes
    for part, number in product(range(row["parts"]), range(rows)):
        begin = row["src_offset"] + part * row["part_stride"] + number * row["src_stride"]
        end = begin + row_bytes
        if begin % pitch == 0 and end % pitch == 0:
            yield begin // pitch, end // pitch, 0, pitch
            continue
        while begin < end:
            line = begin // pitch
            stop = min(end, (line + 1) * pitch)
            yield line, line + 1, begin - line * pitch, stop - line * pitch
            begin = stop


def _tile_bytes(
    schedule: Schedule,
    rank: int,
    moved: Mapping[tuple[int, int], list[_Rectangle]],
    peers: list[int],
) -> npt.NDArray[np.int64]:
    """Bytes that each tile computes for each peer, [peers, tiles]."""
    coordinates = list(product(*map(range, schedule.tiles)))
    result = np.zeros((len(peers), len(coordinates)), np.int64)
    for access in schedule.accesses:
        spec = schedule.buffers[access.buffer]
        if not access.writes or spec.name not in schedule.produced:
            continue
        if len(spec.shape) != 2:
            raise SyncopateError(
                f"schedule {schedule.name}: expects tiles to compute a buffer of two dimensions, but {spec.name} has "
                f"shape {list(spec.shape)}"
            )
        item = DTYPES[spec.dtype].nbytes
        units = np.array([1, item], np.int64)
        begins = np.asarray([access.offsets(at) for at in coordinates], np.int64)
        ends = np.minimum(begins + access.sizes, spec.shape) * units
        begins = np.maximum(begins, 0) * units
        for number, peer in enumerate(peers):
            # Rows by which bytes of them are moved: neighbours mostly have the same.
            for (first, last), spans in _by_rows(moved.get((peer, access.buffer), ())):
                height = np.clip(
                    np.minimum(ends[:, 0], last) - np.maximum(begins[:, 0], first), 0, None
                )
                for left, right in spans:
                    width = np.minimum(ends[:, 1], right) - np.maximum(begins[:, 1], left)
                    result[number] += height * np.clip(width, 0, None)
    return result


def _by_rows(
    rectangles: Any,
) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
    """Stretches of rows, and the bytes of each of their rows that lie in some rectangle, none twice."""
    cuts = sorted({row for first, last, _, _ in rectangles for row in (first, last)})
    begins: dict[int, list[_Rectangle]] = {}
    for rectangle in rectangles:
        begins.setdefault(rectangle[0], []).append(rectangle)
    alive: list[_Rectangle] = []
    pending: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
    for first, last in pairwise(cuts):
        alive = [r for r in alive if r[1] > first] + begins.get(first, [])
        spans: list[tuple[int, int]] = []
        for left, right in sorted((r[2], r[3]) for r in alive):
            if spans and left <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(right, spans[-1][1]))
            else:
                spans.append((left, right))
        if pending is not None and pending[1] == spans and pending[0][1] == first:
            pending = ((pending[0][0], last), spans)
            continue
        if pending is not None:
            yield pending
        pending = ((first, last), spans)
    if pending is not None:
        yield pending
