"""Causal attention with the sequence in parallel outside and the heads in parallel inside, and its cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from syncopate.errors import SyncopateError
from syncopate.torch.functional import StrategyLike
from syncopate.torch.groups import GroupLike, name_group
from syncopate.torch.modules import (
    ColumnParallelLinear,
    RowParallelLinear,
    divide,
    local_part,
)
from syncopate.torch.programs import AUTO

__all__ = ["KeyValueCache", "SequenceParallelAttention"]


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values that this rank's heads have seen.

    Where the next token goes is a tensor, so that a CUDA graph can be replayed for one token after the other.

    Attributes:
        keys: [batch, kv_heads / ranks, length, head_dim].
        values: Likewise.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def store(self, k: torch.Tensor, v: torch.Tensor, start: torch.Tensor) -> None:
        """Stores some tokens.

        Args:
            k: [batch, kv_heads / ranks, tokens, head_dim].
            v: Likewise.
            start: Where the first one goes, an integer of no dimension.
        """
        places = start + torch.arange(k.shape[2], device=k.device)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)

    def attend(self, q: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Attention of one token to all up to it.

        Args:
            q: [batch, heads / ranks, 1, head_dim].
            start: The token's place.

        Returns:
            Outputs, like q.
        """
        # Heads that share keys are as many queries of one head, which every kernel of torch takes.
        shared = q.reshape(*self.keys.shape[:2], -1, q.shape[3])
        seen = torch.arange(self.keys.shape[2], device=q.device) <= start
        mask = seen.expand(*shared.shape[:3], -1)
        out = scaled_dot_product_attention(shared, self.keys, self.values, attn_mask=mask)
        return out.reshape(q.shape)


class SequenceParallelAttention(nn.Module):  # type: ignore[misc] # mypy sees nothing of torch.
    """Causal attention: [sequence / ranks, batch, features] → the same, or with batch and sequence the other way round.

    `qkv` gathers the sequence once and computes queries, keys and values of this rank's heads by one product; torch's
    attention runs on them; `out` scatters behind its product.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        kv_heads: int,
        group: GroupLike,
        *,
        head_dim: int | None = None,
        sequence_dim: int = 0,
        strategy: StrategyLike = AUTO,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes attention without biases, of random weights.

        Args:
            features: Of a token.
            heads: Of queries, on all ranks.
            kv_heads: Of keys and values, on all ranks; each serves as many heads of queries.
            group: The ranks.
            head_dim: Features of a head; None for as many as make all heads of queries as wide as a token.
            sequence_dim: 0 for [sequence, batch, features], of which nothing is copied; 1 for [batch, sequence, …].
            strategy: Of the operators.
            device: Where weights are.
            dtype: Their type.

        Raises:
            SyncopateError: The ranks do not divide the heads, those of keys do not divide those of queries, or
                `sequence_dim` is another.
        """
        super().__init__()
        name = name_group(group)
        self._set_heads(features, heads, kv_heads, head_dim, sequence_dim, name)
        width = self.head_dim
        how: dict[str, Any] = {"bias": False, "sequence_dim": sequence_dim, "strategy": strategy}
        how.update(device=device, dtype=dtype)
        self.qkv = ColumnParallelLinear(features, (heads + 2 * kv_heads) * width, name, **how)
        self.out = RowParallelLinear(heads * width, features, name, **how)

    def _set_heads(
        self,
        features: int,
        heads: int,
        kv_heads: int,
        head_dim: int | None,
        sequence_dim: int,
        name: str,
    ) -> None:
        if sequence_dim not in (0, 1):
            raise SyncopateError(f"sequence_dim: expects 0 or 1, but got {sequence_dim}")
        if kv_heads < 1 or heads < 1 or heads % kv_heads:
            raise SyncopateError(
                f"heads: expects a multiple of the {kv_heads} heads of keys, but got {heads}"
            )
        if head_dim is None and features % heads:
            raise SyncopateError(
                f"heads: expects a divisor of {features} features, but got {heads}; pass head_dim"
            )
        self.heads, self.kv_heads = divide("heads", heads, name), divide("kv_heads", kv_heads, name)
        self.head_dim = features // heads if head_dim is None else head_dim
        self.sequence_dim = sequence_dim

    @classmethod
    def from_linears(
        cls,
        q: nn.Linear,
        k: nn.Linear,
        v: nn.Linear,
        out: nn.Linear,
        group: GroupLike,
        *,
        head_dim: int,
        sequence_dim: int = 0,
        strategy: StrategyLike = AUTO,
    ) -> SequenceParallelAttention:
        """This rank's part of layers that all ranks have alike; copies, with their biases.

        Args:
            q: [features] → [heads · head_dim].
            k: [features] → [kv_heads · head_dim].
            v: Likewise.
            out: [heads · head_dim] → [features].
            group: The ranks.
            head_dim: Features of a head.
            sequence_dim: As for a new one.
            strategy: As for a new one.

        Raises:
            SyncopateError: As for a new one, or the first three layers do not take the same.
        """
        heads, kv_heads = q.out_features // head_dim, k.out_features // head_dim
        how: dict[str, Any] = {"sequence_dim": sequence_dim, "strategy": strategy}
        # Layers on the meta device hold no memory until they are replaced.
        made = cls(q.in_features, heads, kv_heads, group, head_dim=head_dim, device="meta", **how)
        made.qkv = ColumnParallelLinear.from_linears([q, k, v], group, **how)
        made.out = RowParallelLinear.from_linear(out, group, **how)
        return made

    def new_cache(self, batch: int, length: int) -> KeyValueCache:
        """An empty cache for this rank's heads, of sequences up to a length."""
        shape, weight = (batch, self.kv_heads, length, self.head_dim), local_part(self.qkv.weight)
        return KeyValueCache(weight.new_zeros(shape), weight.new_zeros(shape))

    def forward(
        self,
        x: torch.Tensor,
        *,
        rotate: Callable[[torch.Tensor], torch.Tensor] | None = None,
        cache: KeyValueCache | None = None,
        start: torch.Tensor | None = None,
        whole: bool = False,
    ) -> torch.Tensor:
        """Applies attention.

        Args:
            x: This rank's part of the sequence.
            rotate: What is done to queries and keys, [sequence, batch, heads / ranks, head_dim] or with the first two
                the other way round, such as a rotary embedding of their places.
            cache: Where keys and values are kept. A sequence of several tokens starts a cache; after it comes one token
                at a time.
            start: With a cache, the place of the first token of x, an integer of no dimension.
            whole: Whether x is the same on all ranks instead: then nothing is gathered, and all get the whole sum.
        """
        heads = self.qkv(x, whole=whole).unflatten(-1, (-1, self.head_dim))
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], -2)
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        order = (1, 2, 0, 3) if self.sequence_dim == 0 else (0, 2, 1, 3)
        q, k, v = (each.permute(order) for each in (q, k, v))
        if cache is not None:
            if start is None:
                raise SyncopateError("start: expects the place of the first token, with a cache")
            cache.store(k, v, start)
        if cache is not None and start is not None and q.shape[2] == 1:
            made = cache.attend(q, start)
        else:
            made = scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads
            )
        back = (2, 0, 1, 3) if self.sequence_dim == 0 else (0, 2, 1, 3)
        out: torch.Tensor = self.out(made.permute(back).flatten(2), whole=whole)
        return out
