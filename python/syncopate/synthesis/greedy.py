"""A greedy matcher on a graph that is expanded in time, after TACOS (Won et al., MICRO'24).

Time goes from one end of a send to the next. Whenever wires are free, the hops over them are matched with pieces that
their source has and their destination wants, in an order that a seed decides, until no match is left. Two rules keep
slow wires for what only they can bring: a hop takes the piece that its destination would otherwise get latest, and none
that the destination can get earlier from another rank, which has it or will.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict

from syncopate.model.fabric import Hop
from syncopate.synthesis.problem import Problem, Send

__all__ = ["match_pieces"]

_SAMPLE = 24
"""Pieces that a hop chooses among; more make schedules no better, and matching slower."""


def match_pieces(problem: Problem, seed: int | None) -> list[Send]:
    """Sends that bring every piece to all who want it, in the order in which they begin.

    Args:
        problem: The pieces, and the hops.
        seed: Decides between matches that are as good; without one, hops to the nearest next rank go first, which is
            what switches want: all ranks then send, and receive, at once. The result is the same for the same
            arguments.
    """
    return _Matcher(problem, seed).run()


class _Matcher:
    def __init__(self, problem: Problem, seed: int | None) -> None:
        self.problem, self.draw = problem, random.Random(seed or 0)
        self.is_random = seed is not None
        # Who goes first where hops share wires is for the tries to find out.
        self.slow_first = seed is not None and self.draw.random() < 0.5
        self.times = {ends: problem.time_us(hop) for ends, hop in problem.hops.items()}
        # Of each rank, pieces that it has, and that it wants and nobody sends it yet, one bit each.
        self.held = [0] * problem.ranks
        self.wanted = [0] * problem.ranks
        # By piece, when each rank has it; also those to which it is on its way.
        self.arrival: list[dict[int, float]] = []
        self.free = dict(problem.free_us)
        # By rank, pieces that it is sending, with when that ends, where it may send them to one rank at a time.
        self.sending: dict[tuple[int, int], float] = {}
        self.events: list[tuple[float, int, int]] = []
        ways = _Ways(self.times, self.draw)
        for number, piece in enumerate(problem.pieces):
            self.arrival.append({piece.origin: piece.ready_us})
            heapq.heappush(self.events, (piece.ready_us, number, piece.origin))
            for rank in piece.wanted:
                for stop in ways.find(piece.origin, rank):
                    self.wanted[stop] |= 1 << number
        for time in set(self.free.values()):
            heapq.heappush(self.events, (time, -1, -1))
        # By rank and time of a hop to it, pieces that come to it earlier from another rank, now and ever after.
        self.better: dict[tuple[int, float], int] = defaultdict(int)
        self.sends: list[Send] = []

    def run(self) -> list[Send]:
        while self.events:
            now = self.events[0][0]
            while self.events and self.events[0][0] <= now * (1 + 1e-12):
                _, piece, rank = heapq.heappop(self.events)
                if piece >= 0:
                    self.held[rank] |= 1 << piece
            self._match(now)
        assert not any(self.wanted), "a piece was never sent"
        return self.sends

    def _match(self, now: float) -> None:
        """Starts sends until no free hop can take a piece."""
        held, wanted = self.held, self.wanted
        open_hops = [
            hop
            for hop in self.problem.hops.values()
            # Most of many hops fail here already.
            if held[hop.src] & wanted[hop.dst] and self._candidates(hop) and self._is_free(hop, now)
        ]
        if self.is_random:
            self.draw.shuffle(open_hops)
        else:
            open_hops.sort(key=lambda hop: ((hop.dst - hop.src) % self.problem.ranks, hop.src))
        open_hops.sort(key=lambda hop: self.times[hop.src, hop.dst], reverse=self.slow_first)
        for hop in open_hops:
            if not self._is_free(hop, now):
                continue
            piece = self._choose(hop, now)
            if piece is None:
                continue
            end = now + self.times[hop.src, hop.dst]
            self.sends.append(Send(piece, hop, now, end))
            self.wanted[hop.dst] &= ~(1 << piece)
            self.arrival[piece][hop.dst] = end
            self.free.update(dict.fromkeys(hop.wires, end))
            if self.problem.is_backwards:
                self.sending[piece, hop.src] = end
            heapq.heappush(self.events, (end, piece, hop.dst))

    def _candidates(self, hop: Hop) -> int:
        """Pieces that a hop could take, one bit each."""
        better = self.better[hop.dst, self.times[hop.src, hop.dst]]
        return self.held[hop.src] & self.wanted[hop.dst] & ~better

    def _is_free(self, hop: Hop, now: float) -> bool:
        return all(self.free.get(wire, 0.0) <= now * (1 + 1e-12) for wire in hop.wires)

    def _choose(self, hop: Hop, now: float) -> int | None:
        """The piece that the destination would otherwise get latest; of several, the one that the fewest ranks have."""
        pieces = [
            piece
            for piece in _bits(self._candidates(hop))
            if self.sending.get((piece, hop.src), 0.0) <= now * (1 + 1e-12)
        ]
        if len(pieces) > _SAMPLE:
            pieces = self.draw.sample(pieces, _SAMPLE)
        else:
            self.draw.shuffle(pieces)
        arrives = now + self.times[hop.src, hop.dst]
        best, found = None, None
        for piece in pieces:
            other = self._other_arrival(piece, hop, now)
            if other < arrives * (1 - 1e-9):
                self.better[hop.dst, self.times[hop.src, hop.dst]] |= 1 << piece
                continue
            rank = (-other, len(self.arrival[piece]))
            if best is None or rank < best:
                best, found = rank, piece
        return found

    def _other_arrival(self, piece: int, hop: Hop, now: float) -> float:
        """When the destination could have a piece from another rank, if no wire was busy."""
        best = float("inf")
        for rank, when in self.arrival[piece].items():
            if rank != hop.src and (rank, hop.dst) in self.times:
                best = min(best, max(when, now) + self.times[rank, hop.dst])
        return best


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class _Ways:
    """By which ranks pieces go where no hop leads: by a shortest way, of several by any."""

    def __init__(self, times: dict[tuple[int, int], float], draw: random.Random) -> None:
        self.times, self.draw = times, draw
        self.after: dict[int, list[int]] = defaultdict(list)
        for src, dst in times:
            self.after[src].append(dst)
        self.before: dict[int, dict[int, int]] = {}

    def find(self, origin: int, rank: int) -> list[int]:
        """The ranks that a piece of an origin comes to, the last of which is where it is to go."""
        if (origin, rank) in self.times:
            return [rank]
        if origin not in self.before:
            self.before[origin] = self._search(origin)
        before, stops = self.before[origin], [rank]
        while before[stops[-1]] != origin:
            stops.append(before[stops[-1]])
        return stops[::-1]

    def _search(self, origin: int) -> dict[int, int]:
        """By rank, the one before it on a shortest way."""
        before: dict[int, int] = {}
        queue = [(0.0, 0.0, origin, origin)]
        while queue:
            far, _, rank, source = heapq.heappop(queue)
            if rank in before:
                continue
            before[rank] = source
            for following in self.after[rank]:
                if following not in before:
                    entry = far + self.times[rank, following], self.draw.random(), following, rank
                    heapq.heappush(queue, entry)
        return before
