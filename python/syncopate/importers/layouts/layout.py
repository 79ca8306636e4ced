"""Layouts of tensors over ranks, as torch's DTensor, GSPMD and Alpa write them.

All of them come to the same: of each rank, the box of the tensor that it holds, and which ranks hold parts of a sum.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncopate.errors import PlanError
from syncopate.importers.documents.items import MOST_RANKS

__all__ = ["Box", "Layout", "alpa_layout", "dtensor_layout", "gspmd_layout"]

_MOST_DIMS: Final = 32
"""Of a grid of ranks; numpy has no arrays of many more."""


@dataclass(frozen=True)
class Box:
    """A part of a tensor."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return 0 in self.sizes

    def cut(self, dim: int, index: int, parts: int) -> Box:
        """Its part of that number along a dimension, of ceil(size / parts) rows; the last ones shorter or empty."""
        rows = -(-self.sizes[dim] // parts)
        begin, end = (min(edge * rows, self.sizes[dim]) for edge in (index, index + 1))
        offsets, sizes = list(self.offsets), list(self.sizes)
        offsets[dim] += begin
        sizes[dim] = end - begin
        return Box(tuple(offsets), tuple(sizes))

    def meet(self, other: Box) -> Box:
        """What both hold."""
        offsets = tuple(map(max, self.offsets, other.offsets))
        ends = [
            min(a + n, b + m)
            for a, n, b, m in zip(self.offsets, self.sizes, other.offsets, other.sizes, strict=True)
        ]
        sizes = tuple(max(0, end - begin) for begin, end in zip(offsets, ends, strict=True))
        return Box(offsets, sizes)

    def without(self, other: Box) -> list[Box]:
        """Boxes that hold what this holds and another one does not."""
        shared = self.meet(other)
        if shared.is_empty:
            return [] if self.is_empty else [self]
        rest, left = [], self
        for dim, (begin, size) in enumerate(zip(shared.offsets, shared.sizes, strict=True)):
            first, end = left.offsets[dim], left.offsets[dim] + left.sizes[dim]
            for low, high in ((first, begin), (begin + size, end)):
                if high > low:
                    rest.append(left.with_range(dim, low, high - low))
            left = left.with_range(dim, begin, size)
        return rest

    def with_range(self, dim: int, offset: int, size: int) -> Box:
        """The same, but for a dimension."""
        offsets, sizes = list(self.offsets), list(self.sizes)
        offsets[dim], sizes[dim] = offset, size
        return Box(tuple(offsets), tuple(sizes))


@dataclass(frozen=True)
class Layout:
    """What each rank holds of a tensor.

    Attributes:
        text: How it was written, for errors.
        boxes: By rank, its box.
        parts: Groups of ranks whose values are parts of a sum, all of the same box; empty if values are whole.
        reduction: sum, max or min, of those.
    """

    text: str
    boxes: tuple[Box, ...]
    parts: tuple[tuple[int, ...], ...] = ()
    reduction: str = "sum"


def dtensor_layout(mesh: Sequence[int], placements: Sequence[Any], shape: Sequence[int]) -> Layout:
    """The layout of a `torch.distributed.tensor.DTensor`.

    Args:
        mesh: Sizes of the device mesh, whose ranks count row by row.
        placements: For each dimension of the mesh, a placement of torch, or how torch prints it: `S(0)`, `R`, `P(sum)`.
        shape: Of the tensor.

    Raises:
        PlanError: There is not one placement for each dimension, or one is of another kind, or of no dimension.
    """
    text = ", ".join(map(str, placements))
    if len(placements) != len(mesh):
        raise PlanError(
            f"placements: expects {len(mesh)}, one for each dimension of the mesh, but got ({text})"
        )
    ranks = np.arange(_count(mesh)).reshape(tuple(mesh))
    boxes = [_whole(shape)] * ranks.size
    summed: list[int] = []
    reductions: set[str] = set()
    for axis, placement in enumerate(placements):
        match = re.fullmatch(r"(?:R|Replicate\(\)|S\((-?\d{1,2})\)|P\((\w+)\))", str(placement))
        if match is None:
            match = re.fullmatch(r"(?:Shard\(dim=(-?\d{1,2})\)|Partial\((\w*)\))", str(placement))
        if match is None:
            raise PlanError(
                "placements: expects S(dimension), R or P(reduction), as torch prints them, but got "
                f"{str(placement)[:60]!r}"
            )
        if match[1] is not None:
            dim = _to_dim(int(match[1]), len(shape), text)
            for index, rank in np.ndenumerate(ranks):
                boxes[rank] = boxes[rank].cut(dim, index[axis], mesh[axis])
        elif match[2] is not None:
            summed.append(axis)
            reductions.add(match[2] or "sum")
    return Layout(text, tuple(boxes), *_parts(ranks, summed, reductions, text))


def gspmd_layout(text: str, shape: Sequence[int], ranks: int) -> Layout:
    """The layout that a sharding of XLA's HLO says, such as `{devices=[2,1,2]<=[4] last_tile_dim_replicate}`.

    Args:
        text: The sharding.
        shape: Of the tensor.
        ranks: Number of devices.

    Raises:
        PlanError: It is malformed, does not fit shape and devices, or leaves dimensions to somebody else (`manual`).
    """
    _count([ranks])
    body = re.sub(
        r" metadata=\{[^{}]*\}", "", text.strip().removeprefix("{").removesuffix("}")
    ).strip()
    if body == "replicated":
        return Layout(text, (_whole(shape),) * ranks)
    match = re.fullmatch(
        r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
        r"(?: (last_tile_dim_replicate)| last_tile_dims=\{([\w, ]+)\})?",
        body,
    )
    if match is None:
        raise PlanError(
            f"sharding: expects {{replicated}} or {{devices=[…]…}} of a tensor, but got {text[:80]!r}"
        )
    tiles = _numbers(match[1], text)
    if len(tiles) > _MOST_DIMS:
        raise PlanError(f"sharding: expects at most {_MOST_DIMS} tiles, but got {text[:80]!r}")
    if match[4]:
        order = np.array(_numbers(match[4], text))
    else:
        sizes = _numbers(match[2], text)
        order = np.arange(_count(sizes)).reshape(sizes)
        if match[3]:
            axes = _numbers(match[3], text)
            if sorted(axes) != list(range(len(sizes))):
                raise PlanError(
                    f"sharding: expects T to name each dimension once, but got {text[:80]!r}"
                )
            order = order.transpose(axes)
    kinds = ["replicated"] if match[5] else re.split(r", *", match[6]) if match[6] else []
    if len(tiles) != len(shape) + len(kinds):
        raise PlanError(
            f"sharding: expects {len(shape) + len(kinds)} dimensions of tiles, but got {len(tiles)} in {text[:80]!r}"
        )
    if order.size != math.prod(tiles) or sorted(order.ravel().tolist()) != list(range(ranks)):
        raise PlanError(f"sharding: expects each of {ranks} devices once, but got {text[:80]!r}")
    for kind in kinds:
        if kind not in ("replicated", "unreduced"):
            raise PlanError(f"sharding: expects replicated or unreduced dimensions, but got {kind}")
    devices = order.reshape(tiles)
    boxes = [_whole(shape)] * ranks
    for index, rank in np.ndenumerate(devices):
        for dim in range(len(shape)):
            boxes[rank] = boxes[rank].cut(dim, index[dim], tiles[dim])
    summed = [len(shape) + axis for axis, kind in enumerate(kinds) if kind == "unreduced"]
    return Layout(text, tuple(boxes), *_parts(devices, summed, {"sum"}, text))


def alpa_layout(mesh: Sequence[int], spec: str, shape: Sequence[int]) -> Layout:
    """The layout of a sharding spec of Alpa, such as `S0R` or `RS01`.

    Args:
        mesh: Sizes of the device mesh.
        spec: For each dimension of the tensor, R, or S with the dimensions of the mesh that cut it.
        shape: Of the tensor.

    Raises:
        PlanError: The spec does not fit the tensor or the mesh, or cuts by a dimension of the mesh twice.
    """
    entries = re.findall(r"R|S\d+", spec)
    if "".join(entries) != spec or len(entries) != len(shape):
        raise PlanError(
            f"spec: expects R or S with dimensions of the mesh, for each of {len(shape)} dimensions, but got "
            f"{spec[:60]!r}"
        )
    used = [int(digit) for entry in entries for digit in entry[1:]]
    if len(set(used)) != len(used) or any(axis >= len(mesh) for axis in used):
        raise PlanError(
            f"spec: expects each of {len(mesh)} dimensions of the mesh at most once, but got {spec[:60]!r}"
        )
    ranks = np.arange(_count(mesh)).reshape(tuple(mesh))
    boxes = [_whole(shape)] * ranks.size
    for index, rank in np.ndenumerate(ranks):
        for dim, entry in enumerate(entries):
            axes = [int(digit) for digit in entry[1:]]
            if axes:
                extents = [mesh[axis] for axis in axes]
                place = int(np.ravel_multi_index([index[axis] for axis in axes], extents))
                boxes[rank] = boxes[rank].cut(dim, place, math.prod(extents))
    return Layout(spec, tuple(boxes))


def _whole(shape: Sequence[int]) -> Box:
    if not shape or any(type(size) is not int or size < 1 for size in shape):
        raise PlanError(f"shape: expects positive sizes, but got {list(shape)}")
    return Box((0,) * len(shape), tuple(shape))


def _count(mesh: Sequence[int]) -> int:
    if not mesh or any(size < 1 for size in mesh) or math.prod(mesh) > MOST_RANKS:
        raise PlanError(f"mesh: expects 1 to {MOST_RANKS} ranks, but got {list(mesh)[:8]}")
    if len(mesh) > _MOST_DIMS:
        raise PlanError(f"mesh: expects at most {_MOST_DIMS} dimensions, but got {len(mesh)}")
    return math.prod(mesh)


def _numbers(text: str, whole: str) -> list[int]:
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text):
        raise PlanError(f"sharding: expects numbers with commas between, but got {whole[:80]!r}")
    return [int(number) for number in text.split(",")]


def _to_dim(dim: int, dims: int, text: str) -> int:
    if not -dims <= dim < dims:
        raise PlanError(f"placements: expects dimensions in [0, {dims}), but got {dim} in ({text})")
    return dim % dims


def _parts(
    ranks: Any, axes: Sequence[int], reductions: set[str], text: str
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """The groups of ranks that differ along some dimensions of a mesh only, and how their values are combined."""
    if not axes:
        return (), "sum"
    if len(reductions) > 1 or not reductions <= {"sum", "max", "min"}:
        raise PlanError(f"placements: expects parts of one sum, max or min, but got ({text})")
    kept = [axis for axis in range(ranks.ndim) if axis not in axes]
    groups = []
    for place in itertools.product(*(range(ranks.shape[axis]) for axis in kept)):
        index: list[Any] = [slice(None)] * ranks.ndim
        for axis, at in zip(kept, place, strict=True):
            index[axis] = at
        groups.append(tuple(ranks[tuple(index)].ravel().tolist()))
    return tuple(groups), next(iter(reductions))
