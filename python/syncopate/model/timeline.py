"""What a simulation says: when each tile and each transfer begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syncopate.abi import Realization
from syncopate.model.curve import FlowDirection
from syncopate.model.fabric import Wire
from syncopate.model.machine import Provenance

__all__ = ["Timeline", "TransferEvent"]

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TransferEvent:
    """One command. Times are microseconds from the start of the call.

    Attributes:
        by: The rank that carries it out.
        command: Its row in that rank's commands.
        realization: How.
        direction: From where to where.
        src: Rank of the source.
        dst: Rank of the destination.
        nbytes: Bytes moved.
        cta: The CTA of the tile that hands it over, among those that compute; -1 if it stands in a queue.
        begin_us: When its waits are over.
        end_us: When its last byte is there, before anybody knows.
    """

    by: int
    command: int
    realization: Realization
    direction: FlowDirection
    src: int
    dst: int
    nbytes: int
    cta: int
    begin_us: float
    end_us: float


@dataclass(frozen=True)
class Timeline:
    """A predicted call. Times are microseconds from its start.

    Attributes:
        machine: Name of the machine, and where its numbers are from.
        source: Where the machine's numbers are from.
        num_ctas: CTAs that compute.
        us: When the slowest rank is through: the predicted time.
        rank_us: When each rank is.
        tile_begin: For each rank, when the tile or part at each position begins, [positions]; CTA c has c, c +
            num_ctas, …
        tile_end: When it is stored. Of the parts of a tile, the last one stores it, and the others leave theirs.
        tile_stall: How long its CTA has waited for flags or for room in the ring, before, within and behind it.
        tile_numbers: Which tile it is, row-major in the grid.
        transfers: All commands, in the order in which they end.
        link_bytes: What goes over each link.
    """

    machine: str
    source: Provenance
    num_ctas: int
    us: float
    rank_us: tuple[float, ...]
    tile_begin: tuple[Times, ...]
    tile_end: tuple[Times, ...]
    tile_stall: tuple[Times, ...]
    tile_numbers: tuple[npt.NDArray[np.int64], ...]
    transfers: tuple[TransferEvent, ...]
    link_bytes: Mapping[Wire, int]

    def compute_us(self, rank: int) -> float:
        """Microseconds from the first tile of a rank to the end of its last."""
        if not len(self.tile_begin[rank]):
            return 0.0
        return float(self.tile_end[rank].max() - self.tile_begin[rank].min())

    def stalled_us(self, rank: int) -> float:
        """Mean over the CTAs of a rank that compute of how long each waits for flags or for room in the ring."""
        return float(self.tile_stall[rank].sum()) / self.num_ctas

    def link_use(self, link: Wire) -> float:
        """Share of the predicted time for which a link would be busy at its peak."""
        return self.link_bytes[link] / (link.gbps * 1e3) / self.us
