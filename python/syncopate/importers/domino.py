"""Domino's splits: the all-reduce behind a tensor-parallel layer, cut by rows and columns into several ones.

DeepSpeed's Domino cuts the input of an attention or MLP block by rows (of the batch), and its last weight by columns,
so that the all-reduce of one piece runs while the next piece is computed. Here the pieces are transfers of one plan: a
piece moves as soon as the tiles are done that compute it.
"""

from __future__ import annotations

import itertools

from syncopate.errors import PlanError
from syncopate.plan import Buffer, Plan, Token
from syncopate.plan.moves import Moves

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
    ranks, moves = range(plan.world_size), Moves(plan)
    for rank in ranks:
        moves.produced(buffer[:], rank)
    tokens = []
    for rows in _cut(0, buffer.shape[0], row_splits):
        for columns in _cut(0, buffer.shape[1], column_splits):
            begun = len(moves.tokens)
            for owner, block in enumerate(_cut(rows.start, rows.stop, len(ranks))):
                others = [(owner + distance) % len(ranks) for distance in ranks[1:]]
                for rank in others:
                    moves.add(buffer[block, columns], rank, owner)
                for rank in others:
                    moves.copy(buffer[block, columns], owner, rank)
            tokens.append(plan.join(moves.tokens[begun:]))
    with plan.claim(after=tokens):
        plan.all_reduce(buffer)
    for rank in ranks:
        plan.output(buffer[:], rank=rank)
    return tokens


def _cut(begin: int, end: int, parts: int) -> list[slice]:
    """Ranges of nearly one size, none of which is empty."""
    edges = [begin + (end - begin) * part // parts for part in range(parts + 1)]
    return [slice(*pair) for pair in itertools.pairwise(edges)]
