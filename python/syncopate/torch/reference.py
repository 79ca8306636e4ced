"""The operators as a product and a collective, one after the other: what they mean, where no kernel can run.

A strategy means nothing here, and how gradients arrive nothing to a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.torch import collectives
from syncopate.torch.groups import count_ranks, find_group

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


_HALVES = (torch.float16, torch.bfloat16)


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


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    zigzag: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gathers keys and values, then weighs values; returns outputs, and the logarithms of the sums of exponentials."""
    scores, _, values = _score(q, k, v, causal, zigzag, group_name)
    out = scores.softmax(2) @ values
    return out.transpose(0, 1).to(q.dtype).contiguous(), scores.logsumexp(2).float()


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
    """Gathers keys and values again, and adds up what all queries contribute to their gradients."""
    scores, keys, values = _score(q, k, v, causal, zigzag, group_name)
    weights = scores.softmax(2)
    queries, outputs, grads = (x.transpose(0, 1).to(scores.dtype) for x in (q, o, grad))
    delta = (outputs * grads).sum(2, keepdim=True)
    if grad_lse is not None:
        delta = delta - grad_lse[:, :, None]
    of_scores = weights * (grads @ values.transpose(1, 2) - delta) * q.shape[2] ** -0.5
    contributed = (of_scores.transpose(1, 2) @ queries, weights.transpose(1, 2) @ grads)
    summed = (
        collectives.reduce_scatter(
            x.unflatten(0, (k.shape[1], -1)).sum(1).transpose(0, 1).flatten(1), group_name
        )
        for x in contributed
    )
    of_q = (of_scores @ keys).transpose(0, 1).to(q.dtype).contiguous()
    of_k, of_v = (x.view(k.shape).to(k.dtype) for x in summed)
    return of_q, of_k, of_v


def _score(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    zigzag: bool,
    group_name: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of a rank's queries and all keys, these keys, and values: for each head of the queries, in rows of ranks.

    Of halves, they are float32.
    """
    group = find_group(group_name)
    world, rank = group.size(), group.rank()
    sharding = Sharding.ZIGZAG if zigzag else Sharding.CONTIGUOUS
    shards = SequenceShards(len(q) * world, world, sharding)
    places = [torch.from_numpy(shards.positions(each)).to(q.device) for each in range(world)]
    shared = q.shape[1] // k.shape[1]
    dtype = torch.float32 if q.dtype in _HALVES else q.dtype
    keys, values = (
        collectives.gather(x.flatten(1), group_name)
        .unflatten(1, x.shape[1:])
        .transpose(0, 1)
        .repeat_interleave(shared, 0)
        .to(dtype)
        for x in (k, v)
    )
    scores = q.transpose(0, 1).to(dtype) @ keys.transpose(1, 2) * q.shape[2] ** -0.5
    if causal:
        behind = torch.cat(places)[None, :] > places[rank][:, None]
        scores = scores.masked_fill(behind, float("-inf"))
    return scores, keys, values


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    group_name: str,
    strategy: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same outputs: who computes them means nothing. Logarithms are those of a rank's heads for all rows."""
    out, lse = ring_attention(q, k, v, causal, False, group_name, strategy)
    group = find_group(group_name)
    gathered = collectives.gather(lse, group_name).unflatten(0, (group.size(), -1))
    own = gathered.chunk(group.size(), 1)[group.rank()]
    return out, own.transpose(0, 1).flatten(1).contiguous()


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
    """The same gradients, with those of logarithms brought to the rows to which they belong."""
    if grad_lse is not None:
        group = find_group(group_name)
        gathered = collectives.gather(grad_lse.contiguous(), group_name)
        grad_lse = gathered.chunk(group.size(), 1)[group.rank()]
    return ring_attention_backward(grad, q, k, v, o, lse, grad_lse, causal, False, group_name)
