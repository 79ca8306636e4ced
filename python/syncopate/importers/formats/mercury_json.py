"""Imports the communication of Mercury's IR: rings on accesses of buffers, and reductions over a mesh.

Mercury writes loops over axes in which buffers are loaded, stored and reduced. What an axis is shifted along becomes
rings on the accesses of a buffer; what is reduced in parts becomes a ring that comes home, or a collective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syncopate.dtypes import DTYPES
from syncopate.importers.documents.items import Item, shorten
from syncopate.importers.documents.read_json import read_json
from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.layouts.rings import Ring, nest_hops
from syncopate.importers.steps.emit import to_symbol

__all__ = ["read_mercury_json"]

_MOST: Final = 1 << 40
_MOST_RANKS: Final = 1024
_DTYPES: Final = {
    **{name: name for name in DTYPES},
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}


def read_mercury_json(text: str, file: str) -> list[Ring | Exchange]:
    """What moves in a program, access by access.

    Raises:
        PlanError: The file is malformed, or says something that has no meaning, or that no plan does.
    """
    root = read_json(text, file).called("program")
    mesh = root.integers("mesh", 1, _MOST_RANKS + 1)
    if not 1 <= len(mesh) <= 8 or not 2 <= math.prod(mesh) <= _MOST_RANKS:
        root.fail(
            f"expects mesh to have 2 to {_MOST_RANKS} ranks, but got {list(mesh)[:9]}", "mesh"
        )
    axes = {}
    for item in root.items("axes", "axis"):
        axes[item.text("name")] = item.integer("size", 1, _MOST)
    buffers: dict[str, _Buffer] = {}
    for item in root.items("buffers", "buffer"):
        buffer = _read_buffer(item, mesh)
        if buffer.tensor in buffers:
            item.fail(f"expects each buffer once, but got {buffer.tensor[:40]!r} again", "tensor")
        buffers[buffer.tensor] = buffer
    return list(_Reader(mesh, axes, buffers).body(root, 0))


@dataclass(frozen=True)
class _Buffer:
    """A tensor: what a rank has of it, and by dimension, those of the mesh that cut it."""

    tensor: str
    shape: tuple[int, ...]
    dtype: str
    spec: tuple[tuple[int, ...], ...]


def _read_buffer(item: Item, mesh: Sequence[int]) -> _Buffer:
    shape = item.integers("shape", 1, _MOST)
    if not 1 <= len(shape) <= 5:
        item.fail(f"expects shape to have 1 to 5 sizes, but got {len(shape)}", "shape")
    dtype = item.word("dtype", _DTYPES, default="bfloat16")
    entries = item.fields.get("shard_spec", ["R"] * len(shape))
    if not isinstance(entries, list) or len(entries) != len(shape):
        item.fail(
            f"expects shard_spec to have {len(shape)} entries, one for each dimension, but got {shorten(entries)}",
            "shard_spec",
        )
    spec: list[tuple[int, ...]] = []
    for entry in entries:
        dims = [] if entry == "R" else entry
        if not isinstance(dims, list) or not all(
            type(dim) is int and 0 <= dim < len(mesh) for dim in dims
        ):
            item.fail(
                f'expects entries of shard_spec to be "R" or lists of dimensions of the mesh, but got {shorten(entry)}',
                "shard_spec",
            )
        spec.append(tuple(dims))
    used = [dim for dims in spec for dim in dims]
    if len(set(used)) != len(used):
        item.fail("expects shard_spec to have each dimension of the mesh once", "shard_spec")
    return _Buffer(item.text("tensor"), shape, dtype, tuple(spec))


@dataclass
class _Reader:
    mesh: Sequence[int]
    axes: Mapping[str, int]
    buffers: Mapping[str, _Buffer]

    def __post_init__(self) -> None:
        grid = np.arange(math.prod(self.mesh)).reshape(tuple(self.mesh))
        self.ranks = {tuple(map(int, at)): int(rank) for at, rank in np.ndenumerate(grid)}

    def body(self, item: Item, depth: int) -> Iterator[Ring | Exchange]:
        if depth > 8:
            item.fail("expects loops at most 8 deep")
        for node in item.items("body", "node"):
            kind = node.text("node")
            named = node.called(kind)
            if kind == "GridLoop":
                self._check_loop(named)
                yield from self.body(named, depth + 1)
            elif kind in ("BufferLoad", "BufferStore", "ReduceOp"):
                yield from self._access(named, kind)
            elif kind != "PyNode":
                node.fail(
                    "expects node to be one of GridLoop, BufferLoad, BufferStore, ReduceOp, PyNode, but got "
                    f"{shorten(kind)}",
                    "node",
                )

    def _check_loop(self, loop: Item) -> None:
        names = loop.fields.get("axes")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            loop.fail("expects axes to be a list of names", "axes")
        for name in names:
            if name not in self.axes:
                loop.fail(f"expects axes of the program, but got {name[:40]!r}", "axes")
        types = loop.text("axis_types")
        if len(types) != len(names) or not set(types) <= set("srm"):
            loop.fail(
                f"expects axis_types to have s, r or m for each of {len(names)} axes, but got {shorten(types)}",
                "axis_types",
            )

    def _access(self, item: Item, kind: str) -> Iterator[Ring | Exchange]:
        name = item.text("buffer")
        if name not in self.buffers:
            item.fail(f"expects a buffer of the program, but got {name[:40]!r}", "buffer")
        buffer = self.buffers[name]
        rings = item.items("comm", "RingComm", optional=True)
        reduces = kind == "ReduceOp"
        if rings:
            yield self._ring(item, buffer, rings, reduces)
        dims = item.integers("shard_dim", 0, len(self.mesh)) if item.has("shard_dim") else ()
        left = [dim for dim in dict.fromkeys(dims) if dim not in self._dims(rings)]
        if left and not reduces:
            item.fail("expects shard_dim in a ReduceOp alone", "shard_dim")
        if reduces:
            item.word("op", {"sum": None, "add": None, "torch.add": None})
        if left:
            if rings:
                item.fail(
                    "expects rings over all of shard_dim, or none, since sums of rings are summed up again",
                    "shard_dim",
                )
            yield self._sum(item, buffer, left)

    def _dims(self, rings: Sequence[Item]) -> list[int]:
        return [ring.integer("shard_dim", 0, len(self.mesh)) for ring in rings]

    def _ring(self, item: Item, buffer: _Buffer, rings: Sequence[Item], reduces: bool) -> Ring:
        dims = self._dims(rings)
        for ring, dim in zip(rings, dims, strict=True):
            if ring.text("axis") not in self.axes:
                ring.fail(
                    f"expects an axis of the program, but got {ring.text('axis')[:40]!r}", "axis"
                )
            cards = ring.integer("num_cards", 1, _MOST_RANKS + 1)
            if cards != self.mesh[dim]:
                ring.fail(
                    f"expects num_cards to be {self.mesh[dim]}, as dimension {dim} of the mesh is, but got {cards}",
                    "num_cards",
                )
            if ring.flag("write_back", default=reduces) != reduces:
                wanted = "true" if reduces else "false"
                ring.fail(f"expects write_back to be {wanted} in a {item.what}", "write_back")
        if len(set(dims)) != len(dims):
            item.fail("expects each dimension of the mesh to be one ring", "comm")
        cut = [axis for axis, entry in enumerate(buffer.spec) if set(entry) & set(dims)]
        if len(cut) != 1 or not set(dims) <= set(buffer.spec[cut[0]]):
            item.fail(
                f"expects rings over dimensions of the mesh that cut one dimension of {buffer.tensor}, but got "
                f"{dims} of {[list(entry) for entry in buffer.spec]}",
                "comm",
            )
        axis = cut[0]
        inner = [dim for dim in buffer.spec[axis] if dim in dims]
        groups = self._groups(inner)
        shape = list(buffer.shape)
        shape[axis] *= len(groups[0])
        hops = nest_hops(self.mesh, dims, self.ranks)
        return Ring(
            to_symbol(buffer.tensor),
            item.place,
            tuple(shape),
            buffer.dtype,
            axis,
            groups,
            hops,
            reduces,
        )

    def _sum(self, item: Item, buffer: _Buffer, dims: Sequence[int]) -> Exchange:
        """An all-reduce over dimensions of the mesh."""
        for entry in buffer.spec:
            if set(entry) & set(dims):
                item.fail(
                    f"expects shard_dim not to cut {buffer.tensor}, of which ranks have parts",
                    "shard_dim",
                )
        groups = self._groups(dims)
        boxes: list[Box] = [Box((), ())] * len(self.ranks)
        for number, group in enumerate(groups):
            for rank in group:
                offsets = (number * buffer.shape[0], *([0] * (len(buffer.shape) - 1)))
                boxes[rank] = Box(offsets, buffer.shape)
        src = Layout("parts", tuple(boxes), groups)
        name = to_symbol(buffer.tensor)
        return Exchange(name, item.place, src, Layout("sum", tuple(boxes)), buffer.dtype)

    def _groups(self, dims: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Ranks that differ along some dimensions only; in a group, the first dimension counts most."""
        found: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for at, rank in self.ranks.items():
            kept = tuple(-1 if dim in dims else place for dim, place in enumerate(at))
            found.setdefault(kept, []).append((tuple(at[dim] for dim in dims), rank))
        return tuple(tuple(rank for _, rank in sorted(group)) for group in found.values())
