"""Reads a plan as steps, for export: its transfers in order, as moves of cells.

What a format of other systems cannot say is an error that names the operation: transfers that cut more than the first
dimension, that move as many rows as are counted at run time, or that are no part of what the plan claims to be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from syncopate.errors import PlanError
from syncopate.importers.items import Place
from syncopate.importers.proof import prove
from syncopate.importers.steps import Cells, Collective, Memory, Move, Steps
from syncopate.ir import name_file, new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops

__all__ = ["read_plan"]

_PASSES = (
    "chunk.plan(chunk-expand-spmd,chunk-decompose-collectives,chunk-check-plan,chunk-check-claims)"
)
_COLLECTIVES = {
    ops.AllGatherOp: Collective.ALL_GATHER,
    ops.AllReduceOp: Collective.ALL_REDUCE,
    ops.ReduceScatterOp: Collective.REDUCE_SCATTER,
    ops.AllToAllOp: Collective.ALL_TO_ALL,
}


def read_plan(text: str, file: str = "-") -> Steps:
    """The steps of a plan that is, or claims to be, one collective of all its ranks.

    Args:
        text: A module with one plan; its collectives are decomposed as its strategy says.
        file: What errors call it where an operation does not say where it comes from.

    Raises:
        PlanError: The module is malformed, or the plan is something that steps cannot say.
    """
    with name_file(file):
        module = parse(text, new_context())
        run_pipeline(module, _PASSES)
    plans = [op for op in module.body.operations if isinstance(op, ops.PlanOp)]
    if len(plans) != 1:
        raise PlanError(f"{file}: expects one chunk.plan, but got {len(plans)}")
    return _PlanReader(plans[0], file).read()


@dataclass(frozen=True)
class _Rows:
    """Rows of a rank's instance of a buffer."""

    rank: int
    buffer: str
    begin: int
    count: int


@dataclass(frozen=True)
class _Transfer:
    src: _Rows
    dst: _Rows
    reduction: str | None
    pull: bool
    engine: bool
    place: Place

    @property
    def is_local_copy(self) -> bool:
        return self.src.rank == self.dst.rank and self.reduction is None


class _PlanReader:
    def __init__(self, plan: ir.OpView, file: str) -> None:
        self.plan, self.file = plan, file
        self.body = list(plan.regions[0].blocks[0].operations)
        self.ranks = math.prod(plan.attributes["mesh"])
        self.shapes: dict[str, tuple[int, ...]] = {}

    def read(self) -> Steps:
        for op in self.body:
            if isinstance(op, ops.BufferOp):
                shape = tuple(op.results[0].type.shape)
                self.shapes[op.attributes["name"].value] = shape
        claim, collective = self._find_claim()
        names = [_name(value) for value in collective.operands if _is_buffer(value)]
        kind = _COLLECTIVES[type(collective)]
        given = {
            (op.attributes["rank"].value, _name(op.operands[0])): self._read_region(op)
            for op in self.body
            if isinstance(op, ops.InputOp | ops.ProduceOp)
        }
        transfers = list(self._read_transfers(claim))
        aliases = self._find_copies(given, transfers, names[0], kind)
        transfers = [transfer for transfer in transfers if transfer not in aliases]
        unit = self._find_unit(transfers, names, kind)
        rows = self.shapes[names[0]][0]
        per_rank = 1 if kind is Collective.ALL_REDUCE else self.ranks
        reductions = {transfer.reduction for transfer in transfers} - {None}
        if len(reductions) > 1:
            self._place(claim).fail(
                f"expects transfers to reduce alike, but got {' and '.join(sorted(map(str, reductions)))}"
            )
        steps = Steps(
            name=self.plan.attributes["sym_name"].value,
            collective=kind,
            ranks=self.ranks,
            chunks=rows // unit // per_rank,
            in_place=kind is not Collective.ALL_TO_ALL,
            reduction=next(iter(reductions), "sum") or "sum",
            place=self._place(claim),
        )
        memories = self._place_buffers(steps, transfers, names, unit)
        for transfer in transfers:
            src, dst = (
                Cells(
                    end.rank,
                    memories[end.buffer][0],
                    memories[end.buffer][1] + end.begin // unit,
                    end.count // unit,
                )
                for end in (transfer.src, transfer.dst)
            )
            reduces = transfer.reduction is not None
            steps.moves.append(
                Move(src, dst, reduces, transfer.place, transfer.pull, transfer.engine)
            )
        prove(steps)
        return steps

    def _find_claim(self) -> tuple[ir.OpView, ir.OpView]:
        claims = [op for op in self.body if isinstance(op, ops.ClaimOp)]
        if len(claims) != 1:
            self._place(self.plan).fail(
                f"expects a plan with one collective, or one chunk.claim, but got {len(claims)}"
            )
        (collective,) = claims[0].regions[0].blocks[0].operations
        if type(collective) not in _COLLECTIVES:
            self._place(claims[0]).fail(
                f"expects no {collective.operation.name}, which no format here has"
            )
        if list(collective.attributes["group"]) != list(range(self.ranks)):
            self._place(claims[0]).fail("expects a collective of all ranks, in their order")
        if collective.attributes["axis"].value != 0:
            self._place(claims[0]).fail("expects a collective along axis 0")
        return claims[0], collective

    def _read_transfers(self, claim: ir.OpView) -> Iterator[_Transfer]:
        before = _find_ancestors(claim)
        for op in self.body:
            if isinstance(op, ops.KernelOp | ops.ScheduleOp) or not any(
                isinstance(result.type, ops.TokenType) for result in op.results
            ):
                continue
            if isinstance(op, ops.ProduceOp):
                if "reduction" in op.attributes:
                    self._place(op).fail("expects no tiles that add to what transfers bring")
                continue
            if isinstance(op, ops.JoinOp):
                continue
            if not isinstance(op, ops.PutOp | ops.GetOp):
                self._place(op).fail(f"expects puts and gets, but got {op.operation.name}")
            if op.results[0] not in before:
                self._place(op).fail(
                    "expects transfers that the claim comes after, but got another one"
                )
            yield from self._read_transfer(op)

    def _read_transfer(self, op: Any) -> Iterator[_Transfer]:
        attributes, place = op.attributes, self._place(op)
        if "count_at" in attributes:
            place.fail(
                "expects transfers of a fixed size, but got one of as many rows as are counted at run time"
            )
        src, dst = _name(op.operands[0]), _name(op.operands[1])
        sizes = list(attributes["sizes"])
        begins = list(attributes["src_offsets"]), list(attributes["dst_offsets"])
        for name, offsets in zip((src, dst), begins, strict=True):
            if any(offsets[1:]) or tuple(sizes[1:]) != self.shapes[name][1:]:
                place.fail(
                    f"expects transfers of whole rows, but got offsets {offsets} sizes {sizes} of {name}"
                )
        reduction = _spelled(attributes, "reduction")
        parts = attributes["parts"].value if "parts" in attributes else 1
        step = list(attributes["step"]) if parts > 1 else [0]
        for part in range(parts):
            yield _Transfer(
                _Rows(attributes["src_rank"].value, src, begins[0][0] + part * step[0], sizes[0]),
                _Rows(attributes["dst_rank"].value, dst, begins[1][0], sizes[0]),
                reduction,
                isinstance(op, ops.GetOp),
                _spelled(attributes, "realization") == "copy_engine",
                place,
            )

    def _find_copies(
        self,
        given: dict[tuple[int, str], _Rows],
        transfers: Sequence[_Transfer],
        name: str,
        kind: Collective,
    ) -> set[_Transfer]:
        """The copies with which each rank brings along, or computes, elsewhere what the collective begins with.

        Formats do not know these: what they begin with is in its place.
        """
        copies: set[_Transfer] = set()
        for rank in range(self.ranks):
            if (rank, name) in given:
                continue
            mine = [
                transfer
                for transfer in transfers
                if transfer.dst.buffer == name
                and transfer.is_local_copy
                and (rank, transfer.src.buffer) in given
                and transfer.src.rank == rank
            ]
            rows = self.shapes[name][0]
            block = rows // self.ranks if kind is Collective.ALL_GATHER else rows
            if sum(transfer.dst.count for transfer in mine) != block:
                self._place(self.plan).fail(
                    f"expects rank {rank} to bring its part of {name} along, or to compute it"
                )
            copies.update(mine)
        return copies

    def _find_unit(
        self, transfers: Sequence[_Transfer], names: Sequence[str], kind: Collective
    ) -> int:
        """Rows of a cell: the most that every transfer begins and ends with."""
        rows = self.shapes[names[0]][0]
        block, rest = divmod(rows, 1 if kind is Collective.ALL_REDUCE else self.ranks)
        if rest:
            self._place(self.plan).fail(
                f"expects {names[0]} to have a multiple of {self.ranks} rows, but got {rows}"
            )
        unit = block
        for transfer in transfers:
            for end in (transfer.src, transfer.dst):
                if self.shapes[end.buffer][1:] != self.shapes[names[0]][1:]:
                    transfer.place.fail(
                        f"expects buffers with rows like those of {names[0]}, but got {end.buffer}"
                    )
                unit = math.gcd(unit, end.begin, end.count)
        return unit

    def _place_buffers(
        self, steps: Steps, transfers: Sequence[_Transfer], names: Sequence[str], unit: int
    ) -> dict[str, tuple[Memory, int]]:
        """By buffer, where its first cell is: what the collective is not about is scratch, one behind the other."""
        ends = (Memory.DATA,) if steps.in_place else (Memory.INPUT, Memory.OUTPUT)
        placed = {name: (memory, 0) for name, memory in zip(names, ends, strict=True)}
        scratch = 0
        for transfer in transfers:
            for end in (transfer.src, transfer.dst):
                if end.buffer not in placed:
                    placed[end.buffer] = Memory.SCRATCH, scratch
                    scratch += -(-self.shapes[end.buffer][0] // unit)
        if scratch:
            steps.scratch[Memory.SCRATCH] = scratch
        return placed

    def _read_region(self, op: Any) -> _Rows:
        return _Rows(
            op.attributes["rank"].value,
            _name(op.operands[0]),
            op.attributes["offsets"][0],
            op.attributes["sizes"][0],
        )

    def _place(self, op: Any) -> Place:
        match = re.search(r'"([^"]+)":(\d+)', str(op.location))
        if not match:
            return Place(self.file, 1)
        return Place(self.file if match[1] == "-" else match[1], int(match[2]))


def _find_ancestors(claim: ir.OpView) -> set[ir.Value]:
    """The tokens that a claim comes after."""
    found: set[ir.Value] = set()
    left = list(claim.operands)
    while left:
        token = left.pop()
        if token not in found:
            found.add(token)
            left += [
                value for value in token.owner.operands if isinstance(value.type, ops.TokenType)
            ]
    return found


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ops.BufferType)


def _name(value: ir.Value) -> str:
    name: str = value.owner.attributes["name"].value
    return name


def _spelled(attributes: Any, name: str) -> str | None:
    if name not in attributes:
        return None
    return str(attributes[name]).removeprefix(f"#chunk<{name} ").removesuffix(">")
