"""How the parts of a sum that tiles compute are brought together: the transfers of templates."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan, shard

__all__ = ["Combine", "Mover", "Piece", "Sums"]


class Combine(enum.Enum):
    """Who adds the parts of a sum."""

    TILES = "tiles"
    """The tiles of the block's own rank add theirs to what has arrived: stores by TMA in the buffer's type, stores by
    pointers in float32, rounded once. A tile must not straddle two blocks. With more than two ranks, a communication
    role first adds up what has arrived, in float32, rounded once."""
    ROLE = "role"
    """A communication role of the block's rank adds all parts at once, in float32, rounded once."""
    DESTINATION = "destination"
    """The other ranks add to what the block's own rank has computed, by atomic operations and in no order. Needs no
    other buffer, but is rounded once for each part, and results may differ from call to call. For f32, f16 and bf16,
    pushed."""
    STRATEGY = "strategy"
    """The plan has the collective itself, and the strategy says what becomes of it: with realization nccl, calls of the
    library, which rounds as it does; else transfers by its algorithm, rounded once for each part."""


@dataclass(frozen=True)
class Piece:
    """A piece of a block: its rank, its number there, and where it lies."""

    owner: int
    number: int
    chunk: Chunk


class Mover:
    """Transfers between ranks, by pieces, in one direction."""

    def __init__(self, plan: Plan, splits: int, direction: str) -> None:
        if splits < 1:
            raise PlanError(f"splits: expects a positive number, but got {splits}")
        if direction not in ("push", "pull"):
            raise PlanError(f"direction: expects push or pull, but got {direction!r}")
        self.plan, self.splits, self.direction = plan, splits, direction

    def cut(self, first: int, rows: int) -> Iterator[tuple[int, int]]:
        """Where the pieces of some rows begin and end, empty ones left out."""
        for number in range(self.splits):
            begin, end = (rows * edge // self.splits for edge in (number, number + 1))
            if begin < end:
                yield first + begin, first + end

    def __call__(
        self,
        src: Chunk,
        dst: Chunk,
        src_rank: int,
        dst_rank: int,
        after: Sequence[Token],
        realization: str | None,
    ) -> Token:
        """Adds one transfer."""
        add = self.plan.put if self.direction == "push" else self.plan.get
        return add(
            src, dst, src_rank=src_rank, dst_rank=dst_rank, after=after, realization=realization
        )


class Sums:
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
        self.move = Mover(plan, splits, direction)
        self.plan, self.buffer = plan, buffer
        self.realization, self.reducing = realization, reducing
        blocks = shard(buffer, 0, plan.world_size)
        self.blocks = [block for block in blocks if block is not None]
        if len(self.blocks) != plan.world_size:
            raise PlanError(
                f"buffer {buffer.name}: expects rows for each of {plan.world_size} ranks, but got {buffer.shape[0]}"
            )

    def add(self, combine: Combine) -> dict[Piece, Token]:
        """Adds the parts of each piece at its rank."""
        if combine is Combine.TILES:
            return self._by_tiles()
        return self._by_role() if combine is Combine.ROLE else self._at_destination()

    def _by_tiles(self) -> dict[Piece, Token]:
        """Own tiles add to what has arrived from the next rank, to which a role has added what others have sent."""
        ranks = range(self.plan.world_size)
        made = {
            (rank, owner): self.plan.produce(self.blocks[owner], rank=rank)
            for rank in ranks
            for owner in ranks
            if rank != owner
        }
        slots = self._slots(len(ranks) - 2)

        def bring(piece: Piece, distance: int) -> Token:
            source = self._source(piece.owner, distance)
            target = piece.chunk if distance == 1 else self._slot(slots, piece, distance - 2)
            return self.move(
                piece.chunk,
                target,
                source,
                piece.owner,
                [made[source, piece.owner]],
                self.realization,
            )

        sums = {
            piece: self._add(slots, piece, arrived) if slots else self.plan.join(arrived)
            for piece, arrived in self._bring_all(bring)
        }
        return {
            piece: self.plan.produce(piece.chunk, rank=piece.owner, reduction="sum", after=[token])
            for piece, token in sums.items()
        }

    def _by_role(self) -> dict[Piece, Token]:
        """A role adds to what own tiles have computed."""
        ranks = range(self.plan.world_size)
        made = [self.plan.produce(self.buffer[:], rank=rank) for rank in ranks]
        if len(ranks) == 2 and self.move.direction == "pull":
            return {
                piece: self.plan.get(
                    piece.chunk,
                    piece.chunk,
                    src_rank=1 - piece.owner,
                    dst_rank=piece.owner,
                    reduction="sum",
                    after=made,
                    realization=self.reducing,
                )
                for piece in self._pieces()
            }
        slots = self._slots(len(ranks) - 1)

        def bring(piece: Piece, distance: int) -> Token:
            source = self._source(piece.owner, distance)
            slot = self._slot(slots, piece, distance - 1)
            return self.move(
                piece.chunk, slot, source, piece.owner, [made[source]], self.realization
            )

        return {
            piece: self._add(slots, piece, [made[piece.owner], *arrived])
            for piece, arrived in self._bring_all(bring)
        }

    def _at_destination(self) -> dict[Piece, Token]:
        """All others add to what own tiles have computed, in any order."""
        if self.move.direction != "push":
            raise PlanError(
                f"direction: expects push with Combine.DESTINATION, but got {self.move.direction}: who gets adds in "
                "order; use Combine.ROLE"
            )
        made = [
            self.plan.produce(self.buffer[:], rank=rank) for rank in range(self.plan.world_size)
        ]

        def bring(piece: Piece, distance: int) -> Token:
            source = self._source(piece.owner, distance)
            return self.plan.put(
                piece.chunk,
                piece.chunk,
                src_rank=source,
                dst_rank=piece.owner,
                reduction="sum",
                unordered=True,
                after=[made[source], made[piece.owner]],
                realization=self.realization,
            )

        return {piece: self.plan.join(arrived) for piece, arrived in self._bring_all(bring)}

    def everywhere(self) -> list[Token]:
        """Adds all parts at every rank, in the order of the ranks; returns by rank that it is done."""
        world, rows = self.plan.world_size, self.buffer.shape[0]
        made = [self.plan.produce(self.buffer[:], rank=rank) for rank in range(world)]
        shape = ((world - 1) * rows, *self.buffer.shape[1:])
        slots = self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)
        done: list[list[Token]] = [[] for _ in range(world)]
        for first, end in self.move.cut(0, rows):
            chunk = self.buffer[first:end]
            # What others send comes in the order of their ranks; a rank's own part stands where it is computed.
            arriving: list[list[Token]] = [[] for _ in range(world)]
            leaving: list[list[Token]] = [[] for _ in range(world)]
            for distance in range(1, world):
                for source in range(world):
                    rank = (source + distance) % world
                    begin = (source - (source > rank)) * rows + first
                    slot = slots[begin : begin + end - first]
                    token = self.move(chunk, slot, source, rank, [made[source]], self.realization)
                    arriving[rank].append(token)
                    leaving[source].append(token)
            for rank in range(world):
                parts = [
                    slots[number * rows + first : number * rows + end]
                    for number in range(world - 1)
                ]
                token = self.plan.put(
                    parts,
                    chunk,
                    src_rank=rank,
                    dst_rank=rank,
                    reduction="sum",
                    behind=rank,
                    after=[made[rank], *arriving[rank], *leaving[rank]],
                    realization=self.reducing,
                )
                done[rank].append(token)
        return [self.plan.join(tokens) for tokens in done]

    def peers(self, rank: int) -> Iterator[int]:
        """All other ranks, the next one first."""
        world = self.plan.world_size
        return ((rank + distance) % world for distance in range(1, world))

    def _bring_all(
        self, bring: Callable[[Piece, int], Token]
    ) -> Iterator[tuple[Piece, list[Token]]]:
        """Moves parts: what goes to the next rank first, then to the one after it.

        Each number of a piece is complete before anything comes after it, so that who adds does not keep others'
        parts waiting.
        """
        world = self.plan.world_size
        tokens: dict[Piece, list[Token]] = {piece: [] for piece in self._pieces()}
        for distance in range(1, world - 1):
            for piece, arrived in tokens.items():
                arrived.append(bring(piece, distance))
        for number in range(self.move.splits):
            mine = [piece for piece in tokens if piece.number == number]
            for piece in mine:
                tokens[piece].append(bring(piece, world - 1))
            for piece in mine:
                yield piece, tokens[piece]

    def _add(self, slots: Buffer | None, piece: Piece, after: Sequence[Token]) -> Token:
        """Adds what is in all slots to a piece."""
        assert slots is not None
        count = slots.shape[0] // self._slot_rows
        return self.plan.put(
            [self._slot(slots, piece, number) for number in range(count)],
            piece.chunk,
            src_rank=piece.owner,
            dst_rank=piece.owner,
            reduction="sum",
            after=after,
            realization=self.reducing,
        )

    def _source(self, owner: int, distance: int) -> int:
        return (owner - distance) % self.plan.world_size

    def _pieces(self) -> Iterator[Piece]:
        """The pieces of all blocks, the first of each block first."""
        cuts = [self.move.cut(block.offsets[0], block.sizes[0]) for block in self.blocks]
        for number, edges in enumerate(itertools.zip_longest(*cuts)):
            for owner, edge in enumerate(edges):
                if edge is not None:
                    yield Piece(owner, number, self.buffer[edge[0] : edge[1]])

    @property
    def _slot_rows(self) -> int:
        return max(block.sizes[0] for block in self.blocks)

    def _slots(self, count: int) -> Buffer | None:
        if count == 0:
            return None
        shape = (count * self._slot_rows, *self.buffer.shape[1:])
        return self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)

    def _slot(self, slots: Buffer | None, piece: Piece, number: int) -> Chunk:
        assert slots is not None
        first = piece.chunk.offsets[0] - self.blocks[piece.owner].offsets[0]
        first += number * self._slot_rows
        return slots[first : first + piece.chunk.sizes[0]]
