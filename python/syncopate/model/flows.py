"""Transfers under way: those of one kind between two ranks share a rate, and kinds share links."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from syncopate.abi import Realization
from syncopate.model.curve import Combining, Curve, FlowDirection
from syncopate.model.fabric import Wire
from syncopate.model.machine import Machine
from syncopate.model.timeline import TransferEvent

__all__ = ["FlowKind", "Flows", "Network", "share_links"]


@dataclass(frozen=True)
class FlowKind:
    """What transfers have in common that progress alike.

    Attributes:
        by: The rank that carries them out.
        src: Rank of the source.
        dst: Rank of the destination.
        realization: How.
        direction: From where to where.
        combining: How they are combined with what is there.
        pause_us: What a role rests after each block.
        ctas: CTAs that share one of them.
    """

    by: int
    src: int
    dst: int
    realization: Realization
    direction: FlowDirection
    combining: Combining
    pause_us: float
    ctas: int


class Flows:
    """All transfers of a kind that move at a time.

    They have the same rate, so what one still has to move is known from what a clock of bytes says that any of them has
    moved since: a change of the rate changes no entry.
    """

    def __init__(self, kind: FlowKind, machine: Machine, links: Sequence[int]) -> None:
        self.kind = kind
        self.links = links
        self.rate = 0.0
        """Bytes per microsecond of one transfer."""
        self.curve = self._find_curve(machine, kind.ctas)[0]
        self._machine = machine
        self._moved = 0.0
        self._heap: list[tuple[float, int, Any]] = []
        self._demands: dict[tuple[int, float], float] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def _find_curve(self, machine: Machine, ctas: int) -> tuple[Curve, float]:
        kind = self.kind
        return machine.rates.find(kind.realization, kind.direction, kind.combining, ctas)

    def add(self, nbytes: float, what: Any) -> None:
        """Starts a transfer; `what` comes back when it is complete."""
        self._sequence += 1
        heapq.heappush(self._heap, (self._moved + nbytes, self._sequence, what))
        self._nbytes = float(nbytes)

    def demand(self) -> float:
        """Bytes per microsecond that all would move if links had no limit.

        The curve is that of all CTAs that have one of the transfers, for a message of the size of the newest.
        """
        count = len(self._heap)
        key = (count, self._nbytes)
        if key not in self._demands:
            ctas = count * self.kind.ctas
            curve, scale = self._find_curve(self._machine, ctas)
            rate = curve.rate(self._nbytes * count) * scale
            if self.kind.realization.is_on_stream:
                rate = self.curve.rate(self._nbytes)
            elif self.kind.pause_us and self.kind.direction is FlowDirection.PUSH:
                # A CTA rests after each block, which takes as long as if it were alone.
                curve, scale = self._find_curve(self._machine, 1)
                alone = curve.rate(self._nbytes) * scale
                rest = self.kind.pause_us / self._machine.block_bytes
                rate = min(rate, ctas / (1 / alone + rest))
            self._demands[key] = rate
        return self._demands[key]

    def next_us(self) -> float:
        """Microseconds until the next one is complete."""
        return max(self._heap[0][0] - self._moved, 0.0) / self.rate

    def advance(self, us: float) -> None:
        """Lets all move for some time."""
        self._moved += self.rate * us

    def take_complete(self) -> list[Any]:
        """What is complete by now."""
        done = []
        # A thousandth of a byte is far below the first, and far above what is lost by adding up.
        while self._heap and self._heap[0][0] <= self._moved + 1e-3:
            done.append(heapq.heappop(self._heap)[2])
        return done


class Network:
    """All flows of a simulation, and the links that they share."""

    def __init__(self, machine: Machine, ranks: int) -> None:
        self._machine, self._ranks = machine, ranks
        self._links: dict[Wire, int] = {}
        self._flows: dict[FlowKind, Flows] = {}
        self.active: list[Flows] = []
        """Those kinds of which some move."""

    def count_bytes(self, events: Iterable[TransferEvent]) -> dict[Wire, int]:
        """What goes over each link that some kind of transfers uses."""
        moved = dict.fromkeys(self._links, 0)
        for event in events:
            for link in self._machine.route(self._ranks, event.src, event.dst):
                if link in moved:
                    moved[link] += event.nbytes
        return moved

    def find(self, kind: FlowKind) -> Flows:
        """The flows of a kind."""
        if kind not in self._flows:
            route = self._machine.route(self._ranks, kind.src, kind.dst)
            numbers = [self._links.setdefault(link, len(self._links)) for link in route]
            self._flows[kind] = Flows(kind, self._machine, numbers)
        return self._flows[kind]

    def update(self) -> None:
        """Sets the rates of all flows, after some have started or ended."""
        self.active = [flows for flows in self._flows.values() if len(flows)]
        rates = share_links(
            [flows.demand() for flows in self.active],
            [flows.links for flows in self.active],
            [link.gbps * 1e3 for link in self._links],
        )
        for flows, rate in zip(self.active, rates, strict=True):
            flows.rate = rate / len(flows)


def share_links(
    demands: Sequence[float], routes: Sequence[Sequence[int]], capacities: Sequence[float]
) -> list[float]:
    """Max-min fair rates: all grow alike until they have what they ask for, or a link of theirs is full.

    Args:
        demands: What each would take.
        routes: The links that each uses.
        capacities: What each link can take.
    """
    rates = [0.0] * len(demands)
    room = list(capacities)
    growing = set(range(len(demands)))
    while growing:
        users = [0] * len(room)
        for flow in growing:
            for link in routes[flow]:
                users[link] += 1
        step = min(demands[flow] - rates[flow] for flow in growing)
        for link, count in enumerate(users):
            if count:
                step = min(step, room[link] / count)
        for flow in growing:
            rates[flow] += step
            for link in routes[flow]:
                room[link] -= step
        full = {link for link, left in enumerate(room) if left <= 1e-9 * capacities[link]}
        growing = {
            flow
            for flow in growing
            if rates[flow] < demands[flow] * (1 - 1e-12) and full.isdisjoint(routes[flow])
        }
    return rates
