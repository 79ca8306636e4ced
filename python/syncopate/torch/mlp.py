"""A gated MLP with the sequence in parallel outside and the features in parallel inside."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from syncopate.torch.functional import StrategyLike
from syncopate.torch.groups import GroupLike, name_group
from syncopate.torch.modules import ColumnParallelLinear, RowParallelLinear, divide
from syncopate.torch.programs import AUTO

__all__ = ["SequenceParallelMlp"]


class SequenceParallelMlp(nn.Module):  # type: ignore[misc] # mypy sees nothing of torch.
    """SwiGLU, down(silu(gate(x)) · up(x)): [sequence / ranks, ..., features] → the same.

    `gate_up` gathers the sequence once and computes this rank's features of gate, then those of up, by one product;
    `down` scatters behind its product.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        group: GroupLike,
        *,
        sequence_dim: int | None = 0,
        strategy: StrategyLike = AUTO,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes an MLP without biases, of random weights.

        Args:
            features: Of a token.
            hidden: Features between the products, of all ranks.
            group: The ranks.
            sequence_dim: As of the layers. Along the first dimension nothing is copied.
            strategy: Of the operators.
            device: Where weights are.
            dtype: Their type.

        Raises:
            SyncopateError: The ranks do not divide the hidden features.
        """
        super().__init__()
        name = name_group(group)
        divide("hidden", hidden, name)
        how: dict[str, Any] = {"bias": False, "sequence_dim": sequence_dim, "strategy": strategy}
        how.update(device=device, dtype=dtype)
        self.gate_up = ColumnParallelLinear(features, 2 * hidden, name, **how)
        self.down = RowParallelLinear(hidden, features, name, **how)

    @classmethod
    def from_linears(
        cls,
        gate: nn.Linear,
        up: nn.Linear,
        down: nn.Linear,
        group: GroupLike,
        *,
        sequence_dim: int | None = 0,
        strategy: StrategyLike = AUTO,
    ) -> SequenceParallelMlp:
        """This rank's part of layers that all ranks have alike; copies, with their biases.

        Args:
            gate: [features] → [hidden].
            up: Likewise.
            down: [hidden] → [features].
            group: The ranks.
            sequence_dim: As for a new one.
            strategy: As for a new one.

        Raises:
            SyncopateError: The layers do not take the same, or the ranks do not divide the hidden features.
        """
        # Layers on the meta device hold no memory until they are replaced.
        made = cls(gate.in_features, gate.out_features, group, device="meta")
        how: dict[str, Any] = {"sequence_dim": sequence_dim, "strategy": strategy}
        made.gate_up = ColumnParallelLinear.from_linears([gate, up], group, **how)
        made.down = RowParallelLinear.from_linear(down, group, **how)
        return made

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """Applies the MLP.

        Args:
            x: This rank's part of the sequence.
            whole: Whether x is the same on all ranks instead: then nothing is gathered, and all get the whole sum.
        """
        gate, up = self.gate_up(x, whole=whole).chunk(2, -1)
        made: torch.Tensor = self.down(functional.silu(gate) * up, whole=whole)
        return made
