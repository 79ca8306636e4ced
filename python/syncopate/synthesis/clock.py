"""What moves take on a fabric, by latencies and rates of links alone.

The rule, which synthesis follows as well: a move occupies every wire of its hop from its beginning to its end, for the
latencies of these wires and its bytes at the rate of the slowest. Moves whose wires are free, and whose data are there,
begin in their order, without waiting for others that cannot begin yet. Moves within a rank take no time, nor does
adding. So times are lower than what a kernel takes, whose roles carry out their transfers one after the other and share
multiprocessors with tiles: `syncopate.model.predict` simulates that.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.errors import SyncopateError
from syncopate.importers.steps.collective_steps import Collective, CollectiveSteps
from syncopate.model.fabric import Fabric, Hop

__all__ = ["MoveSpan", "TimedSteps", "find_bound_us", "run_clock", "time_steps"]


@dataclass(frozen=True)
class MoveSpan:
    """When a move is made, in microseconds."""

    begin_us: float
    end_us: float


@dataclass(frozen=True)
class TimedSteps:
    """Moves with their times.

    Attributes:
        steps: The moves.
        spans: When each is made.
    """

    steps: CollectiveSteps
    spans: tuple[MoveSpan, ...]

    @property
    def us(self) -> float:
        """Microseconds until the last move has ended."""
        return max((span.end_us for span in self.spans), default=0.0)


def time_steps(steps: CollectiveSteps, fabric: Fabric, nbytes: float) -> TimedSteps:
    """When each move is made.

    Args:
        steps: The moves, of as many ranks as the fabric has.
        fabric: The links.
        nbytes: Bytes of what is gathered, reduced, exchanged or broadcast, all of it.

    Raises:
        SyncopateError: The numbers of ranks differ, or a move is between ranks that no hop connects.
    """
    if steps.ranks != fabric.ranks:
        raise SyncopateError(
            f"fabric: expects {steps.ranks} ranks, those of {steps.name}, but got {fabric.ranks}"
        )
    cell = nbytes / (steps.blocks * steps.chunks)
    ends = [(move.src.rank, move.dst.rank) for move in steps.moves]
    hops = [
        None if src == dst else fabric.hop(src, dst, move)
        for (src, dst), move in zip(ends, steps.moves, strict=True)
    ]
    sizes = [cell * move.src.count for move in steps.moves]
    return TimedSteps(steps, run_clock(hops, sizes, steps.dependences))


def run_clock(
    hops: Sequence[Hop | None], nbytes: Sequence[float], after: Sequence[Sequence[int]]
) -> tuple[MoveSpan, ...]:
    """When transfers are made, by the rule of this module.

    Args:
        hops: Of each, its hop; None within a rank.
        nbytes: Of each, its bytes.
        after: Of each, numbers of those before it that it comes after.
    """
    return _Clock(hops, nbytes, after).run()


class _Clock:
    def __init__(
        self, hops: Sequence[Hop | None], nbytes: Sequence[float], after: Sequence[Sequence[int]]
    ) -> None:
        self.hops = hops
        self.durations = [
            0.0 if hop is None else hop.time_us(size)
            for hop, size in zip(hops, nbytes, strict=True)
        ]
        self.missing = [len(some) for some in after]
        self.following: list[list[int]] = [[] for _ in hops]
        for number, some in enumerate(after):
            for before in some:
                self.following[before].append(number)
        # Of each hop, the transfers whose data are there; only the first of them can be next.
        self.ready: dict[Hop | None, list[int]] = defaultdict(list)
        self.busy: set[int] = set()
        self.sharing: dict[int, list[Hop]] = defaultdict(list)
        for hop in dict.fromkeys(hop for hop in hops if hop is not None):
            for wire in hop.wires:
                self.sharing[wire].append(hop)
        # Hops that something may begin over: data have come, or a wire is free, since that was tried.
        self.open: set[Hop | None] = set(hops)

    def run(self) -> tuple[MoveSpan, ...]:
        count = len(self.hops)
        spans = [MoveSpan(0.0, 0.0)] * count
        for number in range(count):
            if not self.missing[number]:
                heapq.heappush(self.ready[self.hops[number]], number)
        ending: list[tuple[float, int]] = []
        now = 0.0
        while True:
            for number in self._begin():
                end = now + self.durations[number]
                spans[number] = MoveSpan(now, end)
                heapq.heappush(ending, (end, number))
            if not ending:
                return tuple(spans)
            now = ending[0][0]
            while ending and ending[0][0] <= now * (1 + 1e-12):
                self._end(heapq.heappop(ending)[1])

    def _begin(self) -> list[int]:
        begun = []
        firsts = [(self.ready[hop][0], hop) for hop in self.open if self.ready[hop]]
        self.open.clear()
        for number, hop in sorted(firsts, key=lambda first: first[0]):
            wires = () if hop is None else hop.wires
            if self.busy.isdisjoint(wires):
                self.busy.update(wires)
                heapq.heappop(self.ready[hop])
                begun.append(number)
                if hop is None:
                    self.open.add(hop)
        return begun

    def _end(self, number: int) -> None:
        hop = self.hops[number]
        for wire in () if hop is None else hop.wires:
            self.busy.discard(wire)
            self.open.update(self.sharing[wire])
        for other in self.following[number]:
            self.missing[other] -= 1
            if not self.missing[other]:
                heapq.heappush(self.ready[self.hops[other]], other)
                self.open.add(self.hops[other])


def find_bound_us(collective: Collective, fabric: Fabric, nbytes: float, root: int = 0) -> float:
    """Microseconds below which no schedule can be: what each rank has to receive and send, at the rates of its links.

    Args:
        collective: What is to be done.
        fabric: The links.
        nbytes: Bytes of all of it.
        root: Of a broadcast.
    """
    ranks = fabric.ranks
    entering: dict[str, float] = defaultdict(float)
    leaving: dict[str, float] = defaultdict(float)
    for wire in fabric.wires:
        leaving[wire.src] += wire.gbps * 1e3
        entering[wire.dst] += wire.gbps * 1e3
    part = nbytes / ranks
    receives, sends = {
        Collective.ALL_GATHER: (nbytes - part, part),
        Collective.REDUCE_SCATTER: (part, nbytes - part),
        Collective.ALL_REDUCE: (nbytes, nbytes),
        Collective.ALL_TO_ALL: (nbytes - part, nbytes - part),
        Collective.BROADCAST: (nbytes, 0.0),
    }[collective]
    bound = 0.0
    for rank in range(ranks):
        name, is_root = f"rank {rank}", collective is Collective.BROADCAST and rank == root
        inward, outward = (0.0, nbytes) if is_root else (receives, sends)
        bound = max(bound, inward / entering[name], outward / leaving[name])
    if collective is Collective.ALL_REDUCE:
        # Of every element all ranks together receive the others' contributions, and then the sums.
        everything = sum(entering[f"rank {rank}"] for rank in range(ranks))
        bound = max(bound, 2 * (ranks - 1) * nbytes / everything)
    return bound + fabric.nearest_us
