"""Operators of `syncopate.torch` with factors and what they should give, for checks on any device.

Expected values are made of the factors of all ranks, in one process, by products alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

import syncopate.torch as st
from syncopate.errors import SyncopateError

ROWS, K, N = 3, 5, 7


@dataclass(frozen=True)
class Setting:
    """Factors: their sizes, type and place.

    Attributes:
        rows: Rows of each rank.
        k: What is summed over.
        n: Columns of a rank's B.
        dtype: Their type.
        device: Where they are.
        tolerance: How wrong results may be, against float64.
        strategy: Of the operators.
    """

    rows: int = ROWS
    k: int = K
    n: int = N
    dtype: Any = torch.float64
    device: str = "cpu"
    tolerance: float = 1e-12
    strategy: Any = "auto"

    def random(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, device=self.device).to(self.dtype)


CPU = Setting()
OPERATORS = torch.ops.syncopate
EVERY = (
    "all_gather_matmul",
    "matmul_reduce_scatter",
    "matmul_all_reduce",
    "all_to_all_matmul",
    "matmul_all_to_all",
)


def world_name() -> str:
    return dist.group.WORLD.group_name


def everywhere(tensor: torch.Tensor) -> list[torch.Tensor]:
    """What each rank has."""
    made = [torch.empty_like(tensor.contiguous()) for _ in range(dist.get_world_size())]
    dist.all_gather(made, tensor.detach().contiguous())
    return made


@dataclass
class Case:
    """An operator with factors of this rank.

    Attributes:
        call: The operator on factors; returns all that it gives.
        factors: What this rank passes.
        expect: From the factors of each rank, what each gets.
    """

    call: Callable[..., Sequence[torch.Tensor]]
    factors: list[torch.Tensor]
    expect: Callable[[list[list[torch.Tensor]]], list[list[torch.Tensor]]]


def blocks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.chunk(dist.get_world_size())


def make_case(name: str, *, more: bool = False, group: Any = None, setting: Setting = CPU) -> Case:
    """A case of an operator; with `more`, several weights, or an average, or A as well."""
    world, group = dist.get_world_size(), world_name() if group is None else group
    ranks, k, n = range(world), setting.k, setting.n
    how = {"strategy": setting.strategy}
    a = setting.random(setting.rows if name == "all_gather_matmul" else world * setting.rows, k)
    # One lies as a weight of nn.Linear does, one as in torch.mm, and one is neither.
    weights = [
        setting.random(n, k).t(),
        setting.random(k, n + 8),
        setting.random(2 * k, 2 * n)[::2, ::2],
    ]
    b = weights[0]
    op = "avg" if more else "sum"
    share = world if more else 1
    if name == "all_gather_matmul":
        chosen = weights if more else [b]

        def gather(x, *bs):
            whole, products = st.all_gather_matmul(x, list(bs), 0, group, return_A=more, **how)
            return [*products, *([whole] if more else [])]

        def gathered(factors):
            whole = torch.cat([x for x, *_ in factors])
            return [[*(whole @ b for b in bs), *([whole] if more else [])] for _, *bs in factors]

        return Case(gather, [a, *chosen], gathered)

    def total(factors):
        return sum(x @ b for x, b in factors) / share

    def exchanged(each):
        return [torch.cat([blocks(x)[rank] for x in each]) for rank in ranks]

    calls = {
        "matmul_reduce_scatter": lambda x, b: [st.matmul_reduce_scatter(x, b, op, 0, group, **how)],
        "matmul_all_reduce": lambda x, b: [
            st.matmul_all_reduce(x, b, op, group, replicated_grad=False, **how)
        ],
        "all_to_all_matmul": lambda x, b: (
            OPERATORS.all_to_all_matmul(x, b, st.functional.name_group(group), True, "auto")
            if more
            else [st.all_to_all_matmul(x, b, group, **how)]
        ),
        "matmul_all_to_all": lambda x, b: [st.matmul_all_to_all(x, b, group, **how)],
    }

    def arrived(factors):
        moved = exchanged([x for x, _ in factors])
        return [[x @ b, *([x] if more else [])] for x, (_, b) in zip(moved, factors, strict=True)]

    results = {
        "matmul_reduce_scatter": lambda factors: [[part] for part in blocks(total(factors))],
        "matmul_all_reduce": lambda factors: [[total(factors)]] * world,
        "all_to_all_matmul": arrived,
        "matmul_all_to_all": lambda factors: [[c] for c in exchanged([x @ b for x, b in factors])],
    }
    return Case(calls[name], [a, b], results[name])


def close(made: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-12) -> None:
    assert made.shape == right.shape, (made.shape, right.shape)
    error = (made.double() - right.double()).norm() / right.double().norm()
    assert error < tolerance, error


class Block(torch.nn.Module):
    """A gather before one product, and a scatter behind another."""

    def __init__(self, group: Any, setting: Setting = CPU) -> None:
        super().__init__()
        self.group = group
        self.up = torch.nn.Parameter(setting.random(setting.n, setting.k))
        self.down = torch.nn.Parameter(setting.random(setting.k, setting.n))

    def forward(self, x):
        _, (h,) = st.all_gather_matmul(x, [self.up.t()], 0, self.group, return_A=False)
        return st.matmul_reduce_scatter(torch.relu(h), self.down.t(), "sum", 0, self.group)


def expect_error(call: Callable[[], Any], text: str) -> None:
    try:
        call()
    except SyncopateError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")
