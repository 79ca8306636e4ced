"""Plans of common workloads: what becomes of a buffer that a kernel's tiles compute.

All ranks compute a buffer, which is cut along its first dimension into as many blocks as there are ranks. Where each
rank's tiles compute a part of a sum, as a GEMM does whose K is cut among the ranks, `reduce_scatter_tiles` and
`all_reduce_tiles` add to a plan what brings the parts together; `all_to_all_tiles` sends block i to rank i.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan, shard

__all__ = ["Combine", "all_reduce_tiles", "all_to_all_tiles", "reduce_scatter_tiles"]


class Combine(enum.Enum):
    """Who adds the parts of a sum."""

    TILES = "tiles"
    """The tiles of the block's own rank add theirs to what has arrived: TMA adds in the buffer's type, stores by
    pointers in float32. A tile must not straddle two blocks. What comes from a third rank on is added by a
    communication role before."""
    ROLE = "role"
    """A communication role of the block's rank adds all parts, one after another, in float32."""


@dataclass(frozen=True)
class _Piece:
    """A piece of a block: its rank, its number there, and where it lies."""

    owner: int
    number: int
    chunk: Chunk


def reduce_scatter_tiles(
    plan: Plan,
    buffer: Buffer,
    *,
    splits: int = 1,
    combine: Combine = Combine.TILES,
    direction: str = "push",
    realization: str | None = None,
    reducing: str | None = None,
) -> list[Token]:
    """Reduces what the tiles of all ranks compute; rank r gets block r of the sum, which the call gives back.

    The order in which parts are added does not depend on time, so results are the same bits every time.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, …]. With more than two ranks, or with `Combine.ROLE`
            and pushing, the plan gets another buffer for what is on its way, of (W - 1) / W the size.
        splits: Pieces that a block is moved in.
        combine: Who adds.
        direction: push or pull: who carries out the transfers between ranks. With `Combine.ROLE`, pulling needs no
            other buffer.
        realization: Of the transfers between ranks; the strategy's if it is left out.
        reducing: Of those that add, likewise.

    Returns:
        By rank, the token that its block of the sum is there.

    Raises:
        PlanError: The buffer has no rows for some rank, or a rule of the plan is broken.
    """
    sums = _Sums(plan, buffer, splits, direction, realization, reducing)
    done = sums.by_tiles() if combine is Combine.TILES else sums.by_role()
    with plan.claim(after=list(done.values())):
        plan.reduce_scatter(buffer)
    for owner, block in enumerate(sums.blocks):
        plan.output(block, rank=owner)
    return [
        plan.join([token for piece, token in done.items() if piece.owner == owner])
        for owner in range(plan.world_size)
    ]


def all_reduce_tiles(
    plan: Plan,
    buffer: Buffer,
    *,
    splits: int = 1,
    combine: Combine = Combine.TILES,
    direction: str = "push",
    realization: str | None = None,
    reducing: str | None = None,
    gathering: str | None = None,
) -> list[Token]:
    """Reduces what the tiles of all ranks compute; every rank gets all of the sum, which the call gives back.

    In two shots: each piece of a block, as soon as it is complete, goes from its rank to all others.

    Args:
        plan: As for `reduce_scatter_tiles`.
        buffer: Likewise.
        splits: Likewise.
        combine: Likewise.
        direction: Likewise, for both shots.
        realization: Likewise, of the first shot.
        reducing: Likewise.
        gathering: Realization of the second shot; that of the first if it is left out.

    Returns:
        By rank, the token that the sum is there.

    Raises:
        PlanError: As for `reduce_scatter_tiles`.
    """
    sums = _Sums(plan, buffer, splits, direction, realization, reducing)
    done = sums.by_tiles() if combine is Combine.TILES else sums.by_role()
    world = plan.world_size
    arrived: list[list[Token]] = [[] for _ in range(world)]
    for piece, token in done.items():
        arrived[piece.owner].append(token)
        for peer in sums.peers(piece.owner):
            arrived[peer].append(
                sums.move(
                    piece.chunk,
                    piece.chunk,
                    piece.owner,
                    peer,
                    [token],
                    gathering or realization,
                )
            )
    with plan.claim(after=[token for tokens in arrived for token in tokens]):
        plan.all_reduce(buffer)
    for rank in range(world):
        plan.output(buffer[:], rank=rank)
    return [plan.join(tokens) for tokens in arrived]


def all_to_all_tiles(plan: Plan, buffer: Buffer, received: Buffer) -> Token:
    """Exchanges the blocks that the tiles of all ranks compute; a call gives back what a rank has received.

    How, and in how many pieces, is the strategy's choice.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, …], M a multiple of the number of ranks.
        received: Another buffer of that shape. Afterwards its block i is the one that rank i has computed for this
            rank.

    Returns:
        The token that every rank has all its blocks.

    Raises:
        PlanError: The ranks do not divide M, so that there would be gaps in what is given back, or a rule of
            `Plan.all_to_all` is broken.
    """
    if buffer.shape[0] % plan.world_size:
        raise PlanError(
            f"buffer {buffer.name}: expects a multiple of {plan.world_size} rows, but got {buffer.shape[0]}"
        )
    ranks = range(plan.world_size)
    made = [plan.produce(buffer[:], rank=rank) for rank in ranks]
    token = plan.all_to_all(buffer, received, after=made)
    for rank in ranks:
        plan.output(received[:], rank=rank)
    return token


class _Sums:
    """Adds the parts of every block at its rank."""

    def __init__(
        self,
        plan: Plan,
        buffer: Buffer,
        splits: int,
        direction: str,
        realization: str | None,
        reducing: str | None,
    ) -> None:
        if splits < 1:
            raise PlanError(f"splits: expects a positive number, but got {splits}")
        if direction not in ("push", "pull"):
            raise PlanError(f"direction: expects push or pull, but got {direction!r}")
        self.plan, self.buffer, self.splits = plan, buffer, splits
        self.direction, self.realization, self.reducing = direction, realization, reducing
        blocks = shard(buffer, 0, plan.world_size)
        self.blocks = [block for block in blocks if block is not None]
        if len(self.blocks) != plan.world_size:
            raise PlanError(
                f"buffer {buffer.name}: expects rows for each of {plan.world_size} ranks, but got {buffer.shape[0]}"
            )

    def by_tiles(self) -> dict[_Piece, Token]:
        """Own tiles add to what has arrived from the next rank, to which a role has added what others have sent."""
        ranks = range(self.plan.world_size)
        made = {
            (rank, owner): self.plan.produce(self.blocks[owner], rank=rank)
            for rank in ranks
            for owner in ranks
            if rank != owner
        }
        slots = self._slots(len(ranks) - 2)
        sums: dict[_Piece, Token] = {}
        for distance, piece in self._order():
            chunk, source = piece.chunk, self._source(piece.owner, distance)
            target = chunk if distance == 1 else self._slot(slots, piece, distance - 2)
            token = self.move(
                chunk, target, source, piece.owner, [made[source, piece.owner]], self.realization
            )
            if distance > 1:
                token = self._add(target, chunk, piece.owner, [sums[piece], token])
            sums[piece] = token
        return {
            piece: self.plan.produce(
                piece.chunk, rank=piece.owner, reduction="sum", after=[sums[piece]]
            )
            for piece in self._pieces()
        }

    def by_role(self) -> dict[_Piece, Token]:
        """A role adds to what own tiles have computed."""
        ranks = range(self.plan.world_size)
        made = [self.plan.produce(self.buffer[:], rank=rank) for rank in ranks]
        push = self.direction == "push"
        slots = self._slots(len(ranks) - 1) if push else None
        sums: dict[_Piece, Token] = {}
        for distance, piece in self._order():
            chunk, source = piece.chunk, self._source(piece.owner, distance)
            before = [sums[piece]] if piece in sums else [made[piece.owner]]
            if slots is None:
                sums[piece] = self.plan.get(
                    chunk,
                    chunk,
                    src_rank=source,
                    dst_rank=piece.owner,
                    reduction="sum",
                    after=[made[source], *before],
                    realization=self.reducing,
                )
                continue
            slot = self._slot(slots, piece, distance - 1)
            sent = self.move(chunk, slot, source, piece.owner, [made[source]], self.realization)
            sums[piece] = self._add(slot, chunk, piece.owner, [sent, *before])
        return sums

    def move(
        self,
        src: Chunk,
        dst: Chunk,
        src_rank: int,
        dst_rank: int,
        after: Sequence[Token],
        realization: str | None,
    ) -> Token:
        """A transfer between ranks."""
        add = self.plan.put if self.direction == "push" else self.plan.get
        return add(
            src, dst, src_rank=src_rank, dst_rank=dst_rank, after=after, realization=realization
        )

    def peers(self, rank: int) -> Iterator[int]:
        """All other ranks, the next one first."""
        world = self.plan.world_size
        return ((rank + distance) % world for distance in range(1, world))

    def _add(self, slot: Chunk, chunk: Chunk, rank: int, after: Sequence[Token]) -> Token:
        return self.plan.put(
            slot,
            chunk,
            src_rank=rank,
            dst_rank=rank,
            reduction="sum",
            after=after,
            realization=self.reducing,
        )

    def _source(self, owner: int, distance: int) -> int:
        return (owner - distance) % self.plan.world_size

    def _order(self) -> Iterator[tuple[int, _Piece]]:
        """Parts in the order in which they are moved: what goes to the next rank first, then to the one after it."""
        for distance in range(1, self.plan.world_size):
            for piece in self._pieces():
                yield distance, piece

    def _pieces(self) -> Iterator[_Piece]:
        """The pieces of all blocks, the first of each block first."""
        for number in range(self.splits):
            for owner, block in enumerate(self.blocks):
                first, rows = block.offsets[0], block.sizes[0]
                begin, end = (rows * edge // self.splits for edge in (number, number + 1))
                if begin < end:
                    yield _Piece(owner, number, self.buffer[first + begin : first + end])

    def _slots(self, count: int) -> Buffer | None:
        if count == 0:
            return None
        rows = max(block.sizes[0] for block in self.blocks)
        shape = (count * rows, *self.buffer.shape[1:])
        return self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)

    def _slot(self, slots: Buffer | None, piece: _Piece, number: int) -> Chunk:
        assert slots is not None
        rows = max(block.sizes[0] for block in self.blocks)
        first = number * rows + piece.chunk.offsets[0] - self.blocks[piece.owner].offsets[0]
        return slots[first : first + piece.chunk.sizes[0]]
