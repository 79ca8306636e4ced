"""The collectives that plans have, by their names in chunk IR; this module imports nothing of the project."""

from __future__ import annotations

import enum

__all__ = ["Collective"]


class Collective(enum.Enum):
    """What transfers amount to."""

    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"

    @property
    def reduces(self) -> bool:
        """Whether it combines what ranks have."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
