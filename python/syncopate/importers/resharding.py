"""Plans that take a tensor from one layout to another: what moves between a producer's and a consumer's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from syncopate.errors import PlanError
from syncopate.importers.emit import Imported
from syncopate.importers.layouts import Box, Layout
from syncopate.importers.names import Source
from syncopate.plan import Buffer, Chunk, Plan, Token

__all__ = ["reshard"]


def reshard(
    src: Layout,
    dst: Layout,
    dtype: str,
    *,
    name: str = "reshard",
    source: Source = Source.INPUTS,
) -> Imported:
    """A plan that takes a tensor from one layout to another.

    It has the collectives that do it, if these are known: an all-gather where ranks of a group hold the blocks of what
    each is to hold, an all-reduce or a reduce-scatter where they hold parts of a sum. Everything else are puts: each
    rank gets what it is to hold from itself, or else from the next rank that has it.

    Args:
        src: What ranks have.
        dst: What they are to have.
        dtype: Element type as MLIR spells it.
        name: Of the plan.
        source: Whether ranks bring along what they have, or tiles of the kernel compute it.

    Returns:
        The plan, with the buffer of what ranks have and that of what they are to have. They may be one; then the
        smaller box of a rank is where it belongs in the larger one, else each begins with its box.

    Raises:
        PlanError: Layouts are of different numbers of ranks, or there is no way from one to the other: from whole
            values to parts of a sum, or from parts to something else than blocks of the sum, or all of it; or parts are
            of several sizes.
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
    return _Resharding(src, dst, Plan(name, [ranks]), dtype, source).build()


class _Resharding:
    def __init__(self, src: Layout, dst: Layout, plan: Plan, dtype: str, source: Source) -> None:
        self.src, self.dst, self.plan, self.dtype, self.source = src, dst, plan, dtype, source

    def build(self) -> Imported:
        if self.src.parts and not self.dst.parts:
            return self._reduce()
        groups = self._find_gather()
        if groups is not None:
            return self._gather(*groups)
        return self._put()

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

    def _give_back(self, buffer: Buffer, places: Sequence[Box]) -> None:
        if self.source is Source.TILES:
            for rank, place in enumerate(places):
                if not place.is_empty:
                    self.plan.output(_chunk(buffer, place), rank=rank)

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
        made: dict[int, list[Token]] = {}
        for rank in range(len(src.boxes)):
            made[rank] = self._provide(given[:], rank)
            if not tiles:
                made[rank] = [plan.put(given[:], data[:], src_rank=rank, dst_rank=rank)]
        for group in src.parts:
            after = [token for rank in group for token in made[rank]]
            axis = self._find_scatter(group)
            if axis is None:
                plan.all_reduce(data, group=group, reduction=src.reduction, after=after)
            else:
                plan.reduce_scatter(
                    data, group=group, reduction=src.reduction, axis=axis, after=after
                )
        self._give_back(data, self._relative(dst.boxes, src.boxes))
        return Imported(plan, given, data)

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
        after: dict[int, list[Token]] = {}
        for rank, place in enumerate(places):
            if given is data:
                after[rank] = self._provide(_chunk(data, place), rank)
                continue
            own = _chunk(given, Box((0,) * len(place.sizes), place.sizes))
            made = self._provide(own, rank)
            after[rank] = [
                plan.put(own, _chunk(data, place), src_rank=rank, dst_rank=rank, after=[token])
                for token in made
            ]
        for group in groups:
            tokens = [token for rank in group for token in after[rank]]
            plan.all_gather(data, axis=axis, group=group, after=tokens)
        self._give_back(data, self._relative(dst.boxes, dst.boxes))
        return Imported(plan, given, data)

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
            self._give_back(given, self._relative(dst, src))
            return Imported(plan, given, given)
        result = self._buffer("result", dst)
        for distance in range(len(src)):
            for rank in range(len(src)):
                owner = (rank + distance) % len(src)
                for piece in self._pieces(rank, owner):
                    plan.put(
                        _chunk(given, _inside(piece, src[owner])),
                        _chunk(result, _inside(piece, dst[rank])),
                        src_rank=owner,
                        dst_rank=rank,
                        after=made[owner],
                    )
        self._give_back(result, self._relative(dst, dst))
        return Imported(plan, given, result)

    def _pieces(self, rank: int, owner: int) -> Iterator[Box]:
        """What a rank gets from an owner: what that holds, and none does that is nearer."""
        src, ranks = self.src.boxes, len(self.src.boxes)
        left = [self.dst.boxes[rank].meet(src[owner])]
        for distance in range((owner - rank) % ranks):
            nearer = src[(rank + distance) % ranks]
            left = [rest for box in left for rest in box.without(nearer)]
        yield from (box for box in left if not box.is_empty)

    @staticmethod
    def _relative(boxes: Sequence[Box], wholes: Sequence[Box]) -> list[Box]:
        return [_inside(box, whole) for box, whole in zip(boxes, wholes, strict=True)]


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
