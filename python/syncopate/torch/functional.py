"""Operators for PyTorch programs, with the names and arguments of torch's own in `torch.ops.symm_mem`.

Matrices may have leading dimensions. Each operator is one fused kernel on each rank of the group; all ranks make the
same calls, in the same order. Results are new tensors, and gradients are operators of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from syncopate.errors import SyncopateError
from syncopate.strategy import Strategy
from syncopate.strategy_names import name_strategy
from syncopate.torch import operators as operators  # To make them known to torch.
from syncopate.torch.groups import GroupLike, count_ranks, name_group
from syncopate.torch.programs import AUTO

StrategyLike: TypeAlias = Strategy | str | None
"""A strategy; "auto", or the name of one; None for the default."""

__all__ = [
    "StrategyLike",
    "all_gather_matmul",
    "all_to_all_matmul",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "ring_attention",
    "ulysses_attention",
]


def all_gather_matmul(
    A_shard: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    gather_dim: int,
    group_name: GroupLike,
    *,
    return_A: bool = True,
    strategy: StrategyLike = AUTO,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Gathers A and multiplies it by each B, as `torch.ops.symm_mem.fused_all_gather_matmul` does.

    Args:
        A_shard: This rank's part of A, [..., K]. All parts have the same shape.
        Bs: Matrices [K, N]; a weight [N, K] of nn.Linear as `weight.t()`. One gather serves all.
        gather_dim: The dimension of A of which ranks have parts; not the last one. If it is not the first, A_shard is
            copied, and results are views.
        group_name: The ranks: the name of a process group, the group, or a device mesh of one dimension.
        return_A: Whether to give back A. It costs two copies: of A_shard, before the kernel, and of A, behind it. The
            backward then uses that A, and needs no second gather for the gradients of Bs.
        strategy: A `syncopate.Strategy`; "auto" to have it chosen (docs/tuning.md); None for the default.

    Returns:
        A, or None, and A · B for each B.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    if isinstance(Bs, torch.Tensor):
        raise SyncopateError("Bs: expects a sequence of matrices, but got a tensor; pass [B]")
    dim = _leading("gather_dim", gather_dim, A_shard)
    rows = A_shard.movedim(dim, 0)
    made = torch.ops.syncopate.all_gather_matmul(
        _flat(rows), list(Bs), name_group(group_name), return_A, _spell(strategy)
    )
    shaped = [_unflat(each, rows).movedim(0, dim) for each in made]
    return (shaped.pop() if return_A else None), shaped


def matmul_reduce_scatter(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    scatter_dim: int,
    group_name: GroupLike,
    *,
    strategy: StrategyLike = AUTO,
) -> torch.Tensor:
    """Multiplies, adds up over the ranks and scatters, as `torch.ops.symm_mem.fused_matmul_reduce_scatter` does.

    Args:
        A: This rank's factor, [..., K].
        B: A matrix [K, N]; a weight [N, K] of nn.Linear as `weight.t()`.
        reduce_op: "sum" or "avg".
        scatter_dim: The dimension of which each rank gets its part; not the last one. If it is not the first, A is
            copied, and the result is a view.
        group_name: As for `all_gather_matmul`.
        strategy: As for `all_gather_matmul`.

    Returns:
        This rank's part of the sum.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    dim = _leading("scatter_dim", scatter_dim, A)
    rows, name = A.movedim(dim, 0), name_group(group_name)
    _divides(f"A: dimension {dim}", rows, name)
    made = torch.ops.syncopate.matmul_reduce_scatter(
        _flat(rows), B, reduce_op, name, _spell(strategy)
    )
    return _unflat(made, rows).movedim(0, dim)


def matmul_all_reduce(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    group_name: GroupLike,
    *,
    replicated_grad: bool = True,
    strategy: StrategyLike = AUTO,
) -> torch.Tensor:
    """Multiplies and adds up over the ranks.

    Args:
        A: This rank's factor, [..., K].
        B: A matrix [K, N]; a weight [N, K] of nn.Linear as `weight.t()`.
        reduce_op: "sum" or "avg".
        group_name: As for `all_gather_matmul`.
        replicated_grad: Whether the gradient of the result is the same on all ranks, as it is where they all do the
            same with it: the backward then moves nothing, as that of a row-parallel layer. Otherwise it adds up the
            gradients of all ranks.
        strategy: As for `all_gather_matmul`.

    Returns:
        The sum, on every rank.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    made = torch.ops.syncopate.matmul_all_reduce(
        _flat(A), B, reduce_op, name_group(group_name), replicated_grad, _spell(strategy)
    )
    return _unflat(made, A)


def all_to_all_matmul(
    A: torch.Tensor, B: torch.Tensor, group_name: GroupLike, *, strategy: StrategyLike = AUTO
) -> torch.Tensor:
    """Exchanges blocks of A and multiplies: block j of rank i becomes block i of rank j.

    Args:
        A: [..., K]. The ranks divide the first dimension into blocks.
        B: A matrix [K, N]; a weight [N, K] of nn.Linear as `weight.t()`.
        group_name: As for `all_gather_matmul`.
        strategy: As for `all_gather_matmul`.

    Returns:
        What this rank has received, times B.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    name = name_group(group_name)
    _divides("A: dimension 0", A, name)
    (made,) = torch.ops.syncopate.all_to_all_matmul(_flat(A), B, name, False, _spell(strategy))
    return _unflat(made, A)


def matmul_all_to_all(
    A: torch.Tensor, B: torch.Tensor, group_name: GroupLike, *, strategy: StrategyLike = AUTO
) -> torch.Tensor:
    """Multiplies and exchanges blocks of the product: block j of rank i becomes block i of rank j.

    Args:
        A: [..., K]. The ranks divide the first dimension into blocks.
        B: A matrix [K, N]; a weight [N, K] of nn.Linear as `weight.t()`.
        group_name: As for `all_gather_matmul`.
        strategy: As for `all_gather_matmul`.

    Returns:
        What this rank has received.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    name = name_group(group_name)
    _divides("A: dimension 0", A, name)
    made = torch.ops.syncopate.matmul_all_to_all(_flat(A), B, name, _spell(strategy))
    return _unflat(made, A)


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group_name: GroupLike,
    *,
    causal: bool = False,
    zigzag: bool = False,
    strategy: StrategyLike = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of a sequence of which each rank has a part; keys and values go around while they are used.

    Outputs and logarithms have gradients.

    Args:
        q: This rank's queries, [rows, heads, head_dim], float16 or bfloat16; all ranks have as many rows.
        k: Its keys, [rows, kv_heads, head_dim].
        v: Its values, likewise.
        group_name: As for `all_gather_matmul`.
        causal: Whether a query takes the keys up to its own place only.
        zigzag: Whether rank r has, in place of the r-th block of as many as there are ranks, the r-th from either end
            of twice as many; causal attention is then about as much work for each rank.
        strategy: A `syncopate.Strategy`, or None for the default, which gradients always have.

    Returns:
        Outputs, like q, and float32 [heads, rows]: the natural logarithm of the sum of the exponentials of each query's
        scores.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    made: tuple[torch.Tensor, torch.Tensor] = torch.ops.syncopate.ring_attention(
        q, k, v, causal, zigzag, name_group(group_name), _spell(strategy)
    )
    return made


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group_name: GroupLike,
    *,
    causal: bool = False,
    strategy: StrategyLike = None,
) -> torch.Tensor:
    """The same attention, where each rank computes some heads for all of the sequence, and outputs go back.

    Args:
        q: As for `ring_attention`; the ranks divide the heads.
        k: Likewise; the ranks divide the heads, or these divide the ranks.
        v: Likewise.
        group_name: As for `all_gather_matmul`.
        causal: As for `ring_attention`.
        strategy: As for `ring_attention`.

    Returns:
        Outputs, like q.

    Raises:
        SyncopateError: An argument is wrong, or the ranks do not make the same call.
    """
    made: torch.Tensor
    made, _ = torch.ops.syncopate.ulysses_attention(
        q, k, v, causal, name_group(group_name), _spell(strategy)
    )
    return made


def _leading(what: str, dim: int, a: torch.Tensor) -> int:
    """A dimension of A that is not its last, counted from the front."""
    _expect_rows(a)
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise SyncopateError(f"{what}: expects an integer, but got {dim!r}")
    place = dim + a.dim() if dim < 0 else dim
    if not 0 <= place < a.dim() - 1:
        raise SyncopateError(
            f"{what}: expects one of the leading dimensions, in [0, {a.dim() - 1}), since factors are multiplied along "
            f"the last one, but got {dim}"
        )
    return place


def _divides(what: str, a: torch.Tensor, group_name: str) -> None:
    """Blocks of rows are blocks of the first dimension only if the ranks divide that."""
    _expect_rows(a)
    world = count_ranks(group_name)
    if a.shape[0] % world:
        raise SyncopateError(
            f"{what} expects a multiple of {world}, the number of ranks, but got {a.shape[0]}"
        )


def _expect_rows(a: torch.Tensor) -> None:
    if not isinstance(a, torch.Tensor):
        raise SyncopateError(f"A: expects a torch tensor, but got {type(a).__name__}")
    if a.dim() < 2:
        raise SyncopateError(f"A: expects at least two dimensions, but got {a.dim()}")


def _flat(a: torch.Tensor) -> torch.Tensor:
    _expect_rows(a)
    return a if a.dim() == 2 else a.flatten(0, -2)


def _unflat(made: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """A result by the leading dimensions of what it was made of, the first of which may have another size now."""
    return made if a.dim() == 2 else made.unflatten(0, (-1, *a.shape[1:-1]))


def _spell(strategy: StrategyLike) -> str:
    if strategy is None:
        return ""
    if isinstance(strategy, Strategy):
        return name_strategy(strategy)
    if isinstance(strategy, str):
        return strategy
    raise SyncopateError(
        f"strategy: expects a syncopate.Strategy, 'auto' or None, but got {strategy!r}; an Auto is given by "
        f"SYNCOPATE_MEASURE and the cache"
    )
