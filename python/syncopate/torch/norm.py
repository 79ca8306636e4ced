"""RMSNorm of a sequence of which each rank has a part."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from syncopate.torch.groups import GroupLike, name_group
from syncopate.torch.modules import local_part, sum_gradients

__all__ = ["SequenceParallelRMSNorm"]


class SequenceParallelRMSNorm(nn.Module):  # type: ignore[misc] # mypy sees nothing of torch.
    """Divides the features of each token by the root of their mean square, and scales them: [..., features] → the same.

    All ranks have the same weight, whose gradients are added up over their parts of the sequence.
    """

    def __init__(
        self,
        features: int,
        group: GroupLike,
        *,
        eps: float = 1e-6,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes a norm that scales by 1.

        Args:
            features: The size of the last dimension.
            group: The ranks.
            eps: What is added to the mean of the squares.
            device: Where the weight is.
            dtype: Its type.
        """
        super().__init__()
        self.group_name, self.eps = name_group(group), eps
        self.weight = nn.Parameter(torch.ones(features, device=device, dtype=dtype))

    def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """Applies the norm to this rank's part of the sequence, or to all of it where that is whole on all ranks."""
        weight = local_part(self.weight)
        if not whole:
            weight = sum_gradients(weight, self.group_name)
        return functional.rms_norm(x, weight.shape, weight, self.eps)
