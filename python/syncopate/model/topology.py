"""Shapes of links: what a machine says of its links where it leaves open how many ranks it has."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncopate.errors import SyncopateError
from syncopate.model.fabric import MOST_WIRES, Wire
from syncopate.model.numbers import expect_count, expect_number

__all__ = ["Topology", "TopologyKind"]


class TopologyKind(enum.Enum):
    """How ranks are connected."""

    ALL_TO_ALL = "all_to_all"
    """Each pair by a link of its own."""
    SWITCH = "switch"
    """Each rank by one link to a switch that never is what limits, as NVSwitch."""
    PCIE_TREE = "pcie_tree"
    """Each rank by one link to the bridge of its socket, and the sockets by a link between them."""
    TWO_LEVEL = "two_level"
    """A switch in each node, and one link for each rank to a network, which never limits itself."""


@dataclass(frozen=True)
class Topology:
    """What connects any number of ranks.

    Attributes:
        kind: The shape of the graph.
        link_gbps: GB/s in each direction of a rank's link: to each other rank, to the switch or to the bridge.
        node_size: Ranks of a node or socket, where there are such; consecutive ones.
        node_gbps: GB/s in each direction between sockets, or of a rank's link to the network.
        node_latency_us: What a transfer or a flag takes more to another node or socket, in microseconds.
    """

    kind: TopologyKind
    link_gbps: float
    node_size: int = 0
    node_gbps: float = 0.0
    node_latency_us: float = 0.0

    def __post_init__(self) -> None:
        expect_number("link_gbps", self.link_gbps, above=True)
        expect_count("node_size", self.node_size)
        expect_number("node_gbps", self.node_gbps)
        expect_number("node_latency_us", self.node_latency_us)
        if self.kind in (TopologyKind.PCIE_TREE, TopologyKind.TWO_LEVEL) and (
            self.node_size < 1 or self.node_gbps <= 0
        ):
            raise SyncopateError(
                f"topology: {self.kind.value} expects a positive node_size and node_gbps, but got {self.node_size} and "
                f"{self.node_gbps}"
            )

    def wires(self, ranks: int, latency_us: float) -> Iterator[Wire]:
        """The links of so many ranks, each direction for itself.

        Args:
            ranks: Number of ranks.
            latency_us: Microseconds from one rank to a near one.

        Raises:
            SyncopateError: Each pair has a link, and there are too many.
        """
        names, near, rate = [f"rank {rank}" for rank in range(ranks)], latency_us, self.link_gbps
        if self.kind is TopologyKind.ALL_TO_ALL:
            yield from self._between(names, rate, near)
        elif self.kind is TopologyKind.SWITCH:
            yield from _star(names, "switch", rate, near)
        else:
            nodes = [names[at : at + self.node_size] for at in range(0, ranks, self.node_size)]
            far = near + self.node_latency_us
            if self.kind is TopologyKind.PCIE_TREE:
                sockets = [f"socket {number}" for number in range(len(nodes))]
                for socket, node in zip(sockets, nodes, strict=True):
                    yield from _star(node, socket, rate, near)
                yield from self._between(sockets, self.node_gbps, self.node_latency_us)
                return
            for number, node in enumerate(nodes):
                if len(node) > 1:
                    yield from _star(node, f"switch {number}", rate, near)
            if len(nodes) > 1:
                yield from _star(names, "network", self.node_gbps, far)

    def at_rate(self, gbps: float) -> Topology:
        """The same shape with links of ranks of another rate in GB/s."""
        return replace(self, link_gbps=gbps)

    def busy_share(self, ranks: int) -> float:
        """For how long a rank's link is busy with its share of a collective, relative to all of it over a link.

        Between nodes each rank carries its share of what a node sends.
        """
        share = (ranks - 1) / ranks
        if self.kind is not TopologyKind.TWO_LEVEL or ranks <= self.node_size:
            return share
        nodes = ranks // self.node_size
        between = (nodes - 1) / nodes / self.node_size
        return max(share, between * self.link_gbps / self.node_gbps)

    def _between(self, names: list[str], gbps: float, latency_us: float) -> Iterator[Wire]:
        """A wire from each to each other."""
        if len(names) * (len(names) - 1) > MOST_WIRES:
            raise SyncopateError(
                f"ranks: {self.kind.value} expects at most {MOST_WIRES} links of one direction, but {len(names)} ends "
                f"with one to each other have more"
            )
        return (
            Wire(src, dst, gbps, latency_us) for src in names for dst in names if src is not dst
        )


def _star(names: list[str], middle: str, gbps: float, latency_us: float) -> Iterator[Wire]:
    """Wires to a middle and back; the way over two of them takes the latency."""
    for name in names:
        yield Wire(name, middle, gbps, latency_us / 2)
        yield Wire(middle, name, gbps, latency_us / 2)
