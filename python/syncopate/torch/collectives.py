"""Collectives on rows of a matrix by torch alone, on any backend, each one operator whose result is there.

torch's functional ones are two operators, one that begins and one that waits, between which a compiler may put others.
A kernel of ours must not run there: it fills a GPU while it waits for other ranks, and so may a collective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncopate.torch.groups import count_ranks

__all__ = ["all_reduce", "exchange", "gather", "reduce_scatter"]

_library = torch.library.Library("syncopate", "FRAGMENT")


def gather(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """The rows of all ranks, in their order; new, as all results."""
    return torch.ops.syncopate.gather(x, group_name)


def reduce_scatter(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """This rank's block of rows of the sum over all ranks."""
    return torch.ops.syncopate.reduce_scatter(x, group_name)


def all_reduce(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """The sum over all ranks."""
    return torch.ops.syncopate.all_reduce(x, group_name)


def exchange(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """Block i of the rows from rank i: what it had as its block for this rank."""
    return torch.ops.syncopate.exchange(x, group_name)


def _gather(x: torch.Tensor, world: int, group_name: str) -> torch.Tensor:
    return torch.ops._c10d_functional.all_gather_into_tensor(x, world, group_name)


def _reduce_scatter(x: torch.Tensor, world: int, group_name: str) -> torch.Tensor:
    return torch.ops._c10d_functional.reduce_scatter_tensor(x, "sum", world, group_name)


def _all_reduce(x: torch.Tensor, world: int, group_name: str) -> torch.Tensor:
    return torch.ops._c10d_functional.all_reduce(x, "sum", group_name)


def _exchange(x: torch.Tensor, world: int, group_name: str) -> torch.Tensor:
    rows = [x.shape[0] // world] * world
    return torch.ops._c10d_functional.all_to_all_single(x, rows, rows, group_name)


def _register(
    name: str, begin: Callable[..., torch.Tensor], adjoint: str, rows: Callable[[Any, int], Any]
) -> None:
    def run(x: torch.Tensor, group_name: str) -> torch.Tensor:
        made = begin(x.contiguous(), count_ranks(group_name), group_name)
        return torch.ops._c10d_functional.wait_tensor(made)

    def fake(x: torch.Tensor, group_name: str) -> torch.Tensor:
        return x.new_empty(rows(x.shape[0], count_ranks(group_name)), *x.shape[1:])

    def save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.group_name = inputs[1]

    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return getattr(torch.ops.syncopate, adjoint)(grad, ctx.group_name), None

    _library.define(
        f"{name}(Tensor x, str group_name) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,)
    )
    for key in ("CPU", "CUDA"):
        _library.impl(name, run, key)
    torch.library.register_fake(f"syncopate::{name}", fake, lib=_library)
    torch.library.register_autograd(
        f"syncopate::{name}", backward, setup_context=save, lib=_library
    )


_register("gather", _gather, "reduce_scatter", lambda rows, world: rows * world)
_register("reduce_scatter", _reduce_scatter, "gather", lambda rows, world: rows // world)
_register("all_reduce", _all_reduce, "all_reduce", lambda rows, world: rows)
_register("exchange", _exchange, "exchange", lambda rows, world: rows)
