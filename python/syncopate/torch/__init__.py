"""Syncopate for PyTorch: operators that fuse a product with what moves before or after it.

    import syncopate.torch as st

    _, (c,) = st.all_gather_matmul(a_shard, [weight.t()], 0, group, return_A=False)
    y = st.matmul_reduce_scatter(c, other.t(), "sum", 0, group)

They are operators of `torch.library` with gradients, so torch.compile, torch.export, autocast, activation checkpointing
and CUDA graphs take them like any other. docs/torch.md says how to come from other operators.
"""

# ruff: noqa: E402
from __future__ import annotations

from syncopate.errors import require_torch

require_torch("syncopate.torch")

from syncopate.torch.attention import KeyValueCache, SequenceParallelAttention
from syncopate.torch.functional import (
    all_gather_matmul,
    all_to_all_matmul,
    matmul_all_reduce,
    matmul_all_to_all,
    matmul_reduce_scatter,
    ring_attention,
    ulysses_attention,
)
from syncopate.torch.fusion import CollectiveFusion, fuse_collectives
from syncopate.torch.mlp import SequenceParallelMlp
from syncopate.torch.modules import ColumnParallelLinear, RowParallelLinear, sum_gradients
from syncopate.torch.norm import SequenceParallelRMSNorm
from syncopate.torch.parallel import ColwiseParallel, RowwiseParallel
from syncopate.torch.programs import close_programs, synchronize

__all__ = [
    "CollectiveFusion",
    "ColumnParallelLinear",
    "ColwiseParallel",
    "KeyValueCache",
    "RowParallelLinear",
    "RowwiseParallel",
    "SequenceParallelAttention",
    "SequenceParallelMlp",
    "SequenceParallelRMSNorm",
    "all_gather_matmul",
    "all_to_all_matmul",
    "close_programs",
    "fuse_collectives",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "ring_attention",
    "sum_gradients",
    "synchronize",
    "ulysses_attention",
]
