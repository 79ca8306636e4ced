"""Which steps of keys a tile of queries walks if each query takes the keys up to its own place."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncopate.compiler.steps import Steps
from syncopate.plan.sequence import SequenceShards

__all__ = ["steps_up_to_diagonal"]


def steps_up_to_diagonal(shards: SequenceShards, block_m: int, block_n: int) -> list[Steps]:
    """For each rank, the steps of its tiles (head, m): a tile ends with the key of its last query.

    Args:
        shards: Which queries a rank has.
        block_m: Queries of a tile.
        block_n: Keys of a step.
    """
    return [_steps(shards, rank, block_m, block_n) for rank in range(shards.world_size)]


def _steps(shards: SequenceShards, rank: int, bm: int, bn: int) -> Steps:
    most = -(-shards.length // bn)
    # Rows that stand for no query come last, and take no key.
    with_queries = -(-int(np.count_nonzero(shards.positions(rank) >= 0)) // bm)

    def end(row: Any) -> Any:
        behind = shards.place(rank, row) + bn
        return behind // bn if isinstance(behind, int) else type(behind).get_floor_div(behind, bn)

    def bounds(h: Any, m: Any) -> Any:
        last = (end(m * bm + (bm - 1)), end(shards.rows - 1))
        return 0, (*last, most, (with_queries - m) * most)

    return Steps(bounds, rank)
