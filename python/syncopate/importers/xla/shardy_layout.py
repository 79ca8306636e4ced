"""Meshes and shardings as Shardy writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.programs.tensors import Operation
from syncopate.importers.xla.meshes import Fail, NamedMesh, SubAxis, check_apart, make_mesh

__all__ = ["TensorSharding", "read_mesh", "read_sharding"]

_AXIS: Final = re.compile(r'"([^"]+)"(?: : \( (\d{1,6}) \) (\d{1,6}))?')


@dataclass(frozen=True)
class TensorSharding:
    """Axes that cut dimensions, and those along which ranks have parts of a sum."""

    text: str
    mesh: NamedMesh
    dims: tuple[tuple[SubAxis, ...], ...]
    unreduced: tuple[SubAxis, ...] = ()
    reduction: str = "sum"

    def layout(self, shape: Sequence[int], fail: Fail) -> Layout:
        """What each rank has of a tensor. A dimension is cut once, by all of its axes."""
        if len(self.dims) != len(shape):
            fail(f"expects {len(shape)} dimensions, but got {len(self.dims)} in {self.text[:60]!r}")
        used = [axis for axes in (*self.dims, self.unreduced) for axis in axes]
        check_apart(used, self.text, fail)
        if any(size < 1 for size in shape):
            fail(f"expects a tensor with elements, but got {list(shape)}")
        mesh = self.mesh
        boxes = [Box((0,) * len(shape), tuple(shape))] * len(mesh.ranks)
        for index, rank in mesh.places():
            for dim, axes in enumerate(self.dims):
                place = 0
                for axis in axes:
                    place = place * axis.size + mesh.at(axis, index)
                if axes:
                    boxes[rank] = boxes[rank].cut(dim, place, math.prod(axis.size for axis in axes))
        parts = mesh.groups(self.unreduced) if self.unreduced else ()
        return Layout(self.text, tuple(boxes), parts, self.reduction)

    def before_sum(
        self, operation: Operation, dims: tuple[tuple[SubAxis, ...], ...]
    ) -> TensorSharding:
        """The sharding of what a collective with this result sums up: of such dimensions, parts along its axes."""
        text = operation.fields.get("reduction_axes", operation.fields.get("reduce_scatter_axes"))
        text = operation.fields[""].partition("%")[0] if text is None else text
        word = re.match(r"(sum|max|min) ", text)
        text = text if word is None else text[word.end() :]
        axes = _read_axes(text, self.mesh, operation.fail)
        if not axes:
            operation.fail("expects axes to sum over, but there are none")
        return replace(self, dims=dims, unreduced=axes, reduction=word[1] if word else "sum")


def read_mesh(operation: Operation) -> tuple[str, NamedMesh]:
    """The name and the grid of a `sdy.mesh`."""
    text = operation.fields.get("mesh")
    name = operation.fields.get("sym_name", "").strip('"')
    if text is None:
        match = re.match(r"@([\w$.-]+) = (.*)", operation.fields[""])
        if match is None:
            operation.fail("expects a name and axes")
        name, text = match[1], match[2]
    return name, _read_mesh(text, operation.fail)


def read_sharding(text: str, meshes: Mapping[str, NamedMesh], fail: Fail) -> TensorSharding:
    """The sharding that a text is.

    Fails if it is malformed, or names a mesh or an axis that is none.
    """
    match = re.match(r"(?:#sdy\.sharding )?< (@[\w$.-]+|mesh < .*? > ) ?, \[(.*)", text)
    if match is None:
        match = re.match(r"(?:#sdy\.sharding )?< (@[\w$.-]+|mesh < .*? >) , \[(.*)", text)
    if match is None:
        fail(f"expects a sharding <mesh, [dimensions]>, but got {text[:60]!r}")
    if match[1].startswith("@"):
        if match[1][1:] not in meshes:
            fail(f"expects a mesh of the module, but got {match[1][:60]}")
        mesh = meshes[match[1][1:]]
    else:
        mesh = _read_mesh(match[1].removeprefix("mesh "), fail)
    dims, rest, depth = [""], "", 0
    for at, word in enumerate(words := match[2].split()):
        if word == "]" and depth == 0:
            rest = " ".join(words[at + 1 :])
            break
        depth += (word == "{") - (word == "}")
        if word == "," and depth == 0:
            dims.append("")
        else:
            dims[-1] += f" {word}"
    else:
        fail(f"expects ']' behind dimensions, but got {text[:60]!r}")
    if dims == [""]:
        dims = []
    for dim in dims:
        if not re.fullmatch(r" \{.*\}(?: p\d+)?", dim):
            fail(f"expects axes in braces for each dimension, but got {text[:60]!r}")
    unreduced: tuple[SubAxis, ...] = ()
    for named in re.findall(r"(\w+) = \{([^{}]*)\}", rest):
        if named[0] == "unreduced":
            unreduced = _read_axes(named[1], mesh, fail)
        elif named[0] == "replicated":
            _read_axes(named[1], mesh, fail)
        else:
            fail(f"expects replicated or unreduced axes, but got {named[0][:40]}")
    return TensorSharding(text, mesh, tuple(_read_axes(dim, mesh, fail) for dim in dims), unreduced)


def _read_axes(text: str, mesh: NamedMesh, fail: Fail) -> tuple[SubAxis, ...]:
    found = tuple(mesh.axis(name, before, size, fail) for name, before, size in _AXIS.findall(text))
    left = _AXIS.sub("", text)
    if re.search(r"[^\s,{}\[\]?]", re.sub(r"\} p\d+", "}", left)):
        fail(f"expects axes in quotes, but got {text.strip()[:60]!r}")
    return found


def _read_mesh(text: str, fail: Fail) -> NamedMesh:
    match = re.match(r"(?:#sdy\.mesh )?< \[ (.*?) ?\](?: , device_ids = \[ ([\d ,]*) \])? >", text)
    if match is None:
        fail(f'expects axes <["x"=2, …]>, but got {text[:60]!r}')
    body = match[1]
    if body and not re.fullmatch(r'"[^"]+" = \d{1,6}(?: , "[^"]+" = \d{1,6})*', body):
        fail(f"expects axes with sizes, but got {text[:60]!r}")
    ids = None if match[2] is None else [int(word) for word in re.findall(r"\d{1,6}", match[2])]
    return make_mesh(re.findall(r'"([^"]+)" = (\d+)', body), ids, text, fail)
