"""Rings: what ranks hold travels from rank to rank, in one or several nested rings, until all have seen it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from syncopate.importers.documents.items import Place
from syncopate.importers.imported import Imported
from syncopate.importers.layouts.layout import Box
from syncopate.importers.layouts.resharding import bind_some_tiles
from syncopate.importers.names import Source
from syncopate.plan import Buffer, Chunk, Plan, Token

__all__ = ["Ring", "nest_hops"]


@dataclass(frozen=True)
class Ring:
    """Blocks that travel.

    Attributes:
        name: What travels.
        place: Where the file says so.
        shape: Of all blocks of a group together.
        dtype: Element type as MLIR spells it.
        axis: The dimension along which the group has blocks.
        groups: Groups of ranks, in the order of their blocks.
        hops: By step, for each rank the one to which it sends what it holds.
        sums: Whether each rank adds to what passes by, and blocks come home in the end; else each keeps a copy.
    """

    name: str
    place: Place
    shape: tuple[int, ...]
    dtype: str
    axis: int
    groups: tuple[tuple[int, ...], ...]
    hops: tuple[Mapping[int, int], ...]
    sums: bool

    def build(self, source: Source | None = None, *, kernel: bool = False) -> Imported:
        """The plan; by default, tiles compute what is summed, and ranks bring along what is copied.

        Args:
            source: Where what ranks have comes from.
            kernel: Whether to add a kernel without code, for tools.

        Raises:
            PlanError: The tensor is none of a plan.
        """
        if source is None:
            source = Source.TILES if self.sums else Source.INPUTS
        place = self.place.file, self.place.line
        plan = Plan(self.name, [sum(map(len, self.groups))], place=place)
        with plan.at(*place):
            return _RingPlan(self, plan, source, kernel).build()


def nest_hops(
    mesh: Sequence[int], dims: Sequence[int], ranks: Mapping[tuple[int, ...], int]
) -> tuple[Mapping[int, int], ...]:
    """Steps of nested rings: the innermost one that is not yet round goes on; one inside of it then starts again.

    Args:
        mesh: Sizes of the mesh.
        dims: Its dimensions that are rings, outermost first.
        ranks: The rank at each place of the mesh.
    """
    hops = []
    for step in range(1, math.prod(mesh[dim] for dim in dims)):
        inner = 1
        for dim in reversed(dims):
            if step // inner % mesh[dim]:
                break
            inner *= mesh[dim]
        hops.append({rank: ranks[_step(at, dim, mesh[dim])] for at, rank in ranks.items()})
    return tuple(hops)


def _step(at: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    """The next place along a dimension of a mesh."""
    return tuple((place + 1) % size if axis == dim else place for axis, place in enumerate(at))


class _RingPlan:
    def __init__(self, ring: Ring, plan: Plan, source: Source, kernel: bool) -> None:
        self.ring, self.plan, self.source, self.kernel = ring, plan, source, kernel
        whole = Box((0,) * len(ring.shape), ring.shape)
        self.blocks = {
            rank: whole.cut(ring.axis, position, len(group))
            for group in ring.groups
            for position, rank in enumerate(group)
        }

    def build(self) -> Imported:
        ring, plan = self.ring, self.plan
        data = plan.buffer("data", ring.shape, ring.dtype)
        given, made = self._start(data)
        travelled = list(self._travel(data, made))
        tokens = [token for _, token in travelled]
        for group in ring.groups:
            before = [token for rank in group for token in made[rank]]
            moved = [token for owner, token in travelled if owner in group]
            with plan.claim(after=[*before, *moved]):
                add = plan.reduce_scatter if ring.sums else plan.all_gather
                add(data, axis=ring.axis, group=group, after=before)
        for rank in self.blocks if self.source is Source.TILES else ():
            plan.output(self._chunk(data, rank) if ring.sums else data[:], rank=rank)
        result = data
        if ring.sums and self.source is Source.INPUTS:
            result = plan.buffer("output", self.blocks[0].sizes, ring.dtype)
            tokens = [
                plan.put(
                    self._chunk(data, rank), result[:], src_rank=rank, dst_rank=rank, after=tokens
                )
                for rank in self.blocks
            ]
        imported = Imported(plan, given, result)
        if self.kernel:
            bind_some_tiles(imported, self.source, tokens)
        return imported

    def _start(self, data: Buffer) -> tuple[Buffer, dict[int, list[Token]]]:
        """What ranks have in the beginning, where it is to travel from."""
        ring, plan = self.ring, self.plan
        tiles = self.source is Source.TILES
        if not ring.sums and not tiles:
            for rank in self.blocks:
                plan.input(self._chunk(data, rank), rank=rank)
            return data, {rank: [] for rank in self.blocks}
        if ring.sums and tiles:
            return data, {rank: [plan.produce(data[:], rank=rank)] for rank in self.blocks}
        given = data.shape if ring.sums else self.blocks[0].sizes
        buffer = plan.buffer("given", given, ring.dtype)
        made = {}
        for rank in self.blocks:
            after = []
            if tiles:
                after = [plan.produce(buffer[:], rank=rank)]
            else:
                plan.input(buffer[:], rank=rank)
            target = data[:] if ring.sums else self._chunk(data, rank)
            made[rank] = [plan.put(buffer[:], target, src_rank=rank, dst_rank=rank, after=after)]
        return buffer, made

    def _travel(
        self, data: Buffer, made: Mapping[int, Sequence[Token]]
    ) -> Iterator[tuple[int, Token]]:
        """Sends on what ranks hold, step by step, and says whose block that is."""
        ring = self.ring
        held = {rank: (rank, list(made[rank])) for rank in self.blocks}
        for hop in ring.hops:
            arrived = {}
            for rank, (owner, after) in held.items():
                target = hop[rank]
                more = list(made[target]) if ring.sums else []
                token = self._put(data, owner, rank, target, [*after, *more], ring.sums)
                yield owner, token
                arrived[target] = owner, [token]
            held = arrived
        for rank, (owner, after) in held.items() if ring.sums else ():
            yield owner, self._put(data, owner, rank, owner, after, False)

    def _put(
        self, data: Buffer, owner: int, src: int, dst: int, after: Sequence[Token], sums: bool
    ) -> Token:
        block = self._chunk(data, owner)
        return self.plan.put(
            block,
            block,
            src_rank=src,
            dst_rank=dst,
            reduction="sum" if sums else None,
            after=after,
        )

    def _chunk(self, data: Buffer, owner: int) -> Chunk:
        box = self.blocks[owner]
        return data[tuple(slice(a, a + n) for a, n in zip(box.offsets, box.sizes, strict=True))]
