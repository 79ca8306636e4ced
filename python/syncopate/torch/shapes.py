"""What the operators refuse, of real tensors and fake ones, and what comes out of fake ones.

Arguments are those of `syncopate.torch.reference`, and so are results, which are contiguous.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Final, TypeAlias

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

Arguments: TypeAlias = SimpleNamespace
"""What an operator is given, by the names of its schema."""


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
    sizes = _logarithms_of_ring(q, group_name)
    return q.new_empty(q.shape), q.new_empty(sizes, dtype=torch.float32)


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
    sizes = _logarithms_of_heads(q, group_name)
    return q.new_empty(q.shape), q.new_empty(sizes, dtype=torch.float32)


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


def _logarithms_of_ring(q: torch.Tensor, group_name: str) -> tuple[int, int]:
    """The sizes of logarithms: heads, and the rank's rows."""
    return q.shape[1], q.shape[0]


def _logarithms_of_heads(q: torch.Tensor, group_name: str) -> tuple[int, int]:
    """Likewise: the rank's heads, and rows of all."""
    world = count_ranks(group_name)
    return q.shape[1] // world, q.shape[0] * world


def _check_gathered(given: Arguments) -> None:
    check_factors(given.A_shard, given.Bs)


def _check_factors(given: Arguments) -> None:
    check_factors(given.A, [given.B])


def _check_reduction(given: Arguments) -> None:
    check_reduction(given.reduce_op)


def _check_rows(given: Arguments) -> None:
    divide_rows(given.A, given.group_name)


def _check_attention(given: Arguments) -> None:
    check_attention(given.q, given.k, given.v)


def _check_halves(given: Arguments) -> None:
    rows = given.q.shape[0]
    if given.zigzag and rows % 2:
        raise SyncopateError(f"q: expects an even number of rows in zig-zag, but got {rows}")


def _check_heads(given: Arguments) -> None:
    world, heads, kv_heads = count_ranks(given.group_name), given.q.shape[1], given.k.shape[1]
    if heads % world or (kv_heads % world and world % kv_heads):
        raise SyncopateError(
            f"q: expects heads that {world} ranks divide, and keys whose heads they divide, or that divide them, but "
            f"got {heads} and {kv_heads}"
        )


def _check_saved(sizes: Callable[[torch.Tensor, str], tuple[int, int]], given: Arguments) -> None:
    """What a forward has taken and given is what the operator makes of it."""
    q = given.q
    for name, x in (("grad", given.grad), ("o", given.o)):
        if x.shape != q.shape or x.dtype != q.dtype:
            raise SyncopateError(
                f"{name}: expects {q.dtype} {list(q.shape)}, as q, but got {x.dtype} {list(x.shape)}"
            )
    shape = sizes(q, given.group_name)
    for name, x in (("lse", given.lse), ("grad_lse", given.grad_lse)):
        if x is not None and (x.shape != shape or x.dtype != torch.float32):
            raise SyncopateError(
                f"{name}: expects torch.float32 {list(shape)}, but got {x.dtype} {list(x.shape)}"
            )


CHECKS: Final[Mapping[str, tuple[Callable[[Arguments], None], ...]]] = {
    "all_gather_matmul": (_check_gathered,),
    "matmul_reduce_scatter": (_check_factors, _check_reduction, _check_rows),
    "matmul_all_reduce": (_check_factors, _check_reduction),
    "all_to_all_matmul": (_check_factors, _check_rows),
    "matmul_all_to_all": (_check_factors, _check_rows),
    "ring_attention": (_check_attention, _check_halves),
    "ring_attention_backward": (
        _check_attention,
        _check_halves,
        functools.partial(_check_saved, _logarithms_of_ring),
    ),
    "ulysses_attention": (_check_attention, _check_heads),
    "ulysses_attention_backward": (
        _check_attention,
        _check_heads,
        functools.partial(_check_saved, _logarithms_of_heads),
    ),
}
"""By operator: what raises SyncopateError if it cannot take its arguments, which have their names in its schema."""
