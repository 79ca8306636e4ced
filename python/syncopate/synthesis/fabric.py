"""Links between given ranks as a graph: what synthesis and the clock of transfers look at.

A `Fabric` is data. It is made of a shape of the cost model (`syncopate.model.Topology`) and a number of ranks, read
from a JSON file, detected on a machine, or written link by link. Vertices are ranks, named "rank 0", and whatever is
between them: switches, bridges, a network. A *hop* is a way from one rank to another that leads through no third rank.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from syncopate.errors import SyncopateError
from syncopate.model.topology import Topology

__all__ = ["Fabric", "Hop", "Wire"]

MOST_RANKS: Final = 4096
_VERSION: Final = 1


@dataclass(frozen=True)
class Wire:
    """One direction of a link.

    Attributes:
        src: Where it begins: "rank 0", or the name of a switch, bridge or network.
        dst: Where it ends.
        gbps: GB/s (10⁹ bytes a second) in this direction.
        latency_us: Microseconds until the first byte has come through.
    """

    src: str
    dst: str
    gbps: float
    latency_us: float = 0.0


@dataclass(frozen=True)
class Hop:
    """A way between two ranks.

    Attributes:
        src: The rank where it begins.
        dst: The rank where it ends.
        wires: Numbers of the wires that it occupies.
        gbps: The rate of the slowest of them.
        latency_us: Their latencies together.
    """

    src: int
    dst: int
    wires: tuple[int, ...]
    gbps: float
    latency_us: float

    def time_us(self, nbytes: float) -> float:
        """Microseconds for so many bytes: the latency, and the bytes at the rate."""
        return self.latency_us + nbytes / (self.gbps * 1e3)


@dataclass(frozen=True)
class Fabric:
    """The links between some ranks.

    Attributes:
        name: What it is called in tables.
        ranks: Number of ranks.
        wires: The links, each direction for itself.

    Raises:
        SyncopateError: There are no ranks, a wire ends nowhere or has no rate, or some rank reaches another by no way.
    """

    name: str
    ranks: int
    wires: tuple[Wire, ...]

    def __post_init__(self) -> None:
        if type(self.ranks) is not int or not 2 <= self.ranks <= MOST_RANKS:
            raise SyncopateError(
                f"ranks: expects a number in [2, {MOST_RANKS}], but got {self.ranks!r:.40}"
            )
        seen: set[tuple[str, str]] = set()
        for number, wire in enumerate(self.wires):
            where = f"wires[{number}]"
            for end in (wire.src, wire.dst):
                if end.startswith("rank ") and end not in self._places:
                    raise SyncopateError(
                        f"{where}: expects ranks in [0, {self.ranks}), but got {end!r}"
                    )
            if wire.src == wire.dst or (wire.src, wire.dst) in seen:
                raise SyncopateError(
                    f"{where}: expects one wire between two different ends, but got a second one, or a loop, from "
                    f"{wire.src} to {wire.dst}"
                )
            seen.add((wire.src, wire.dst))
            if not (0 < wire.gbps < math.inf and 0 <= wire.latency_us < math.inf):
                raise SyncopateError(
                    f"{where}: expects a positive rate and a latency that is not negative, but got {wire.gbps} GB/s "
                    f"and {wire.latency_us} µs"
                )
        reached = self._reached_from(0), self._reached_from(0, back=True)
        for way, found in zip(("from rank 0 to", "to rank 0 from"), reached, strict=True):
            if missing := sorted(set(range(self.ranks)) - found):
                raise SyncopateError(f"wires: expects a way {way} rank {missing[0]}, but got none")

    @classmethod
    def of(
        cls, topology: Topology, ranks: int, *, latency_us: float, name: str | None = None
    ) -> Fabric:
        """The links of a shape that the cost model knows: NVLink between all pairs, a switch, PCIe, or two levels.

        Args:
            topology: The shape, with its rates.
            ranks: Number of ranks.
            latency_us: Microseconds from one rank to a near one; the topology says what another node takes more.
            name: What to call it; the topology's kind and the number of ranks by default.
        """
        wires: dict[tuple[str, str], Wire] = {}
        for src in range(ranks):
            for dst in range(ranks):
                route = topology.route(src, dst)
                between = topology.latency_us(src, dst)
                ends = latency_us + (between if len(route) == 2 else 0.0)
                for place, link in enumerate(route):
                    # A link between sockets adds its own; whatever begins or ends at a rank, its half.
                    middle = len(route) == 3 and place == 1
                    share = between if middle else ends / min(len(route), 2)
                    wires[link.src, link.dst] = Wire(link.src, link.dst, link.gbps, share)
        return cls(name or f"{topology.kind.value}, {ranks} ranks", ranks, tuple(wires.values()))

    @classmethod
    def from_json(cls, data: Any) -> Fabric:
        """What `to_json` gives.

        Raises:
            SyncopateError: Something is missing, unknown or of another type; the message names it.
        """
        if not isinstance(data, Mapping) or data.get("version") != _VERSION:
            raise SyncopateError(
                f'fabric: expects an object with "version": {_VERSION}, "name", "ranks" and "wires"'
            )
        given = data.get("wires")
        if not isinstance(given, list):
            raise SyncopateError("fabric: expects a list of wires")
        wires = []
        for number, entry in enumerate(given):
            if not isinstance(entry, Mapping) or not {"src", "dst", "gbps"} <= set(entry) <= {
                *Wire.__dataclass_fields__
            }:
                raise SyncopateError(
                    f"fabric: wires[{number}]: expects src, dst, gbps and latency_us, but got {entry!r:.80}"
                )
            ends, numbers = (
                [entry["src"], entry["dst"]],
                [entry["gbps"], entry.get("latency_us", 0.0)],
            )
            if not all(isinstance(end, str) for end in ends) or not all(
                isinstance(value, (int, float)) and not isinstance(value, bool) for value in numbers
            ):
                raise SyncopateError(
                    f"fabric: wires[{number}]: expects names of ends, and numbers, but got {entry!r:.80}"
                )
            try:
                wires.append(Wire(*ends, *map(float, numbers)))
            except OverflowError:
                raise SyncopateError(
                    f"fabric: wires[{number}]: expects numbers of at most 10^308, but got {entry!r:.80}"
                ) from None
        return cls(str(data.get("name", "fabric")), data.get("ranks", 0), tuple(wires))

    def to_json(self) -> dict[str, Any]:
        """As plain data, which `from_json` reads."""
        return {
            "version": _VERSION,
            "name": self.name,
            "ranks": self.ranks,
            "wires": [asdict(wire) for wire in self.wires],
        }

    def __str__(self) -> str:
        return json.dumps(self.to_json(), indent=1) + "\n"

    @cached_property
    def hops(self) -> dict[tuple[int, int], Hop]:
        """By source and destination, the hop of least latency, and of those the fastest."""
        found: dict[tuple[int, int], Hop] = {}
        for src in range(self.ranks):
            for dst, wires in self._ways_from(src).items():
                used = [self.wires[wire] for wire in wires]
                found[src, dst] = Hop(
                    src,
                    dst,
                    wires,
                    min(wire.gbps for wire in used),
                    sum(wire.latency_us for wire in used),
                )
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {f"rank {rank}": rank for rank in range(self.ranks)}

    @cached_property
    def _leaving(self) -> dict[str, list[int]]:
        leaving: dict[str, list[int]] = defaultdict(list)
        for number, wire in enumerate(self.wires):
            leaving[wire.src].append(number)
        return leaving

    def _ways_from(self, src: int) -> dict[int, tuple[int, ...]]:
        """By rank that is a hop away, the wires to it."""
        queue: list[tuple[float, float, tuple[int, ...], str]] = [(0.0, 0.0, (), f"rank {src}")]
        done: set[str] = set()
        ways: dict[int, tuple[int, ...]] = {}
        while queue:
            latency, slowness, way, vertex = heapq.heappop(queue)
            if vertex in done:
                continue
            done.add(vertex)
            if way and vertex in self._places:
                ways[self._places[vertex]] = way
                continue
            for number in self._leaving[vertex]:
                wire = self.wires[number]
                if wire.dst not in done:
                    cost = latency + wire.latency_us, max(slowness, 1 / wire.gbps)
                    heapq.heappush(queue, (*cost, (*way, number), wire.dst))
        return ways

    def _reached_from(self, rank: int, *, back: bool = False) -> set[int]:
        """Ranks to which there is a way, or from which there is one."""
        following: dict[str, list[str]] = defaultdict(list)
        for wire in self.wires:
            begin, end = (wire.dst, wire.src) if back else (wire.src, wire.dst)
            following[begin].append(end)
        left, reached = [f"rank {rank}"], {f"rank {rank}"}
        while left:
            for vertex in following[left.pop()]:
                if vertex not in reached:
                    reached.add(vertex)
                    left.append(vertex)
        return {self._places[vertex] for vertex in reached if vertex in self._places}
