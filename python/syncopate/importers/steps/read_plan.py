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

from syncopate.importers.documents.items import Place
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)
from syncopate.importers.steps.proof import prove
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.plan_file import decompose_plan, only_plan

__all__ = ["read_plan"]

_COLLECTIVES = {
    ops.AllGatherOp: Collective.ALL_GATHER,
    ops.AllReduceOp: Collective.ALL_REDUCE,
    ops.ReduceScatterOp: Collective.REDUCE_SCATTER,
    ops.AllToAllOp: Collective.ALL_TO_ALL,
    ops.BroadcastOp: Collective.BROADCAST,
}


def read_plan(
    text: str, file: str = "-", *, collective: Collective | None = None, result: str = "output"
) -> CollectiveSteps:
    """The steps of a plan that is, or claims to be, one collective of all its ranks, or is said to be.

    Args:
        text: A module with one plan; its collectives are decomposed as its strategy says.
        file: What errors call it where an operation does not say where it comes from.
        collective: What a plan is that does not claim anything.
        result: The buffer that it then leaves the result in.

    Raises:
        PlanError: The module is malformed, or the plan is something that steps cannot say.
    """
    module = decompose_plan(text, file=file)
    return _PlanReader(only_plan(module, file), file).read(collective, result)


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


@dataclass(frozen=True)
class _About:
    """What a plan is: which collective, from which buffer to which, by which transfers, if not by all, and whose."""

    place: Place
    kind: Collective
    given: str
    taken: str
    tokens: set[ir.Value] | None
    root: int = 0

    @property
    def in_place(self) -> bool:
        return self.given == self.taken


class _PlanReader:
    def __init__(self, plan: ir.OpView, file: str) -> None:
        self.plan, self.file = plan, file
        self.body = list(plan.regions[0].blocks[0].operations)
        self.ranks = math.prod(plan.attributes["mesh"])
        self.shapes: dict[str, tuple[int, ...]] = {}

    def read(self, said: Collective | None, result: str) -> CollectiveSteps:
        for op in self.body:
            if isinstance(op, ops.BufferOp):
                shape = tuple(op.results[0].type.shape)
                self.shapes[op.attributes["name"].value] = shape
        given = {
            (op.attributes["rank"].value, _name(op.operands[0]))
            for op in self.body
            if isinstance(op, ops.InputOp | ops.ProduceOp)
        }
        about = self._find_claim(said, {name for _, name in given}, result)
        block = self._find_block(about)
        transfers = list(self._read_transfers(about.tokens))
        aliases = self._find_copies(given, transfers, about)
        transfers = [transfer for transfer in transfers if transfer not in aliases]
        unit = self._find_unit(transfers, about.given, block)
        reductions = {transfer.reduction for transfer in transfers} - {None}
        if len(reductions) > 1:
            about.place.fail(
                f"expects transfers to reduce alike, but got {' and '.join(sorted(map(str, reductions)))}"
            )
        steps = CollectiveSteps(
            name=self.plan.attributes["sym_name"].value,
            collective=about.kind,
            ranks=self.ranks,
            chunks=block // unit,
            in_place=about.in_place,
            reduction=next(iter(reductions), "sum") or "sum",
            place=about.place,
            root=about.root,
        )
        memories = self._place_buffers(steps, transfers, about, unit)
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

    def _find_claim(self, said: Collective | None, given: set[str], result: str) -> _About:
        claims = [op for op in self.body if isinstance(op, ops.ClaimOp)]
        if not claims and said is not None:
            if len(given) != 1 or result not in self.shapes:
                self._place(self.plan).fail(
                    f"expects one buffer of what ranks begin with, but got {len(given)}, and a buffer {result} of what "
                    f"they come to, among {', '.join(self.shapes)}"
                )
            return _About(self._place(self.plan), said, next(iter(given)), result, None)
        if len(claims) != 1:
            self._place(self.plan).fail(
                f"expects a plan with one collective, or one chunk.claim, but got {len(claims)}"
            )
        place = self._place(claims[0])
        (collective,) = claims[0].regions[0].blocks[0].operations
        if list(collective.attributes["group"]) != list(range(self.ranks)):
            place.fail("expects a collective of all ranks, in their order")
        kind = _COLLECTIVES[type(collective)]
        if said is not None and said is not kind:
            place.fail(f"expects {said.value}, as collective says, but got {kind.value}")
        root = collective.attributes["root"].value if kind is Collective.BROADCAST else 0
        if kind is not Collective.BROADCAST and collective.attributes["axis"].value != 0:
            place.fail("expects a collective along axis 0")
        if "rows" in collective.attributes:
            place.fail("expects an all_to_all of blocks, but this one says what goes where by rows")
        names = [_name(value) for value in collective.operands if _is_buffer(value)]
        return _About(place, kind, names[0], names[-1], _find_ancestors(claims[0]), root)

    def _find_block(self, about: _About) -> int:
        """Rows of a block; the buffers of the collective have to have as many, or those of all blocks."""
        rows = max(self.shapes[name][0] for name in (about.given, about.taken))
        whole = about.kind in (Collective.ALL_REDUCE, Collective.BROADCAST)
        block, rest = divmod(rows, 1 if whole else self.ranks)
        if rest:
            about.place.fail(
                f"expects {about.given} to have a multiple of {self.ranks} rows, but got {rows}"
            )
        ends = {
            Collective.ALL_GATHER: (block, rows),
            Collective.REDUCE_SCATTER: (rows, block),
        }.get(about.kind, (rows, rows))
        found = tuple(self.shapes[name][0] for name in (about.given, about.taken))
        if not about.in_place and found != ends:
            about.place.fail(
                f"expects {about.given} and {about.taken} to have {ends[0]} and {ends[1]} rows, as an "
                f"{about.kind.value} has, but got {found[0]} and {found[1]}"
            )
        return block

    def _read_transfers(self, tokens: set[ir.Value] | None) -> Iterator[_Transfer]:
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
            if tokens is not None and op.results[0] not in tokens:
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
        self, given: set[tuple[int, str]], transfers: Sequence[_Transfer], about: _About
    ) -> set[_Transfer]:
        """The copies with which each rank brings along, or computes, elsewhere what the collective begins with.

        Formats do not know these: what they begin with is in its place.
        """
        copies: set[_Transfer] = set()
        for rank in range(self.ranks):
            if (rank, about.given) in given:
                continue
            if about.kind is Collective.BROADCAST and rank != about.root:
                continue
            mine = [
                transfer
                for transfer in transfers
                if transfer.dst.buffer == about.given
                and transfer.is_local_copy
                and (rank, transfer.src.buffer) in given
                and transfer.src.rank == rank
            ]
            part = self.shapes[about.given][0]
            if about.in_place and about.kind is Collective.ALL_GATHER:
                part //= self.ranks
            if sum(transfer.dst.count for transfer in mine) != part:
                about.place.fail(
                    f"expects rank {rank} to bring its part of {about.given} along, or to compute it"
                )
            copies.update(mine)
        return copies

    def _find_unit(self, transfers: Sequence[_Transfer], name: str, unit: int) -> int:
        """Rows of a cell: the most that blocks and all transfers begin and end with."""
        for transfer in transfers:
            for end in (transfer.src, transfer.dst):
                if self.shapes[end.buffer][1:] != self.shapes[name][1:]:
                    transfer.place.fail(
                        f"expects buffers with rows like those of {name}, but got {end.buffer}"
                    )
                unit = math.gcd(unit, end.begin, end.count)
        return unit

    def _place_buffers(
        self, steps: CollectiveSteps, transfers: Sequence[_Transfer], about: _About, unit: int
    ) -> dict[str, tuple[Memory, int]]:
        """By buffer, where its first cell is: what the collective is not about is scratch, one behind the other."""
        placed = {about.given: (Memory.INPUT, 0), about.taken: (Memory.OUTPUT, 0)}
        if about.in_place:
            placed = {about.given: (Memory.DATA, 0)}
        scratch = 0
        for transfer in transfers:
            for end in (transfer.src, transfer.dst):
                if end.buffer not in placed:
                    placed[end.buffer] = Memory.SCRATCH, scratch
                    scratch += -(-self.shapes[end.buffer][0] // unit)
        if scratch:
            steps.scratch[Memory.SCRATCH] = scratch
        return placed

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
