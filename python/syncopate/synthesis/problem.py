"""What is to be brought where: pieces of data, each with the rank that has it and those that want it.

Reductions are the mirror image of copies: a schedule that brings each block from its rank to all, run backwards, sums
each block at its rank, because every rank receives every piece once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syncopate.model.fabric import Fabric, Hop

__all__ = ["Piece", "Problem", "Send", "gather_pieces", "reverse_hops"]


@dataclass(frozen=True)
class Piece:
    """Data that are moved as one.

    Attributes:
        origin: The rank that has it.
        wanted: The ranks that are to get it.
        ready_us: When its rank has it.
    """

    origin: int
    wanted: frozenset[int]
    ready_us: float = 0.0


@dataclass(frozen=True)
class Send:
    """A piece on its way over a hop."""

    piece: int
    hop: Hop
    begin_us: float
    end_us: float


@dataclass(frozen=True)
class Problem:
    """Pieces, and the hops that can carry them.

    Attributes:
        ranks: Number of ranks.
        hops: By source and destination.
        pieces: The pieces.
        nbytes: Bytes of each.
        free_us: By wire, when it is free, if that is not from the beginning.
        is_backwards: Whether the schedule is to be run backwards. What a rank sends to several is then what it adds
            up, one after the other: it sends a piece to one rank at a time.
    """

    ranks: int
    hops: Mapping[tuple[int, int], Hop]
    pieces: Sequence[Piece]
    nbytes: float
    free_us: Mapping[int, float]
    is_backwards: bool = False

    def time_us(self, hop: Hop) -> float:
        """Microseconds that a hop takes for a piece."""
        return hop.time_us(self.nbytes)


def gather_pieces(ranks: int, chunks: int) -> list[Piece]:
    """Pieces of an all-gather: `chunks` of each rank, which all others want."""
    everyone = frozenset(range(ranks))
    return [Piece(rank, everyone - {rank}) for rank in range(ranks) for _ in range(chunks)]


def reverse_hops(fabric: Fabric) -> dict[tuple[int, int], Hop]:
    """The hops of a fabric in which every wire leads the other way."""
    return {
        (dst, src): Hop(dst, src, hop.wires, hop.gbps, hop.latency_us)
        for (src, dst), hop in fabric.hops.items()
    }
