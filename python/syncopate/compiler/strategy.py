"""Strategies: the choices that a plan leaves open."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from syncopate.errors import SyncopateError

__all__ = ["Algorithm", "Direction", "Realization", "SlotShape", "Strategy", "TileOrder"]


class Algorithm(enum.Enum):
    """Between which members the parts of a collective travel; docs/plans.md says where each applies."""

    DIRECT = "direct"
    RING = "ring"
    BIDIRECTIONAL_RING = "bidirectional_ring"
    HIERARCHICAL = "hierarchical"
    RECURSIVE_DOUBLING = "recursive_doubling"


class Direction(enum.Enum):
    """Who carries the transfers of a collective out: those who have the data, or those who get them."""

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
    """Of collectives of what tiles compute: they become calls of the library."""


class TileOrder(enum.Enum):
    """The order in which a rank computes its tiles."""

    ARRIVAL = "arrival"
    GROUPED = "grouped"
    PACED = "paced"


class SlotShape(enum.Enum):
    """What library calls take of a matrix at a time."""

    ROWS = "rows"
    """Whole rows of tiles, so that what a call brings may lie in rows already."""
    TILES = "tiles"
    """Single tiles, so that a call ends with a wave."""


# The ranges of `#chunk.strategy`, whose verifier has the last word.
_RANGES = {
    "splits": (0, 4096),
    "group": (1, 2**62),
    "pause": (0, 1_000_000),
    "comm_ctas": (1, 65536),
}


@dataclass(frozen=True)
class Strategy:
    """The choices for one plan. A collective or a transfer that names its own keeps it.

    Attributes:
        algorithm: How collectives are decomposed.
        direction: Who carries their transfers out.
        realization: How transfers are carried out.
        splits: Pieces that each transfer is cut into; 0 chooses by its size: at most four, of 8 MiB
            and 512 rows or more.
        order: The order of tiles.
        group: Rows of tiles that stay together in the order: within them it goes column by column, so that the tiles in
            flight share rows and columns in L2.
        pause: Nanoseconds that a co-located role rests after each block that it stores to another rank. Stores that
            the link cannot take at once hold up the loads of the computing warps, so spreading them over the time
            that there is makes both faster. At most 1,000,000.
        comm_ctas: CTAs that carry out transfers of dedicated realizations, and compute nothing; a launch has them
            beside those that compute, if there are such transfers. At most 65,536. With realization nccl,
            multiprocessors that are left to the library.
        waves: How many waves of tiles, of as many tiles as CTAs compute, go into each library call, the last number for
            all further calls. Without any, there are at most eight calls of as many waves each.
        slots: What library calls take at a time: rows or tiles.

    The enums may be given by their values, as strings.
    """

    algorithm: Algorithm | str = Algorithm.DIRECT
    direction: Direction | str = Direction.PUSH
    realization: Realization | str = Realization.LDST_COLOCATED
    splits: int = 0
    order: TileOrder | str = TileOrder.ARRIVAL
    group: int = 8
    pause: int = 500
    comm_ctas: int = 8
    waves: tuple[int, ...] = ()
    slots: SlotShape | str = SlotShape.ROWS

    def __post_init__(self) -> None:
        for name, kind in (
            ("algorithm", Algorithm),
            ("direction", Direction),
            ("realization", Realization),
            ("order", TileOrder),
            ("slots", SlotShape),
        ):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except (TypeError, ValueError):
                known = ", ".join(member.value for member in kind)
                raise SyncopateError(
                    f"{name}: expects one of {known}, but got {getattr(self, name)!r}"
                ) from None
        for name, (lowest, highest) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                raise SyncopateError(
                    f"{name}: expects an integer in [{lowest}, {highest}], but got {value!r}"
                )
        if not isinstance(self.waves, tuple) or not all(
            type(count) is int and 0 < count < 2**62 for count in self.waves
        ):
            raise SyncopateError(
                f"waves: expects a tuple of positive integers, but got {self.waves!r}"
            )

    @property
    def attribute(self) -> str:
        """The strategy as `#chunk.strategy`."""
        waves = f", waves = [{', '.join(map(str, self.waves))}]" if self.waves else ""
        return (
            f"#chunk.strategy<algorithm = {_value(self.algorithm)}, direction = {_value(self.direction)}, "
            f"splits = {self.splits}, realization = {_value(self.realization)}, order = {_value(self.order)}, "
            f"group = {self.group}, pause = {self.pause}, comm_ctas = {self.comm_ctas}{waves}, "
            f"slots = {_value(self.slots)}>"
        )


def _value(member: enum.Enum | str) -> str:
    return member if isinstance(member, str) else str(member.value)
