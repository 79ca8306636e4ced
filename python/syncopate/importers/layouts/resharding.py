"""Plans that take a tensor from one layout to another: what moves between a producer's and a consumer's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from syncopate.errors import PlanError
from syncopate.importers.imported import Imported
from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.names import Source
from syncopate.plan import Buffer, Chunk, Plan, Token

__all__ = ["bind_some_tiles", "reshard", "swap_blocks"]

_TILES: Final = 4
"""Of the kernel without code."""


def reshard(
    src: Layout,
    dst: Layout,
    dtype: str,
    *,
    name: str = "reshard",
    source: Source = Source.INPUTS,
    kernel: bool = False,
    apart: bool = False,
    place: tuple[str, int] | None = None,
) -> Imported:
    """A plan that takes a tensor from one layout to another.

    It has the collectives that do it, if these are known: an all-gather where ranks of a group hold the blocks of what
    each is to hold, a broadcast where one of them holds all of it, an all-reduce or a reduce-scatter where they hold
    parts of a sum. Everything else are puts: each rank gets what it is to hold from itself, or else from the next rank
    that has it.

    Args:
        src: What ranks have.
        dst: What they are to have.
        dtype: Element type as MLIR spells it.
        name: Of the plan.
        source: Whether ranks bring along what they have, or tiles of the kernel compute it.
        kernel: Whether to add a kernel without code, whose tiles read the result, or write what ranks have: then tools
            can make a schedule of the plan. A kernel of one's own cannot be compiled with it any more.
        apart: Whether ranks are to have nothing else in the buffer of the result.
        place: File and line of the plan, for errors; by default where this is called.

    Returns:
        The plan, with the buffer of what ranks have and that of what they are to have. They may be one; then the
        smaller box of a rank is where it belongs in the larger one, else each begins with its box.

    Raises:
        PlanError: Layouts are of different numbers of ranks, or there is no way from one to the other: from whole
            values to parts of a sum, or from parts to something else than blocks of the sum, or all of it; or parts are
            of several sizes, and so are results that a kernel reads, or that are apart; or nobody has what a rank is
            to have.
    """
    ranks = len(src.boxes)
    if len(dst.boxes) != ranks:
        raise PlanError(
            f"dst: expects a layout of {ranks} ranks, as src is, but got {len(dst.boxes)}"
        )
    if dst.parts and dst != replace(src, text=dst.text):
        raise PlanError(
            f"dst: expects values that are whole, or what src is, but got ({dst.text}) of ({src.text})"
        )
    plan = Plan(name, [ranks], place=place)
    with nullcontext() if place is None else plan.at(*place):
        return _Resharding(src, dst, plan, dtype, source, kernel, apart).build()


def swap_blocks(
    src: Layout,
    axis: int,
    groups: Sequence[Sequence[int]],
    dtype: str,
    *,
    name: str = "exchange",
    source: Source = Source.INPUTS,
    kernel: bool = False,
    apart: bool = False,
    place: tuple[str, int] | None = None,
) -> Imported:
    """A plan in which block j of what the i-th rank of a group has becomes block i of what the j-th gets.

    Args:
        src: What ranks have: boxes of one size, that the size of a group divides.
        axis: The dimension that is cut into blocks.
        groups: The groups; each rank is in one.
        dtype: As of `reshard`, like what follows.
        name: Of the plan.
        source: As of `reshard`.
        kernel: As of `reshard`.
        apart: As of `reshard`; ranks have nothing else there anyway.
        place: As of `reshard`.

    Raises:
        PlanError: A rule of `chunk.all_to_all` is broken.
    """
    plan = Plan(name, [len(src.boxes)], place=place)
    with nullcontext() if place is None else plan.at(*place):
        return _Resharding(src, src, plan, dtype, source, kernel, apart).exchange(axis, groups)


class _Resharding:
    def __init__(
        self,
        src: Layout,
        dst: Layout,
        plan: Plan,
        dtype: str,
        source: Source,
        kernel: bool,
        apart: bool,
    ) -> None:
        self.src, self.dst, self.plan, self.dtype, self.source = src, dst, plan, dtype, source
        self.kernel = kernel
        self.apart = source is Source.INPUTS and (apart or kernel)

    def build(self) -> Imported:
        if self.src.parts and not self.dst.parts:
            return self._reduce()
        groups = self._find_gather()
        if groups is not None:
            return self._gather(*groups)
        roots = self._find_broadcast()
        if roots is not None:
            return self._broadcast(roots)
        return self._put()

    def exchange(self, axis: int, groups: Sequence[Sequence[int]]) -> Imported:
        """All-to-alls of groups, between two buffers."""
        given = self._buffer("given", self.src.boxes)
        result = self._buffer("result", self.src.boxes)
        made = [self._provide(given[:], rank) for rank in range(len(self.src.boxes))]
        tokens = [
            self.plan.all_to_all(
                given, result, axis=axis, group=group, after=_gather_tokens(made, group)
            )
            for group in groups
        ]
        return self._finish(given, result, self._relative(self.src.boxes, self.src.boxes), tokens)

    def _buffer(self, name: str, boxes: Sequence[Box]) -> Buffer:
        """A buffer with room for the box of each rank."""
        sizes = tuple(map(max, *(box.sizes for box in (*boxes, *boxes))))
        return self.plan.buffer(name, sizes, self.dtype)

    def _provide(self, chunk: Chunk, rank: int) -> list[Token]:
        if 0 in chunk.sizes:
            return []
        if self.source is Source.TILES:
            return [self.plan.produce(chunk, rank=rank)]
        self.plan.input(chunk, rank=rank)
        return []

    def _finish(
        self, given: Buffer, result: Buffer, places: Sequence[Box], tokens: Sequence[Token]
    ) -> Imported:
        """Gives back what tiles have computed, or sees to it that tiles can read the result."""
        plan = self.plan
        if self.source is Source.TILES:
            for rank, place in enumerate(places):
                if not place.is_empty:
                    plan.output(_chunk(result, place), rank=rank)
        if self.apart and any(place.sizes != result.shape for place in places):
            if len({place.sizes for place in places}) > 1:
                raise PlanError(
                    f"dst: expects boxes of one size, for tiles to read, but got ({self.dst.text})"
                )
            alone = self._buffer("output", places)
            tokens = [
                plan.put(
                    _chunk(result, place), alone[:], src_rank=rank, dst_rank=rank, after=tokens
                )
                for rank, place in enumerate(places)
            ]
            result = alone
        imported = Imported(plan, given, result)
        if self.kernel:
            bind_some_tiles(imported, self.source, tokens)
        return imported

    def _reduce(self) -> Imported:
        """Sums the parts of each group, and cuts the sum."""
        src, dst, plan = self.src, self.dst, self.plan
        data = self._buffer("data", src.boxes)
        for box in src.boxes:
            if box.sizes != data.shape:
                raise PlanError(
                    f"src: expects parts of one size on all ranks, but got ({src.text})"
                )
        # Inputs stay as they are.
        tiles = self.source is Source.TILES
        given = data if tiles else self._buffer("given", src.boxes)
        made = [self._provide(given[:], rank) for rank in range(len(src.boxes))]
        if not tiles:
            made = [
                [plan.put(given[:], data[:], src_rank=rank, dst_rank=rank)]
                for rank in range(len(src.boxes))
            ]
        tokens = []
        for group in src.parts:
            after = _gather_tokens(made, group)
            axis = self._find_scatter(group)
            if axis is None:
                token = plan.all_reduce(data, group=group, reduction=src.reduction, after=after)
            else:
                token = plan.reduce_scatter(
                    data, group=group, reduction=src.reduction, axis=axis, after=after
                )
            tokens.append(token)
        return self._finish(given, data, self._relative(dst.boxes, src.boxes), tokens)

    def _find_scatter(self, group: Sequence[int]) -> int | None:
        """The dimension whose blocks members are to have, if these are blocks, in the order of the members."""
        whole = self.src.boxes[group[0]]
        for dim in range(len(whole.sizes)):
            blocks = [whole.cut(dim, index, len(group)) for index in range(len(group))]
            if blocks == [self.dst.boxes[rank] for rank in group] and len(group) > 1:
                return dim
        for rank in group:
            if self.dst.boxes[rank].without(whole):
                raise PlanError(
                    f"dst: expects parts of a sum to become its blocks, or all of it, but got ({self.dst.text}) of "
                    f"({self.src.text}); go through a layout between"
                )
        return None

    def _find_gather(self) -> tuple[int, list[list[int]]] | None:
        """The dimension, and the groups in the order of their blocks, if an all-gather does it."""
        src, dst = self.src.boxes, self.dst.boxes
        if len({box.sizes for box in dst}) != 1:
            return None
        by_target: dict[Box, list[int]] = defaultdict(list)
        for rank, box in enumerate(dst):
            by_target[box].append(rank)
        for dim in range(len(dst[0].sizes)):
            groups: list[list[int]] | None = []
            for whole, ranks in by_target.items():
                found = _group_blocks(whole, {rank: src[rank] for rank in ranks}, dim)
                groups = None if found is None or groups is None else groups + found
            if groups:
                return dim, groups
        return None

    def _gather(self, axis: int, groups: Sequence[Sequence[int]]) -> Imported:
        src, dst, plan = self.src, self.dst, self.plan
        data = self._buffer("data", dst.boxes)
        places = self._relative(src.boxes, dst.boxes)
        # Tiles of all ranks write to the same place, which is no block of theirs.
        given = self._buffer("given", src.boxes) if self.source is Source.TILES else data
        made = [self._place(given, data, place, rank) for rank, place in enumerate(places)]
        tokens = [
            plan.all_gather(data, axis=axis, group=group, after=_gather_tokens(made, group))
            for group in groups
        ]
        return self._finish(given, data, self._relative(dst.boxes, dst.boxes), tokens)

    def _place(self, given: Buffer, data: Buffer, place: Box, rank: int) -> list[Token]:
        """Provides what a rank has, and brings it where it belongs."""
        if given is data:
            return self._provide(_chunk(data, place), rank)
        own = _chunk(given, Box((0,) * len(place.sizes), place.sizes))
        return [
            self.plan.put(own, _chunk(data, place), src_rank=rank, dst_rank=rank, after=[token])
            for token in self._provide(own, rank)
        ]

    def _find_broadcast(self) -> list[tuple[int, list[int]]] | None:
        """Roots and groups, if one rank of a group holds what all are to hold, and the others nothing."""
        groups: dict[Box, list[int]] = defaultdict(list)
        for rank, box in enumerate(self.dst.boxes):
            groups[box].append(rank)
        found = []
        for whole, group in groups.items():
            roots = [rank for rank in group if not self.src.boxes[rank].is_empty]
            if len(roots) != 1 or self.src.boxes[roots[0]] != whole or len(group) < 2:
                return None
            found.append((roots[0], group))
        return found if len({whole.sizes for whole in groups}) == 1 else None

    def _broadcast(self, roots: Sequence[tuple[int, Sequence[int]]]) -> Imported:
        dst, plan = self.dst.boxes, self.plan
        data = self._buffer("data", dst)
        # Tiles of all ranks write, of whom one has something to send.
        given = self._buffer("given", dst) if self.source is Source.TILES else data
        whole = Box((0,) * len(data.shape), data.shape)
        tokens = [
            plan.broadcast(
                data, root=root, group=group, after=self._place(given, data, whole, root)
            )
            for root, group in roots
        ]
        return self._finish(given, data, self._relative(dst, dst), tokens)

    def _put(self) -> Imported:
        """Brings each rank what it lacks, from the next rank that has it."""
        src, dst, plan = self.src.boxes, self.dst.boxes, self.plan
        given = self._buffer("given", src)
        made = [
            self._provide(given[tuple(slice(0, size) for size in box.sizes)], rank)
            for rank, box in enumerate(src)
        ]
        inside = all(not box.without(own) for own, box in zip(src, dst, strict=True))
        if inside:
            after = _gather_tokens(made, range(len(src)))
            return self._finish(given, given, self._relative(dst, src), after)
        result = self._buffer("result", dst)
        tokens = []
        # By rank, what none has that is nearer.
        left = [[] if box.is_empty else [box] for box in dst]
        for distance in range(len(src)):
            for rank, some in enumerate(left):
                owner = (rank + distance) % len(src)
                pieces = [box.meet(src[owner]) for box in some]
                left[rank] = [rest for box in some for rest in box.without(src[owner])]
                for piece in pieces:
                    if piece.is_empty:
                        continue
                    token = plan.put(
                        _chunk(given, _inside(piece, src[owner])),
                        _chunk(result, _inside(piece, dst[rank])),
                        src_rank=owner,
                        dst_rank=rank,
                        after=made[owner],
                    )
                    tokens.append(token)
        if any(left):
            raise PlanError(
                f"dst: expects what ranks hold between them, but got ({self.dst.text}) of ({self.src.text})"
            )
        return self._finish(given, result, self._relative(dst, dst), tokens)

    @staticmethod
    def _relative(boxes: Sequence[Box], wholes: Sequence[Box]) -> list[Box]:
        return [_inside(box, whole) for box, whole in zip(boxes, wholes, strict=True)]


def bind_some_tiles(imported: Imported, source: Source, tokens: Sequence[Token]) -> None:
    """Adds a kernel without code, whose tiles read the result, or write what is given if that comes from tiles."""
    plan = imported.plan
    tiles = imported.result if source is Source.INPUTS else imported.given
    rows = -(-tiles.shape[0] // _TILES)
    footprint = {tiles: (rows, *tiles.shape[1:])}
    grid = (-(-tiles.shape[0] // rows),)
    if source is Source.INPUTS:
        plan.bind_tiles("read_tiles", grid, reads=footprint, after=tokens)
    else:
        plan.bind_tiles("write_tiles", grid, writes=footprint, after=tokens)


def _gather_tokens(made: Sequence[Sequence[Token]], ranks: Sequence[int]) -> list[Token]:
    return [token for rank in ranks for token in made[rank]]


def _group_blocks(whole: Box, boxes: dict[int, Box], dim: int) -> list[list[int]] | None:
    """Groups of ranks that each hold all blocks of a box once, in order; None if there are none."""
    copies: dict[Box, list[int]] = defaultdict(list)
    for rank, box in boxes.items():
        copies[box].append(rank)
    # An empty box at the end is one of several, all alike.
    times = len(next(iter(copies.values())))
    parts = len(boxes) // times
    blocks = [whole.cut(dim, index, parts) for index in range(parts)]
    if parts < 2 or set(blocks) != set(copies):
        return None
    if len(set(blocks)) != parts or any(len(ranks) != times for ranks in copies.values()):
        return None
    return [[copies[block][copy] for block in blocks] for copy in range(times)]


def _inside(box: Box, whole: Box) -> Box:
    """A box by its place in another one that holds it."""
    offsets = tuple(a - b for a, b in zip(box.offsets, whole.offsets, strict=True))
    return Box(offsets, box.sizes)


def _chunk(buffer: Buffer, box: Box) -> Chunk:
    return buffer[tuple(slice(a, a + n) for a, n in zip(box.offsets, box.sizes, strict=True))]
