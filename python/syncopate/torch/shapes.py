"""What the operators refuse, of real tensors and fake ones, and what comes out of fake ones.

Arguments are those of `syncopate.torch.reference`, and so are results, which are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from syncopate.errors import SyncopateError
from syncopate.torch.groups import count_ranks
from syncopate.torch.layout import (
    check_attention,
    check_factors,
    check_reduction,
    divide_rows,
)

__all__ = [
    "CHECKS",
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
    """As many rows as all ranks have."""
    rows = A_shard.shape[0] * count_ranks(group_name)
    columns = [b.shape[1] for b in Bs] + [A_shard.shape[1]] * return_A
    return [A_shard.new_empty(rows, width) for width in columns]


def matmul_reduce_scatter(
    A: torch.Tensor, B: torch.Tensor, reduce_op: str, group_name: str, strategy: str
) -> torch.Tensor:
    """A rank's share of the rows."""
    return A.new_empty(divide_rows(A, group_name), B.shape[1])


def matmul_all_reduce(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    group_name: str,
    replicated_grad: bool,
    strategy: str,
) -> torch.Tensor:
    """As a product."""
    return A.new_empty(A.shape[0], B.shape[1])


def all_to_all_matmul(
    A: torch.Tensor, B: torch.Tensor, group_name: str, return_A: bool, strategy: str
) -> list[torch.Tensor]:
    """As a product; ranks have to divide the rows."""
    made = A.new_empty(A.shape[0], B.shape[1])
    return [made, A.new_empty(A.shape)] if return_A else [made]


def matmul_all_to_all(
    A: torch.Tensor, B: torch.Tensor, group_name: str, strategy: str
) -> torch.Tensor:
    """Likewise."""
    return A.new_empty(A.shape[0], B.shape[1])


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    zigzag: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs like the queries, and a float32 for each head and row."""
    return q.new_empty(q.shape), q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)


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
    """Like queries, keys and values."""
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs like the queries, and a float32 for each head of the rank and row of all."""
    world = count_ranks(group_name)
    shape = q.shape[1] // world, q.shape[0] * world
    return q.new_empty(q.shape), q.new_empty(shape, dtype=torch.float32)


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
    """Like queries, keys and values."""
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _check_ring(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, zigzag: bool, *_: Any
) -> None:
    check_attention(q, k, v)
    if zigzag and q.shape[0] % 2:
        raise SyncopateError(f"q: expects an even number of rows in zig-zag, but got {q.shape[0]}")


def _check_ring_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    zigzag: bool,
    *_: Any,
) -> None:
    _check_ring(q, k, v, causal, zigzag)
    _check_saved(q, {"grad": grad, "o": o}, (q.shape[1], q.shape[0]), lse, grad_lse)


def _check_ulysses_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    group_name: str,
) -> None:
    _check_ulysses(q, k, v, causal, group_name)
    world = count_ranks(group_name)
    shape = q.shape[1] // world, q.shape[0] * world
    _check_saved(q, {"grad": grad, "o": o}, shape, lse, grad_lse)


def _check_saved(
    q: torch.Tensor,
    rows: Mapping[str, torch.Tensor],
    shape: tuple[int, int],
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
) -> None:
    for name, x in rows.items():
        if x.shape != q.shape or x.dtype != q.dtype:
            raise SyncopateError(
                f"{name}: expects {q.dtype} {list(q.shape)}, as q, but got {x.dtype} {list(x.shape)}"
            )
    for name, x in (("lse", lse), ("grad_lse", lse if grad_lse is None else grad_lse)):
        if x.shape != shape or x.dtype != torch.float32:
            raise SyncopateError(
                f"{name}: expects torch.float32 {list(shape)}, but got {x.dtype} {list(x.shape)}"
            )


def _check_ulysses(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, group_name: str, *_: Any
) -> None:
    check_attention(q, k, v)
    world, kv_heads = count_ranks(group_name), k.shape[1]
    if q.shape[1] % world or (kv_heads % world and world % kv_heads):
        raise SyncopateError(
            f"q: expects heads that {world} ranks divide, and keys whose heads they divide, or that divide them, but "
            f"got {q.shape[1]} and {kv_heads}"
        )


def _check_gather(A_shard: torch.Tensor, Bs: Sequence[torch.Tensor], *_: Any) -> None:
    check_factors(A_shard, Bs)


def _check_scatter(
    A: torch.Tensor, B: torch.Tensor, reduce_op: str, group_name: str, *_: Any
) -> None:
    check_factors(A, [B])
    check_reduction(reduce_op)
    divide_rows(A, group_name)


def _check_sum(A: torch.Tensor, B: torch.Tensor, reduce_op: str, *_: Any) -> None:
    check_factors(A, [B])
    check_reduction(reduce_op)


def _check_exchange(A: torch.Tensor, B: torch.Tensor, group_name: str, *_: Any) -> None:
    check_factors(A, [B])
    divide_rows(A, group_name)


CHECKS: Final[Mapping[str, Callable[..., None]]] = {
    "all_gather_matmul": _check_gather,
    "matmul_reduce_scatter": _check_scatter,
    "matmul_all_reduce": _check_sum,
    "all_to_all_matmul": _check_exchange,
    "matmul_all_to_all": _check_exchange,
    "ring_attention": _check_ring,
    "ring_attention_backward": _check_ring_backward,
    "ulysses_attention": _check_ulysses,
    "ulysses_attention_backward": _check_ulysses_backward,
}
"""By operator: raises SyncopateError if it cannot take its arguments."""
