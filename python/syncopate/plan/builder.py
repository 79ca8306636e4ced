"""Builders that emit a plan as chunk IR, each operation with the source line of its call."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from syncopate.errors import PlanError
from syncopate.ir import new_context, translate_errors
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops

__all__ = ["Buffer", "Chunk", "Plan", "Token"]

Index = int | slice


@dataclass(frozen=True)
class Token:
    """Completion of transfers; pass it as `after` to what has to come later."""

    value: ir.Value
    plan: Plan = field(repr=False)


@dataclass(frozen=True)
class Buffer:
    """A symmetric buffer of a plan: one instance per rank. Indexing it gives a `Chunk`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    value: ir.Value = field(repr=False)
    plan: Plan = field(repr=False)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Chunk:
        """The rectangle of a basic index: slices without step, or single rows.

        Raises:
            PlanError: An index is no integer, is negative, ends before it begins or has a step, or there are too many.
        """
        what = f"index of buffer {self.name}"
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > len(self.shape):
            raise PlanError(
                f"{what}: expects at most {len(self.shape)} entries, but got {len(indices)}"
            )
        offsets, sizes = [], []
        for entry, bound in zip(
            indices + (slice(None),) * (len(self.shape) - len(indices)), self.shape, strict=True
        ):
            if isinstance(entry, slice):
                if entry.step is not None and _integer(what, entry.step) != 1:
                    raise PlanError(f"{what}: expects slices without step, but got {entry.step}")
                begin = 0 if entry.start is None else _integer(what, entry.start)
                end = bound if entry.stop is None else _integer(what, entry.stop)
            else:
                begin = _integer(what, entry)
                end = begin + 1
            if begin < 0 or end < 0:
                raise PlanError(f"{what}: expects indices counted from the front, but got {entry}")
            if end < begin:
                raise PlanError(
                    f"{what}: expects slices that begin before they end, but got {begin}:{end}"
                )
            offsets.append(begin)
            sizes.append(end - begin)
        return Chunk(self, tuple(offsets), tuple(sizes))


@dataclass(frozen=True)
class Chunk:
    """A rectangle of a buffer, in elements."""

    buffer: Buffer
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class Plan:
    """A communication plan of all ranks, in the form of a `chunk.plan` operation.

    Transfers of one rank start in the order in which they are added. Every method checks its arguments by the rules
    of the dialect at once, so an error is raised at the line that is wrong.
    """

    def __init__(self, name: str, mesh: Sequence[int]) -> None:
        """Starts an empty plan.

        Args:
            name: Name of the plan.
            mesh: Sizes of the grid of ranks, row-major; their product is the number of ranks.

        Raises:
            PlanError: The mesh is empty or has a size that is not positive.
        """
        self.name = _string("name", name)
        self.mesh = _integers("mesh", mesh)
        self.buffers: dict[str, Buffer] = {}
        self.inputs: set[str] = set()
        self._context = new_context()
        with self._here() as location:
            self._module = ir.Module.create(location)
            with ir.InsertionPoint(self._module.body):
                self._op = ops.PlanOp(sym_name=name, mesh=list(self.mesh))
                self._op.regions[0].blocks.append()
            with translate_errors():
                self._op.verify()
        self.tokens: list[Token] = []
        # The body of the claim that is being written.
        self._claimed: ir.Block | None = None

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        size = 1
        for extent in self.mesh:
            size *= extent
        return size

    @property
    def text(self) -> str:
        """The plan as chunk IR, one module."""
        return str(self._module)

    @property
    def text_with_locations(self) -> str:
        """The same with the source line of every operation."""
        return str(self._module.operation.get_asm(enable_debug_info=True))

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
        _string("name", name)
        sizes = _integers("shape", shape)
        if shard_axis is not None:
            _axis(name, shard_axis, len(sizes))
        with self._here():
            op = ops.BufferOp(_buffer_type(sizes, _string("dtype", dtype)), name)
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
        number = _integer("rank", rank)
        with self._here():
            op = ops.ProduceOp(
                buffer.value,
                list(chunk.offsets),
                list(chunk.sizes),
                number,
                tokens,
                reduction=_enum("reduction", reduction, ops.Reduction),
            )
            return self._checked_token(op)

    def output(self, chunk: Chunk, *, rank: int) -> None:
        """Says that a call gives back a chunk of a rank.

        Raises:
            PlanError: The rank is none of the plan, or the chunk lies outside the buffer.
        """
        self._region(ops.OutputOp, chunk, rank)

    def _region(self, kind: Any, chunk: Chunk, rank: int) -> Any:
        buffer = self._own_chunk("chunk", chunk).buffer
        number = _integer("rank", rank)
        with self._here():
            op = kind(buffer.value, list(chunk.offsets), list(chunk.sizes), number)
            self._checked(op)
        return op

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
        src: Chunk,
        dst: Chunk,
        *,
        src_rank: int,
        dst_rank: int,
        reduction: str | None = None,
        after: Iterable[Token] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a transfer that the source's rank carries out.

        Args:
            src: What is read, on rank `src_rank`.
            dst: Where it goes, on rank `dst_rank`; of the same sizes.
            src_rank: Rank that holds the source.
            dst_rank: Rank that receives.
            reduction: sum, max or min, if what arrives is combined with what is there instead of overwriting it.
            after: Transfers that have to be complete before.
            realization: How it is carried out, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.put` is broken; the message names it.
        """
        ranks = src_rank, dst_rank
        return self._transfer(ops.PutOp, src, dst, ranks, reduction, after, realization)

    def get(
        self,
        src: Chunk,
        dst: Chunk,
        *,
        src_rank: int,
        dst_rank: int,
        reduction: str | None = None,
        after: Iterable[Token] = (),
        realization: str | None = None,
    ) -> Token:
        """Adds a transfer that the destination's rank carries out; otherwise like `put`."""
        ranks = src_rank, dst_rank
        return self._transfer(ops.GetOp, src, dst, ranks, reduction, after, realization)

    def all_gather(
        self,
        buffer: Buffer,
        *,
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
    ) -> Token:
        """Adds an all-gather: afterwards every member holds the blocks of all members.

        Args:
            buffer: The buffer, gathered in place; member i holds block i along `axis`.
            axis: Dimension that is cut.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: direct_push, direct_pull, ring_push or ring_pull, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.all_gather` is broken.
        """
        return self._collective(ops.AllGatherOp, buffer, axis, group, after, algorithm)

    def reduce_scatter(
        self,
        buffer: Buffer,
        *,
        reduction: str = "sum",
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
    ) -> Token:
        """Adds a reduce-scatter: afterwards member i has in its block i what all members had there, combined.

        Args:
            buffer: The buffer, which every member holds, reduced in place; what becomes of other blocks is undefined.
            reduction: sum, max or min.
            axis: Dimension that is cut.
            group: Members; all ranks by default.
            after: Transfers that have to be complete before.
            algorithm: direct_push, direct_pull, ring_push or ring_pull, if the strategy is not to choose.

        Raises:
            PlanError: A rule of `chunk.reduce_scatter` is broken.
        """
        kind = ops.ReduceScatterOp
        return self._collective(kind, buffer, axis, group, after, algorithm, reduction)

    def all_reduce(
        self,
        buffer: Buffer,
        *,
        reduction: str = "sum",
        axis: int = 0,
        group: Sequence[int] | None = None,
        after: Iterable[Token] = (),
        algorithm: str | None = None,
    ) -> Token:
        """Adds an all-reduce: afterwards every member has everywhere what all members had there, combined.

        Arguments and errors are those of `reduce_scatter`; the axis says how the buffer is cut on the way.
        """
        kind = ops.AllReduceOp
        return self._collective(kind, buffer, axis, group, after, algorithm, reduction)

    def _collective(
        self,
        kind: Any,
        buffer: Buffer,
        axis: int,
        group: Sequence[int] | None,
        after: Iterable[Token],
        algorithm: str | None,
        *reduction: str,
    ) -> Token:
        self._own_buffer("buffer", buffer)
        dimension = _integer("axis", axis)
        members = range(self.world_size) if group is None else _integers("group", group)
        tokens = self._own_tokens(after)
        with self._here():
            op = kind(
                buffer.value,
                *(_enum("reduction", word, ops.Reduction) for word in reduction),
                dimension,
                list(members),
                tokens,
                algorithm=_enum("algorithm", algorithm, ops.Algorithm),
            )
            return self._checked_token(op)

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
        if self._claimed is not None:
            raise PlanError("claim: expects to stand in a plan, but stands in another claim")
        with self._here():
            op = ops.ClaimOp(tokens)
            self._claimed = op.regions[0].blocks.append()
            try:
                yield
            except BaseException:
                self._claimed = None
                op.erase()
                raise
            self._claimed = None
            self._checked(op)

    def _transfer(
        self,
        kind: type[ops.PutOp] | type[ops.GetOp],
        src: Chunk,
        dst: Chunk,
        ranks: tuple[int, int],
        reduction: str | None,
        after: Iterable[Token],
        realization: str | None,
    ) -> Token:
        self._own_chunk("src", src)
        self._own_chunk("dst", dst)
        numbers = _integer("src_rank", ranks[0]), _integer("dst_rank", ranks[1])
        tokens = self._own_tokens(after)
        if src.sizes != dst.sizes:
            raise PlanError(
                f"dst: expects sizes {list(src.sizes)}, those of src, but got {list(dst.sizes)}"
            )
        with self._here():
            op = kind(
                src.buffer.value,
                list(src.offsets),
                dst.buffer.value,
                list(dst.offsets),
                list(src.sizes),
                *numbers,
                tokens,
                reduction=_enum("reduction", reduction, ops.Reduction),
                realization=_enum("realization", realization, ops.Realization),
            )
            return self._checked_token(op)

    def _own_buffer(self, name: str, buffer: Buffer) -> Buffer:
        if not isinstance(buffer, Buffer):
            raise PlanError(f"{name}: expects a buffer of the plan, but got {_describe(buffer)}")
        if buffer.plan is not self:
            raise PlanError(
                f"{name}: expects a buffer of plan {self.name}, but got {buffer.name} of plan {buffer.plan.name}, "
                f"which is another one"
            )
        return buffer

    def _own_chunk(self, name: str, chunk: Chunk) -> Chunk:
        if not isinstance(chunk, Chunk):
            hint = f"; write {chunk.name}[:] for all of it" if isinstance(chunk, Buffer) else ""
            raise PlanError(
                f"{name}: expects a chunk, such as a[0:128], but got {_describe(chunk)}{hint}"
            )
        self._own_buffer(name, chunk.buffer)
        return chunk

    def _own_tokens(self, after: Iterable[Token]) -> list[ir.Value]:
        if isinstance(after, Token):
            raise PlanError(
                "after: expects a sequence of tokens, but got a single one; write [token]"
            )
        try:
            tokens = list(after)
        except TypeError:
            raise PlanError(
                f"after: expects a sequence of tokens, but got {_describe(after)}"
            ) from None
        for token in tokens:
            if not isinstance(token, Token):
                raise PlanError(f"after: expects tokens of the plan, but got {_describe(token)}")
            if token.plan is not self:
                raise PlanError(
                    f"after: expects tokens of plan {self.name}, but got one of plan {token.plan.name}, "
                    f"which is another one"
                )
        return [token.value for token in tokens]

    def _checked_token(self, op: ir.OpView) -> Token:
        self._checked(op)
        token = Token(op.results[0], self)
        if self._claimed is None:
            self.tokens.append(token)
        return token

    def _checked(self, op: ir.OpView) -> None:
        """Verifies a new operation, and takes it out again if it breaks a rule."""
        # A buffer's name is the one thing that a rule of the plan itself looks at.
        checked = self._op if isinstance(op, ops.BufferOp) else op
        try:
            with translate_errors():
                checked.operation.verify()
        except PlanError:
            op.operation.erase()
            raise

    @contextmanager
    def _here(self) -> Iterator[ir.Location]:
        """Builds at the end of the plan, with the location of the caller outside this package."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").startswith(
            ("syncopate.plan", "contextlib")
        ):
            frame = frame.f_back
        with self._context:
            location = (
                ir.Location.unknown()
                if frame is None
                else ir.Location.file(frame.f_code.co_filename, frame.f_lineno, 1)
            )
            with location:
                op = getattr(self, "_op", None)
                if op is None or not op.regions[0].blocks:
                    yield location
                else:
                    with ir.InsertionPoint(self._claimed or op.regions[0].blocks[0]):
                        yield location


def shard(buffer: Buffer, axis: int, parts: int) -> list[Chunk | None]:
    """The blocks of a buffer along an axis, each of ceil(size / parts) rows; None where nothing is left.

    Raises:
        PlanError: The axis is none of the buffer.
    """
    axis = _axis(buffer.name, axis, len(buffer.shape))
    rows = -(-buffer.shape[axis] // parts)
    blocks: list[Chunk | None] = []
    for part in range(parts):
        begin, end = (min(rows * edge, buffer.shape[axis]) for edge in (part, part + 1))
        index = [slice(None)] * len(buffer.shape)
        index[axis] = slice(begin, end)
        blocks.append(buffer[tuple(index)] if end > begin else None)
    return blocks


def _axis(buffer: str, axis: Any, rank: int) -> int:
    dimension = _integer("axis", axis)
    if not 0 <= dimension < rank:
        raise PlanError(
            f"axis: expects a dimension of buffer {buffer} in [0, {rank}), but got {dimension}"
        )
    return dimension


def _describe(value: Any) -> str:
    return f"{value!r:.60} of type {type(value).__name__}"


def _integer(name: str, value: Any) -> int:
    """The value of an argument that has to be an integer that the dialect can hold."""
    try:
        number = operator.index(value)
    except TypeError:
        raise PlanError(f"{name}: expects an integer, but got {_describe(value)}") from None
    if not -(2**63) <= number < 2**63:
        raise PlanError(f"{name}: expects an integer of 64 bits, but got {number}")
    return number


def _integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        entries = None if isinstance(values, str) else tuple(values)
    except TypeError:
        entries = None
    if entries is None:
        raise PlanError(f"{name}: expects a sequence of integers, but got {_describe(values)}")
    return tuple(_integer(name, value) for value in entries)


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise PlanError(f"{name}: expects a string, but got {_describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PlanError(f"{name}: expects text, but got {value!r}") from None
    return value


def _buffer_type(shape: Sequence[int], dtype: str) -> ir.Type:
    try:
        # MLIR's parser of types ends the process for an empty text.
        element = ir.Type.parse(dtype) if dtype.isalnum() else None
    except ir.MLIRError:
        element = None
    if element is None:
        raise PlanError(
            f"dtype: expects an element type as MLIR spells it, such as bf16, but got {dtype!r}"
        )
    try:
        return ops.BufferType.get(list(shape), element)
    except ValueError as error:
        raise PlanError(f"buffer of shape {list(shape)} and dtype {dtype}: {error}") from None


def _enum(name: str, value: str | None, known: type[enum.IntEnum]) -> ir.Attribute | None:
    if value is None:
        return None
    names = [str(member) for member in known]
    if not isinstance(value, str) or value not in names:
        raise PlanError(f"{name}: expects one of {', '.join(names)}, but got {value!r}")
    return ir.Attribute.parse(f"#chunk<{name} {value}>")
