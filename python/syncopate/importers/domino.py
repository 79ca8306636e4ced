"""Domino's splits: the all-reduce behind a tensor-parallel layer, cut by rows and columns into several ones.

DeepSpeed's Domino cuts the input of an attention or MLP block by rows (of the batch), and its last weight by columns,
so that the all-reduce of one piece runs while the next piece is computed. Here the pieces are transfers of one plan: a
piece moves as soon as the tiles are done that compute it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from syncopate.errors import PlanError
from syncopate.plan import Buffer, Chunk, Plan, Token

__all__ = ["split_all_reduce"]


def split_all_reduce(
    plan: Plan, buffer: Buffer, *, row_splits: int = 2, column_splits: int = 1
) -> list[Token]:
    """Sums what the tiles of all ranks compute, piece by piece; every rank gets all of it, which a call gives back.

    Each piece is cut into blocks of rows, one of each rank, to which the others add theirs one after the other, the
    next rank first; then it goes to all. The compiler proves that all of it together is an all-reduce.

    Args:
        plan: The plan.
        buffer: What tiles compute, all of it on every rank: [M, N].
        row_splits: Pieces along M; micro-batches, in Domino.
        column_splits: Pieces along N.

    Returns:
        By piece, row by row, the token that the sum is on all ranks.

    Raises:
        PlanError: The buffer has another number of dimensions, or there are more pieces than rows or columns, or fewer
            rows in a piece than ranks.
    """
    if len(buffer.shape) != 2:
        raise PlanError(f"buffer {buffer.name}: expects 2 dimensions, but got {len(buffer.shape)}")
    for name, splits, extent in (
        ("row_splits", row_splits, buffer.shape[0] // plan.world_size),
        ("column_splits", column_splits, buffer.shape[1]),
    ):
        if type(splits) is not int or not 1 <= splits <= extent:
            raise PlanError(f"{name}: expects a number in [1, {extent}], but got {splits!r:.40}")
    ranks = range(plan.world_size)
    made = [plan.produce(buffer[:], rank=rank) for rank in ranks]
    tokens = []
    for rows in _cut(0, buffer.shape[0], row_splits):
        for columns in _cut(0, buffer.shape[1], column_splits):
            blocks = [buffer[block, columns] for block in _cut(rows.start, rows.stop, len(ranks))]
            tokens.append(_all_reduce(plan, blocks, made))
    with plan.claim(after=tokens):
        plan.all_reduce(buffer)
    for rank in ranks:
        plan.output(buffer[:], rank=rank)
    return tokens


def _all_reduce(plan: Plan, blocks: Sequence[Chunk], made: Sequence[Token]) -> Token:
    """Sums one piece, whose blocks belong to the ranks, and brings it to all."""
    ranks = len(made)
    arrived = []
    for owner, block in enumerate(blocks):
        done = made[owner]
        for distance in range(1, ranks):
            source = (owner + distance) % ranks
            done = plan.put(
                block,
                block,
                src_rank=source,
                dst_rank=owner,
                reduction="sum",
                after=[made[source], done],
            )
        arrived.append(done)
        arrived += [
            plan.put(
                block, block, src_rank=owner, dst_rank=(owner + distance) % ranks, after=[done]
            )
            for distance in range(1, ranks)
        ]
    return plan.join(arrived)


def _cut(begin: int, end: int, parts: int) -> list[slice]:
    """Ranges of nearly one size, none of which is empty."""
    edges = [begin + (end - begin) * part // parts for part in range(parts + 1)]
    return [slice(*pair) for pair in itertools.pairwise(edges)]
