"""How tensors of ranks that share heads get from rows to heads, and back, in plans of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from syncopate.plan.heads import gather_heads, scatter_heads
from syncopate.strategy import Strategy

if TYPE_CHECKING:
    from syncopate.plan import Buffer, Plan
    from syncopate.workloads.attention import AttentionWorkload

__all__ = ["gather_rows", "scatter_rows"]


def scatter_rows(
    work: AttentionWorkload, plan: Plan, strategy: Strategy, heads: Mapping[str, int]
) -> dict[str, Buffer]:
    """Brings each rank all of the sequence of its heads.

    Args:
        work: The workload, of ULYSSES.
        plan: The plan, which gets two buffers for each tensor: what a rank's call is given, and `<name>_heads`.
        strategy: The choices.
        heads: By tensor, how many heads an element of each sequence has.

    Returns:
        By tensor, the buffer of a rank's heads.

    Raises:
        PlanError: As for `syncopate.plan.heads.scatter_heads`.
    """
    shards, exchanges = work.shards, []
    for name, count in heads.items():
        columns = [work.columns(rank, count) for rank in range(work.world_size)]
        row, own = (n * work.head_dim for n in (work.batch * count, work.count_own(count)))
        given = plan.buffer(name, (shards.rows, row), work.dtype)
        received = plan.buffer(f"{name}_heads", (shards.length, own), work.dtype)
        exchanges.append((given, received, columns))
    # Heads that share keys come together.
    groups = work.count_groups(work.count_own(work.kv_heads))
    scatter_heads(plan, exchanges, shards, strategy, groups=groups)
    return {name: received for name, (_, received, _) in zip(heads, exchanges, strict=True)}


def gather_rows(
    work: AttentionWorkload,
    plan: Plan,
    strategy: Strategy,
    name: str,
    heads: int,
    dtype: str,
    width: int = 1,
) -> Buffer:
    """Brings each rank its rows of what all compute, each group of heads when it is done.

    Args:
        work: The workload, of ULYSSES.
        plan: The plan, which gets two buffers: what is computed, `<name>_heads`, and what a call gives back.
        strategy: The choices.
        name: Of the tensor.
        heads: How many an element of each sequence has.
        dtype: Element type.
        width: How many times as many elements as one of the queries a head has.

    Returns:
        The buffer that tiles compute.

    Raises:
        PlanError: As for `syncopate.plan.heads.gather_heads`.
    """
    shards, own, wide = work.shards, work.count_own(heads), width * work.head_dim
    columns = [work.columns(rank, heads) for rank in range(work.world_size)]
    parts = [(width * begin, width * end) for begin, end in columns]
    returned = plan.buffer(name, (shards.rows, work.batch * heads * wide), dtype)
    computed = plan.buffer(f"{name}_heads", (shards.length, own * wide), dtype)
    groups = work.count_groups(own)
    gather_heads(plan, computed, returned, parts, shards, strategy, groups=groups)
    return computed
