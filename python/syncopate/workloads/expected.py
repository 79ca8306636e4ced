"""What a GEMM workload gives every rank, by numpy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncopate.workloads.gemm import GemmKind, GemmWorkload

__all__ = ["expect"]

Array = NDArray[Any]


def expect(workload: GemmWorkload, a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """The result of each rank.

    Args:
        workload: What is computed.
        a: What each rank passes as `a`.
        b: What each rank passes as `b`.
    """
    left = [one.astype(np.float64) for one in a]
    right = [one.astype(np.float64) for one in b]
    if not workload.transpose_b:
        right = [one.T for one in right]
    kind = GemmKind(workload.kind)
    if kind is GemmKind.AG_GEMM:
        # Blocks of few rows leave ranks at the end without any.
        whole = np.concatenate([one for one in left if one.size])
        return [whole @ one for one in right]
    if kind is GemmKind.A2A_GEMM:
        return [one @ factor for one, factor in zip(_exchange(left), right, strict=True)]
    parts = [one @ factor for one, factor in zip(left, right, strict=True)]
    if kind is GemmKind.GEMM_A2A:
        return _exchange(parts)
    total = np.sum(parts, axis=0)
    return _cut(total, len(parts)) if kind is GemmKind.GEMM_RS else [total for _ in parts]


def _cut(whole: Array, ranks: int) -> list[Array]:
    rows = -(-len(whole) // ranks)
    return [whole[rank * rows : (rank + 1) * rows] for rank in range(ranks)]


def _exchange(given: Sequence[Array]) -> list[Array]:
    """Block j of rank i becomes block i of rank j."""
    blocks = [_cut(one, len(given)) for one in given]
    return [np.concatenate([of[rank] for of in blocks]) for rank in range(len(given))]
