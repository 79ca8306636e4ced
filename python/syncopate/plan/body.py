"""What all builders of a plan work on: its operation, its values, and the rules for adding to it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, TypeAlias

from syncopate.errors import PlanError
from syncopate.ir import new_context, translate_errors
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.arguments import describe, to_integer, to_integers, to_string
from syncopate.plan.mesh import Mesh
from syncopate.strategy import Strategy

__all__ = ["MOST_TRANSFERS", "Buffer", "Chunk", "PlanBody", "Token", "to_expression"]

MOST_TRANSFERS: Final = 1 << 20
"""As many as a plan may have, which passes handle in a few gigabytes; the dialect says so too."""

Index: TypeAlias = int | slice | ir.AffineExpr


@dataclass(frozen=True)
class Token:
    """Completion of transfers; pass it as `after` to what has to come later."""

    value: ir.Value
    plan: PlanBody = field(repr=False)
    # The rank-affine form inside of which it stands for every member's transfer, if it does.
    within: object | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Buffer:
    """A symmetric buffer of a plan: one instance per rank. Indexing it gives a `Chunk`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    value: ir.Value = field(repr=False)
    plan: PlanBody = field(repr=False)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Chunk:
        """The rectangle of a basic index: slices without step, or single rows.

        Inside of `Plan.spmd`, where a slice begins may depend on the member.

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
                if entry.step is not None and to_integer(what, entry.step) != 1:
                    raise PlanError(f"{what}: expects slices without step, but got {entry.step}")
                begin = 0 if entry.start is None else to_expression(what, entry.start)
                end = bound if entry.stop is None else to_expression(what, entry.stop)
            else:
                begin = to_expression(what, entry)
                end = begin + 1
            size = end - begin
            if isinstance(size, ir.AffineExpr):
                constant = ir.AffineExpr.simplify_affine_expr(size, 1, 0).maybe_downcast()
                if not isinstance(constant, ir.AffineConstantExpr):
                    raise PlanError(
                        f"{what}: expects slices of one size for all members, but got {size}"
                    )
                size = constant.value
            elif begin < 0 or end < 0:
                raise PlanError(f"{what}: expects indices counted from the front, but got {entry}")
            if size < 0:
                raise PlanError(
                    f"{what}: expects slices that begin before they end, but got {begin}:{end}"
                )
            offsets.append(begin)
            sizes.append(size)
        return Chunk(self, tuple(offsets), tuple(sizes))


@dataclass(frozen=True)
class Chunk:
    """A rectangle of a buffer, in elements; inside of `Plan.spmd`, offsets may depend on the member."""

    buffer: Buffer
    offsets: tuple[int | ir.AffineExpr, ...]
    sizes: tuple[int, ...]


def to_expression(name: str, value: Any) -> Any:
    """The value of an argument that has to be an integer, or an expression of the member."""
    return value if isinstance(value, ir.AffineExpr) else to_integer(name, value)


class PlanBody:
    """A `chunk.plan` operation that operations are added to, each with the source line of the call that adds it."""

    def __init__(
        self, name: str, mesh: Sequence[int], *, place: tuple[str, int] | None = None
    ) -> None:
        """Starts an empty plan.

        Args:
            name: Name of the plan.
            mesh: Sizes of the grid of ranks, row-major; their product is the number of ranks.
            place: File and line that operations are to name as their source, instead of the caller's; see `at`.

        Raises:
            PlanError: The mesh is empty or has a size that is not positive.
        """
        self.name = to_string("name", name)
        self.mesh = to_integers("mesh", mesh)
        self.buffers: dict[str, Buffer] = {}
        # Names of buffers of which some rank brings a part along.
        self.inputs: set[str] = set()
        # Realizations that transfers name, as chunk IR spells them, and whether one that adds several parts at once
        # leaves it to the strategy who carries it out.
        self.realizations: set[str] = set()
        self.adds_parts = False
        self._transfers = 0
        # File and line that operations are to name, if not those of the caller.
        self._place = place
        self._context = new_context()
        with self._here() as location:
            self._module = ir.Module.create(location)
            with ir.InsertionPoint(self._module.body):
                self._op = ops.PlanOp(sym_name=name, mesh=list(self.mesh))
                self._op.regions[0].blocks.append()
            with translate_errors():
                self._op.verify()
        self.tokens: list[Token] = []
        # What templates have followed.
        self.strategy: Strategy | None = None
        # The body of the claim or of the rank-affine form that is being written.
        self._inner: ir.Block | None = None
        # What `Plan.spmd` has given, while its block is open.
        self._spmd: object | None = None

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        size = 1
        for extent in self.mesh:
            size *= extent
        return size

    @property
    def grid(self) -> Mesh:
        """The ranks as a grid, with their places and groups."""
        return Mesh(self.mesh)

    @property
    def text(self) -> str:
        """The plan as chunk IR, one module."""
        return str(self._module)

    @property
    def text_with_locations(self) -> str:
        """The same with the source line of every operation."""
        return str(self._module.operation.get_asm(enable_debug_info=True))

    def follow(self, strategy: Strategy) -> None:
        """Notes the strategy that a template follows; `syncopate.compile` takes it if it is given none.

        Raises:
            PlanError: Another template has followed another one.
        """
        if self.strategy is not None and self.strategy != strategy:
            raise PlanError(
                f"strategy: expects {self.strategy}, which another template of plan {self.name} has followed, but got "
                f"{strategy}"
            )
        self.strategy = strategy

    @contextmanager
    def at(self, file: str, line: int) -> Iterator[None]:
        """Has what is added inside name a line of a file as its source, instead of the caller's.

            with plan.at("ring.xml", 12):
                plan.put(...)

        Args:
            file: The file that says so.
            line: Its line, from 1.
        """
        outer = self._place
        self._place = to_string("file", file), to_integer("line", line)
        try:
            yield
        finally:
            self._place = outer

    def expect_transfers(self, count: int) -> None:
        """Checks that so many more transfers still go into the plan, before they are added one by one.

        Raises:
            PlanError: They do not.
        """
        if self._transfers + count > MOST_TRANSFERS:
            raise PlanError(
                f"plan {self.name}: expects at most {MOST_TRANSFERS} transfers, but {self.world_size} ranks would have "
                f"{self._transfers + count}; use fewer ranks or buffers"
            )

    def copy_module(self) -> ir.Module:
        """The plan as it is now, as another module in the same context, which is costly to make."""
        with self._context, ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                self._op.operation.clone()
        return module

    def _own_buffer(self, name: str, buffer: Buffer) -> Buffer:
        if not isinstance(buffer, Buffer):
            raise PlanError(f"{name}: expects a buffer of the plan, but got {describe(buffer)}")
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
                f"{name}: expects a chunk, such as a[0:128], but got {describe(chunk)}{hint}"
            )
        self._own_buffer(name, chunk.buffer)
        if self._spmd is None and not all(isinstance(offset, int) for offset in chunk.offsets):
            raise PlanError(
                f"{name}: expects offsets that are integers; a chunk that depends on the member belongs into "
                "a transfer of plan.spmd"
            )
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
                f"after: expects a sequence of tokens, but got {describe(after)}"
            ) from None
        for token in tokens:
            if not isinstance(token, Token):
                raise PlanError(f"after: expects tokens of the plan, but got {describe(token)}")
            if token.plan is not self:
                raise PlanError(
                    f"after: expects tokens of plan {self.name}, but got one of plan {token.plan.name}, "
                    f"which is another one"
                )
            if token.within is not None and token.within is not self._spmd:
                raise PlanError(
                    "after: expects tokens of the plan, but got one of a transfer inside of a plan.spmd; the token of "
                    "all its transfers is that of what plan.spmd gives"
                )
        return [token.value for token in tokens]

    def _checked_token(self, op: ir.OpView, realization: str | None = None) -> Token:
        self._checked(op, realization)
        token = Token(op.results[0], self)
        if self._inner is None:
            self.tokens.append(token)
        return token

    def _checked(self, op: ir.OpView, realization: str | None = None) -> None:
        """Verifies a new operation, and takes it out again if it breaks a rule; else notes the realization it names."""
        # What rules of the plan itself look at: names of buffers, and how many kernels there are.
        checked = self._op if isinstance(op, ops.BufferOp | ops.KernelOp) else op
        try:
            with translate_errors():
                checked.operation.verify()
        except PlanError:
            op.operation.erase()
            raise
        if realization is not None:
            self.realizations.add(realization)

    @contextmanager
    def _here(self) -> Iterator[ir.Location]:
        """Builds at the end of the plan, with the location of the caller outside this package, or that of `at`."""
        place = self._place or _find_caller()
        with self._context:
            location = ir.Location.unknown() if place is None else ir.Location.file(*place, 1)
            with location:
                op = getattr(self, "_op", None)
                if op is None or not op.regions[0].blocks:
                    yield location
                else:
                    with ir.InsertionPoint(self._inner or op.regions[0].blocks[0]):
                        yield location


def _find_caller() -> tuple[str, int] | None:
    """File and line of what called this package, or an importer, which is no more than a way to call it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("syncopate.plan", "syncopate.importers", "contextlib")
    ):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
