"""Linear layers of which each rank has a part, on the fused operators.

A column-parallel layer followed by a row-parallel one is tensor parallelism with sequences in parallel: a rank has its
part of the sequence outside of the pair, and its part of the features inside. The first gathers before its product,
the second scatters behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from syncopate.errors import SyncopateError
from syncopate.torch import collectives
from syncopate.torch.functional import (
    StrategyLike,
    all_gather_matmul,
    matmul_all_reduce,
    matmul_reduce_scatter,
)
from syncopate.torch.groups import GroupLike, count_ranks, find_group, name_group
from syncopate.torch.programs import AUTO

__all__ = ["ColumnParallelLinear", "RowParallelLinear", "divide", "local_part", "sum_gradients"]


class _Shared(torch.autograd.Function):  # type: ignore[misc] # mypy sees nothing of torch.
    """What all ranks have alike and use differently: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group_name: str) -> torch.Tensor:
        """The same."""
        ctx.group_name = group_name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The sum over the ranks."""
        return collectives.all_reduce(grad, ctx.group_name), None


class _Summed(torch.autograd.Function):  # type: ignore[misc]
    """The sum over the ranks, with which they all do the same: its gradient is that of each summand."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group_name: str) -> torch.Tensor:
        """By torch's collective."""
        return collectives.all_reduce(x, group_name)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        """As it is."""
        return grad, None


def sum_gradients(x: torch.Tensor, group: GroupLike) -> torch.Tensor:
    """What all ranks have alike and each uses for its own part of a sequence, such as the weight of a norm.

    Args:
        x: A parameter, or what is made of one.
        group: The ranks.

    Returns:
        The same; its gradient is the sum of those of all ranks, which torch's collective adds up.
    """
    shared: torch.Tensor = _Shared.apply(x, name_group(group))
    return shared


def local_part(parameter: Any) -> Any:
    """A rank's part of a parameter."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


class _ParallelLinear(nn.Module):  # type: ignore[misc]
    """What the two layers have in common."""

    weight: Any
    bias: Any
    in_features: int
    out_features: int
    group_name: str
    sequence_dim: int | None
    strategy: StrategyLike

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: GroupLike,
        *,
        bias: bool = True,
        sequence_dim: int | None = 0,
        strategy: StrategyLike = AUTO,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes a layer with random parameters, drawn as those of nn.Linear are, by each rank for itself.

        Args:
            in_features: Columns of the whole weight.
            out_features: Rows of the whole weight.
            group: The ranks.
            bias: Whether to add one. One that all ranks have alike is zero at first.
            sequence_dim: The dimension of which ranks have their parts outside of the pair; None if they have it whole.
            strategy: Of the operators.
            device: Where parameters are.
            dtype: Their type.

        Raises:
            SyncopateError: The ranks do not divide the features.
        """
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.configure(group, sequence_dim, strategy)
        shape = self.local_shape(in_features, out_features, self.group_name)
        make = {"device": device, "dtype": dtype}
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(shape, **make).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.zeros(shape[0], **make))
            if shape[0] != out_features:
                nn.init.uniform_(self.bias, -bound, bound)
        else:
            self.register_parameter("bias", None)

    def configure(self, group: GroupLike, sequence_dim: int | None, strategy: StrategyLike) -> None:
        """Sets what is no parameter."""
        self.group_name = name_group(group)
        self.sequence_dim, self.strategy = sequence_dim, strategy

    @staticmethod
    def local_shape(in_features: int, out_features: int, group_name: str) -> tuple[int, int]:
        """The shape of a rank's weight."""
        raise NotImplementedError

    @classmethod
    def from_linear(
        cls,
        linear: nn.Linear,
        group: GroupLike,
        *,
        sequence_dim: int | None = 0,
        strategy: StrategyLike = AUTO,
    ) -> _ParallelLinear:
        """This rank's part of a layer that all ranks have alike; a copy.

        Args:
            linear: The layer.
            group: The ranks.
            sequence_dim: As for a new layer.
            strategy: As for a new layer.

        Raises:
            SyncopateError: The ranks do not divide the features.
        """
        made = cls(
            linear.in_features,
            linear.out_features,
            group,
            bias=linear.bias is not None,
            sequence_dim=sequence_dim,
            strategy=strategy,
            device=linear.weight.device,
            dtype=linear.weight.dtype,
        )
        rank = find_group(made.group_name).rank()
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                whole, shape = getattr(linear, name), parameter.shape
                for dim, size in enumerate(shape):
                    if whole.shape[dim] != size:
                        whole = whole.narrow(dim, rank * size, size)
                parameter.copy_(whole)
                parameter.requires_grad_(getattr(linear, name).requires_grad)
        return made

    def extra_repr(self) -> str:
        """What print shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"sequence_dim={self.sequence_dim}, group={self.group_name!r}"
        )


class ColumnParallelLinear(_ParallelLinear):
    """Gathers a sequence and computes this rank's features: [..., in_features] → [..., out_features / ranks].

    Without a sequence dimension the input is whole on all ranks, and its gradients are added up.
    """

    @classmethod
    def from_linears(
        cls,
        linears: Sequence[nn.Linear],
        group: GroupLike,
        *,
        sequence_dim: int | None = 0,
        strategy: StrategyLike = AUTO,
    ) -> ColumnParallelLinear:
        """This rank's parts of layers that take the same, one below the other, so that one gather serves all.

        Args:
            linears: The layers, which all ranks have alike; they are copied. All have a bias, or none.
            group: The ranks.
            sequence_dim: As for a new layer.
            strategy: As for a new layer.

        Returns:
            A layer that gives a rank's features of the first, then those of the second, and so on.

        Raises:
            SyncopateError: They do not take the same, or the ranks do not divide the features of each.
        """
        name, first = name_group(group), linears[0]
        sizes = [divide("out_features", each.out_features, name) for each in linears]
        for each in linears:
            if each.in_features != first.in_features or (each.bias is None) != (first.bias is None):
                raise SyncopateError(f"linears: expects layers like {first}, but got {each}")
        made = cls(
            first.in_features,
            sum(each.out_features for each in linears),
            name,
            bias=first.bias is not None,
            sequence_dim=sequence_dim,
            strategy=strategy,
            device=first.weight.device,
            dtype=first.weight.dtype,
        )
        rank = find_group(name).rank()
        with torch.no_grad():
            for key, parameter in made.named_parameters():
                parts = [
                    getattr(each, key).narrow(0, rank * size, size)
                    for each, size in zip(linears, sizes, strict=True)
                ]
                parameter.copy_(torch.cat(parts))
        return made

    @staticmethod
    def local_shape(in_features: int, out_features: int, group_name: str) -> tuple[int, int]:
        """A block of rows of the weight."""
        return divide("out_features", out_features, group_name), in_features

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """Applies the layer to this rank's part of the sequence, or to all of it where that is whole on all ranks."""
        weight, bias = local_part(self.weight), local_part(self.bias)
        if whole or self.sequence_dim is None:
            return functional.linear(_Shared.apply(x, self.group_name), weight, bias)
        _, (out,) = all_gather_matmul(
            x,
            [weight.t()],
            self.sequence_dim,
            self.group_name,
            return_A=False,
            strategy=self.strategy,
        )
        return _add(out, bias)


class RowParallelLinear(_ParallelLinear):
    """Multiplies this rank's features, adds up and scatters: [..., in_features / ranks] → [..., out_features].

    Without a sequence dimension all ranks get the whole sum.

    Attributes:
        fuses_sum: Whether whole sums are those of `matmul_all_reduce`. If not, a product comes first, and then torch's
            all-reduce, which can take less where there are few rows. Sums that are scattered are always fused.
    """

    fuses_sum: bool = True

    @staticmethod
    def local_shape(in_features: int, out_features: int, group_name: str) -> tuple[int, int]:
        """A block of columns of the weight."""
        return out_features, divide("in_features", in_features, group_name)

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """Applies the layer to this rank's features of the whole sequence, and scatters unless all shall be whole."""
        weight, bias = local_part(self.weight).t(), local_part(self.bias)
        name, strategy = self.group_name, self.strategy
        if whole or self.sequence_dim is None:
            if self.fuses_sum:
                out = matmul_all_reduce(x, weight, "sum", name, strategy=strategy)
            else:
                out = _Summed.apply(x @ weight, name)
            return _add(out, bias)
        out = matmul_reduce_scatter(x, weight, "sum", self.sequence_dim, name, strategy=strategy)
        return _add(out, None if bias is None else _Shared.apply(bias, name))


def _add(out: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The sum in the type of the product, which under autocast is another than that of the bias."""
    return out if bias is None else out + bias.to(out.dtype)


def divide(what: str, size: int, group_name: str) -> int:
    """The part of each rank.

    Raises:
        SyncopateError: The ranks do not divide it.
    """
    world = count_ranks(group_name)
    if size < 1 or size % world:
        raise SyncopateError(
            f"{what}: expects a multiple of {world}, the number of ranks, but got {size}"
        )
    return size // world
