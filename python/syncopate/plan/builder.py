"""The builder of plans, which emits chunk IR."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from syncopate.errors import PlanError
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.arguments import to_axis, to_enum, to_integer, to_integers, to_string
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.collectives import Collectives
from syncopate.plan.spmd import SpmdPlan
from syncopate.plan.tiles import TilesPlan

__all__ = ["Plan"]


class Plan(Collectives, SpmdPlan, TilesPlan):
    """A communication plan of all ranks, in the form of a `chunk.plan` operation.

    Transfers of one rank start in the order in which they are added. Every method checks its arguments by the rules
    of the dialect at once, so an error is raised at the line that is wrong.
    """

    def buffer(
        self, name: str, shape: Sequence[int], dtype: str, *, shard_axis: int | None = None
    ) -> Buffer:
        """Adds a symmetric buffer.

        Args:
            name: Its name, and the keyword by which a call of the program takes a rank's part of it.
            shape: Shape of every rank's instance, in elements.
            dtype: Element type as MLIR spells it: bf16, f16, f32, f8E4M3FN, i8, …
            shard_axis: If given, each rank holds one block along this axis when a call starts: as many equal blocks as
                ranks, each of ceil(size / ranks) rows, the last ones shorter or missing. Otherwise `input` says what
                ranks hold.

        Raises:
            PlanError: The name is taken, or the shape or type is none of a buffer.
        """
        to_string("name", name)
        sizes = to_integers("shape", shape)
        if shard_axis is not None:
            to_axis(name, shard_axis, len(sizes))
        with self._here():
            op = ops.BufferOp(_buffer_type(sizes, to_string("dtype", dtype)), name)
            self._checked(op)
        buffer = Buffer(name, sizes, dtype, op.result, self)
        self.buffers[name] = buffer
        if shard_axis is not None:
            for rank, block in enumerate(shard(buffer, shard_axis, self.world_size)):
                if block is not None:
                    self.input(block, rank=rank)
        return buffer

    def input(self, chunk: Chunk, *, rank: int) -> None:
        """Says that a rank holds a chunk when a call starts.

        Raises:
            PlanError: The rank is none of the plan, or the chunk lies outside the buffer.
        """
        self._region(ops.InputOp, chunk, rank)
        self.inputs.add(chunk.buffer.name)

    def produce(
        self,
        chunk: Chunk,
        *,
        rank: int,
        reduction: str | None = None,
        after: Iterable[Token] = (),
    ) -> Token:
        """Says that the tiles of the kernel that the plan is compiled with compute a chunk of a rank.

        Transfers that read the chunk, or write to it, come after the token; each starts as soon as the tiles are done
        whose part of the chunk it touches.

        Args:
            chunk: The chunk.
            rank: The rank.
            reduction: sum, if tiles add to what is there instead of overwriting it.
            after: Transfers that bring what they add to; each tile waits for those that bring its part.

        Raises:
            PlanError: A rule of `chunk.produce` is broken.
        """
        tokens = self._own_tokens(after)
        buffer = self._own_chunk("chunk", chunk).buffer
        number = to_integer("rank", rank)
        with self._here():
            op = ops.ProduceOp(
                buffer.value,
                list(chunk.offsets),
                list(chunk.sizes),
                number,
                tokens,
                reduction=to_enum("reduction", reduction, ops.Reduction),
            )
            return self._checked_token(op)

    def output(self, chunk: Chunk, *, rank: int) -> None:
        """Says that a call gives back a chunk of a rank.

        Raises:
            PlanError: The rank is none of the plan, or the chunk lies outside the buffer.
        """
        self._region(ops.OutputOp, chunk, rank)

    def _region(
        self, kind: type[ops.InputOp] | type[ops.OutputOp], chunk: Chunk, rank: int
    ) -> None:
        buffer = self._own_chunk("chunk", chunk).buffer
        number = to_integer("rank", rank)
        with self._here():
            self._checked(kind(buffer.value, list(chunk.offsets), list(chunk.sizes), number))

    def join(self, tokens: Iterable[Token]) -> Token:
        """One token for several.

        Raises:
            PlanError: There is none, or one is of another plan.
        """
        values = self._own_tokens(tokens)
        with self._here():
            return self._checked_token(ops.JoinOp(values))

    def put(
        self,
        src: Chunk | Sequence[Chunk],
        dst: Chunk,
        *,
        src_rank: int,
        dst_rank: int,
        reduction: str | None = None,
        unordered: bool = False,
        behind: int = 0,
        rows: Chunk | None = None,
        past: int = 0,
        after: Iterable[Token] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a transfer that the source's rank carries out.

        Args:
            src: What is read, on rank `src_rank`; for a reduction of several parts at once, these, all of the same
                sizes in one buffer, each as far from the one before.
            dst: Where it goes, on rank `dst_rank`; of the same sizes.
            src_rank: Rank that holds the source.
            dst_rank: Rank that receives.
            reduction: sum, max or min, if what arrives is combined with what is there instead of overwriting it; in
                float32 if elements are smaller floating-point numbers, and rounded once.
            unordered: Whether a sum is made by atomic additions, so that others may add to the same elements without
                coming before or after it. Results may then differ from call to call.
            behind: How many parts are combined before what is there: the order says how a sum is rounded.
            rows: Element of a buffer of i32, an input of the rank that carries the transfer out, from which it reads at
                every call how many rows to move; `src` and `dst` are then the most that it can move.
            past: How many of those rows come before the chunk's first one: others move them.
            after: Transfers that have to be complete before.
            realization: How it is carried out, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.put` is broken; the message names it.
        """
        ranks = src_rank, dst_rank
        how = _Combination(reduction, unordered, behind, self._count(rows, past))
        return self._transfer(ops.PutOp, src, dst, ranks, how, after, realization)

    def get(
        self,
        src: Chunk | Sequence[Chunk],
        dst: Chunk,
        *,
        src_rank: int,
        dst_rank: int,
        reduction: str | None = None,
        unordered: bool = False,
        behind: int = 0,
        rows: Chunk | None = None,
        past: int = 0,
        after: Iterable[Token] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a transfer that the destination's rank carries out; otherwise like `put`."""
        ranks = src_rank, dst_rank
        how = _Combination(reduction, unordered, behind, self._count(rows, past))
        return self._transfer(ops.GetOp, src, dst, ranks, how, after, realization)

    @contextmanager
    def claim(self, after: Iterable[Token]) -> Iterator[None]:
        """Says that transfers amount to the collective that is added inside; the compiler proves it.

            with plan.claim(after=tokens):
                plan.all_gather(a)

        Args:
            after: The transfers.

        Raises:
            PlanError: Something else than one collective is added inside, or a rule of `chunk.claim` is broken.
        """
        tokens = self._own_tokens(after)
        if self._inner is not None:
            raise PlanError("claim: expects to stand in a plan, but stands in another claim")
        with self._here():
            op = ops.ClaimOp(tokens)
            self._inner = op.regions[0].blocks.append()
            try:
                yield
            except BaseException:
                self._inner = None
                op.erase()
                raise
            self._inner = None
            self._checked(op)

    def _transfer(
        self,
        kind: type[ops.PutOp] | type[ops.GetOp],
        src: Chunk | Sequence[Chunk],
        dst: Chunk,
        ranks: tuple[int, int],
        how: _Combination,
        after: Iterable[Token],
        realization: str | None,
    ) -> Token:
        self.expect_transfers(1)
        given: Sequence[Any] = src if isinstance(src, list | tuple) else [src]
        parts = [self._own_chunk("src", part) for part in given]
        step = _find_step(parts)
        self._own_chunk("dst", dst)
        numbers = to_integer("src_rank", ranks[0]), to_integer("dst_rank", ranks[1])
        tokens = self._own_tokens(after)
        first = parts[0]
        if first.sizes != dst.sizes:
            raise PlanError(
                f"dst: expects sizes {list(first.sizes)}, those of src, but got {list(dst.sizes)}"
            )
        with self._here():
            op = kind(
                first.buffer.value,
                list(first.offsets),
                dst.buffer.value,
                list(dst.offsets),
                list(first.sizes),
                *numbers,
                tokens,
                reduction=to_enum("reduction", how.reduction, ops.Reduction),
                unordered=bool(how.unordered),
                parts=len(parts) if step else None,
                step=step,
                behind=to_integer("behind", how.behind) or None,
                counts=None if how.count is None else how.count[0],
                count_at=None if how.count is None else how.count[1],
                realization=to_enum("realization", realization, ops.Realization),
            )
            token = self._checked_token(op, realization)
        self._transfers += 1
        self.adds_parts |= step is not None and realization is None
        return token

    def _count(self, rows: Chunk | None, past: int) -> tuple[ir.Value, list[int]] | None:
        before = to_integer("past", past)
        if rows is None:
            if before:
                raise PlanError(f"past: expects rows to be given too, but got {before} alone")
            return None
        self._own_chunk("rows", rows)
        if rows.sizes != (1,):
            raise PlanError(
                f"rows: expects an element of a buffer of one dimension, such as counts[3], but got sizes "
                f"{list(rows.sizes)}"
            )
        return rows.buffer.value, [rows.offsets[0], before]


@dataclass(frozen=True)
class _Combination:
    """How what arrives is combined with what is there, if it is."""

    reduction: str | None
    unordered: bool
    behind: int
    # Where the number of rows is read, and how many come before.
    count: tuple[ir.Value, list[int]] | None = None


def _find_step(parts: Sequence[Chunk]) -> list[int] | None:
    """By dimension, how far each part is from the one before; None for a single one."""
    if not parts:
        raise PlanError("src: expects a chunk, or several, but got none")
    first, *others = parts
    steps = []
    for before, part in itertools.pairwise(parts):
        if part.buffer is not first.buffer or part.sizes != first.sizes:
            raise PlanError(
                f"src: expects parts of buffer {first.buffer.name} of sizes {list(first.sizes)}, but got one of "
                f"{part.buffer.name} of sizes {list(part.sizes)}"
            )
        steps.append([b - a for a, b in zip(before.offsets, part.offsets, strict=True)])
    for step in steps[1:]:
        if step != steps[0]:
            raise PlanError(
                f"src: expects each part to be as far from the one before, {steps[0]}, but got {step}"
            )
    return steps[0] if others else None


def shard(buffer: Buffer, axis: int, parts: int) -> list[Chunk | None]:
    """The blocks of a buffer along an axis, each of ceil(size / parts) rows; None where nothing is left.

    Raises:
        PlanError: The axis is none of the buffer.
    """
    axis = to_axis(buffer.name, axis, len(buffer.shape))
    rows = -(-buffer.shape[axis] // parts)
    blocks: list[Chunk | None] = []
    for part in range(parts):
        begin, end = (min(rows * edge, buffer.shape[axis]) for edge in (part, part + 1))
        index = [slice(None)] * len(buffer.shape)
        index[axis] = slice(begin, end)
        blocks.append(buffer[tuple(index)] if end > begin else None)
    return blocks


def _buffer_type(shape: Sequence[int], dtype: str) -> ir.Type:
    try:
        # MLIR's parser of types ends the process for an empty text.
        element = ir.Type.parse(dtype) if dtype.isalnum() else None
    except ir.MLIRError:
        element = None
    if element is None:
        raise PlanError(
            f"dtype: expects an element type as MLIR spells it, such as bf16, but got {dtype!r:.60}"
        )
    try:
        return ops.BufferType.get(list(shape), element)
    except ValueError as error:
        raise PlanError(f"buffer of shape {list(shape)} and dtype {dtype:.60}: {error}") from None
