"""The transfers of a plan, as the passes leave them, for pictures that need no kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.plan_file import decompose_plan, only_plan

__all__ = ["PlanTransfer", "PlanTransfers", "read_transfers"]


@dataclass(frozen=True)
class PlanTransfer:
    """A put or get of a plan.

    Attributes:
        number: Its place in the plan.
        kind: put or get.
        src_rank: Rank that is read.
        dst_rank: Rank that is written.
        source: What is read, such as "a[0:128, 0:64]".
        target: What is written.
        nbytes: Bytes that it moves, at most.
        reduction: sum, max or min, if it combines.
        realization: How it is carried out, if the plan says so.
        after: Numbers of transfers that it comes after.
        after_tiles: Whether it comes after tiles, too.
        place: File and line that say so.
    """

    number: int
    kind: str
    src_rank: int
    dst_rank: int
    source: str
    target: str
    nbytes: int
    reduction: str | None
    realization: str | None
    after: tuple[int, ...]
    after_tiles: bool
    place: str

    @property
    def executor(self) -> int:
        """The rank that carries it out."""
        return self.src_rank if self.kind == "put" else self.dst_rank

    def __str__(self) -> str:
        verb = f"{self.kind} {self.number}"
        if self.reduction:
            verb += f", {self.reduction}"
        into = "" if self.target == self.source else f" to {self.target}"
        return f"{verb}: {self.source} of rank {self.src_rank}{into} at rank {self.dst_rank}, {self.nbytes} bytes"


@dataclass(frozen=True)
class PlanTransfers:
    """A plan's transfers.

    Attributes:
        name: Of the plan.
        ranks: Number of ranks.
        transfers: In the order of the plan.
        calls: Collectives that stay as they are, to be calls of a library.
        has_kernel: Whether the plan has a kernel, so that it can be scheduled.
    """

    name: str
    ranks: int
    transfers: tuple[PlanTransfer, ...]
    calls: tuple[str, ...]
    has_kernel: bool

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def read_transfers(text: str, options: str = "", *, file: str = "") -> PlanTransfers:
    """Decomposes and splits a plan as `syncopate-plan-pipeline` does, and reads its transfers.

    Args:
        text: A module with one plan.
        options: Of the pipeline.
        file: Where the text comes from, for errors.

    Raises:
        PlanError: The module is malformed, or a pass refuses it.
        SyncopateError: An option is wrong.
    """
    module = decompose_plan(text, options, file=file)
    plan = only_plan(module, file)
    body = list(plan.regions[0].blocks[0].operations)
    transfers = tuple(_read(body, file))
    calls = [
        op.operation.name.removeprefix("chunk.")
        for op in body
        if "group" in op.attributes and not isinstance(op, ops.SpmdOp)
    ]
    return PlanTransfers(
        plan.attributes["sym_name"].value,
        math.prod(plan.attributes["mesh"]),
        transfers,
        tuple(calls),
        any(isinstance(op, ops.KernelOp) for op in body),
    )


def _read(body: list[ir.OpView], file: str) -> Iterator[PlanTransfer]:
    # By token, the transfers that it stands for, and whether it stands for tiles.
    meanings: dict[ir.Value, tuple[set[int], bool]] = {}
    count = 0
    for op in body:
        before = [value for value in op.operands if isinstance(value.type, ops.TokenType)]
        numbers = {number for value in before for number in meanings[value][0]}
        tiles = any(meanings[value][1] for value in before) or isinstance(op, ops.ProduceOp)
        if isinstance(op, ops.PutOp | ops.GetOp):
            yield _describe(op, count, numbers, tiles, file)
            numbers, tiles, count = {count}, False, count + 1
        for result in op.results:
            if isinstance(result.type, ops.TokenType):
                meanings[result] = numbers, tiles


def _describe(op: Any, number: int, after: set[int], tiles: bool, file: str) -> PlanTransfer:
    about: Mapping[str, Any] = op.attributes
    src, dst = op.operands[0], op.operands[1]
    sizes = list(about["sizes"])
    parts = about["parts"].value if "parts" in about else 1
    source = _region(src, list(about["src_offsets"]), sizes)
    match = re.search(r'"([^"]+)":(\d+)', str(op.location))
    return PlanTransfer(
        number,
        op.operation.name.removeprefix("chunk."),
        about["src_rank"].value,
        about["dst_rank"].value,
        source if parts == 1 else f"{parts} parts from {source} on",
        _region(dst, list(about["dst_offsets"]), sizes),
        -(-math.prod(sizes) * parts * _bits(src.type) // 8),
        _spelled(about, "reduction"),
        _spelled(about, "realization"),
        tuple(sorted(after)),
        tiles,
        f"{file if match[1] == '-' else match[1]}:{match[2]}" if match else "",
    )


def _region(buffer: Any, offsets: list[int], sizes: list[int]) -> str:
    spans = ", ".join(f"{a}:{a + n}" for a, n in zip(offsets, sizes, strict=True))
    return f"{buffer.owner.attributes['name'].value}[{spans}]"


def _bits(kind: Any) -> int:
    found = re.search(r"\d+", str(kind.element_type))
    return int(found[0]) if found else 8


def _spelled(about: Any, name: str) -> str | None:
    if name not in about:
        return None
    return str(about[name]).removeprefix(f"#chunk<{name} ").removesuffix(">")
