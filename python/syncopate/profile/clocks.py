"""How the clocks of the ranks' GPUs go together, estimated from the records of a call itself.

What a flag says is done before the flag is seen: a wait of one rank ends after the transfer that it waits for has ended
on another, whatever their clocks say. Each such pair bounds by how much one clock may be ahead of the other. Bounds of
all pairs, also by way of third ranks, leave an interval for each rank, and its middle is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syncopate.abi import ProfileEvent
from syncopate.profile.run import Key, SpanKind
from syncopate.profile.tables import RunNames
from syncopate.runtime.records import RankRecords

__all__ = ["ClockOffset", "Clocks", "estimate_clocks"]


@dataclass(frozen=True)
class ClockOffset:
    """What is added to a rank's times.

    Attributes:
        ns: Nanoseconds to add.
        within_ns: By how much that may be wrong; infinite if nothing bounds it from one side or both.
    """

    ns: float
    within_ns: float


@dataclass(frozen=True)
class Clocks:
    """The offsets of all ranks; that of the first is 0."""

    offsets: tuple[ClockOffset, ...]

    def align(self, rank: int, ns: float) -> float:
        """A time of a rank by the clock of the first."""
        return ns + self.offsets[rank].ns

    def __str__(self) -> str:
        if all(offset == ClockOffset(0.0, 0.0) for offset in self.offsets):
            return "all ranks have one clock"
        parts = [
            f"rank {rank} {offset.ns / 1e3:+.1f} µs"
            + (
                f" (± {offset.within_ns / 1e3:.1f})"
                if math.isfinite(offset.within_ns)
                else " (bounded from one side at most)"
            )
            for rank, offset in enumerate(self.offsets)
        ]
        return f"clocks are moved by what the call itself says of them: {', '.join(parts)}"


def estimate_clocks(program: Any, ranks: Sequence[RankRecords]) -> Clocks:
    """Estimates the offsets from the records of one call."""
    world = len(ranks)
    # most[a][b]: the most by which the offset of b may be above that of a.
    most = [[math.inf] * world for _ in range(world)]
    for a in range(world):
        for b in range(world):
            if ranks[a].gpu == ranks[b].gpu:
                most[a][b] = 0.0
    ends = _last_ends(program, ranks)
    names = RunNames(program)
    for own in ranks:
        for lane in own.lanes:
            for record in lane.records:
                if record.event is ProfileEvent.WAIT_END:
                    for maker in names.cause_of_wait(own.rank, record.subject).makers:
                        done = ends.get(maker)
                        if done is not None and ranks[maker.rank].gpu != own.gpu:
                            # done + offset of the maker <= seen + offset of the rank that waits
                            row = most[own.rank]
                            row[maker.rank] = min(row[maker.rank], record.ns - done)
    for via in range(world):
        for a in range(world):
            for b in range(world):
                most[a][b] = min(most[a][b], most[a][via] + most[via][b])
    return Clocks(tuple(_middle(-most[rank][0], most[0][rank]) for rank in range(world)))


def _middle(least: float, most: float) -> ClockOffset:
    if math.isfinite(least) and math.isfinite(most):
        return ClockOffset((least + most) / 2, abs(most - least) / 2)
    # Equal clocks, unless the one bound that there is says otherwise.
    return ClockOffset(min(max(0.0, least), most), math.inf)


def _last_ends(program: Any, ranks: Sequence[RankRecords]) -> dict[Key, int]:
    """When the last CTA is through with each transfer and tile, by its own clock."""
    names = RunNames(program)
    ends: dict[Key, int] = {}
    for own in ranks:
        of_rank = names.ranks[own.rank]
        for lane in own.lanes:
            for record in lane.records:
                if record.event is ProfileEvent.COMMAND_END:
                    key = Key(SpanKind.TRANSFER, own.rank, of_rank.device_rows[record.subject])
                elif record.event is ProfileEvent.TILE_END:
                    position = of_rank.positions[record.subject][0]
                    key = Key(SpanKind.TILE, own.rank, position)
                else:
                    continue
                ends[key] = max(ends.get(key, record.ns), record.ns)
    return ends
