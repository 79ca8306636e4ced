"""Collectives on rows of a matrix by torch alone: functional ones, so that they can be traced, on any backend.

Each returns a new tensor when it has arrived.
"""

from __future__ import annotations

import torch

from syncopate.torch.groups import count_ranks

__all__ = ["all_reduce", "exchange", "gather", "reduce_scatter"]


def gather(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """The rows of all ranks, in their order."""
    functional = torch.ops._c10d_functional
    made = functional.all_gather_into_tensor(x.contiguous(), count_ranks(group_name), group_name)
    return functional.wait_tensor(made)


def reduce_scatter(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """This rank's block of rows of the sum over all ranks."""
    functional = torch.ops._c10d_functional
    made = functional.reduce_scatter_tensor(
        x.contiguous(), "sum", count_ranks(group_name), group_name
    )
    return functional.wait_tensor(made)


def all_reduce(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """The sum over all ranks."""
    functional = torch.ops._c10d_functional
    return functional.wait_tensor(functional.all_reduce(x.contiguous(), "sum", group_name))


def exchange(x: torch.Tensor, group_name: str) -> torch.Tensor:
    """Block i of the rows from rank i: what it had as its block for this rank."""
    functional = torch.ops._c10d_functional
    world = count_ranks(group_name)
    rows = [x.shape[0] // world] * world
    made = functional.all_to_all_single(x.contiguous(), rows, rows, group_name)
    return functional.wait_tensor(made)
