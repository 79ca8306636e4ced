"""From an operator's tensors to a workload and to what its program takes.

Errors are those of `syncopate.torch.programs.call`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from syncopate.errors import SyncopateError
from syncopate.plan.sequence import Sharding
from syncopate.torch.layout import align, arrange_weight, name_elements
from syncopate.torch.programs import call
from syncopate.workloads import (
    AttentionGradients,
    AttentionKind,
    AttentionWorkload,
    GemmKind,
    GemmWorkload,
)

__all__ = ["run", "run_attention", "run_attention_backward"]

_OF_ATTENTION: Final = (torch.float16, torch.bfloat16)


def run(
    kind: GemmKind,
    a: torch.Tensor,
    b: torch.Tensor,
    group_name: str,
    strategy: str,
    *,
    returns_a: bool = False,
) -> Any:
    """Runs a product on this rank's GPU.

    Args:
        kind: What moves.
        a: What this rank has of A.
        b: B, [K, N].
        group_name: The ranks.
        strategy: As for `call`.
        returns_a: Whether to give back A as it has arrived, too.

    Returns:
        What the program gives back. All of it but C of a gather or an exchange before the GEMM lies in memory that the
        next call of the program writes again.
    """
    dtype = name_elements(a.dtype)
    a = align(a)
    b, transpose_b, pitch = arrange_weight(b)
    key = (kind, a.shape, b.shape, dtype, transpose_b, pitch, returns_a, strategy)

    def describe(world_size: int) -> GemmWorkload:
        rows, k = a.shape
        return GemmWorkload(
            kind,
            rows * world_size if kind is GemmKind.AG_GEMM else rows,
            b.shape[1] if transpose_b else b.shape[0],
            k,
            world_size,
            dtype,
            weight_pitch=pitch,
            transpose_b=transpose_b,
            returns_a=returns_a,
        )

    return call(group_name, key, describe, strategy, a=a, b=b)


def run_attention(
    kind: AttentionKind,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    sharding: Sharding,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs attention on this rank's GPU.

    Args:
        kind: Who has what.
        q: This rank's queries, [rows, heads, head_dim].
        k: Its keys, as many rows.
        v: Its values, likewise.
        causal: Whether a query takes the keys up to its own place only.
        sharding: How the sequence is cut.
        group_name: The ranks.
        strategy: As for `call`, but that none is chosen.

    Returns:
        Outputs, [rows, heads · head_dim], which of ULYSSES lie in memory that the next call of the program writes
        again, and logarithms.
    """
    describe = _describe_attention(kind, q, k, causal, sharding)
    key = (kind, q.shape, k.shape, q.dtype, causal, sharding, strategy)
    made: tuple[torch.Tensor, torch.Tensor]
    made = call(group_name, key, describe, strategy, **_flatten(q=q, k=k, v=v))
    return made


def run_attention_backward(
    kind: AttentionKind,
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    grad_lse: torch.Tensor | None,
    causal: bool,
    sharding: Sharding,
    group_name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Runs the gradients of attention on this rank's GPU, by the default strategy.

    Args:
        kind: Who has what.
        grad: The gradients of this rank's outputs, [rows, heads, head_dim].
        q: Its queries, likewise.
        k: Its keys, [rows, kv_heads, head_dim].
        v: Its values, likewise.
        o: Its outputs, like its queries.
        lse: Its logarithms, as `run_attention` gives them.
        grad_lse: Their gradients, if they have any.
        causal: As for `run_attention`.
        sharding: As for `run_attention`.
        group_name: The ranks.

    Returns:
        The gradients of queries, keys and values, like these.
    """
    describe = _describe_attention(kind, q, k, causal, sharding)
    of_lse = grad_lse is not None
    key = ("gradients", kind, q.shape, k.shape, q.dtype, causal, sharding, of_lse)
    given = _flatten(q=q, k=k, v=v, o=o, do=grad) | {"lse": align(lse)}
    if grad_lse is not None:
        given["dlse"] = align(grad_lse)

    def make(world_size: int) -> AttentionGradients:
        return AttentionGradients(describe(world_size), of_lse=of_lse)

    made = call(group_name, key, make, "", **given)
    of_q, of_k, of_v = (x.view(like.shape) for x, like in zip(made, (q, k, v), strict=True))
    return of_q, of_k, of_v


def _describe_attention(
    kind: AttentionKind, q: torch.Tensor, k: torch.Tensor, causal: bool, sharding: Sharding
) -> Callable[[int], AttentionWorkload]:
    """The workload for so many ranks, each of which has such queries and keys."""
    if q.dtype not in _OF_ATTENTION:
        known = " or ".join(map(str, _OF_ATTENTION))
        raise SyncopateError(
            f"q: expects {known}, but got {q.dtype}; convert it, or use torch.autocast"
        )
    dtype = name_elements(q.dtype)

    def describe(world_size: int) -> AttentionWorkload:
        return AttentionWorkload(
            kind,
            q.shape[1],
            k.shape[1],
            q.shape[2],
            q.shape[0] * world_size,
            world_size,
            causal=causal,
            dtype=dtype,
            sharding=sharding,
        )

    return describe


def _flatten(**tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    """Rows of all heads, as programs take them."""
    return {name: align(x.flatten(1)) for name, x in tensors.items()}
