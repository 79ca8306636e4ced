"""Collectives of XLA as layouts: what ranks have before, and what they are to have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.importers.beside import Gemm, Neighbours, flatten
from syncopate.importers.emit import Imported
from syncopate.importers.items import Place
from syncopate.importers.layouts import Box, Layout
from syncopate.importers.names import Source
from syncopate.importers.resharding import exchange_blocks, reshard
from syncopate.importers.tensors import Node, Tensor, Transfer, TransferKind

__all__ = ["Exchange", "find_exchanges"]

_MOST_RANKS: Final = 4096


@dataclass(frozen=True)
class Exchange:
    """What moves at one place of a file.

    Attributes:
        name: What it is.
        place: Where the file says so.
        src: What ranks have.
        dst: What they are to have.
        dtype: Element type as MLIR spells it.
        gemm: The product beside it.
        blocks: If not None, the dimension along which block j of a rank's box goes to the j-th rank of its group, and
            these groups; boxes are of one size then.
    """

    name: str
    place: Place
    src: Layout
    dst: Layout
    dtype: str
    gemm: Gemm | None = None
    blocks: tuple[int, tuple[tuple[int, ...], ...]] | None = None

    def build(self, source: Source | None = None, *, kernel: bool = False) -> Imported:
        """The plan.

        Args:
            source: Where what ranks have comes from; by default from tiles if the product beside it computes it.
            kernel: Whether to add a kernel without code, for tools.

        Raises:
            PlanError: There is no plan that does it.
        """
        if source is None:
            tiles = self.gemm is not None and not self.gemm.reads
            source = Source.TILES if tiles else Source.INPUTS
        about: dict[str, Any] = {
            "name": self.name,
            "source": source,
            "kernel": kernel,
            "apart": self.gemm is not None and self.gemm.reads,
            "place": (self.place.file, self.place.line),
        }
        try:
            if self.blocks is not None:
                axis, groups = self.blocks
                imported = exchange_blocks(self.src, axis, groups, self.dtype, **about)
            else:
                imported = reshard(self.src, self.dst, self.dtype, **about)
        except PlanError as error:
            if str(error).startswith(f"{self.place}:"):
                raise
            self.place.fail(f"{self.name}: {error}")
        asked = self.gemm is not None and (source is Source.INPUTS) == self.gemm.reads
        return replace(imported, gemm=self.gemm if asked else None)


def find_exchanges(nodes: Sequence[Node]) -> list[Exchange]:
    """What the collectives of a graph move, each with the product beside it.

    Raises:
        PlanError: A collective does not fit its operand, or says what no plan can.
    """
    neighbours = Neighbours(nodes)
    return [
        _Reading(node, node.meaning, neighbours.find(node)).exchange()
        for node in nodes
        if isinstance(node.meaning, Transfer)
    ]


@dataclass
class _Reading:
    node: Node
    transfer: Transfer
    gemm: Gemm | None

    def exchange(self) -> Exchange:
        node, transfer = self.node, self.transfer
        result, operand = node.type, node.operand_types[0] if node.operand_types else None
        if result is None or operand is None:
            node.fail("expects tensors of known sizes")
        if operand.dtype not in DTYPES:
            node.fail(f"expects elements of {', '.join(DTYPES)}, but got {operand.dtype}")
        if not operand.shape or min(operand.shape) < 1:
            node.fail(f"expects a tensor with elements, but got {list(operand.shape)}")
        members = {rank for group in transfer.groups for rank in group}
        if len(members) > _MOST_RANKS:
            node.fail(f"expects at most {_MOST_RANKS} ranks, but got {len(members)}")
        if len(members) < 2:
            node.fail("expects several ranks, but got one")
        self._check(operand, result)
        shape, axes = self._flatten(operand.shape)
        boxes = _BOXES[transfer.kind](transfer, shape, *axes)
        blocks = None
        if transfer.kind is TransferKind.ALL_TO_ALL and transfer.axis == transfer.concat:
            blocks = axes[0], transfer.groups
        return Exchange(
            transfer.kind.value, node.place, *boxes, operand.dtype, self._with_workload(), blocks
        )

    def _check(self, operand: Tensor, result: Tensor) -> None:
        """The result is what the collective gives."""
        transfer = self.transfer
        width = len(transfer.groups[0])
        shape = list(operand.shape)
        axes = (transfer.axis, transfer.concat)
        if max(axes) >= len(shape):
            self.node.fail(f"expects dimensions in [0, {len(shape)}), but got {max(axes)}")
        if transfer.kind in (TransferKind.REDUCE_SCATTER, TransferKind.ALL_TO_ALL):
            if shape[transfer.axis] % width:
                self.node.fail(
                    f"expects dimension {transfer.axis} to be a multiple of {width}, but got {shape[transfer.axis]}"
                )
            shape[transfer.axis] //= width
        if transfer.kind is TransferKind.ALL_GATHER:
            shape[transfer.axis] *= width
        if transfer.kind is TransferKind.ALL_TO_ALL:
            shape[transfer.concat] *= width
        if (tuple(shape), operand.dtype) != (result.shape, result.dtype):
            self.node.fail(
                f"expects a result of {shape} {operand.dtype}, but got {list(result.shape)} {result.dtype}"
            )

    def _flatten(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and the two axes, of two dimensions if there is a product, which has no others."""
        axes = self.transfer.axis, self.transfer.concat
        if self.gemm is None:
            return shape, axes
        flat = flatten(shape, axes)
        if flat is None:
            self.gemm = None
            return shape, axes
        rows, moved = flat
        return (math.prod(shape[:rows]), shape[rows]), moved

    def _with_workload(self) -> Gemm | None:
        """The product, and the workload that it makes with a collective of all ranks along rows."""
        from syncopate.workloads import GemmKind, GemmWorkload

        gemm, transfer = self.gemm, self.transfer
        kind = (
            None
            if gemm is None
            else {
                (TransferKind.ALL_GATHER, True): GemmKind.AG_GEMM,
                (TransferKind.REDUCE_SCATTER, False): GemmKind.GEMM_RS,
                (TransferKind.ALL_REDUCE, False): GemmKind.GEMM_AR,
                (TransferKind.ALL_TO_ALL, True): GemmKind.A2A_GEMM,
                (TransferKind.ALL_TO_ALL, False): GemmKind.GEMM_A2A,
            }.get((transfer.kind, gemm.reads))
        )
        ordered = transfer.groups == (tuple(range(len(transfer.groups[0]))),)
        operand = self.node.operand_types[0]
        assert operand is not None
        rows = [axis < len(operand.shape) - 1 for axis in (transfer.axis, transfer.concat)]
        plain = transfer.reduction == "sum" and (
            all(rows) or transfer.kind is TransferKind.ALL_REDUCE
        )
        if gemm is None or kind is None or not ordered or not plain or gemm.transpose_a:
            return gemm
        world = len(transfer.groups[0])
        return replace(
            gemm,
            workload=GemmWorkload(
                kind, gemm.m, gemm.n, gemm.k, world, gemm.dtype, transpose_b=gemm.transpose_b
            ),
        )


def _place(shape: tuple[int, ...], axis: int, number: int, rows: int) -> Box:
    """A box of a tensor in which those of ranks stand one behind the other along an axis."""
    offsets = [0] * len(shape)
    offsets[axis] = number * rows
    return Box(tuple(offsets), (*shape[:axis], rows, *shape[axis + 1 :]))


def _layout(text: str, boxes: dict[int, Box], **parts: object) -> Layout:
    return Layout(text, tuple(boxes[rank] for rank in sorted(boxes)), **parts)  # type: ignore[arg-type]


def _gather(transfer: Transfer, shape: tuple[int, ...], axis: int, _: int) -> tuple[Layout, Layout]:
    src, dst = {}, {}
    rows = shape[axis]
    for number, group in enumerate(transfer.groups):
        for position, rank in enumerate(group):
            src[rank] = _place(shape, axis, number * len(group) + position, rows)
            dst[rank] = _place(shape, axis, number, rows * len(group))
    return _layout("operand", src), _layout("result", dst)


def _reduce(transfer: Transfer, shape: tuple[int, ...], axis: int, _: int) -> tuple[Layout, Layout]:
    src, dst = {}, {}
    scatters = transfer.kind is TransferKind.REDUCE_SCATTER
    for number, group in enumerate(transfer.groups):
        for position, rank in enumerate(group):
            src[rank] = dst[rank] = _place(shape, axis, number, shape[axis])
            if scatters:
                dst[rank] = src[rank].cut(axis, position, len(group))
    parts = transfer.groups if len(transfer.groups[0]) > 1 else ()
    return (
        _layout("operand", src, parts=parts, reduction=transfer.reduction),
        _layout("result", dst),
    )


def _exchange(
    transfer: Transfer, shape: tuple[int, ...], split: int, concat: int
) -> tuple[Layout, Layout]:
    src, dst = {}, {}
    for number, group in enumerate(transfer.groups):
        for position, rank in enumerate(group):
            src[rank] = _place(shape, concat, number * len(group) + position, shape[concat])
            whole = _place(shape, concat, number, shape[concat] * len(group))
            dst[rank] = whole.cut(split, position, len(group))
    return _layout("operand", src), _layout("result", dst)


def _permute(transfer: Transfer, shape: tuple[int, ...], *_: int) -> tuple[Layout, Layout]:
    boxes = [_place(shape, 0, rank, shape[0]) for rank in range(len(transfer.groups))]
    src = dict(enumerate(boxes))
    return _layout("operand", src), _layout(
        "result", {target: boxes[source] for source, target in transfer.groups}
    )


def _broadcast(transfer: Transfer, shape: tuple[int, ...], *_: int) -> tuple[Layout, Layout]:
    src, dst = {}, {}
    for number, group in enumerate(transfer.groups):
        for rank in group:
            dst[rank] = _place(shape, 0, number, shape[0])
            src[rank] = (
                dst[rank] if rank == group[0] else replace(dst[rank], sizes=(0,) * len(shape))
            )
    return _layout("operand", src), _layout("result", dst)


_BOXES: Final = {
    TransferKind.ALL_GATHER: _gather,
    TransferKind.ALL_REDUCE: _reduce,
    TransferKind.REDUCE_SCATTER: _reduce,
    TransferKind.ALL_TO_ALL: _exchange,
    TransferKind.PERMUTE: _permute,
    TransferKind.BROADCAST: _broadcast,
}
