"""The attention kernel under plain Triton, on tensors of one GPU."""

from __future__ import annotations

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from syncopate.kernels import AttentionConfig, attention

__all__ = ["launch"]


def launch(
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    lse: torch.Tensor,
    head_dim: int,
    config: AttentionConfig,
    *,
    causal: bool,
    positions: torch.Tensor | None = None,
) -> None:
    """Attends.

    Args:
        tensors: Queries [rows, heads · head_dim], keys and values [keys, kv_heads · head_dim].
        out: Outputs, like the queries.
        lse: f32 [heads, rows].
        head_dim: Elements of a head.
        config: The tiles.
        causal: Whether a query takes the keys up to its own place only.
        positions: The place of each query, i32 [rows]; its row if it is left out.
    """
    q, k, v = tensors
    heads, kv_heads = q.shape[1] // head_dim, k.shape[1] // head_dim
    multiprocessors = torch.cuda.get_device_properties(q.device).multi_processor_count
    programs = config.ctas_per_sm * multiprocessors

    def describe(x: torch.Tensor, rows: int) -> TensorDescriptor:
        return TensorDescriptor.from_tensor(x, [rows, head_dim])

    attention[(programs,)](
        describe(q, config.block_m),
        describe(k, config.block_n),
        describe(v, config.block_n),
        describe(out, config.block_m),
        None,
        lse,
        positions,
        None,
        head_dim**-0.5,
        heads,
        heads // kv_heads,
        triton.cdiv(len(q), config.block_m),
        len(q),
        len(k),
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        HEAD_DIM=head_dim,
        CAUSAL=causal,
        RAGGED=len(k) % config.block_n != 0,
        PACKED=False,
        NUM_SMS=programs,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
