"""What operations of StableHLO mean: products, collectives, and what passes a tensor on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from syncopate.importers.documents.items import shorten
from syncopate.importers.programs.tensors import (
    Dot,
    Node,
    Operation,
    Transfer,
    TransferKind,
    refuse_unplanned,
)
from syncopate.importers.xla.groups import Grouping, GroupKind, Ids, read_axes, read_dense
from syncopate.importers.xla.read_mlir import LABEL, walk

__all__ = ["is_collective", "read_dot", "read_grouping", "read_nodes"]

_PASSES: Final = {"stablehlo.convert", "stablehlo.optimization_barrier"}
_KINDS: Final = {f"stablehlo.{kind.value}": kind for kind in TransferKind}
_REDUCTIONS: Final = {
    "stablehlo.add": "sum",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}


def read_grouping(module: Sequence[Operation]) -> Grouping:
    """How many replicas and partitions a module says that it runs on."""
    for operation in module:
        if operation.name in ("module", "builtin.module"):
            return Grouping(
                _read_count(operation, "mhlo.num_replicas"),
                _read_count(operation, "mhlo.num_partitions"),
            )
    return Grouping(None, None)


def read_nodes(operations: Sequence[Operation], grouping: Grouping) -> list[Node]:
    """The nodes of a function, those inside its loops and computations included.

    Raises:
        PlanError: A collective or product is malformed, or says what no plan can.
    """
    nodes: list[Node] = []
    for operation in walk(operations):
        if operation.name in _KINDS:
            nodes += _read_transfers(operation, _KINDS[operation.name], grouping)
            continue
        refuse_unplanned(operation)
        meaning = read_dot(operation)
        passes = operation.name in _PASSES and len(operation.results) == len(operation.operands)
        for number, result in enumerate(operation.results):
            type_ = operation.types[number] if number < len(operation.types) else None
            operands = operation.operands[number : number + 1] if passes else operation.operands
            takes = operation.operand_types
            nodes.append(Node(operation.place, result, operands, type_, takes, meaning, passes))
    return nodes


def is_collective(operation: Operation) -> bool:
    """Whether it moves something between ranks."""
    return operation.name in _KINDS


def read_dot(operation: Operation) -> Dot | None:
    """The product that an operation is."""
    if operation.name == "stablehlo.dot":
        return Dot((1,), (0,))
    if operation.name != "stablehlo.dot_general":
        return None
    dims: dict[str, list[tuple[int, ...]]] = {"contracting": [(), ()], "batching": [(), ()]}
    generic = operation.fields.get("dot_dimension_numbers")
    for kind, found in dims.items():
        if generic is not None:
            for number, side in enumerate(("lhs", "rhs")):
                match = re.search(rf"{side}_{kind}_dimensions = \[ ([\d , ]*)\]", generic)
                found[number] = _to_dims(operation, match[1]) if match else ()
        elif f"{kind}_dims" in operation.fields:
            match = re.fullmatch(
                r"\[([\d , ]*)\] x \[([\d , ]*)\]", operation.fields[f"{kind}_dims"]
            )
            if match is None:
                operation.bad(f"{kind}_dims", "two lists of dimensions")
            found[:] = _to_dims(operation, match[1]), _to_dims(operation, match[2])
    return Dot(*dims["contracting"], *dims["batching"])


def _read_transfers(operation: Operation, kind: TransferKind, grouping: Grouping) -> Iterator[Node]:
    """One node for each tensor that a collective moves."""
    if len(operation.operands) != len(operation.results):
        operation.fail(
            f"expects as many results as operands, but got {len(operation.results)} and {len(operation.operands)}"
        )
    meaning = _READ[kind](operation, grouping)
    for number, result in enumerate(operation.results):
        yield Node(
            operation.place,
            result,
            operation.operands[number : number + 1],
            operation.tensor(number),
            operation.operand_types[number : number + 1],
            meaning,
        )


def _read_gather(operation: Operation, grouping: Grouping) -> Transfer:
    axis = _read_dim(operation, "all_gather_dim")
    return Transfer(TransferKind.ALL_GATHER, _read_groups(operation, grouping), axis)


def _read_reduce(operation: Operation, grouping: Grouping) -> Transfer:
    groups, reduction = _read_groups(operation, grouping), _read_reduction(operation)
    return Transfer(TransferKind.ALL_REDUCE, groups, reduction=reduction)


def _read_scatter(operation: Operation, grouping: Grouping) -> Transfer:
    groups, reduction = _read_groups(operation, grouping), _read_reduction(operation)
    axis = _read_dim(operation, "scatter_dimension")
    return Transfer(TransferKind.REDUCE_SCATTER, groups, axis, reduction=reduction)


def _read_exchange(operation: Operation, grouping: Grouping) -> Transfer:
    groups = _read_groups(operation, grouping, both=False)
    count = _read_number(operation, "split_count")
    if count != len(groups[0]):
        operation.fail(
            f"expects split_count to be {len(groups[0])}, a group's size, but got {count}"
        )
    axes = _read_dim(operation, "split_dimension"), _read_dim(operation, "concat_dimension")
    return Transfer(TransferKind.ALL_TO_ALL, groups, *axes)


def _read_permute(operation: Operation, grouping: Grouping) -> Transfer:
    pairs = read_dense(operation.text("source_target_pairs"), operation.fail)
    return Transfer(TransferKind.PERMUTE, grouping.permute(pairs, operation.fail))


def _read_broadcast(operation: Operation, grouping: Grouping) -> Transfer:
    return Transfer(TransferKind.BROADCAST, _read_groups(operation, grouping, both=False))


_READ: Final[dict[TransferKind, Callable[[Operation, Grouping], Transfer]]] = {
    TransferKind.ALL_GATHER: _read_gather,
    TransferKind.ALL_REDUCE: _read_reduce,
    TransferKind.REDUCE_SCATTER: _read_scatter,
    TransferKind.ALL_TO_ALL: _read_exchange,
    TransferKind.PERMUTE: _read_permute,
    TransferKind.BROADCAST: _read_broadcast,
}


def _read_groups(
    operation: Operation, grouping: Grouping, *, both: bool = True
) -> tuple[tuple[int, ...], ...]:
    """Groups of ranks; `both` if those on a channel are of replicas with all partitions of each."""
    text = operation.text("replica_groups")
    if text.startswith("#stablehlo.replica_group_mesh_axes"):
        ids: Ids = read_axes(text, grouping.meshes, operation.fail)
    else:
        ids = read_dense(text, operation.fail)
    on_channel = (
        re.search(r"handle = 0*[1-9]", operation.fields.get("channel_handle", "")) is not None
    )
    is_global = operation.fields.get("use_global_device_ids", "false") in ("unit", "true")
    if is_global and not on_channel:
        operation.fail("expects a channel_handle beside use_global_device_ids")
    kind = GroupKind.of(on_channel=on_channel, is_global=is_global, both=both)
    return grouping.expand(ids, kind, operation.fail)


def _read_reduction(operation: Operation) -> str:
    inside = [inner for region in operation.regions for inner in region]
    names = [
        inner.name for inner in inside if inner.name != LABEL and not inner.name.endswith("return")
    ]
    if len(names) != 1 or names[0] not in _REDUCTIONS:
        operation.fail(
            f"expects its computation to be one of {', '.join(_REDUCTIONS)}, but got {', '.join(names)[:60] or 'none'}"
        )
    return _REDUCTIONS[names[0]]


def _read_dim(operation: Operation, name: str) -> int:
    dim, dims = _read_number(operation, name), len(operation.tensor().shape)
    if dim >= dims:
        operation.fail(f"expects {name} to be in [0, {dims}), but got {dim}")
    return dim


def _read_number(operation: Operation, name: str) -> int:
    match = re.fullmatch(r"(\d{1,6})(?: : i64)?", operation.text(name))
    if match is None:
        operation.bad(name, "an integer")
    return int(match[1])


def _read_count(operation: Operation, name: str) -> int | None:
    """The number that a module says, if it does."""
    if name not in operation.fields:
        return None
    match = re.fullmatch(r"([1-9]\d{0,3}) : i32", operation.fields[name])
    if match is None:
        operation.bad(name, "a positive integer of i32, at most 9999")
    return int(match[1])


def _to_dims(operation: Operation, text: str) -> tuple[int, ...]:
    words = re.findall(r"\d+", text)
    if any(len(word) > 3 for word in words):
        operation.fail(f"expects numbers of dimensions, but got {shorten(text)}")
    return tuple(map(int, words))
