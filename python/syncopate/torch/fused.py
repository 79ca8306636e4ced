"""The operators on GPUs of at least two ranks: one fused kernel on each.

Arguments and results are those of `syncopate.torch.reference`. Results are new tensors: what a program leaves in memory
that its next call writes again is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from syncopate.plan.sequence import Sharding
from syncopate.torch.calls import run, run_attention, run_attention_backward
from syncopate.torch.groups import count_ranks
from syncopate.workloads import AttentionKind, GemmKind

__all__ = [
    "all_gather_matmul",
    "all_to_all_matmul",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "ring_attention",
    "ring_attention_backward",
    "ulysses_attention",
    "ulysses_attention_backward",
]


def all_gather_matmul(
    A_shard: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    group_name: str,
    return_A: bool,
    strategy: str,
) -> list[torch.Tensor]:
    """One gather serves all: it overlaps with the largest product, and the others read what has arrived."""
    if len(Bs) == 1 and not return_A:
        return [run(GemmKind.AG_GEMM, A_shard, Bs[0], group_name, strategy)]
    widest = max(range(len(Bs)), key=lambda number: Bs[number].shape[1])
    c, a = run(GemmKind.AG_GEMM, A_shard, Bs[widest], group_name, strategy, returns_a=True)
    results = [c if number == widest else torch.mm(a, b) for number, b in enumerate(Bs)]
    return [*results, *([a.clone()] if return_A else [])]


def matmul_reduce_scatter(
    A: torch.Tensor, B: torch.Tensor, reduce_op: str, group_name: str, strategy: str
) -> torch.Tensor:
    """What tiles have added up is copied, or divided, out of symmetric memory."""
    made = run(GemmKind.GEMM_RS, A, B, group_name, strategy)
    return _new(made, reduce_op, group_name)


def matmul_all_reduce(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    group_name: str,
    replicated_grad: bool,
    strategy: str,
) -> torch.Tensor:
    """Likewise."""
    return _new(run(GemmKind.GEMM_AR, A, B, group_name, strategy), reduce_op, group_name)


def all_to_all_matmul(
    A: torch.Tensor, B: torch.Tensor, group_name: str, return_A: bool, strategy: str
) -> list[torch.Tensor]:
    """C is new; A, if it is wanted, is copied."""
    made = run(GemmKind.A2A_GEMM, A, B, group_name, strategy, returns_a=return_A)
    return [made[0], made[1].clone()] if return_A else [made]


def matmul_all_to_all(
    A: torch.Tensor, B: torch.Tensor, group_name: str, strategy: str
) -> torch.Tensor:
    """What has been received is copied."""
    made: torch.Tensor = run(GemmKind.GEMM_A2A, A, B, group_name, strategy)
    return made.clone()


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    zigzag: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both are new."""
    o, lse = run_attention(
        AttentionKind.RING, q, k, v, causal, _sharding(zigzag), group_name, strategy
    )
    return o.view(q.shape), lse


def ring_attention_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    zigzag: bool,
    group_name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All are new."""
    return run_attention_backward(
        *(AttentionKind.RING, grad, q, k, v, o, lse, grad_lse),
        *(causal, _sharding(zigzag), group_name),
    )


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What has been received is copied."""
    o, lse = run_attention(
        AttentionKind.ULYSSES, q, k, v, causal, Sharding.CONTIGUOUS, group_name, strategy
    )
    return o.clone().view(q.shape), lse


def ulysses_attention_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    group_name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All are new."""
    return run_attention_backward(
        *(AttentionKind.ULYSSES, grad, q, k, v, o, lse, grad_lse),
        *(causal, Sharding.CONTIGUOUS, group_name),
    )


def _sharding(zigzag: bool) -> Sharding:
    return Sharding.ZIGZAG if zigzag else Sharding.CONTIGUOUS


def _new(view: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    return view / count_ranks(group_name) if reduce_op == "avg" else view.clone()
