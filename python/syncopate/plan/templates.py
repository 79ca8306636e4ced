"""Plans of common workloads: what becomes of a buffer that a kernel's tiles compute.

Every rank's tiles compute a part of a sum, as a GEMM does whose K is cut among the ranks. The functions here add to a
plan what brings the parts together: in one buffer that all ranks compute, cut along its first dimension into as many
blocks as there are ranks.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan, shard

__all__ = ["Combine", "Shots", "all_reduce_tiles", "choose_shots", "reduce_scatter_tiles"]


class Combine(enum.Enum):
    """Who adds the parts of a sum."""

    TILES = "tiles"
    """The tiles of the block's own rank add theirs to what has arrived, by atomic stores, rounded in the buffer's type.
    A tile must not straddle two blocks. With more than two ranks, a communication role first adds up what has arrived,
    in float32, rounded once."""
    ROLE = "role"
    """A communication role of the block's rank adds all parts at once, in float32, rounded once."""
    DESTINATION = "destination"
    """The other ranks add to what the block's own rank has computed, by atomic operations and in no order. Needs no
    other buffer, but is rounded once for each part, and results may differ from call to call. For f32, f16 and bf16,
    pushed."""


class Shots(enum.Enum):
    """In how many steps parts of a sum come to all ranks."""

    ONE = "one"
    """Every rank sends all of its part to all others, and every rank adds all parts, in the order of the ranks: all get
    the same bits. A rank sends W - 1 times the buffer, and waits for others once."""
    TWO = "two"
    """Every rank adds the parts of its block, and sends the sum to all others. A rank sends 2 (W - 1) / W times the
    buffer, and waits for others twice."""


ONE_SHOT_BYTES: Final = 2 << 20
"""What a rank sends in at most some 10 µs, as long as a second wait for all others takes."""


def choose_shots(nbytes: int, world_size: int) -> Shots:
    """One shot if a rank then sends at most 2 MiB, else two.

    Args:
        nbytes: Size of the buffer.
        world_size: Number of ranks.
    """
    return Shots.ONE if nbytes * (world_size - 1) <= ONE_SHOT_BYTES else Shots.TWO


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
            and pushing, the plan gets another buffer for what is on its way, of (W - 1) / W the size; not with
            `Combine.DESTINATION`.
        splits: Pieces that a block is moved in.
        combine: Who adds.
        direction: push or pull: who carries out the transfers between ranks.
        realization: Of the transfers between ranks; the strategy's if it is left out.
        reducing: Of those that add, likewise; loads and stores if the strategy's cannot.

    Returns:
        By rank, the token that its block of the sum is there.

    Raises:
        PlanError: The buffer has no rows for some rank, or a rule of the plan is broken.
    """
    sums = _Sums(plan, buffer, splits, direction, realization, reducing)
    done = sums.add(combine)
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
    shots: Shots | None = None,
    splits: int = 1,
    combine: Combine | None = None,
    direction: str = "push",
    realization: str | None = None,
    reducing: str | None = None,
    gathering: str | None = None,
) -> list[Token]:
    """Reduces what the tiles of all ranks compute; every rank gets all of the sum, which the call gives back.

    Args:
        plan: As for `reduce_scatter_tiles`.
        buffer: Likewise. In one shot, the plan gets another one of W - 1 times its size.
        shots: One or two. If it is left out, `choose_shots` says, and two if `combine` is given. In two, each piece of
            a block, as soon as it is complete, goes from its rank to all others.
        splits: Pieces that a block is moved in, or, in one shot, the buffer.
        combine: Who adds: `Combine.TILES` if it is left out, and a role in one shot, which takes no other choice.
        direction: As for `reduce_scatter_tiles`, for both shots.
        realization: Likewise, of the first shot.
        reducing: Likewise.
        gathering: Realization of the second shot; that of the first if it is left out.

    Returns:
        By rank, the token that the sum is there.

    Raises:
        PlanError: As for `reduce_scatter_tiles`; or one shot is to add by tiles, or at the destination.
    """
    world = plan.world_size
    if shots is None:
        nbytes = math.prod(buffer.shape) * DTYPES[buffer.dtype].nbytes
        shots = choose_shots(nbytes, world) if combine is None else Shots.TWO
    sums = _Sums(plan, buffer, splits, direction, realization, reducing)
    if shots is Shots.ONE:
        if combine not in (None, Combine.ROLE):
            raise PlanError(
                f"combine: expects a role to add in one shot, but got {combine}; use Shots.TWO"
            )
        tokens = sums.everywhere()
        with plan.claim(after=tokens):
            plan.all_reduce(buffer)
        for rank in range(world):
            plan.output(buffer[:], rank=rank)
        return tokens
    done = sums.add(combine or Combine.TILES)
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

    def add(self, combine: Combine) -> dict[_Piece, Token]:
        """Adds the parts of each piece at its rank."""
        if combine is Combine.TILES:
            return self._by_tiles()
        return self._by_role() if combine is Combine.ROLE else self._at_destination()

    def _by_tiles(self) -> dict[_Piece, Token]:
        """Own tiles add to what has arrived from the next rank, to which a role has added what others have sent."""
        ranks = range(self.plan.world_size)
        made = {
            (rank, owner): self.plan.produce(self.blocks[owner], rank=rank)
            for rank in ranks
            for owner in ranks
            if rank != owner
        }
        slots = self._slots(len(ranks) - 2)

        def bring(piece: _Piece, distance: int) -> Token:
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

    def _by_role(self) -> dict[_Piece, Token]:
        """A role adds to what own tiles have computed."""
        ranks = range(self.plan.world_size)
        made = [self.plan.produce(self.buffer[:], rank=rank) for rank in ranks]
        if len(ranks) == 2 and self.direction == "pull":
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

        def bring(piece: _Piece, distance: int) -> Token:
            source = self._source(piece.owner, distance)
            slot = self._slot(slots, piece, distance - 1)
            return self.move(
                piece.chunk, slot, source, piece.owner, [made[source]], self.realization
            )

        return {
            piece: self._add(slots, piece, [made[piece.owner], *arrived])
            for piece, arrived in self._bring_all(bring)
        }

    def _at_destination(self) -> dict[_Piece, Token]:
        """All others add to what own tiles have computed, in any order."""
        if self.direction != "push":
            raise PlanError(
                f"direction: expects push with Combine.DESTINATION, but got {self.direction}: who gets adds in order; "
                "use Combine.ROLE"
            )
        made = [
            self.plan.produce(self.buffer[:], rank=rank) for rank in range(self.plan.world_size)
        ]

        def bring(piece: _Piece, distance: int) -> Token:
            source = self._source(piece.owner, distance)
            return self.plan.put(
                piece.chunk,
                piece.chunk,
                src_rank=source,
                dst_rank=piece.owner,
                reduction="sum",
                unordered=True,
                after=[made[source], made[piece.owner]],
                realization=self.reducing or self.realization,
            )

        return {piece: self.plan.join(arrived) for piece, arrived in self._bring_all(bring)}

    def everywhere(self) -> list[Token]:
        """Adds all parts at every rank, in the order of the ranks; returns by rank that it is done."""
        world, rows = self.plan.world_size, self.buffer.shape[0]
        made = [self.plan.produce(self.buffer[:], rank=rank) for rank in range(world)]
        shape = ((world - 1) * rows, *self.buffer.shape[1:])
        slots = self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)
        done: list[list[Token]] = [[] for _ in range(world)]
        for first, end in self._cut(0, rows):
            if first == end:
                continue
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

    def _bring_all(
        self, bring: Callable[[_Piece, int], Token]
    ) -> Iterator[tuple[_Piece, list[Token]]]:
        """Moves parts: what goes to the next rank first, then to the one after it.

        Each number of a piece is complete before anything comes after it, so that who adds does not keep others'
        parts waiting.
        """
        world = self.plan.world_size
        tokens: dict[_Piece, list[Token]] = {piece: [] for piece in self._pieces()}
        for distance in range(1, world - 1):
            for piece, arrived in tokens.items():
                arrived.append(bring(piece, distance))
        for number in range(self.splits):
            mine = [piece for piece in tokens if piece.number == number]
            for piece in mine:
                tokens[piece].append(bring(piece, world - 1))
            for piece in mine:
                yield piece, tokens[piece]

    def _add(self, slots: Buffer | None, piece: _Piece, after: Sequence[Token]) -> Token:
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

    def _cut(self, first: int, rows: int) -> Iterator[tuple[int, int]]:
        """Where the pieces of some rows begin and end."""
        for number in range(self.splits):
            begin, end = (rows * edge // self.splits for edge in (number, number + 1))
            yield first + begin, first + end

    def _pieces(self) -> Iterator[_Piece]:
        """The pieces of all blocks, the first of each block first."""
        cuts = [list(self._cut(block.offsets[0], block.sizes[0])) for block in self.blocks]
        for number in range(self.splits):
            for owner, edges in enumerate(cuts):
                begin, end = edges[number]
                if begin < end:
                    yield _Piece(owner, number, self.buffer[begin:end])

    @property
    def _slot_rows(self) -> int:
        return max(block.sizes[0] for block in self.blocks)

    def _slots(self, count: int) -> Buffer | None:
        if count == 0:
            return None
        shape = (count * self._slot_rows, *self.buffer.shape[1:])
        return self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)

    def _slot(self, slots: Buffer | None, piece: _Piece, number: int) -> Chunk:
        assert slots is not None
        first = piece.chunk.offsets[0] - self.blocks[piece.owner].offsets[0]
        first += number * self._slot_rows
        return slots[first : first + piece.chunk.sizes[0]]
