"""Styles for `torch.distributed.tensor.parallel.parallelize_module`.

    parallelize_module(model, mesh, {"up": st.ColwiseParallel(), "down": st.RowwiseParallel()})

As with torch's own styles of these names, parameters become DTensors, so that checkpoints and optimizers see whole
ones. What moves between layers are plain tensors.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from syncopate.errors import SyncopateError
from syncopate.torch.functional import StrategyLike
from syncopate.torch.groups import name_group
from syncopate.torch.modules import ColumnParallelLinear, RowParallelLinear, _ParallelLinear
from syncopate.torch.programs import AUTO

__all__ = ["ColwiseParallel", "RowwiseParallel"]


class _Style(ParallelStyle):  # type: ignore[misc] # mypy sees nothing of torch.
    """Makes a linear layer a parallel one, in place."""

    layer: type[_ParallelLinear]
    weight_placement: Placement
    bias_placement: Placement

    def __init__(self, *, sequence_dim: int | None = 1, strategy: StrategyLike = AUTO) -> None:
        """Chooses how layers are made.

        Args:
            sequence_dim: The dimension of which ranks have their parts outside of a pair of layers: that of
                [batch, sequence, features]. None if they have it whole.
            strategy: Of the operators.
        """
        super().__init__()
        self.sequence_dim, self.strategy = sequence_dim, strategy

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if type(module) is not nn.Linear:
            raise SyncopateError(
                f"{type(self).__name__}: expects an nn.Linear, but got {type(module).__name__}"
            )
        name = name_group(device_mesh)
        self.layer.local_shape(module.in_features, module.out_features, name)
        placements = {"weight": self.weight_placement, "bias": self.bias_placement}
        for key, parameter in list(module.named_parameters()):
            made = distribute_tensor(
                parameter, device_mesh, [placements[key]], src_data_rank=self.src_data_rank
            )
            module.register_parameter(
                key, nn.Parameter(made, requires_grad=parameter.requires_grad)
            )
        made_layer: Any = module
        made_layer.__class__ = self.layer
        made_layer.configure(name, self.sequence_dim, self.strategy)
        return module


class ColwiseParallel(_Style):
    """A linear layer of which each rank computes its part of the features, of a sequence that it gathers."""

    layer = ColumnParallelLinear
    weight_placement = Shard(0)
    bias_placement = Shard(0)


class RowwiseParallel(_Style):
    """A linear layer of which each rank has its part of the inputs; sums are scattered along the sequence."""

    layer = RowParallelLinear
    weight_placement = Shard(1)
    bias_placement = Replicate()
