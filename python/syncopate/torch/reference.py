"""The operators as a product and a collective, one after the other: what they mean, where no kernel can run.

A strategy means nothing here, and how gradients arrive nothing to a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from syncopate.torch import collectives
from syncopate.torch.groups import count_ranks

__all__ = [
    "all_gather_matmul",
    "all_to_all_matmul",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
]


def all_gather_matmul(
    A_shard: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    group_name: str,
    return_A: bool,
    strategy: str,
) -> list[torch.Tensor]:
    """Gathers rows, then multiplies; returns C for each B, and A behind them if it is wanted."""
    a = collectives.gather(A_shard, group_name)
    return [*(torch.mm(a, b) for b in Bs), *([a] if return_A else [])]


def matmul_reduce_scatter(
    A: torch.Tensor, B: torch.Tensor, reduce_op: str, group_name: str, strategy: str
) -> torch.Tensor:
    """Multiplies, then adds up and scatters rows."""
    out = collectives.reduce_scatter(torch.mm(A, B), group_name)
    return out / count_ranks(group_name) if reduce_op == "avg" else out


def matmul_all_reduce(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    group_name: str,
    replicated_grad: bool,
    strategy: str,
) -> torch.Tensor:
    """Multiplies, then adds up."""
    out = collectives.all_reduce(torch.mm(A, B), group_name)
    return out / count_ranks(group_name) if reduce_op == "avg" else out


def all_to_all_matmul(
    A: torch.Tensor, B: torch.Tensor, group_name: str, return_A: bool, strategy: str
) -> list[torch.Tensor]:
    """Exchanges blocks of rows, then multiplies; returns C, and A as it has arrived if that is wanted."""
    a = collectives.exchange(A, group_name)
    return [torch.mm(a, B), *([a] if return_A else [])]


def matmul_all_to_all(
    A: torch.Tensor, B: torch.Tensor, group_name: str, strategy: str
) -> torch.Tensor:
    """Multiplies, then exchanges blocks of rows."""
    return collectives.exchange(torch.mm(A, B), group_name)
