"""Plans of any collective by any algorithm, on any mesh: what `list_templates` lists, `make_plan` makes.

What passes decompose is in the plan as the collective itself, with its algorithm. With one algorithm for each dimension
of the mesh, a gather goes along the first dimension, then, with all that a rank then has, along the next, and a sum the
other way, so that each block crosses to another node once. A swizzle is another order in which members take one
another. Both stand in the plan as transfers, which claim to be the collective, so that the compiler proves it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from syncopate.choices import Algorithm, Direction, Swizzle
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan, shard
from syncopate.plan.exchanges import exchange_blocks, exchange_by_levels
from syncopate.plan.kinds import Collective
from syncopate.plan.loops import Hand, broadcast, gather, reduce
from syncopate.plan.mesh import Mesh
from syncopate.plan.moves import Moves
from syncopate.plan.sums import give_back
from syncopate.strategy import Strategy

__all__ = ["Template", "TemplatePlan", "list_templates", "make_plan"]

_FLAT = tuple(algorithm for algorithm in Algorithm if algorithm is not Algorithm.HIERARCHICAL)


@dataclass(frozen=True)
class Template:
    """How a collective is brought about.

    Attributes:
        collective: The collective.
        algorithms: One, of all ranks; or one for each dimension of the mesh.
        swizzle: The order in which members take one another, where each sends to every other.
    """

    collective: Collective
    algorithms: tuple[Algorithm, ...]
    swizzle: Swizzle = Swizzle.SHIFT

    def __str__(self) -> str:
        name = "+".join(algorithm.value for algorithm in self.algorithms)
        swizzle = "" if self.swizzle is Swizzle.SHIFT else f", {self.swizzle.value}"
        return f"{self.collective.value} by {name}{swizzle}"

    @property
    def is_operation(self) -> bool:
        """Whether the passes decompose the collective itself."""
        if self.collective is Collective.ALL_TO_ALL:
            known = self.algorithms == (Algorithm.DIRECT,)
        else:
            known = len(self.algorithms) == 1 or self.algorithms == (Algorithm.DIRECT,) * 2
        return known and self.swizzle is Swizzle.SHIFT


@dataclass(frozen=True)
class TemplatePlan:
    """A plan of a template.

    Attributes:
        plan: The plan.
        given: The buffer of what ranks bring along, or of what tiles compute.
        result: The buffer of what it comes to.
    """

    plan: Plan
    given: Buffer
    result: Buffer


def list_templates(mesh: Sequence[int]) -> Iterator[Template]:
    """All templates that there are on a mesh; none for one rank."""
    grid = Mesh(tuple(mesh))
    if grid.size < 2:
        return
    several = sum(extent > 1 for extent in grid.shape) > 1
    for kind in Collective:
        if kind is Collective.ALL_TO_ALL:
            yield Template(kind, (Algorithm.DIRECT,))
            if several:
                yield Template(kind, (Algorithm.HIERARCHICAL,))
        else:
            for algorithm in _FLAT:
                if _applies(kind, algorithm, grid.size):
                    yield Template(kind, (algorithm,))
            if several:
                yield Template(kind, (Algorithm.HIERARCHICAL,))
                choices = [
                    [each for each in _FLAT if _applies(kind, each, extent)]
                    for extent in grid.shape
                ]
                for algorithms in itertools.product(*choices):
                    yield Template(kind, algorithms)
        if kind is not Collective.BROADCAST:
            for swizzle in Swizzle:
                if swizzle is not Swizzle.SHIFT:
                    yield Template(kind, (Algorithm.DIRECT,), swizzle)


def _applies(kind: Collective, algorithm: Algorithm, members: int) -> bool:
    doubles = algorithm is Algorithm.RECURSIVE_DOUBLING and kind is not Collective.BROADCAST
    return not doubles or members & (members - 1) == 0


def make_plan(
    template: Template,
    mesh: Sequence[int],
    shape: Sequence[int],
    dtype: str,
    *,
    splits: int = 1,
    direction: Direction = Direction.PUSH,
    tiles: bool = False,
    root: int = 0,
    reduction: str = "sum",
    kernel: bool = False,
    name: str | None = None,
) -> TemplatePlan:
    """The plan of a template.

    Args:
        template: What is brought about, and how.
        mesh: Sizes of the grid of ranks.
        shape: Of what is gathered, reduced, exchanged or broadcast; its first dimension is cut among the ranks.
        dtype: Element type as MLIR spells it.
        splits: Pieces of each block that move one after another.
        direction: Who carries transfers out.
        tiles: Whether tiles compute what it starts with, and a call gives back what it comes to. Otherwise ranks bring
            it along; as inputs stay as they are, sums then start with a copy.
        root: The rank that has what a broadcast brings.
        reduction: sum, max or min.
        kernel: Whether to add a kernel without code, for tools: its tiles read the result, or write what it starts
            with.
        name: Of the plan.

    Raises:
        PlanError: The template does not apply to the mesh or to what tiles compute, or a rule of the plan is broken.
    """
    return _Maker(template, mesh, dtype, splits, direction, tiles, root, reduction, name).make(
        tuple(shape), kernel
    )


@dataclass(frozen=True)
class _Level:
    """Groups of ranks that follow an algorithm, and the blocks that each rank has when a gather comes to them."""

    algorithm: Algorithm
    groups: list[tuple[int, ...]]
    held: dict[int, list[int]]


class _Maker:
    def __init__(
        self,
        template: Template,
        mesh: Sequence[int],
        dtype: str,
        splits: int,
        direction: Direction,
        tiles: bool,
        root: int,
        reduction: str,
        name: str | None,
    ) -> None:
        self.template, self.kind = template, template.collective
        self.plan = Plan(name or self.kind.value, mesh)
        self.grid, self.ranks = self.plan.grid, range(self.plan.world_size)
        self.dtype, self.splits, self.tiles = dtype, splits, tiles
        self.root, self.reduction, self.direction = root, reduction, direction
        if type(splits) is not int or splits < 1:
            raise PlanError(f"splits: expects a positive number, but got {splits!r:.40}")
        if len(template.algorithms) not in (1, len(self.grid.shape)):
            raise PlanError(
                f"template: expects one algorithm, or {len(self.grid.shape)}, one for each dimension of the mesh, "
                f"but got {len(template.algorithms)}"
            )
        if tiles and self.kind is Collective.BROADCAST:
            raise PlanError(
                "tiles: expects False for a broadcast: tiles of all ranks write to the place where it arrives"
            )
        # Directly along two dimensions is what passes call hierarchical.
        several = len(template.algorithms) > 1 and 1 not in self.grid.shape
        self.algorithm = Algorithm.HIERARCHICAL if several else template.algorithms[0]
        if template.is_operation:
            self.plan.follow(Strategy(algorithm=self.algorithm, direction=direction, splits=splits))
        self.moves = Moves(self.plan, direction=direction)

    def make(self, shape: tuple[int, ...], kernel: bool) -> TemplatePlan:
        given, result = self._begin(shape, kernel)
        staged = list(self.plan.tokens)
        blocks = [self._cut(block) for block in shard(result, 0, len(self.ranks))]
        if self.template.is_operation:
            algorithm, direction = self.algorithm.value, self.direction.value
            self._add_collective(given, result, staged, algorithm=algorithm, direction=direction)
        else:
            self._add_transfers(given, result, blocks)
            before = [] if self.tiles and given is result else staged
            with self.plan.claim(after=self.plan.tokens):
                self._add_collective(given, result, before)
        if self.tiles:
            give_back(self.plan, self.kind, result)
        if kernel:
            touched = given if self.tiles else result
            rows = max(1, -(-touched.shape[0] // len(self.ranks)))
            footprint = {touched: (rows, *touched.shape[1:])}
            grid, tokens = (-(-touched.shape[0] // rows),), list(self.plan.tokens)
            if self.tiles:
                self.plan.bind_tiles("write_tiles", grid, writes=footprint, after=tokens)
            else:
                self.plan.bind_tiles("read_tiles", grid, reads=footprint, after=tokens)
        return TemplatePlan(self.plan, given, result)

    def _begin(self, shape: tuple[int, ...], kernel: bool) -> tuple[Buffer, Buffer]:
        """The buffers, and what ranks have in them."""
        plan, moves, world = self.plan, self.moves, len(self.ranks)
        if not shape or shape[0] < 1:
            raise PlanError(f"shape: expects rows, but got {list(shape)}")
        rows = -(-shape[0] // world)
        if self.kind is Collective.ALL_TO_ALL:
            if shape[0] % world and (self.tiles or kernel):
                raise PlanError(
                    f"shape: expects a multiple of {world} rows for tiles to read or a call to give back, as some "
                    f"ranks get fewer rows than others, but got {shape[0]}"
                )
            given = plan.buffer("given", shape, self.dtype)
            result = plan.buffer("data", (rows * world, *shape[1:]), self.dtype)
            for rank in self.ranks:
                self._provide(given[:], rank)
            return given, result
        result = plan.buffer("data", shape, self.dtype)
        if self.kind is Collective.BROADCAST:
            plan.input(result[:], rank=self.root)
            return result, result
        if self.kind is Collective.ALL_GATHER and not self.tiles:
            for rank, block in enumerate(shard(result, 0, world)):
                if block is not None:
                    plan.input(block, rank=rank)
            return result, result
        if self.kind.reduces and self.tiles:
            for rank in self.ranks:
                moves.produced(result[:], rank)
            return result, result
        # Inputs stay as they are, and tiles of all ranks write to the same place.
        gathers = self.kind is Collective.ALL_GATHER
        given = plan.buffer("given", (rows, *shape[1:]) if gathers else shape, self.dtype)
        for rank, block in enumerate(shard(result, 0, world)):
            target = block if gathers else result[:]
            if target is not None:
                self._provide(given[: target.sizes[0]], rank)
                moves.copy(given[: target.sizes[0]], rank, rank, target)
        return given, result

    def _provide(self, chunk: Chunk, rank: int) -> None:
        if self.tiles:
            self.moves.produced(chunk, rank)
        else:
            self.plan.input(chunk, rank=rank)

    def _cut(self, block: Chunk | None, parts: int | None = None) -> list[Chunk]:
        """Pieces of a block, of nearly one size, along its rows; none is empty."""
        if block is None:
            return []
        begin, rows = block.offsets[0], block.sizes[0]
        count = min(self.splits if parts is None else parts, rows)
        edges = [begin + rows * part // count for part in range(count + 1)]
        return [block.buffer[slice(*pair)] for pair in itertools.pairwise(edges)]

    def _add_collective(
        self,
        given: Buffer,
        result: Buffer,
        after: Sequence[Token],
        algorithm: str | None = None,
        direction: str | None = None,
    ) -> None:
        plan = self.plan
        match self.kind:
            case Collective.ALL_TO_ALL:
                plan.all_to_all(
                    given, result, after=after, algorithm=algorithm, direction=direction
                )
            case Collective.ALL_GATHER:
                plan.all_gather(result, after=after, algorithm=algorithm, direction=direction)
            case Collective.BROADCAST:
                plan.broadcast(
                    result, root=self.root, after=after, algorithm=algorithm, direction=direction
                )
            case Collective.REDUCE_SCATTER:
                self._add_sum(plan.reduce_scatter, result, after, algorithm, direction)
            case Collective.ALL_REDUCE:
                self._add_sum(plan.all_reduce, result, after, algorithm, direction)

    def _add_sum(
        self,
        collective: Callable[..., Token],
        result: Buffer,
        after: Sequence[Token],
        algorithm: str | None,
        direction: str | None,
    ) -> None:
        collective(
            result,
            reduction=self.reduction,
            after=after,
            algorithm=algorithm,
            direction=direction,
        )

    def _add_transfers(
        self, given: Buffer, result: Buffer, blocks: Sequence[Sequence[Chunk]]
    ) -> None:
        if self.kind is Collective.ALL_TO_ALL:
            world, near = len(self.ranks), self.grid.shape[-1]
            if self.template.algorithms[0] is Algorithm.HIERARCHICAL:
                passing = self.plan.buffer("passing", result.shape, self.dtype)
                exchange_by_levels(given, passing, result, world // near, near, self._copy)
            else:
                exchange_blocks(given, result, world, self.template.swizzle, self._copy)
            return
        levels = list(self._levels())
        if self.kind is Collective.BROADCAST:
            hands, whole = self._broadcast(levels), [self._cut(result[:])]
        else:
            hands, whole = self._hands(gather, levels), [list(block) for block in blocks]

        def pieces(hands: Iterable[Hand]) -> Iterator[tuple[Chunk, int, int]]:
            for hand in hands:
                for piece in whole[hand.block]:
                    # A piece of one row goes one way around.
                    part = hand.part
                    parts = [piece] if part is None else self._cut(piece, 2)[part : part + 1]
                    yield from ((each, hand.src, hand.dst) for each in parts)

        if self.kind.reduces:
            for piece, src, dst in pieces(self._hands(reduce, levels[::-1])):
                self.moves.add(piece, src, dst, reduction=self.reduction)
        if self.kind is not Collective.REDUCE_SCATTER:
            for piece, src, dst in pieces(hands):
                self.moves.copy(piece, src, dst)

    def _levels(self) -> Iterator[_Level]:
        """The levels in the order in which a gather comes to them."""
        algorithms = self.template.algorithms
        dims = [[dim] for dim in range(len(algorithms)) if self.grid.shape[dim] > 1]
        if len(algorithms) == 1:
            dims = [list(range(len(self.grid.shape)))]
        held = {rank: [rank] for rank in self.ranks}
        for axes in dims:
            groups = list(self.grid.groups(*axes))
            yield _Level(algorithms[axes[0]], groups, held)
            held = {
                rank: [block for member in group for block in held[member]]
                for group in groups
                for rank in group
            }

    def _hands(
        self, loop: Callable[[int, Algorithm, Swizzle], Iterator[Hand]], levels: Iterable[_Level]
    ) -> Iterator[Hand]:
        """Hand-overs between ranks, level by level."""
        for level in levels:
            # All groups take the same step together.
            for hand in loop(len(level.groups[0]), level.algorithm, self.template.swizzle):
                for group in level.groups:
                    for block in level.held[group[hand.block]]:
                        yield Hand(group[hand.src], group[hand.dst], block, hand.part)

    def _broadcast(self, levels: Iterable[_Level]) -> Iterator[Hand]:
        """Hand-overs between ranks that bring block 0 from the root to all."""
        holders = {self.root}
        for level in levels:
            reached = [group for group in level.groups if not holders.isdisjoint(group)]
            for group in reached:
                (root,) = (place for place, rank in enumerate(group) if rank in holders)
                for hand in broadcast(len(group), root, level.algorithm):
                    yield Hand(group[hand.src], group[hand.dst], 0, hand.part)
            holders.update(*reached)

    def _copy(self, src: Chunk, src_rank: int, dst_rank: int, dst: Chunk) -> None:
        """Copies piece by piece."""
        for piece, target in zip(self._cut(src), self._cut(dst), strict=True):
            self.moves.copy(piece, src_rank, dst_rank, target)
