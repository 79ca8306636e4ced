"""What a plan means: its transfers carried out one after another, on numpy arrays.

Everything that is made of a plan, by passes, tables, kernels or runtime, has to leave the same bytes in the buffers.
A collective does here what its definition says (docs/reference/chunk-dialect.md), whatever it is decomposed into;
realizations, splits and tokens make no difference, since the order in which a plan is written is a legal one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncopate.errors import PlanError, SyncopateError
from syncopate.ir import new_context, parse
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.affine import to_function
from syncopate.plan.plan_file import only_plan

__all__ = ["Contents", "Memory", "interpret_plan", "place_input"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Contents:
    """What one rank's instance of a buffer holds.

    Attributes:
        data: Its elements; zeros where nothing is defined.
        defined: Where it holds an input, or what a transfer brought of one.
    """

    data: Array
    defined: Array

    def copy(self, box: tuple[slice, ...], source: Contents, source_box: tuple[slice, ...]) -> None:
        """Overwrites a box with a box of the same sizes, which does not overlap it."""
        self.data[box] = source.data[source_box]
        self.defined[box] = source.defined[source_box]


Memory = Mapping[str, Sequence[Contents]]
"""By name of a buffer, the contents of every rank."""


def interpret_plan(
    plan: str | ir.Module | ir.OpView, inputs: Mapping[str, Sequence[Array]]
) -> dict[str, list[Contents]]:
    """Carries a plan out; kernels and schedules in it make no difference.

    Args:
        plan: A module with one plan, as text or parsed, or the `chunk.plan` operation itself, at any stage.
        inputs: For each buffer that has inputs, or regions that tiles compute, one array for each rank: what it
            provides, as `place_input` takes it.

    Returns:
        By name, for each rank, what the buffer holds at the end.

    Raises:
        PlanError: There is not one plan, or a buffer of it has a dimension that is not known.
        SyncopateError: Inputs do not fit the plan, or it holds an operation that has no meaning here.
    """
    module = parse(plan, new_context()) if isinstance(plan, str) else plan
    op = module if isinstance(module, ops.PlanOp) else only_plan(module)
    body = op.regions[0].blocks[0].operations
    run = _Run(math.prod(op.attributes["mesh"]), inputs, _storage_types(body, inputs))
    for step in body:
        meaning = _MEANINGS.get(type(step))
        if meaning is None:
            raise SyncopateError(
                f"plan: the interpreter does not know {step.operation.name}; it knows "
                f"{', '.join(sorted(kind.OPERATION_NAME for kind in _MEANINGS))}"
            )
        meaning(run, step)
    return run.memory


def place_input(given: Array, regions: Sequence[tuple[slice, ...]]) -> Iterator[Array]:
    """What a rank provides for each of its input regions of a buffer.

    Args:
        given: For a rank with one region, its elements; for one with several, an array of the shape of the buffer.
        regions: The rank's input regions.
    """
    for region in regions:
        yield given if len(regions) == 1 else given[region]


def _storage_types(
    body: Iterable[ir.OpView], inputs: Mapping[str, Sequence[Array]]
) -> dict[str, np.dtype[Any]]:
    """By element type, in what arrays of it are given, which buffers without inputs have to hold as well."""
    types: dict[str, np.dtype[Any]] = {}
    for op in body:
        if isinstance(op, ops.BufferOp):
            for array in inputs.get(op.attributes["name"].value, ()):
                types.setdefault(str(op.results[0].type.element_type), np.asarray(array).dtype)
    return types


class _Run:
    """The buffers of all ranks while a plan is carried out."""

    def __init__(
        self,
        world_size: int,
        inputs: Mapping[str, Sequence[Array]],
        types: Mapping[str, np.dtype[Any]],
    ) -> None:
        self.world_size, self.inputs, self.types = world_size, inputs, types
        self.memory: dict[str, list[Contents]] = {}
        self.initial: dict[tuple[str, int], Array] = {}

    def contents(self, value: ir.Value, rank: int) -> Contents:
        """A rank's instance of a buffer."""
        return self.memory[_name(value)][rank]

    def computed(self, value: ir.Value, rank: int, box: tuple[slice, ...]) -> Array:
        """What tiles of a rank compute of a buffer at a box."""
        return self.initial[_name(value), rank][box]


Meaning = Callable[[_Run, Any], None]
_MEANINGS: dict[type[Any], Meaning] = {}


def _means(*kinds: type[Any]) -> Callable[[Meaning], Meaning]:
    """Registers what operations do."""

    def register(meaning: Meaning) -> Meaning:
        _MEANINGS.update(dict.fromkeys(kinds, meaning))
        return meaning

    return register


def _name(buffer: ir.Value) -> str:
    name: str = buffer.owner.attributes["name"].value
    return name


def _box(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))


@_means(ops.BufferOp)
def _buffer(run: _Run, op: Any) -> None:
    name, shape = op.attributes["name"].value, tuple(op.results[0].type.shape)
    if None in shape:
        raise PlanError(f"buffer {name}: expects known dimensions, but got {op.results[0].type}")
    inputs = run.inputs.get(name, ())
    dtype = run.types.get(str(op.results[0].type.element_type), np.dtype(np.float32))
    run.memory[name] = [
        Contents(np.zeros(shape, dtype), np.zeros(shape, np.bool_)) for _ in range(run.world_size)
    ]
    # Inputs and what tiles compute are there from the beginning, wherever in the plan they are named.
    regions: list[list[tuple[slice, ...]]] = [[] for _ in range(run.world_size)]
    for use in op.results[0].uses:
        if isinstance(use.owner, (ops.InputOp, ops.ProduceOp)):
            attributes = use.owner.attributes
            regions[attributes["rank"].value].append(
                _box(attributes["offsets"], attributes["sizes"])
            )
    for rank, boxes in enumerate(regions):
        if boxes and len(inputs) != run.world_size:
            raise SyncopateError(
                f"inputs: {name}: expects one array for each of {run.world_size} ranks, but got {len(inputs)}"
            )
        contents = run.memory[name][rank]
        for box, part in zip(boxes, place_input(inputs[rank], boxes) if boxes else (), strict=True):
            sizes = contents.data[box].shape
            if np.shape(part) != sizes:
                raise SyncopateError(
                    f"inputs: {name} of rank {rank}: expects shape {list(sizes)}, but got {list(np.shape(part))}"
                )
            contents.data[box] = part
            contents.defined[box] = True
        run.initial[name, rank] = contents.data.copy()


@_means(ops.ProduceOp)
def _produce(run: _Run, op: Any) -> None:
    """What tiles overwrite is placed with its buffer; here they add to what transfers have brought meanwhile."""
    combine = _reduction(op)
    if combine is None:
        return
    rank = op.attributes["rank"].value
    box = _box(op.attributes["offsets"], op.attributes["sizes"])
    target = run.contents(op.operands[0], rank)
    target.data[box] = combine(target.data[box], run.computed(op.operands[0], rank, box))


@_means(
    ops.InputOp,
    ops.OutputOp,
    ops.JoinOp,
    ops.ClaimOp,
    ops.KernelOp,
    ops.ScheduleOp,
)
def _nothing(run: _Run, op: Any) -> None:
    """What ranks bring along is placed with its buffer; the others move nothing."""


_REDUCTIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def _reduction(op: Any) -> Callable[[Array, Array], Array] | None:
    """How a transfer or collective combines what meets, if it does."""
    if "reduction" not in op.attributes:
        return None
    return _REDUCTIONS[str(op.attributes["reduction"]).removeprefix("#chunk<reduction ")[:-1]]


@_means(ops.PutOp, ops.GetOp)
def _transfer(run: _Run, op: Any) -> None:
    attributes, (src, dst, *_) = op.attributes, op.operands
    sizes = list(attributes["sizes"])
    if "count_at" in attributes:
        index, past = attributes["count_at"]
        executor = "src_rank" if isinstance(op, ops.PutOp) else "dst_rank"
        count = int(run.contents(op.counts, attributes[executor].value).data[index])
        sizes[0] = min(max(count - past, 0), sizes[0])
    source = run.contents(src, attributes["src_rank"].value)
    target = run.contents(dst, attributes["dst_rank"].value)
    offsets = list(attributes["src_offsets"])
    parts = attributes["parts"].value if "parts" in attributes else 1
    step = list(attributes["step"]) if parts > 1 else [0] * len(offsets)
    behind = attributes["behind"].value if "behind" in attributes else 0
    source_boxes = [
        _box([a + part * b for a, b in zip(offsets, step, strict=True)], sizes)
        for part in range(parts)
    ]
    target_box = _box(attributes["dst_offsets"], sizes)
    _move(source, source_boxes, target, target_box, _reduction(op), behind)


def _move(
    source: Contents,
    source_boxes: Sequence[tuple[slice, ...]],
    target: Contents,
    target_box: tuple[slice, ...],
    combine: Callable[[Array, Array], Array] | None,
    behind: int = 0,
) -> None:
    """Copies a box, or combines some with what is there, which stands behind so many of them; rounds once."""
    if combine is None:
        (source_box,) = source_boxes
        target.copy(target_box, source, source_box)
        return
    summands = [source.data[box] for box in source_boxes]
    summands.insert(behind, target.data[target_box])
    if target.data.dtype.kind not in "iub" and target.data.dtype.itemsize < 4:
        summands = [summand.astype(np.float32) for summand in summands]
    target.data[target_box] = functools.reduce(combine, summands)
    for box in source_boxes:
        target.defined[target_box] &= source.defined[box]


@_means(ops.SpmdOp)
def _spmd(run: _Run, op: Any) -> None:
    group = list(op.attributes["group"])
    for step in op.regions[0].blocks[0].operations:
        attributes, (src, dst, *_) = step.attributes, step.operands
        (peer,) = _values(attributes["peer"])
        places = _values(attributes["src_offsets"]), _values(attributes["dst_offsets"])
        pull = str(attributes["direction"]) == "#chunk<direction pull>"
        for member, rank in enumerate(group):
            ends = (group[peer([member])], rank) if pull else (rank, group[peer([member])])
            begins = [[offset([member]) for offset in offsets] for offsets in places]
            # What lies outside of a buffer is left out.
            sizes = [
                max(0, min(size, *(extent - begin for extent, begin in limits)))
                for size, *limits in zip(
                    attributes["sizes"],
                    zip(src.type.shape, begins[0], strict=True),
                    zip(dst.type.shape, begins[1], strict=True),
                    strict=True,
                )
            ]
            source, target = run.contents(src, ends[0]), run.contents(dst, ends[1])
            boxes = [_box(begin, sizes) for begin in begins]
            _move(source, boxes[:1], target, boxes[1], _reduction(step))


def _values(attribute: Any) -> list[Callable[[Sequence[int]], int]]:
    """The results of an affine map as functions of its dimensions."""
    return [to_function(expr) for expr in attribute.value.results]


def _blocks(op: Any, buffer: ir.Value) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Members of a collective, each with its block of a buffer."""
    group, axis = op.attributes["group"], op.attributes["axis"].value
    extent = buffer.type.shape[axis]
    rows = -(-extent // len(group))
    for index, owner in enumerate(group):
        begin, end = (min(edge * rows, extent) for edge in (index, index + 1))
        yield owner, (slice(None),) * axis + (slice(begin, end),)


@_means(ops.AllGatherOp)
def _all_gather(run: _Run, op: Any) -> None:
    buffer = op.operands[0]
    for owner, block in _blocks(op, buffer):
        for member in op.attributes["group"]:
            if member != owner:
                run.contents(buffer, member).copy(block, run.contents(buffer, owner), block)


@_means(ops.BroadcastOp)
def _broadcast(run: _Run, op: Any) -> None:
    root = op.attributes["root"].value
    for member in op.attributes["group"]:
        if member != root:
            source = run.contents(op.operands[0], root)
            run.contents(op.operands[0], member).copy((), source, ())


@_means(ops.AllToAllOp)
def _all_to_all(run: _Run, op: Any) -> None:
    (src, dst, *_), axis = op.operands, op.attributes["axis"].value
    for sender, slot in _blocks(op, dst):
        for receiver, block in _blocks(op, src):
            rows = block[axis].stop - block[axis].start
            place = (*slot[:axis], slice(slot[axis].start, slot[axis].start + rows))
            run.contents(dst, receiver).copy(place, run.contents(src, sender), block)


@_means(ops.ReduceScatterOp, ops.AllReduceOp)
def _reduce(run: _Run, op: Any) -> None:
    combine = _reduction(op)
    assert combine is not None
    members = [run.contents(op.operands[0], rank) for rank in op.attributes["group"]]
    data = functools.reduce(combine, (member.data for member in members))
    defined = np.logical_and.reduce([member.defined for member in members])
    for member, (_, block) in zip(members, _blocks(op, op.operands[0]), strict=True):
        if isinstance(op, ops.ReduceScatterOp):
            kept = np.zeros_like(defined)
            kept[block] = defined[block]
            member.data[block], member.defined[...] = data[block], kept
        else:
            member.data[...], member.defined[...] = data, defined
