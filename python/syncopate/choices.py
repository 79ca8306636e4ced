"""The choices that a plan leaves open, by their names, and the ranges of those that are numbers.

The names are those of chunk IR. This module alone lists them for Python; it imports nothing of the project.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

__all__ = [
    "RANGES",
    "Algorithm",
    "Combine",
    "Direction",
    "Realization",
    "Shots",
    "SlotShape",
    "Swizzle",
    "TileOrder",
    "names_of",
]


class Algorithm(enum.Enum):
    """Between which members the parts of a collective travel; docs/plans.md says where each applies."""

    DIRECT = "direct"
    RING = "ring"
    BIDIRECTIONAL_RING = "bidirectional_ring"
    HIERARCHICAL = "hierarchical"
    RECURSIVE_DOUBLING = "recursive_doubling"


class Direction(enum.Enum):
    """Who carries transfers between ranks out: those who have the data, or those who get them."""

    PUSH = "push"
    PULL = "pull"


class Realization(enum.Enum):
    """How a transfer is carried out, of those that the compiler lowers."""

    COPY_ENGINE = "copy_engine"
    TMA_DEDICATED = "tma_dedicated"
    TMA_COLOCATED = "tma_colocated"
    LDST_DEDICATED = "ldst_dedicated"
    LDST_COLOCATED = "ldst_colocated"
    NCCL = "nccl"
    """Of transfers: one rank sends and the other receives. Of collectives of what tiles compute: they become calls."""


class TileOrder(enum.Enum):
    """The order in which a rank computes its tiles; `chunk-order-tiles` says what each policy does."""

    ARRIVAL = "arrival"
    """By when they can start, and by who waits for them."""
    GROUPED = "grouped"
    """As if there were no transfers: `group_m` rows of tiles column by column."""
    PACED = "paced"
    """For, or from, every other rank in turn."""
    WAVE = "wave"
    """As `ARRIVAL`, and what leaves together is complete together, in as few waves of tiles as hold it."""
    GIVEN = "given"
    """The one that `compile` is given as `tile_order`, or that stands in a plan in chunk IR."""


class SlotShape(enum.Enum):
    """What library calls take of a matrix at a time."""

    ROWS = "rows"
    """Whole rows of tiles, so that what a call brings may lie in rows already."""
    TILES = "tiles"
    """Single tiles, so that a call ends with a wave."""


class Swizzle(enum.Enum):
    """In which order each member takes the others when each sends to every other."""

    SHIFT = "shift"
    """The next one first, around: all receive from different ones at a time. That of algorithm `direct`."""
    REVERSE = "reverse"
    """The one before first."""
    XOR = "xor"
    """In pairs that exchange with one another."""
    SERIAL = "serial"
    """All take the same one first, which then receives from all at once."""


class Combine(enum.Enum):
    """Who adds the parts of a sum that tiles of all ranks compute."""

    TILES = "tiles"
    """The tiles of the block's own rank add theirs to what has arrived: stores by TMA in the buffer's type, stores by
    pointers in float32, rounded once. A tile must not straddle two blocks. With more than two ranks, a communication
    role first adds up what has arrived, in float32, rounded once."""
    ROLE = "role"
    """A communication role of the block's rank adds all parts at once, in float32, rounded once."""
    DESTINATION = "destination"
    """The other ranks add to what the block's own rank has computed, by atomic operations and in no order. Needs no
    other buffer, but is rounded once for each part, and results may differ from call to call. For f32, f16 and bf16,
    pushed."""
    COLLECTIVE = "collective"
    """The plan has the collective itself, and the strategy says what becomes of it: with realization nccl, calls of the
    library, which rounds as it does; else transfers by its algorithm, rounded once for each part."""


class Shots(enum.Enum):
    """In how many steps parts of a sum come to all ranks."""

    ONE = "one"
    """Every rank sends all of its part to all others, and every rank adds all parts, in the order of the ranks: all get
    the same bits. A rank sends W - 1 times the buffer, and waits for others once."""
    TWO = "two"
    """Every rank adds the parts of its block, and sends the sum to all others. A rank sends 2 (W - 1) / W times the
    buffer, and waits for others twice."""


RANGES: Final[Mapping[str, range]] = {
    "splits": range(4096 + 1),
    "group_m": range(1, 2**31),
    "pause": range(1_000_000 + 1),
    "comm_ctas": range(65536 + 1),
}
"""What each choice that is a number may be; the verifier of `#chunk.strategy` has the last word.

Of `splits` and `comm_ctas`, 0 stands for what suits a transfer."""


def names_of(choices: type[enum.Enum]) -> tuple[str, ...]:
    """The names that a choice is between, as chunk IR spells them."""
    return tuple(str(member.value) for member in choices)
