"""Plans of common workloads: what becomes of a buffer that a kernel's tiles compute.

All ranks compute a buffer, which is cut along its first dimension into as many blocks as there are ranks. Where each
rank's tiles compute a part of a sum, as a GEMM does whose K is cut among the ranks, `reduce_scatter_tiles` and
`all_reduce_tiles` add to a plan what brings the parts together; `all_to_all_tiles` sends block i to rank i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from syncopate.choices import Combine, Shots
from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Token
from syncopate.plan.builder import Plan, shard
from syncopate.plan.kinds import Collective
from syncopate.plan.sums import Sums, add_transfer, give_back, produce_everywhere, spelled
from syncopate.strategy import Strategy

__all__ = [
    "all_gather_tiles",
    "all_reduce_tiles",
    "all_to_all_tiles",
    "choose_shots",
    "reduce_scatter_tiles",
]


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
    plan: Plan, buffer: Buffer, strategy: Strategy | None = None
) -> list[Token]:
    """Reduces what the tiles of all ranks compute; rank r gets block r of the sum, which the call gives back.

    Of too few rows for all ranks the last ones get none. The order in which parts are added does not depend on time,
    unless they are combined at the destination, so results are the same bits every time.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, …]. With more than two ranks, or with `Combine.ROLE`
            and pushing, the plan gets another buffer for what is on its way, of (W - 1) / W the size; not with
            `Combine.DESTINATION` or `Combine.COLLECTIVE`. Where the strategy says how transfers between nodes are
            carried out, a role adds the parts of its node before the sum goes to another node, and the plan gets a
            buffer for either.
        strategy: The choices: `combine`, `direction`, `reducing`; and `realization`, as far as nccl leaves the
            collective itself in the plan. `syncopate.compile` makes the others, and takes this strategy if it is given
            none.

    Returns:
        By rank, the token that its block of the sum is there; of a rank without one, that all are.

    Raises:
        PlanError: There is one rank only, the plan has followed another strategy before, or a rule of the plan is
            broken.
    """
    strategy = strategy or Strategy()
    if strategy.leaves_collective:
        done = [plan.reduce_scatter(buffer, after=_leave_collective(plan, buffer, strategy))]
        done *= plan.world_size
    else:
        sums = Sums(plan, buffer, strategy)
        done = sums.add(None if strategy.combine is None else Combine(strategy.combine))
        with plan.claim(after=done):
            plan.reduce_scatter(buffer)
        # Ranks without rows have nothing to wait for.
        done += [plan.join(done)] * (plan.world_size - len(done))
    give_back(plan, Collective.REDUCE_SCATTER, buffer)
    return done


def all_reduce_tiles(plan: Plan, buffer: Buffer, strategy: Strategy | None = None) -> list[Token]:
    """Reduces what the tiles of all ranks compute; every rank gets all of the sum, which the call gives back.

    In two shots, each piece of a block, as soon as it is complete, goes from its rank to all others.

    Args:
        plan: As for `reduce_scatter_tiles`.
        buffer: Likewise. In one shot, the plan gets another one of W - 1 times its size.
        strategy: As there; of `shots` and `gathering` too.

    Returns:
        By rank, the token that the sum is there.

    Raises:
        PlanError: As for `reduce_scatter_tiles`; or one shot is to add by tiles, or at the destination; or there are
            `shots` where the collective itself stays in the plan.
    """
    world = plan.world_size
    strategy = strategy or Strategy()
    if strategy.leaves_collective:
        token = plan.all_reduce(buffer, after=_leave_collective(plan, buffer, strategy))
        give_back(plan, Collective.ALL_REDUCE, buffer)
        return [token] * world
    combine, shots = strategy.combine, strategy.shots
    if shots is None:
        nbytes = math.prod(buffer.shape) * DTYPES[buffer.dtype].nbytes
        in_one = combine is None and strategy.between is None
        shots = choose_shots(nbytes, world) if in_one else Shots.TWO
    sums = Sums(plan, buffer, strategy)
    if shots is Shots.ONE:
        if combine not in (None, Combine.ROLE):
            raise PlanError(
                f"combine: expects a role to add in one shot, but got {combine}; use Shots.TWO"
            )
        tokens = sums.everywhere()
    else:
        done = sums.add(None if combine is None else Combine(combine))
        arrived = [done[rank : rank + 1] for rank in range(world)]
        for owner, block in enumerate(sums.blocks):
            for peer in sums.peers(owner):
                token = add_transfer(
                    plan,
                    block,
                    block,
                    owner,
                    peer,
                    [done[owner]],
                    strategy,
                    spelled(strategy.gathering),
                )
                arrived[peer].append(token)
        tokens = [plan.join(those) for those in arrived]
    with plan.claim(after=tokens):
        plan.all_reduce(buffer)
    give_back(plan, Collective.ALL_REDUCE, buffer)
    return tokens


def _leave_collective(plan: Plan, buffer: Buffer, strategy: Strategy) -> list[Token]:
    """What all ranks compute, where the passes make of the collective what the strategy says."""
    plan.follow(strategy)
    if strategy.shots is not None:
        raise PlanError(
            "shots: expects none where the passes say how parts of a sum are added, but got "
            f"{spelled(strategy.shots)}"
        )
    return produce_everywhere(plan, buffer)


def all_to_all_tiles(
    plan: Plan, buffer: Buffer, received: Buffer, rows: Sequence[Sequence[int]] | None = None
) -> Token:
    """Exchanges the blocks that the tiles of all ranks compute; a call gives back what a rank has received.

    How, and in how many pieces, is the strategy's choice.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, …], M a multiple of the number of ranks.
        received: Another buffer of that shape. Afterwards its block i is the one that rank i has computed for this
            rank.
        rows: Which rows ranks send instead of blocks, as of `Plan.all_to_all`; then M is any number, and `received`
            has room for as many rows of each rank as one sends to another at most. Rows of it to which none is sent
            are undefined.

    Returns:
        The token that every rank has all its blocks.

    Raises:
        PlanError: The ranks do not divide M, so that there would be gaps in what is given back, or a rule of
            `Plan.all_to_all` is broken.
    """
    if rows is None and buffer.shape[0] % plan.world_size:
        raise PlanError(
            f"buffer {buffer.name}: expects a multiple of {plan.world_size} rows, but got {buffer.shape[0]}"
        )
    token = plan.all_to_all(buffer, received, rows=rows, after=produce_everywhere(plan, buffer))
    give_back(plan, Collective.ALL_TO_ALL, received)
    return token


def all_gather_tiles(
    plan: Plan,
    own: Buffer,
    gathered: Buffer,
    strategy: Strategy | None = None,
    *,
    returned: bool = True,
) -> list[Token]:
    """Gathers what the tiles of all ranks compute, each its own block; the call gives back all of it on every rank.

    Args:
        plan: The plan.
        own: What tiles compute: [R, …], on rank r block r.
        gathered: All blocks: [M, …], of R rows each, the last ones shorter or empty.
        strategy: The choices, of which the direction is made here; as for `reduce_scatter_tiles`.
        returned: Whether the call gives them back. If not, other tiles of the kernel read them.

    Returns:
        By rank, the token that all blocks are there.

    Raises:
        PlanError: The rows of the buffers do not fit each other, the plan has followed another strategy before, or a
            rule of the plan is broken.
    """
    world = plan.world_size
    strategy = strategy or Strategy()
    plan.follow(strategy)
    blocks = shard(gathered, 0, world)
    rows = -(-gathered.shape[0] // world)
    if own.shape[0] != rows:
        raise PlanError(
            f"own: expects {rows} rows, those of a block of buffer {gathered.name}, but got {own.shape[0]}"
        )
    plan.expect_transfers(sum(block is not None for block in blocks) * world)
    arrived: list[list[Token]] = [[] for _ in range(world)]
    made = produce_everywhere(plan, own)
    for distance in range(world):
        for source, block in enumerate(blocks):
            if block is None:
                continue
            rank, src = (source + distance) % world, own[: block.sizes[0]]
            arrived[rank].append(
                add_transfer(plan, src, block, source, rank, [made[source]], strategy)
            )
    if returned:
        give_back(plan, Collective.ALL_GATHER, gathered)
    return [plan.join(tokens) for tokens in arrived]
