"""FlashOverlap's closed form: what an undisturbed GEMM takes whose finished waves are sent group by group.

The model of "Efficient and Adaptable Overlapping for Computation and Communication via Signaling and Reordering"
(FlashOverlap, EuroSys'26, arXiv 2504.19519), its Algorithm 1 and the search over it, as published, for comparison with
the simulation. Tiles are computed wave by wave, one tile on each multiprocessor. A *group* is a number of waves that
are sent by one library call. Calls run one after another on a stream of their own, so that group i begins to move when
it is computed and group i - 1 is there:

    computed(i) = computed(i - 1) + waves(i) · wave
    arrived(i)  = max(computed(i), arrived(i - 1)) + T(bytes(i))

T is a measured curve. The library takes some multiprocessors while it runs, so the GEMM has fewer, and maybe more
waves; with a single group it has all.

The recurrence never gets worse by an earlier `arrived(i - 1)`, and `computed(i)` depends on where group i ends alone.
So of all groupings of the first waves the one that arrives first is the best beginning, and `find_groups` finds the
best grouping in T² / 2 steps; the paper enumerates 2^(T - 1), or those within two limits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncopate.errors import SyncopateError
from syncopate.model.curve import Curve
from syncopate.model.numbers import expect_count, expect_number

__all__ = ["Grouping", "WaveModel"]


@dataclass(frozen=True)
class Grouping:
    """A way to send waves, and what it takes.

    Attributes:
        waves: Waves of each group.
        us: Predicted time in microseconds.
    """

    waves: tuple[int, ...]
    us: float


@dataclass(frozen=True)
class WaveModel:
    """A GEMM and the collective behind it.

    Attributes:
        gemm_us: The GEMM alone, on all multiprocessors, in microseconds.
        tiles: Its tiles.
        tile_bytes: Bytes of a tile.
        sms: Multiprocessors.
        curve: Time of the collective by the bytes of what one rank computes.
        comm_sms: Multiprocessors that the library takes; 2 in the paper.
    """

    gemm_us: float
    tiles: int
    tile_bytes: int
    sms: int
    curve: Curve
    comm_sms: int = 2

    def __post_init__(self) -> None:
        expect_number("waves: gemm_us", self.gemm_us)
        expect_count("waves: tile_bytes", self.tile_bytes)
        if self.tiles < 1 or not 0 <= self.comm_sms < self.sms:
            raise SyncopateError(
                f"waves: expects tiles, and fewer comm_sms than sms, but got {self.tiles}, {self.comm_sms}, {self.sms}"
            )

    @property
    def waves(self) -> int:
        """Waves of the GEMM beside the library."""
        return -(-self.tiles // (self.sms - self.comm_sms))

    @property
    def wave_us(self) -> float:
        """Microseconds of a wave."""
        return self.gemm_us / -(-self.tiles // self.sms)

    def group_bytes(self, begin: int, end: int) -> int:
        """Bytes of the tiles of waves begin to end; the last wave may not be full."""
        size = self.sms - self.comm_sms
        return (min(end * size, self.tiles) - begin * size) * self.tile_bytes

    def predict_us(self, groups: Sequence[int]) -> float:
        """Algorithm 1: the time of a grouping, in microseconds.

        Raises:
            SyncopateError: The groups are not all waves.
        """
        if sum(groups) != self.waves or any(waves < 1 for waves in groups):
            raise SyncopateError(
                f"groups: expects positive numbers with the sum {self.waves}, but got {tuple(groups)}"
            )
        if len(groups) == 1:
            return self.gemm_us + self.curve.time_us(self.tiles * self.tile_bytes)
        done, arrived = 0, 0.0
        for waves in groups:
            nbytes = self.group_bytes(done, done + waves)
            done += waves
            arrived = max(done * self.wave_us, arrived) + self.curve.time_us(nbytes)
        return arrived

    def enumerate_groups(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[int, ...]]:
        """All ways to cut the waves into groups.

        Args:
            first: Most waves of the first of several groups; no limit if it is left out.
            last: The same of the last one.
        """
        waves = self.waves
        for ends in itertools.product((False, True), repeat=waves - 1):
            cuts = [0, *(i for i, cut in enumerate(ends, 1) if cut), waves]
            groups = tuple(b - a for a, b in itertools.pairwise(cuts))
            if len(groups) > 1 and (
                (first is not None and groups[0] > first)
                or (last is not None and groups[-1] > last)
            ):
                continue
            yield groups

    def search_exhaustively(self) -> Grouping:
        """The best of all groupings, by enumeration, which for T waves takes 2^(T - 1) predictions."""
        return self._best(self.enumerate_groups())

    def search_pruned(self, first: int = 2, last: int = 4) -> Grouping:
        """The best of those whose first and last groups are small, as the paper prunes."""
        return self._best(self.enumerate_groups(first, last))

    def find_groups(self) -> Grouping:
        """The best of all groupings, by dynamic programming."""
        waves = self.waves
        arrived = [0.0] + [float("inf")] * waves
        before = [0] * (waves + 1)
        for end in range(1, waves + 1):
            for begin in range(end):
                if begin == 0 and end == waves:
                    continue  # One group is not computed beside the library.
                nbytes = self.group_bytes(begin, end)
                us = max(end * self.wave_us, arrived[begin]) + self.curve.time_us(nbytes)
                if us < arrived[end]:
                    arrived[end], before[end] = us, begin
        alone = self.predict_us((waves,))
        if alone <= arrived[waves]:
            return Grouping((waves,), alone)
        groups: list[int] = []
        end = waves
        while end:
            groups.append(end - before[end])
            end = before[end]
        return Grouping(tuple(reversed(groups)), arrived[waves])

    def bound_us(self) -> float:
        """The paper's bound: no grouping can hide the last wave's transfer, or what comes before the first one's.

        That is the GEMM and a transfer of one wave, or a wave and the whole transfer, whichever is more.
        """
        last = self.curve.time_us(self.group_bytes(self.waves - 1, self.waves))
        whole = self.curve.time_us(self.tiles * self.tile_bytes)
        return max(self.gemm_us + last, self.wave_us + whole)

    def _best(self, choices: Iterator[tuple[int, ...]]) -> Grouping:
        return min((Grouping(groups, self.predict_us(groups)) for groups in choices), key=_time)


def _time(grouping: Grouping) -> float:
    return grouping.us
