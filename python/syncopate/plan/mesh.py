"""Ranks as a grid: their places in it, and the groups that its dimensions make."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncopate.errors import PlanError

__all__ = ["Mesh"]


@dataclass(frozen=True)
class Mesh:
    """A grid of ranks, row-major. `Plan.grid` is that of a plan.

        grid = Mesh((2, 4))             # two nodes of four ranks
        grid.groups(1)                  # (0, 1, 2, 3), (4, 5, 6, 7): the ranks of each node
        grid.groups(0)                  # (0, 4), (1, 5), …: the ranks at one place of all nodes
        grid.neighbour(3, 1, 1)         # 0: the next rank of its node, around

    Attributes:
        shape: Its sizes.
    """

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.shape)

    def place(self, rank: int) -> tuple[int, ...]:
        """Where a rank is, by dimension.

        Raises:
            PlanError: There is no such rank.
        """
        if not 0 <= rank < self.size:
            raise PlanError(f"rank: expects one in [0, {self.size}), but got {rank}")
        place = []
        for extent in reversed(self.shape):
            rank, index = divmod(rank, extent)
            place.append(index)
        return tuple(reversed(place))

    def rank(self, place: Sequence[int]) -> int:
        """The rank at a place.

        Raises:
            PlanError: The place is outside of the grid.
        """
        inside = len(place) == len(self.shape) and all(
            0 <= index < extent for index, extent in zip(place, self.shape, strict=True)
        )
        if not inside:
            raise PlanError(f"place: expects one inside {list(self.shape)}, but got {list(place)}")
        rank = 0
        for index, extent in zip(place, self.shape, strict=True):
            rank = rank * extent + index
        return rank

    def groups(self, *dims: int) -> Iterator[tuple[int, ...]]:
        """For each place in the other dimensions, the ranks that differ in these only, in ascending order.

        Raises:
            PlanError: The grid has no such dimension.
        """
        for dim in dims:
            if not 0 <= dim < len(self.shape):
                raise PlanError(f"dim: expects one in [0, {len(self.shape)}), but got {dim}")
        fixed = [range(1 if dim in dims else extent) for dim, extent in enumerate(self.shape)]
        free = [range(extent if dim in dims else 1) for dim, extent in enumerate(self.shape)]
        for base in itertools.product(*fixed):
            yield tuple(
                self.rank([a + b for a, b in zip(base, offset, strict=True)])
                for offset in itertools.product(*free)
            )

    def neighbour(self, rank: int, dim: int, distance: int) -> int:
        """The rank so far along a dimension, around."""
        place = list(self.place(rank))
        place[dim] = (place[dim] + distance) % self.shape[dim]
        return self.rank(place)
