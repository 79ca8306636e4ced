"""Heads that ranks share while each has a part of the sequence: how all of the sequence comes to a head, and back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan
from syncopate.plan.sequence import SequenceShards, Sharding, check_groups, group_columns
from syncopate.plan.sums import add_transfer, produce_everywhere, spelled
from syncopate.strategy import Strategy

__all__ = ["gather_heads", "scatter_heads"]

Columns = tuple[int, int]
"""First column and the one behind the last."""


def scatter_heads(
    plan: Plan,
    exchanges: Sequence[tuple[Buffer, Buffer, Sequence[Columns]]],
    shards: SequenceShards,
    strategy: Strategy | None = None,
    *,
    groups: int = 1,
) -> Token:
    """Says that each rank holds its rows of a sequence, and brings each rank the columns of its heads of all rows.

    Heads come one group after another, so that tiles of the first can start early. Of a group, what belongs to the same
    rows, such as queries, keys and values, comes together: a rank's own rows first, then those of the next one.

    Args:
        plan: The plan.
        exchanges: For each tensor the buffer that the caller provides, [shards.rows, all columns], the buffer that
            is filled, [shards.length, columns of a rank], and, by rank, which columns it gets. Several ranks may get
            the same.
        shards: Who has which rows, contiguous ones.
        strategy: The choices.
        groups: Groups of a rank's heads, which divide the columns of each tensor.

    Returns:
        The token that every rank has all that it gets.

    Raises:
        PlanError: Shapes do not fit each other, or a rule of the plan is broken.
    """
    strategy = strategy or Strategy()
    plan.follow(strategy)
    _check_shards(plan, shards)
    for given, received, parts in exchanges:
        _check_shapes(given, received, parts, shards, groups)
        for rank in _owners(shards):
            plan.input(given[: _count_rows(shards, rank)], rank=rank)
    plan.expect_transfers(groups * plan.world_size * len(_owners(shards)) * len(exchanges))
    arrived = []
    for group, distance in itertools.product(range(groups), range(plan.world_size)):
        for rank in range(plan.world_size):
            origin = (rank + distance) % plan.world_size
            for given, received, parts in exchanges if origin in _owners(shards) else ():
                columns = group_columns(received, group, groups)
                src, dst = _match(given, received, parts[rank], columns, shards, origin)
                arrived.append(add_transfer(plan, src, dst, origin, rank, [], strategy))
    return plan.join(arrived)


def gather_heads(
    plan: Plan,
    computed: Buffer,
    returned: Buffer,
    parts: Sequence[Columns],
    shards: SequenceShards,
    strategy: Strategy | None = None,
    *,
    groups: int = 1,
) -> list[Token]:
    """Brings each rank its rows of what the tiles of all ranks compute, each the columns of its heads.

    Each group of heads goes as soon as it is computed.

    Args:
        plan: The plan.
        computed: What tiles compute: [shards.length, columns of a rank].
        returned: What a call gives back, as far as a rank has rows: [shards.rows, all columns].
        parts: By rank, which columns of `returned` it computes: those of all ranks are all. What several ranks compute
            of the same is added, in the order of these ranks, by a role, which rounds once; then the plan gets another
            buffer for what is on its way, `<name of computed>_arriving`.
        shards: Who has which rows, contiguous ones.
        strategy: The choices.
        groups: As for `scatter_heads`.

    Returns:
        By rank, the token that its rows are there; of a rank without any, that all are.

    Raises:
        PlanError: As for `scatter_heads`.
    """
    strategy = strategy or Strategy()
    plan.follow(strategy)
    _check_shards(plan, shards)
    _check_shapes(returned, computed, parts, shards, groups)
    ranks = range(plan.world_size)
    plan.expect_transfers(groups * len(ranks) * len(_owners(shards)))
    made = produce_everywhere(plan, computed)
    # By rank, how many before it compute the same.
    number = [list(parts[:rank]).count(parts[rank]) for rank in ranks]
    slots = None
    if any(number):
        shape = (max(number) * shards.rows, returned.shape[1])
        slots = plan.buffer(f"{computed.name}_arriving", shape, computed.dtype)
    # By owner and columns, where they go, and the transfers that bring them.
    arrived: dict[tuple[int, int, int], tuple[Chunk, list[Token]]] = {}
    for group, distance in itertools.product(range(groups), ranks):
        for source in ranks:
            owner = (source + distance) % plan.world_size
            if owner not in _owners(shards):
                continue
            columns = group_columns(computed, group, groups)
            dst, src = _match(returned, computed, parts[source], columns, shards, owner)
            _, tokens = arrived.setdefault((owner, parts[source][0], group), (dst, []))
            if slots is not None and number[source]:
                dst = _slot(slots, dst, number[source], shards)
            tokens.append(add_transfer(plan, src, dst, source, owner, [made[source]], strategy))
    done: list[list[Token]] = [[] for _ in ranks]
    for (owner, *_), (dst, tokens) in arrived.items():
        if slots is not None and len(tokens) > 1:
            added = plan.put(
                [_slot(slots, dst, other, shards) for other in range(1, len(tokens))],
                dst,
                src_rank=owner,
                dst_rank=owner,
                reduction="sum",
                after=tokens,
                realization=spelled(strategy.reducing),
            )
            tokens = [added]
        done[owner] += tokens
    for rank in _owners(shards):
        plan.output(returned[: _count_rows(shards, rank)], rank=rank)
    everything = [token for tokens in done for token in tokens]
    return [plan.join(tokens or everything) for tokens in done]


def _slot(slots: Buffer, dst: Chunk, number: int, shards: SequenceShards) -> Chunk:
    """Where a part arrives that is not the first one of a sum at `dst`."""
    (row, column), (rows, columns) = dst.offsets, dst.sizes
    first = (number - 1) * shards.rows + row
    return slots[first : first + rows, column : column + columns]


def _owners(shards: SequenceShards) -> range:
    """The ranks that have rows: all but the last ones of a short sequence."""
    return range(-(-shards.length // shards.block))


def _count_rows(shards: SequenceShards, rank: int) -> int:
    return sum(end - begin for begin, end in shards.ranges(rank))


def _match(
    shared: Buffer,
    whole: Buffer,
    part: Columns,
    columns: slice,
    shards: SequenceShards,
    owner: int,
) -> tuple[Chunk, Chunk]:
    """The rows of one rank in its own tensor, and in that of the rank that has a part, of some columns of the part."""
    ((begin, end),) = shards.ranges(owner)
    own = shared[: end - begin, part[0] + columns.start : part[0] + columns.stop]
    return own, whole[begin:end, columns]


def _check_shards(plan: Plan, shards: SequenceShards) -> None:
    if plan.world_size != shards.world_size:
        raise PlanError(
            f"shards: expects a sequence of {plan.world_size} ranks, those of the plan, but got {shards.world_size}"
        )
    if shards.sharding is not Sharding.CONTIGUOUS:
        raise PlanError(
            "shards: expects Sharding.CONTIGUOUS for heads, each of which takes all of the sequence, but got "
            f"{shards.sharding}"
        )


def _check_shapes(
    shared: Buffer,
    whole: Buffer,
    parts: Sequence[Columns],
    shards: SequenceShards,
    groups: int,
) -> None:
    """Raises PlanError unless rows are those of the shards, and all parts of as many columns as a rank has."""
    for buffer, rows in ((shared, shards.rows), (whole, shards.length)):
        if len(buffer.shape) != 2 or buffer.shape[0] != rows:
            raise PlanError(
                f"buffer {buffer.name}: expects [{rows}, columns], but got {list(buffer.shape)}"
            )
    check_groups(whole, groups)
    width = whole.shape[1]
    for rank, (begin, end) in enumerate(parts):
        if not 0 <= begin < end <= shared.shape[1] or end - begin != width:
            raise PlanError(
                f"parts: expects {width} of {shared.shape[1]} columns of buffer {shared.name} for rank {rank}, but got "
                f"[{begin}, {end})"
            )
