"""Plans of common workloads: what becomes of a buffer that a kernel's tiles compute.

All ranks compute a buffer, which is cut along its first dimension into as many blocks as there are ranks. Where each
rank's tiles compute a part of a sum, as a GEMM does whose K is cut among the ranks, `reduce_scatter_tiles` and
`all_reduce_tiles` add to a plan what brings the parts together; `all_to_all_tiles` sends block i to rank i.
"""

from __future__ import annotations

import enum
import math
from typing import Final

from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Token
from syncopate.plan.builder import Plan, shard
from syncopate.plan.sums import Combine, Mover, Sums

__all__ = [
    "Combine",
    "Shots",
    "all_gather_tiles",
    "all_reduce_tiles",
    "all_to_all_tiles",
    "choose_shots",
    "reduce_scatter_tiles",
]


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
        realization: Of the transfers between ranks, or of the collective with `Combine.STRATEGY`; the strategy's if it
            is left out.
        reducing: Of those that add within a rank, likewise; loads and stores if the strategy's cannot.

    Returns:
        By rank, the token that its block of the sum is there.

    Raises:
        PlanError: The buffer has no rows for some rank, or a rule of the plan is broken.
    """
    if combine is Combine.STRATEGY:
        made = [plan.produce(buffer[:], rank=rank) for rank in range(plan.world_size)]
        token = plan.reduce_scatter(buffer, after=made, realization=realization)
        for owner, part in enumerate(shard(buffer, 0, plan.world_size)):
            if part is not None:
                plan.output(part, rank=owner)
        return [token] * plan.world_size
    sums = Sums(plan, buffer, splits, direction, realization, reducing)
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
    if combine is Combine.STRATEGY:
        if shots is not None:
            raise PlanError(
                f"shots: expects none where the strategy says how parts are added, but got {shots}"
            )
        made = [plan.produce(buffer[:], rank=rank) for rank in range(world)]
        token = plan.all_reduce(buffer, after=made, realization=realization)
        for rank in range(world):
            plan.output(buffer[:], rank=rank)
        return [token] * world
    if shots is None:
        nbytes = math.prod(buffer.shape) * DTYPES[buffer.dtype].nbytes
        shots = choose_shots(nbytes, world) if combine is None else Shots.TWO
    sums = Sums(plan, buffer, splits, direction, realization, reducing)
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


def all_to_all_tiles(
    plan: Plan, buffer: Buffer, received: Buffer, *, realization: str | None = None
) -> Token:
    """Exchanges the blocks that the tiles of all ranks compute; a call gives back what a rank has received.

    How, and in how many pieces, is the strategy's choice.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, …], M a multiple of the number of ranks.
        received: Another buffer of that shape. Afterwards its block i is the one that rank i has computed for this
            rank.
        realization: nccl makes it calls of the library, if the strategy is not to choose.

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
    token = plan.all_to_all(buffer, received, after=made, realization=realization)
    for rank in ranks:
        plan.output(received[:], rank=rank)
    return token


def all_gather_tiles(
    plan: Plan,
    own: Buffer,
    gathered: Buffer,
    *,
    splits: int = 1,
    direction: str = "push",
    realization: str | None = None,
) -> list[Token]:
    """Gathers what the tiles of all ranks compute, each its own block; the call gives back all of it on every rank.

    Args:
        plan: The plan.
        own: What tiles compute: [R, …], on rank r block r.
        gathered: All blocks: [M, …], of R rows each, the last ones shorter or empty.
        splits: Pieces that a block is moved in.
        direction: push or pull: who carries out the transfers.
        realization: Of the transfers; the strategy's if it is left out.

    Returns:
        By rank, the token that all blocks are there.

    Raises:
        PlanError: The rows of the buffers do not fit each other, or a rule of the plan is broken.
    """
    world = plan.world_size
    blocks = shard(gathered, 0, world)
    rows = -(-gathered.shape[0] // world)
    if own.shape[0] != rows:
        raise PlanError(
            f"own: expects {rows} rows, those of a block of buffer {gathered.name}, but got {own.shape[0]}"
        )
    move = Mover(plan, splits, direction)
    arrived: list[list[Token]] = [[] for _ in range(world)]
    made = [plan.produce(own[:], rank=rank) for rank in range(world)]
    for distance in range(world):
        for source, block in enumerate(blocks):
            if block is None:
                continue
            rank, first = (source + distance) % world, block.offsets[0]
            for begin, end in move.cut(0, block.sizes[0]):
                src, dst = own[begin:end], gathered[first + begin : first + end]
                token = move(src, dst, source, rank, [made[source]], realization)
                arrived[rank].append(token)
    for rank in range(world):
        plan.output(gathered[:], rank=rank)
    return [plan.join(tokens) for tokens in arrived]
