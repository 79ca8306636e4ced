"""Meshes of ranks with names of axes, as StableHLO and Shardy have them, and groups of ranks along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from syncopate.importers.documents.items import MOST_RANKS

__all__ = ["NamedMesh", "SubAxis", "check_apart", "make_mesh"]

Fail = Callable[[str], NoReturn]


@dataclass(frozen=True)
class SubAxis:
    """An axis of a mesh, or a part of one: of an axis of A x B x C ranks, `before` is A and `size` is B."""

    name: str
    before: int
    size: int


@dataclass(frozen=True)
class NamedMesh:
    """Ranks as a grid.

    Attributes:
        sizes: By name of the axis, its size.
        ranks: The rank at each place of the grid, row by row.
        device: Of a mesh without axes, the one device that it is, if it says so; else it says nothing of ranks.
    """

    sizes: Mapping[str, int]
    ranks: tuple[int, ...]
    device: int | None = None

    def places(self) -> list[tuple[tuple[int, ...], int]]:
        """By place in the grid, its rank."""
        grid = np.array(self.ranks).reshape(tuple(self.sizes.values()))
        return [(index, int(rank)) for index, rank in np.ndenumerate(grid)]

    def axis(self, name: str, before: str | None, size: str | None, fail: Fail) -> SubAxis:
        """An axis, or the part of one that is written `(before)size`; fails if there is none."""
        if name not in self.sizes:
            fail(f"expects axes of the mesh, {', '.join(self.sizes)}, but got {name[:40]!r}")
        extent = self.sizes[name]
        axis = SubAxis(name, int(before or 1), int(size or extent))
        if axis.before < 1 or axis.size < 1 or extent % (axis.before * axis.size):
            fail(f"expects a part of axis {name!r} of {extent} ranks, but got ({before}){size}")
        return axis

    def at(self, axis: SubAxis, index: tuple[int, ...]) -> int:
        """Where along an axis a place in the grid is."""
        place = index[list(self.sizes).index(axis.name)]
        return place // self._inner(axis) % axis.size

    def groups(self, axes: Sequence[SubAxis]) -> tuple[tuple[int, ...], ...]:
        """The groups of ranks that differ along some axes only; in a group, the first axis counts most."""
        found: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for index, rank in self.places():
            kept, order = list(index), tuple(self.at(axis, index) for axis in axes)
            for axis, place in zip(axes, order, strict=True):
                kept[list(self.sizes).index(axis.name)] -= place * self._inner(axis)
            found.setdefault(tuple(kept), []).append((order, rank))
        return tuple(tuple(rank for _, rank in sorted(group)) for group in found.values())

    def _inner(self, axis: SubAxis) -> int:
        return self.sizes[axis.name] // axis.before // axis.size


def check_apart(axes: Sequence[SubAxis], text: str, fail: Fail) -> None:
    """Fails if axes have a part in common."""
    for number, axis in enumerate(axes):
        for other in axes[:number]:
            apart = (
                other.before * other.size <= axis.before or axis.before * axis.size <= other.before
            )
            if other == axis or (other.name == axis.name and not apart):
                fail(f"expects each axis once, but got {axis.name!r} again in {text[:60]!r}")


def make_mesh(
    pairs: Sequence[tuple[str, str]], ids: Sequence[int] | None, text: str, fail: Fail
) -> NamedMesh:
    """The mesh of axes and sizes, and of devices if these are said; fails if it is none."""
    sizes = {name: int(size) for name, size in pairs}
    if len(sizes) != len(pairs) or len(sizes) > 16:
        fail(f"expects at most 16 axes, each once, but got {text[:60]!r}")
    count = math.prod(sizes.values())
    if not 1 <= count <= MOST_RANKS:
        fail(f"expects 1 to {MOST_RANKS} ranks, but got {text[:60]!r}")
    ranks = list(range(count))
    if ids is not None and not pairs:
        if len(ids) != 1:
            fail(f"expects one device where there are no axes, but got {text[:60]!r}")
        return NamedMesh(sizes, (0,), ids[0])
    if ids is not None:
        if sorted(ids) != ranks:
            fail(f"expects each of {count} devices once, but got {text[:60]!r}")
        ranks = list(ids)
    return NamedMesh(sizes, tuple(ranks))
