"""A plan as people carry it out without fusing: transfers in steps on one stream, pieces of the kernel on another.

All ranks take the steps together. A step has the transfers that can start at the same time, if a piece of the kernel
and a step take one unit of time each: those whose predecessors, and whose tiles at both ends, are done by then. Of what
comes before the kernel, a rank sends one and receives one in a step, so that pieces arrive one after another. So a ring
is as many steps as it has hops, and an all-reduce by pieces sums one while the next is computed.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.model import KernelCost, Machine, predict_gemm_us
from syncopate.plan.plan_file import decompose_plan, only_plan

__all__ = ["Box", "Kernel", "PlainPlan", "Transfer", "cut_kernel", "predict_us", "read_plain_plan"]


@dataclass(frozen=True)
class Box:
    """A region of a buffer of two dimensions."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """As an index of an array."""
        return tuple(itertools.starmap(slice, zip(self.begin, self.end, strict=True)))

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(b - a for a, b in zip(self.begin, self.end, strict=True))

    def meets(self, other: Box) -> bool:
        """Whether the two have an element in common."""
        ends = zip(self.begin, self.end, other.begin, other.end, strict=True)
        return all(max(a, c) < min(b, d) for a, b, c, d in ends)


@dataclass(frozen=True)
class Transfer:
    """A copy, or a sum, of a region of one rank to one of the same sizes at another rank, or the same.

    Attributes:
        after: Places in the plan of the transfers that it comes after.
    """

    src_rank: int
    src: str
    src_box: Box
    dst_rank: int
    dst: str
    dst_box: Box
    sums: bool
    after: frozenset[int]


@dataclass(frozen=True)
class Kernel:
    """A GEMM cut into pieces.

    Attributes:
        buffer: The buffer whose regions the pieces read, or write.
        reads: Whether they read it.
        pieces: These regions; together, all of it.
    """

    buffer: str
    reads: bool
    pieces: tuple[Box, ...]

    def touched(self, transfer: Transfer, rank: int) -> Iterator[int]:
        """Numbers of a rank's pieces that go before a transfer, or read what it brings."""
        ends = [(transfer.dst_rank, transfer.dst, transfer.dst_box)]
        if not self.reads:
            ends.append((transfer.src_rank, transfer.src, transfer.src_box))
        for number, piece in enumerate(self.pieces):
            if any(end[:2] == (rank, self.buffer) and piece.meets(end[2]) for end in ends):
                yield number


@dataclass(frozen=True)
class PlainPlan:
    """Transfers in steps, and pieces in an order for each rank.

    Attributes:
        ranks: Number of ranks.
        buffers: Shapes by name.
        kernel: The GEMM.
        steps: Transfers that are carried out together, step by step.
        orders: By rank, numbers of pieces in the order in which they are computed.
        needed: Of a kernel that writes, by rank and step, how many of its pieces have to be done before that; of one
            that reads, by rank and piece in its order, how many steps.
    """

    ranks: int
    buffers: Mapping[str, tuple[int, ...]]
    kernel: Kernel
    steps: tuple[tuple[Transfer, ...], ...]
    orders: tuple[tuple[int, ...], ...]
    needed: tuple[tuple[int, ...], ...]


def cut_kernel(
    buffer: str, shape: Sequence[int], reads: bool, rows: int, columns: int = 1
) -> Kernel:
    """A GEMM in pieces of so many rows and columns of them, of nearly one size."""
    edges = [
        [extent * part // parts for part in range(parts + 1)]
        for extent, parts in zip(shape, (rows, columns), strict=True)
    ]
    spans = (list(itertools.pairwise(each)) for each in edges)
    pieces = (Box(*map(tuple, zip(*pair, strict=True))) for pair in itertools.product(*spans))
    return Kernel(buffer, reads, tuple(pieces))


def read_plain_plan(text: str, kernel: Kernel, splits: int = 1) -> PlainPlan:
    """The plan of a module with one plan, whose collectives are decomposed as its strategy, or else the default, says.

    Args:
        text: The module.
        kernel: What it feeds, or moves the result of.
        splits: Pieces of each transfer.

    Raises:
        PlanError: The module is malformed, or a pass refuses it.
        SyncopateError: It has something else than puts, gets, and sums.
    """
    module = decompose_plan(text, f"splits={splits}")
    plan = only_plan(module)
    body = list(plan.regions[0].blocks[0].operations)
    ranks = math.prod(plan.attributes["mesh"])
    buffers = {
        op.attributes["name"].value: tuple(op.results[0].type.shape)
        for op in body
        if isinstance(op, ops.BufferOp)
    }
    transfers = list(_read_transfers(body))
    # How far each transfer is from the beginning by transfers alone; pieces that are wanted first are computed first.
    levels: list[int] = []
    for transfer in transfers:
        levels.append(max((levels[number] + 1 for number in transfer.after), default=0))
    if kernel.reads:
        return _gather(ranks, buffers, kernel, transfers, _take_turns(transfers))
    return _scatter(ranks, buffers, kernel, transfers, levels)


def _gather(
    ranks: int,
    buffers: Mapping[str, tuple[int, ...]],
    kernel: Kernel,
    transfers: Sequence[Transfer],
    times: Sequence[int],
) -> PlainPlan:
    """Pieces wait for steps."""
    steps = _group(transfers, times)
    orders, needed = [], []
    for rank in range(ranks):
        ready = [0] * len(kernel.pieces)
        for number, transfer in ((i, each) for i, step in enumerate(steps) for each in step):
            for piece in kernel.touched(transfer, rank):
                ready[piece] = max(ready[piece], number + 1)
        order = sorted(range(len(ready)), key=ready.__getitem__)
        orders.append(tuple(order))
        needed.append(tuple(ready[piece] for piece in order))
    return PlainPlan(ranks, buffers, kernel, steps, tuple(orders), tuple(needed))


def _take_turns(transfers: Sequence[Transfer]) -> list[int]:
    """Times at which transfers begin if a rank sends one, and receives one, at a time."""
    busy: set[tuple[str, int, int]] = set()
    times: list[int] = []
    for transfer in transfers:
        time = max((times[number] + 1 for number in transfer.after), default=0)
        if transfer.src_rank != transfer.dst_rank:
            ends = ("out", transfer.src_rank), ("in", transfer.dst_rank)
            while any((*end, time) in busy for end in ends):
                time += 1
            busy.update((*end, time) for end in ends)
        times.append(time)
    return times


def _scatter(
    ranks: int,
    buffers: Mapping[str, tuple[int, ...]],
    kernel: Kernel,
    transfers: Sequence[Transfer],
    levels: Sequence[int],
) -> PlainPlan:
    """Steps wait for pieces."""
    places, orders = [], []
    for rank in range(ranks):
        first = [len(transfers)] * len(kernel.pieces)
        for transfer, level in zip(transfers, levels, strict=True):
            for piece in kernel.touched(transfer, rank):
                first[piece] = min(first[piece], level)
        order = sorted(range(len(first)), key=first.__getitem__)
        orders.append(tuple(order))
        places.append({piece: place for place, piece in enumerate(order)})
    before = [
        [
            max((places[rank][piece] + 1 for piece in kernel.touched(transfer, rank)), default=0)
            for rank in range(ranks)
        ]
        for transfer in transfers
    ]
    times: list[int] = []
    for transfer, pieces in zip(transfers, before, strict=True):
        times.append(max([*pieces, *(times[number] + 1 for number in transfer.after)]))
    needed = [[0] * len(set(times)) for _ in range(ranks)]
    for time, pieces in zip(times, before, strict=True):
        step = sorted(set(times)).index(time)
        for rank in range(ranks):
            needed[rank][step] = max(needed[rank][step], pieces[rank])
    steps = _group(transfers, times)
    return PlainPlan(ranks, buffers, kernel, steps, tuple(orders), tuple(map(tuple, needed)))


def _group(transfers: Sequence[Transfer], times: Sequence[int]) -> tuple[tuple[Transfer, ...], ...]:
    steps = defaultdict(list)
    for transfer, time in zip(transfers, times, strict=True):
        steps[time].append(transfer)
    return tuple(tuple(steps[time]) for time in sorted(steps))


def _read_transfers(body: Sequence[Any]) -> Iterator[Transfer]:
    # By token, the transfers that it stands for.
    known: dict[ir.Value, frozenset[int]] = {}
    count = 0
    for op in body:
        if isinstance(op, ops.KernelOp | ops.ScheduleOp):
            continue
        tokens = [value for value in op.operands if isinstance(value.type, ops.TokenType)]
        after = frozenset[int]().union(*(known[token] for token in tokens))
        if isinstance(op, ops.PutOp | ops.GetOp):
            (transfer,) = _read_transfer(op, after)
            yield transfer
            after, count = frozenset({count}), count + 1
        elif "group" in op.attributes:
            raise SyncopateError(f"plan: expects puts and gets, but got {op.operation.name}")
        known.update(
            (result, after) for result in op.results if isinstance(result.type, ops.TokenType)
        )


def _read_transfer(op: Any, after: frozenset[int]) -> Iterator[Transfer]:
    about, sizes = op.attributes, list(op.attributes["sizes"])
    if "count_at" in about or ("parts" in about and about["parts"].value > 1):
        raise SyncopateError("plan: expects transfers of one part and of a fixed size")
    reduction = str(about["reduction"]) if "reduction" in about else ""
    if reduction and " sum>" not in reduction:
        raise SyncopateError(f"plan: expects sums, but got {reduction}")
    ends = []
    for number, way in enumerate(("src", "dst")):
        begin = tuple(about[f"{way}_offsets"])
        box = Box(begin, tuple(a + n for a, n in zip(begin, sizes, strict=True)))
        name = op.operands[number].owner.attributes["name"].value
        ends.append((about[f"{way}_rank"].value, name, box))
    yield Transfer(*ends[0], *ends[1], bool(reduction), after)


def predict_us(plan: PlainPlan, cost: KernelCost, config: Any, n: int, machine: Machine) -> float:
    """What the slowest rank would take by the numbers of the cost model, in microseconds.

    Pieces take what the GEMM alone takes for their tiles; steps the time of the busiest link, and of a signal.

    Args:
        plan: The plan, in bf16.
        cost: Of a tile.
        config: How the GEMM is cut into tiles.
        n: Columns of C.
        machine: The machine.
    """
    steps = [
        _busiest(step, plan.ranks) * 2 / (machine.topology.link_gbps * 1e3)
        + machine.latencies.engine_op
        + machine.latencies.flag_remote
        for step in plan.steps
    ]

    def piece_us(box: Box) -> float:
        rows, columns = (b - a for a, b in zip(box.begin, box.end, strict=True))
        width = n if plan.kernel.reads else columns
        return predict_gemm_us(machine, cost, math.prod(config.tiles(rows, width)))

    ends = []
    for order, needed in zip(plan.orders, plan.needed, strict=True):
        pieces = [piece_us(plan.kernel.pieces[piece]) for piece in order]
        first, second = (steps, pieces) if plan.kernel.reads else (pieces, steps)
        done = [0.0, *itertools.accumulate(first)]
        now = 0.0
        for us, count in zip(second, needed, strict=True):
            now = max(now, done[count]) + us
        ends.append(max(now, done[-1]))
    return max(ends)


def _busiest(step: Sequence[Transfer], ranks: int) -> int:
    """Elements on the link that has most of them."""
    loads = [0] * (2 * ranks)
    for transfer in step:
        if transfer.src_rank != transfer.dst_rank:
            loads[transfer.src_rank] += transfer.src_box.elements
            loads[ranks + transfer.dst_rank] += transfer.src_box.elements
    return max(loads)
