"""Links between ranks as a graph, and which of them a transfer uses."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from syncopate.errors import SyncopateError

__all__ = ["Link", "Topology", "TopologyKind"]


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
class Link:
    """One direction of a link.

    Attributes:
        src: Where it begins: a rank, or a bridge or switch.
        dst: Where it ends.
        gbps: GB/s (10⁹ bytes a second) in this direction.
    """

    src: str
    dst: str
    gbps: float


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
        if self.link_gbps <= 0:
            raise SyncopateError(f"link_gbps: expects a positive rate, but got {self.link_gbps}")
        if self.kind in (TopologyKind.PCIE_TREE, TopologyKind.TWO_LEVEL) and (
            self.node_size < 1 or self.node_gbps <= 0
        ):
            raise SyncopateError(
                f"topology: {self.kind.value} expects a positive node_size and node_gbps, but got {self.node_size} and "
                f"{self.node_gbps}"
            )

    def crosses(self, src: int, dst: int) -> bool:
        """Whether two ranks are in different nodes or sockets."""
        return self.node_size > 0 and src // self.node_size != dst // self.node_size

    def latency_us(self, src: int, dst: int) -> float:
        """What a transfer or a flag from one rank to another takes more than to the nearest rank."""
        return self.node_latency_us if self.crosses(src, dst) else 0.0

    def route(self, src: int, dst: int) -> tuple[Link, ...]:
        """The links that a transfer between two ranks uses; none within a rank."""
        if src == dst:
            return ()
        start, end = f"rank {src}", f"rank {dst}"
        if self.kind is TopologyKind.ALL_TO_ALL:
            return (Link(start, end, self.link_gbps),)
        if self.kind is TopologyKind.SWITCH:
            return self._through(start, end, "switch")
        node, far = (rank // self.node_size for rank in (src, dst))
        if self.kind is TopologyKind.PCIE_TREE:
            if node == far:
                return self._through(start, end, f"socket {node}")
            between = Link(f"socket {node}", f"socket {far}", self.node_gbps)
            return (
                Link(start, f"socket {node}", self.link_gbps),
                between,
                Link(f"socket {far}", end, self.link_gbps),
            )
        if node == far:
            return self._through(start, end, f"switch {node}")
        return (Link(start, "network", self.node_gbps), Link("network", end, self.node_gbps))

    def _through(self, start: str, end: str, middle: str) -> tuple[Link, ...]:
        return Link(start, middle, self.link_gbps), Link(middle, end, self.link_gbps)
