"""Groups of ranks as XLA writes them, in StableHLO and in HLO."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from syncopate.importers.documents.items import MOST_RANKS
from syncopate.importers.xla.meshes import Fail, NamedMesh, check_apart, make_mesh

__all__ = ["GroupKind", "Grouping", "Ids", "read_axes", "read_dense", "read_iota", "read_lists"]

_MOST: Final = 1 << 16
Groups = tuple[tuple[int, ...], ...]
Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Grouping:
    """How many replicas and partitions run a program, and meshes of them; ranks are numbered replica by replica."""

    replicas: int | None
    partitions: int | None
    meshes: Mapping[str, NamedMesh] = field(default_factory=dict)

    def ranks(self, ids: Ids, fail: Fail) -> int:
        """The number of ranks; the one that the ids of a collective say, if the program does not."""
        count = (self.replicas or 1) * (self.partitions or 1)
        if self.replicas is None and self.partitions is None:
            count = 1 + max((number for group in ids for number in group), default=0)
        if not 1 <= count <= MOST_RANKS:
            fail(f"expects 1 to {MOST_RANKS} ranks, but got {count}")
        return count

    def expand(self, ids: Ids, kind: GroupKind, fail: Fail) -> Groups:
        """The groups of ranks of a collective; all ranks if it names none.

        Fails where ids are those of replicas or partitions, and there are several of both.
        """
        count = self.ranks(ids, fail)
        replicas, partitions = self.replicas or 1, self.partitions or 1
        if replicas > 1 and partitions > 1 and not kind.is_global:
            fail(
                "expects global ids of devices, since there are several replicas and several partitions"
            )
        # Groups of the one replica that there is stand for its partitions.
        if not ids:
            ids = [range(count)]
        elif kind.crosses_both and partitions > 1:
            if [list(group) for group in ids] != [[0]]:
                fail(f"expects groups of the one replica, but got {_show(ids)}")
            ids = [range(partitions)]
        elif not kind.is_global and not kind.crosses_partitions and partitions > 1:
            fail("expects groups of partitions, since there is one replica")
        elif not kind.is_global and kind.crosses_partitions and replicas > 1:
            fail("expects groups of replicas, since there is one partition")
        found = [number for group in ids for number in group]
        if sorted(found) != list(range(count)):
            fail(f"expects each of {count} ranks in one group, but got {_show(ids)}")
        if len({len(group) for group in ids}) != 1:
            fail(f"expects groups of one size, but got {_show(ids)}")
        return tuple(tuple(group) for group in ids)

    def permute(self, pairs: Ids, fail: Fail) -> Groups:
        """The pairs of a permutation, by their sources.

        Fails where a rank gets nothing, since XLA gives it zeros then, which no plan has.
        """
        if any(len(pair) != 2 for pair in pairs):
            fail(f"expects pairs of ranks, but got {_show(pairs)}")
        every = list(range(self.ranks(pairs, fail)))
        if any(sorted([pair[end] for pair in pairs]) != every for end in (0, 1)):
            fail(
                f"expects each of {len(every)} ranks to send and to receive once, since ranks that receive nothing get "
                f"zeros, but got {_show(pairs)}"
            )
        return tuple(sorted((pair[0], pair[1]) for pair in pairs))


@dataclass(frozen=True)
class GroupKind:
    """What the ids of a collective are.

    Attributes:
        is_global: Of devices, whatever they run.
        crosses_partitions: Of partitions, of the same replica; else of replicas, of the same partition.
        crosses_both: Of replicas, with all partitions of each.
    """

    is_global: bool
    crosses_partitions: bool = False
    crosses_both: bool = False

    @classmethod
    def of(cls, *, on_channel: bool, is_global: bool, both: bool) -> GroupKind:
        """Those of a collective; `both` of one whose ids on a channel are of replicas with all their partitions."""
        return cls(is_global, on_channel and not both, on_channel and both and not is_global)


def read_dense(text: str, fail: Fail) -> list[list[int]]:
    """The rows of a `dense<…> : tensor<AxBxi64>`; ids of -1, which fill up rows, are left out."""
    body = text.replace(" ", "")
    match = re.fullmatch(r"dense<(.*)>:tensor<(\d{1,6})x(\d{1,6})xi64>", body)
    if match is None:
        fail(f"expects dense<…> : tensor<AxBxi64>, but got {text[:60]!r}")
    rows, columns = int(match[2]), int(match[3])
    if rows * columns > _MOST:
        fail(f"expects at most {_MOST} ids, but got {rows * columns}")
    if re.fullmatch(r"-?\d{1,9}", match[1]):
        values = [int(match[1])] * (rows * columns)
    elif re.fullmatch(r'"0x([0-9a-fA-F]{16})*"', match[1]):
        # What is longer than a hundred elements is printed as bytes.
        values = np.frombuffer(bytes.fromhex(match[1][3:-1]), "<i8").tolist()
    else:
        found = read_lists(match[1].replace("[", "{").replace("]", "}"), fail) if match[1] else []
        if any(len(row) != columns for row in found):
            fail(f"expects rows of {columns} ids, but got {text[:60]!r}")
        values = [number for row in found for number in row]
    if len(values) != rows * columns:
        fail(f"expects {rows * columns} ids, but got {len(values)}")
    return [
        [number for number in values[row * columns : (row + 1) * columns] if number != -1]
        for row in range(rows)
    ]


def read_lists(text: str, fail: Fail) -> list[list[int]]:
    """The lists of `{{0,1},{2,3}}`."""
    body = text.replace(" ", "")
    entry = r"\{(?:-?\d{1,6}(?:,-?\d{1,6})*)?\}"
    if body == "{}":
        return []
    if not re.fullmatch(rf"\{{{entry}(?:,{entry})*\}}", body):
        fail(f"expects lists of ids in braces, but got {text[:60]!r}")
    return [
        [int(number) for number in re.findall(r"-?\d+", inside)]
        for inside in re.findall(r"\{([^{}]*)\}", body)
    ]


def read_iota(text: str, fail: Fail) -> Ids:
    """The lists of `[2,4]<=[4,2]T(1,0)`, or of `mesh['x'=2,'y'=4] {'y'}`, in which the axes named make up a group."""
    body = text.replace(" ", "")
    match = re.fullmatch(r"\[(\d{1,6}),(\d{1,6})\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", body)
    if match:
        shape = [int(match[1]), int(match[2])]
        sizes = _numbers(match[3], text, fail)
        order = _numbers(match[4], text, fail) if match[4] else list(range(len(sizes)))
        if sorted(order) != list(range(len(sizes))) or math.prod(sizes) != math.prod(shape):
            fail(f"expects groups that fit their devices, but got {text[:60]!r}")
        return _grid(sizes, text, fail).transpose(order).reshape(shape).tolist()  # type: ignore[no-any-return]
    axis = r"'(\w+)'(?::\((\d{1,6})\)(\d{1,6}))?"
    match = re.fullmatch(r"mesh\[((?:'\w+'=\d{1,6},?)+)\]\{([^{}]*)\}", body)
    if match is None or re.sub(axis, "", match[2]).strip(","):
        fail(f"expects groups of devices, but got {text[:60]!r}")
    mesh = make_mesh(re.findall(r"'(\w+)'=(\d+)", match[1]), None, text, fail)
    axes = [
        mesh.axis(name, before, size, fail) for name, before, size in re.findall(axis, match[2])
    ]
    check_apart(axes, text, fail)
    return mesh.groups(axes)


def read_axes(text: str, meshes: Mapping[str, NamedMesh], fail: Fail) -> Ids:
    """The lists of StableHLO's `replica_group_mesh_axes`, of a mesh that stands there or in the module."""
    match = re.fullmatch(
        r"#stablehlo\.replica_group_mesh_axes < mesh = (?:@([\w$.-]+)|#stablehlo\.mesh < (.*) >)"
        r" , axes = \[ ?(.*?) ?\] >",
        text,
    )
    axis = r'#stablehlo\.axis_ref < name = "([^"]+)"(?: , sub_axis_info = \( (\d{1,6}) \) (\d{1,6}))? >'
    if match is None or re.sub(axis, "", match[3]).strip(" ,"):
        fail(f"expects a mesh and axes of it, but got {text[:60]!r}")
    if match[1] is not None and match[1] not in meshes:
        fail(f"expects a mesh of the module, but got @{match[1][:60]}")
    mesh = meshes[match[1]] if match[1] is not None else _read_mesh(match[2], fail)
    axes = [
        mesh.axis(name, before, size, fail) for name, before, size in re.findall(axis, match[3])
    ]
    check_apart(axes, text, fail)
    return mesh.groups(axes)


def _read_mesh(text: str, fail: Fail) -> NamedMesh:
    axis = r'#stablehlo\.mesh_axis < name = "([^"]+)" , size = (\d{1,6}) >'
    match = re.fullmatch(
        rf"axes = \[ ({axis}(?: , {axis})*) \](?: , device_ids = dense < (.*) > : tensor < (\d+)xi64 >)?",
        text,
    )
    if match is None:
        fail(f"expects axes with sizes, but got {text[:60]!r}")
    ids = None
    if match[6] is not None:
        row = match[6] if match[6].startswith('"') else f"[{match[6]}]"
        (ids,) = read_dense(f"dense<{row}> : tensor<1x{match[7]}xi64>", fail)
    return make_mesh(re.findall(axis, match[1]), ids, text, fail)


def _numbers(text: str, whole: str, fail: Fail) -> list[int]:
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text):
        fail(f"expects numbers with commas between, but got {whole[:60]!r}")
    return [int(number) for number in text.split(",")]


def _grid(
    sizes: Sequence[int], text: str, fail: Fail
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if len(sizes) > 32 or not 1 <= math.prod(sizes) <= _MOST:
        fail(f"expects at most {_MOST} devices, but got {text[:60]!r}")
    return np.arange(math.prod(sizes), dtype=np.int64).reshape(tuple(sizes))


def _show(ids: Ids) -> str:
    text = str([list(group) for group in ids])
    return text if len(text) <= 60 else f"{text[:57]}..."
