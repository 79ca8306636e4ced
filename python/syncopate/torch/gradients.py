"""Gradients of the operators: that of a gather before a product is a scatter behind one, and the other way round.

The factor that moves back does so by another operator, overlapped with its product. The gradient of a weight needs the
other factor as it has arrived: of operators that move data behind the product, the backward's own operator gives it
back; of those that move data before it, it is saved if the caller has asked for it, and otherwise fetched again, which
needs memory for a rank's own rows only. Backward operators choose their strategies themselves.

All ranks have to need the same gradients.
"""

from __future__ import annotations

from typing import Any

import torch

from syncopate.errors import SyncopateError
from syncopate.torch import collectives
from syncopate.torch.groups import count_ranks
from syncopate.torch.layout import is_column_major
from syncopate.torch.programs import AUTO

__all__ = [
    "all_gather_matmul",
    "all_to_all_matmul",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "ring_attention",
    "ring_attention_backward",
    "save_all_gather_matmul",
    "save_all_to_all_matmul",
    "save_matmul_all_reduce",
    "save_matmul_all_to_all",
    "save_matmul_reduce_scatter",
    "save_ring_attention",
    "save_ring_attention_backward",
    "save_ulysses_attention",
    "save_ulysses_attention_backward",
    "ulysses_attention",
    "ulysses_attention_backward",
]


def _weight_grad(a: torch.Tensor, grad: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The gradient of B, which lies in memory as B does."""
    return torch.mm(grad.t(), a).t() if is_column_major(b) else torch.mm(a.t(), grad)


def _joined(tensors: list[torch.Tensor], dim: int) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim)


def save_all_gather_matmul(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    """Saves the factors, and A if it has been returned."""
    a_shard, weights, ctx.group_name, ctx.returned, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(a_shard, *weights, *(output[-1:] if ctx.returned else []))


def all_gather_matmul(ctx: Any, grads: list[torch.Tensor | None]) -> tuple[Any, ...]:
    """That of A by one product with all weights before a reduce-scatter."""
    a_shard, *weights = ctx.saved_tensors
    a = weights.pop() if ctx.returned else None
    grad_a = grads[-1] if ctx.returned else None
    needs_a, needs_b = ctx.needs_input_grad[:2]
    pairs = [(b, grad) for b, grad in zip(weights, grads, strict=False) if grad is not None]
    result = None
    if needs_a and pairs:
        result = torch.ops.syncopate.matmul_reduce_scatter(
            _joined([grad for _, grad in pairs], 1),
            _joined([b.t() for b, _ in pairs], 0),
            "sum",
            ctx.group_name,
            AUTO,
        )
    if needs_a and grad_a is not None:
        returned = collectives.reduce_scatter(grad_a, ctx.group_name)
        result = returned if result is None else result + returned
    results: list[torch.Tensor | None] = [None] * len(weights)
    for number, (b, needed) in enumerate(zip(weights, needs_b, strict=True)):
        grad = grads[number]
        if needed and grad is not None:
            a = collectives.gather(a_shard, ctx.group_name) if a is None else a
            results[number] = _weight_grad(a, grad, b)
    return result, results, None, None, None


def save_matmul_reduce_scatter(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Saves the factors."""
    a, b, ctx.reduce_op, ctx.group_name, _ = inputs
    ctx.save_for_backward(a, b)


def matmul_reduce_scatter(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """That of A by a gather before a product, which gives back what that of B needs."""
    a, b = ctx.saved_tensors
    needs_a, needs_b = ctx.needs_input_grad[:2]
    grad, name = _share(grad, ctx.reduce_op, ctx.group_name), ctx.group_name
    grad_a = grad_b = None
    if needs_a:
        made = torch.ops.syncopate.all_gather_matmul(grad, [b.t()], name, needs_b, AUTO)
        grad_a = made[0]
    if needs_b:
        gathered = made[1] if needs_a else collectives.gather(grad, name)
        grad_b = _weight_grad(a, gathered, b)
    return grad_a, grad_b, None, None, None


def save_matmul_all_reduce(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Saves the factors."""
    a, b, ctx.reduce_op, ctx.group_name, ctx.replicated, _ = inputs
    ctx.save_for_backward(a, b)


def matmul_all_reduce(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Two products; the ranks' gradients are added up before, unless they are the same anyway."""
    a, b = ctx.saved_tensors
    if not ctx.replicated:
        grad = collectives.all_reduce(grad, ctx.group_name)
    grad = _share(grad, ctx.reduce_op, ctx.group_name)
    needs_a, needs_b = ctx.needs_input_grad[:2]
    grad_a = torch.mm(grad, b.t()) if needs_a else None
    grad_b = _weight_grad(a, grad, b) if needs_b else None
    return grad_a, grad_b, None, None, None, None


def save_all_to_all_matmul(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    """Saves the factors, and A as it has arrived if that has been returned."""
    a, b, ctx.group_name, ctx.returned, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1] if ctx.returned else a, b)


def all_to_all_matmul(ctx: Any, grads: list[torch.Tensor | None]) -> tuple[Any, ...]:
    """That of A by a product before an exchange, which undoes that of the forward."""
    a, b = ctx.saved_tensors
    name, grad = ctx.group_name, grads[0]
    grad_arrived = grads[1] if ctx.returned else None
    needs_a, needs_b = ctx.needs_input_grad[:2]
    grad_a = grad_b = None
    if needs_a and grad is not None:
        grad_a = torch.ops.syncopate.matmul_all_to_all(grad, b.t(), name, AUTO)
    if needs_a and grad_arrived is not None:
        sent_back = collectives.exchange(grad_arrived, name)
        grad_a = sent_back if grad_a is None else grad_a + sent_back
    if needs_b and grad is not None:
        arrived = a if ctx.returned else collectives.exchange(a, name)
        grad_b = _weight_grad(arrived, grad, b)
    return grad_a, grad_b, None, None, None


def save_matmul_all_to_all(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Saves the factors."""
    a, b, ctx.group_name, _ = inputs
    ctx.save_for_backward(a, b)


def matmul_all_to_all(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """That of A by an exchange before a product, which gives back what that of B needs."""
    a, b = ctx.saved_tensors
    name = ctx.group_name
    needs_a, needs_b = ctx.needs_input_grad[:2]
    grad_a = grad_b = None
    if needs_a:
        made = torch.ops.syncopate.all_to_all_matmul(grad, b.t(), name, needs_b, AUTO)
        grad_a = made[0]
    if needs_b:
        arrived = made[1] if needs_a else collectives.exchange(grad, name)
        grad_b = _weight_grad(a, arrived, b)
    return grad_a, grad_b, None, None


def _share(grad: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    """The gradient of the sum, of which an average is a share."""
    return grad / count_ranks(group_name) if reduce_op == "avg" else grad


def save_ring_attention(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves what the rank has given and what it has got."""
    q, k, v, *ctx.form, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output)


save_ulysses_attention = save_ring_attention


def ring_attention(ctx: Any, grad: Any, grad_lse: Any) -> tuple[Any, ...]:
    """By an operator of its own, which computes all of them."""
    return _attention(torch.ops.syncopate.ring_attention_backward, ctx, grad, grad_lse)


def ulysses_attention(ctx: Any, grad: Any, grad_lse: Any) -> tuple[Any, ...]:
    """Likewise."""
    return _attention(torch.ops.syncopate.ulysses_attention_backward, ctx, grad, grad_lse)


def _attention(backward: Any, ctx: Any, grad: Any, grad_lse: Any) -> tuple[Any, ...]:
    """Logarithms have a gradient if something has been made of them; so may nothing but them have one."""
    *given, o, lse = ctx.saved_tensors
    grad = torch.zeros_like(o) if grad is None else grad
    found = backward(grad, *given, o, lse, grad_lse, *ctx.form)
    return *found, *[None] * len(ctx.form), None


def save_ring_attention_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves nothing."""


def ring_attention_backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    """There is none."""
    raise SyncopateError(
        "attention: expects no gradient of its gradients to be asked for, which they do not have"
    )


save_ulysses_attention_backward = save_ring_attention_backward
ulysses_attention_backward = ring_attention_backward
