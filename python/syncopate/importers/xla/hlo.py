"""What operations of HLO mean: the same as in StableHLO, in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from syncopate.errors import PlanError
from syncopate.importers.layouts.layout import gspmd_layout
from syncopate.importers.programs.shardings import ELEMENTWISE, Placed
from syncopate.importers.programs.tensors import (
    Dot,
    Node,
    Operation,
    Tensor,
    Transfer,
    TransferKind,
    refuse_unplanned,
)
from syncopate.importers.xla.groups import Grouping, GroupKind, read_iota, read_lists
from syncopate.importers.xla.read_hlo import HloModule

__all__ = ["is_whole", "place_nodes", "read_grouping", "read_nodes"]

_KINDS: Final = {kind.value.replace("_", "-"): kind for kind in TransferKind}
_PASSES: Final = {"convert", "copy", "opt-barrier"}
_MANUAL: Final = "{manual}"
_REDUCTIONS: Final = {"add": "sum", "maximum": "max", "minimum": "min"}


def read_grouping(module: HloModule) -> Grouping:
    """How many replicas and partitions a module says that it runs on; those of one are not printed."""
    counts = []
    for name in ("replica_count", "num_partitions"):
        text = module.fields.get(name)
        if text is not None and not re.fullmatch(r"[1-9]\d{0,3}", text):
            module.place.fail(
                f"HloModule: expects {name} to be a positive integer, at most 9999, but got {text[:40]!r}"
            )
        counts.append(None if text is None else int(text))
    return Grouping(counts[0], counts[1])


def read_nodes(
    module: HloModule, operations: Sequence[Operation], grouping: Grouping
) -> list[Node]:
    """The nodes of a computation.

    Raises:
        PlanError: A collective or product is malformed, or says what no plan can.
    """
    types = {operation.results[0]: operation.types for operation in operations}
    return [node for operation in operations for node in _read(module, operation, types, grouping)]


def is_whole(operations: Sequence[Operation]) -> bool:
    """Whether a computation speaks of whole tensors: the partitioner leaves shardings on parameters alone."""
    return any(
        operation.name != "parameter" and operation.fields.get("sharding", _MANUAL) != _MANUAL
        for operation in operations
    )


def place_nodes(
    module: HloModule, operations: Sequence[Operation], grouping: Grouping
) -> list[Placed]:
    """The nodes of a computation without collectives, with what shardings say of them.

    Raises:
        PlanError: A sharding is malformed, or does not fit its value.
    """
    ranks = grouping.ranks([], Operation("HloModule", module.place, (), (), {}, ()).fail)
    types = {operation.results[0]: operation.types for operation in operations}
    placed = []
    for operation in operations:
        nodes = list(_read(module, operation, types, grouping))
        text = operation.fields.get("sharding", "")
        texts = [text] * len(nodes)
        if operation.name == "tuple":
            texts = re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", text[1:-1])
            texts += [""] * (len(nodes) - len(texts))
        elementwise = operation.name.replace("-", "_") in ELEMENTWISE or operation.name in (
            "tuple",
            "get-tuple-element",
        )
        target = operation.fields.get("custom_call_target")
        moves = operation.name == "custom-call" and target == '"Sharding"'
        for node, said in zip(nodes, texts, strict=False):
            layout = None
            # What is manual is a part already, of which collectives speak.
            if said not in ("", _MANUAL) and node.type is not None and node.type.shape:
                try:
                    layout = gspmd_layout(said, node.type.shape, ranks)
                except PlanError as error:
                    operation.fail(str(error))
            placed.append(Placed(node, layout, moves=moves, elementwise=elementwise))
    return placed


def _read(
    module: HloModule,
    operation: Operation,
    types: Mapping[str, tuple[Tensor | None, ...]],
    grouping: Grouping,
) -> Iterator[Node]:
    name = operation.results[0]
    takes = [
        types[value][0] if len(types.get(value, ())) == 1 else None for value in operation.operands
    ]
    kind = _KINDS.get(operation.name.removesuffix("-start"))

    if operation.name == "tuple":
        for number, operand in enumerate(operation.operands):
            type_ = operation.types[number] if number < len(operation.types) else None
            named = f"{name}#{number}"
            yield Node(operation.place, named, (operand,), type_, takes[number:], passes=True)
        return
    if kind is None:
        refuse_unplanned(operation)
        meaning = _read_dot(operation) if operation.name == "dot" else None
        operands, passes = operation.operands, operation.name in _PASSES
        if operation.name.endswith("-done"):
            passes = True
            for number, type_ in enumerate(operation.types if len(operation.types) > 1 else ()):
                given = tuple(f"{operand}#{number}" for operand in operands)
                yield Node(operation.place, f"{name}#{number}", given, type_, passes=True)
        if operation.name == "get-tuple-element":
            if len(operands) != 1:
                operation.fail(f"expects one operand, but got {len(operands)}")
            operands, passes = (f"{operands[0]}#{operation.text('index')}",), True
        type_ = operation.types[0] if len(operation.types) == 1 else None
        yield Node(operation.place, name, operands, type_, takes, meaning, passes)
        return
    gives = _result_types(operation)
    if len(gives) != len(operation.operands):
        operation.fail(
            f"expects as many results as operands, but got {len(gives)} and {len(operation.operands)}"
        )
    result_type = gives[0] if gives else None
    if result_type is None:
        operation.fail("expects the result to be a tensor of known sizes")
    transfer = _read_transfer(module, operation, kind, grouping, result_type)
    for number, (operand, type_) in enumerate(zip(operation.operands, gives, strict=True)):
        result = name if len(gives) == 1 else f"{name}#{number}"
        yield Node(operation.place, result, (operand,), type_, takes[number : number + 1], transfer)


def _result_types(operation: Operation) -> tuple[Tensor | None, ...]:
    """Types of results; what starts a collective may give its operands before them, and contexts behind."""
    count = len(operation.operands)
    if operation.name.endswith("-start") and len(operation.types) > count:
        return operation.types[count : 2 * count]
    return operation.types


def _read_dot(operation: Operation) -> Dot:
    return Dot(
        *(
            _read_dims(operation, f"{side}_{kind}_dims")
            for kind in ("contracting", "batch")
            for side in ("lhs", "rhs")
        )
    )


def _read_transfer(
    module: HloModule,
    operation: Operation,
    kind: TransferKind,
    grouping: Grouping,
    result: Tensor,
) -> Transfer:
    if kind is TransferKind.PERMUTE:
        pairs = read_lists(operation.text("source_target_pairs"), operation.fail)
        return Transfer(kind, grouping.permute(pairs, operation.fail))
    sums = kind in (TransferKind.ALL_REDUCE, TransferKind.REDUCE_SCATTER)
    groups = _read_groups(operation, grouping, both=sums or kind is TransferKind.ALL_GATHER)
    axis = 0
    if kind not in (TransferKind.ALL_REDUCE, TransferKind.BROADCAST):
        if kind is TransferKind.ALL_TO_ALL and "dimensions" not in operation.fields:
            operation.fail("expects dimensions, not an operand for each block")
        dims = _read_dims(operation, "dimensions")
        if len(dims) != 1 or dims[0] >= len(result.shape):
            operation.bad("dimensions", f"one in [0, {len(result.shape)})")
        axis = dims[0]
    reduction = _read_reduction(module, operation) if sums else "sum"
    return Transfer(kind, groups, axis, axis, reduction)


def _read_groups(
    operation: Operation, grouping: Grouping, *, both: bool
) -> tuple[tuple[int, ...], ...]:
    text = operation.text("replica_groups")
    read = read_lists if text.startswith("{") else read_iota
    kind = GroupKind.of(
        on_channel="channel_id" in operation.fields,
        is_global=operation.fields.get("use_global_device_ids") == "true",
        both=both,
    )
    return grouping.expand(read(text, operation.fail), kind, operation.fail)


def _read_reduction(module: HloModule, operation: Operation) -> str:
    name = operation.text("to_apply").removeprefix("%")
    inside = [inner.name for inner in module.computations.get(name, ())]
    found = [word for word in inside if word not in ("parameter", "convert")]
    if len(found) != 1 or found[0] not in _REDUCTIONS:
        got = ", ".join(found) or name
        operation.fail(
            f"expects to_apply to be one of {', '.join(_REDUCTIONS)}, but got {got[:60]}"
        )
    return _REDUCTIONS[found[0]]


def _read_dims(operation: Operation, name: str) -> tuple[int, ...]:
    text = operation.fields.get(name, "{}")
    if not re.fullmatch(r"\{(\d{1,3}(,\d{1,3})*)?\}", text):
        operation.bad(name, "dimensions in braces")
    return tuple(map(int, re.findall(r"\d+", text)))
