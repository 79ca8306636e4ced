"""Collectives of XLA as layouts: what ranks have before, and what they are to have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncopate.dtypes import DTYPES
from syncopate.importers.imported import Gemm
from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.programs.neighbours import Neighbours
from syncopate.importers.programs.tensors import Node, Tensor, Transfer, TransferKind

__all__ = ["find_exchanges"]


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
        if len(members) < 2:
            node.fail("expects several ranks, but got one")
        self._check(operand, result)
        boxes = _BOXES[transfer.kind](transfer, operand.shape, transfer.axis, transfer.concat)
        blocks = None
        if transfer.kind is TransferKind.ALL_TO_ALL and transfer.axis == transfer.concat:
            blocks = transfer.axis, transfer.groups
        found = Exchange(transfer.kind.value, node.place, *boxes, operand.dtype, blocks=blocks)
        return found.beside(self.gemm)

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
