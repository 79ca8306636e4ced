"""The links between given ranks as a graph: what the cost model, synthesis and its clock of transfers look at.

A `Fabric` is data. It is made of a shape (`Topology`) and a number of ranks, read from a JSON file, detected on a
machine, or written link by link. Vertices are ranks, named "rank 0", and whatever is between them: switches, bridges, a
network. A *hop* is a way from one rank to another that leads through no third rank. Whatever goes by pairs of ranks is
found when it is asked for, so that thousands of ranks cost no more than their links.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from syncopate.errors import SyncopateError

if TYPE_CHECKING:
    from syncopate.model.topology import Topology

__all__ = ["MOST_RANKS", "MOST_WIRES", "Fabric", "Hop", "Wire"]

MOST_RANKS: Final = 4096
MOST_WIRES: Final = 1 << 21
_VERSION: Final = 1

# Better ones come first in order: a latency, the rate of the slowest wire, negative, and the wires.
_Way: TypeAlias = "tuple[float, float, tuple[int, ...]]"
_HERE: Final[_Way] = (0.0, -math.inf, ())


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
        if len(self.wires) > MOST_WIRES:
            raise SyncopateError(
                f"wires: expects at most {MOST_WIRES}, each direction of a link for itself, but got {len(self.wires)}"
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
        wires = tuple(topology.wires(ranks, latency_us))
        return cls(name or f"{topology.kind.value}, {ranks} ranks", ranks, wires)

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
        # `dataclasses.asdict` copies for longer than all else takes.
        wires = [dict(vars(wire)) for wire in self.wires]
        return {"version": _VERSION, "name": self.name, "ranks": self.ranks, "wires": wires}

    def __str__(self) -> str:
        data = self.to_json()
        lines = ",\n".join(f"  {json.dumps(wire)}" for wire in data.pop("wires"))
        return f'{json.dumps(data, indent=1)[:-2]},\n "wires": [\n{lines}\n ]\n}}\n'

    def at_rate(self, gbps: float) -> Fabric:
        """The same links, all faster or slower by as much that the fastest has this rate in GB/s."""
        factor = gbps / self.link_gbps
        wires = tuple(replace(wire, gbps=wire.gbps * factor) for wire in self.wires)
        return replace(self, wires=wires)

    @cached_property
    def link_gbps(self) -> float:
        """GB/s of the fastest link in one direction."""
        return max(wire.gbps for wire in self.wires)

    def busy_share(self, ranks: int) -> float:
        """As `Topology.busy_share` says; no slower links between nodes are known."""
        return (ranks - 1) / ranks

    def hop(self, src: int, dst: int, what: object = "transfer") -> Hop:
        """The hop from one rank to another of least latency, and of those the fastest.

        Args:
            src: Where it begins.
            dst: Where it ends, another rank.
            what: Needs it, for messages.

        Raises:
            SyncopateError: There is none.
        """
        found = self._find_hop(src, dst)
        if found is None:
            raise SyncopateError(
                f"{self.name} has no way from rank {src} to rank {dst} but through others, which a {what} needs"
            )
        return found

    @cached_property
    def hops(self) -> dict[tuple[int, int], Hop]:
        """By source and destination, all hops; as many as pairs of ranks where each reaches each other."""
        found = {}
        for src in range(self.ranks):
            for dst in range(self.ranks):
                hop = None if src == dst else self._find_hop(src, dst)
                if hop is not None:
                    found[src, dst] = hop
        return found

    @cached_property
    def nearest_us(self) -> float:
        """The latency of the hop that has the least."""
        # From all ranks at once; what has come to a vertex from two of them is as good for any rank that it leads to.
        queue = [(0.0, f"rank {rank}", rank) for rank in range(self.ranks)]
        origins: dict[str, set[int]] = defaultdict(set)
        while True:
            latency, vertex, origin = heapq.heappop(queue)
            if self._places.get(vertex, origin) != origin:
                return latency
            if len(origins[vertex]) == 2 or origin in origins[vertex]:
                continue
            origins[vertex].add(origin)
            for end, number in self._leaving[vertex].items():
                heapq.heappush(queue, (latency + self.wires[number].latency_us, end, origin))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {f"rank {rank}": rank for rank in range(self.ranks)}

    @cached_property
    def _leaving(self) -> dict[str, dict[str, int]]:
        """By vertex and the end of a wire that begins there, the number of the wire."""
        leaving: dict[str, dict[str, int]] = defaultdict(dict)
        for number, wire in enumerate(self.wires):
            leaving[wire.src][wire.dst] = number
        return leaving

    @cached_property
    def _upward(self) -> dict[int, list[int]]:
        """By rank, the wires to whatever is no rank."""
        return {
            rank: [wire for end, wire in self._leaving[name].items() if end not in self._places]
            for name, rank in self._places.items()
        }

    @cached_property
    def _onward(self) -> dict[str, dict[int, _Way]]:
        """Ways from vertices that are no ranks, as far as they were asked for."""
        return {}

    @cached_property
    def _known(self) -> dict[tuple[int, int], Hop | None]:
        """Hops, as far as they were asked for."""
        return {}

    def _find_hop(self, src: int, dst: int) -> Hop | None:
        if (src, dst) not in self._known:
            self._known[src, dst] = self._search_hop(src, dst)
        return self._known[src, dst]

    def _search_hop(self, src: int, dst: int) -> Hop | None:
        ways = []
        direct = self._leaving[f"rank {src}"].get(f"rank {dst}")
        if direct is not None:
            ways.append(self._prepend(direct, _HERE))
        for number in self._upward[src]:
            middle = self.wires[number].dst
            if middle not in self._onward:
                self._onward[middle] = self._ways_from(middle)
            if dst in self._onward[middle]:
                ways.append(self._prepend(number, self._onward[middle][dst]))
        if not ways:
            return None
        latency, slowness, wires = min(ways)
        return Hop(src, dst, wires, -slowness, latency)

    def _prepend(self, number: int, way: _Way) -> _Way:
        wire, (latency, slowness, wires) = self.wires[number], way
        return wire.latency_us + latency, max(-wire.gbps, slowness), (number, *wires)

    def _ways_from(self, start: str) -> dict[int, _Way]:
        """By rank to which a way leads through no other, that way."""
        queue = [(*_HERE, start)]
        done: set[str] = set()
        ways: dict[int, _Way] = {}
        while queue:
            latency, slowness, way, vertex = heapq.heappop(queue)
            if vertex in done:
                continue
            done.add(vertex)
            if vertex in self._places:
                ways[self._places[vertex]] = latency, slowness, way
                continue
            for end, number in self._leaving[vertex].items():
                if end not in done:
                    wire = self.wires[number]
                    cost = latency + wire.latency_us, max(slowness, -wire.gbps)
                    heapq.heappush(queue, (*cost, (*way, number), end))
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
