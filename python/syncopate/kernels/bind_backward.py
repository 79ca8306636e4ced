"""Arguments of `syncopate.compile` for the gradients of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncopate.compiler.binding import Ctas, Descriptor, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.bind_sequence import count_group
from syncopate.kernels.config import AttentionConfig
from syncopate.kernels.sequence_tiles import SequenceTiles
from syncopate.plan import Buffer
from syncopate.plan.sequence import SequenceShards

__all__ = ["bind_attention_backward_kv", "bind_attention_backward_q"]


def bind_attention_backward_q(
    k: Buffer | Tensor,
    v: Buffer | Tensor,
    heads: int,
    head_dim: int,
    shards: SequenceShards,
    config: AttentionConfig | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> dict[str, Any]:
    """Binds `attention_backward_q` for the queries that a rank has, to the keys and values of all of a sequence.

    Args:
        k: The keys; all arguments are as for `bind_attention`.
        v: The values.
        heads: Heads of the queries.
        head_dim: Elements of a head.
        shards: Which queries a rank has.
        config: Tiles and steps; chosen by the number of elements of a head if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`, `o`
        and `do`, [shards.rows, heads · head_dim]; `lse`, f32 [heads, shards.rows], as `attention` leaves it; and, if it
        is causal, `positions`. It gives `dq`, like `q`, and `delta`, like `lse`, the sums of the rows of dO ∘ O.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or _choose_for_queries(head_dim)
    group = count_group(k, v, heads, head_dim, shards)
    bm, bn, rows = config.block_m, config.block_n, shards.rows
    tiles = SequenceTiles(shards, bm, bn, causal)
    shape = (rows, heads * head_dim)
    q, o, do, dq = (
        Tensor(name, shape, k.dtype, output=name == "dq") for name in ("q", "o", "do", "dq")
    )
    bind = {
        "q_desc": Descriptor(q, (bm, head_dim)),
        "k_desc": Descriptor(k, (bn, head_dim)),
        "v_desc": Descriptor(v, (bn, head_dim)),
        "o_desc": Descriptor(o, (bm, head_dim)),
        "do_desc": Descriptor(do, (bm, head_dim)),
        "dq_desc": Descriptor(dq, (bm, head_dim)),
        "lse_ptr": Pointer(Tensor("lse", (heads, rows), "f32")),
        "delta_ptr": Pointer(Tensor("delta", (heads, rows), "f32", output=True)),
        "positions_ptr": Pointer(Tensor("positions", (rows,), "i32")) if causal else None,
        "scale": head_dim**-0.5 if scale is None else float(scale),
        "HEADS": heads,
        "GROUP": group,
        "SQ": rows,
        "SK": shards.length,
        "BLOCK_M": bm,
        "BLOCK_N": bn,
        "HEAD_DIM": head_dim,
        "CAUSAL": causal,
        "RAGGED": shards.length % bn != 0,
        "NUM_SMS": Ctas() if config.num_ctas is None else config.num_ctas,
    }
    return {
        "bind": bind,
        "tiles": (heads, tiles.count),
        "ctas": config.num_ctas,
        "steps": tiles.steps(),
        "tile_order": tiles.order(heads) if causal else None,
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }


def bind_attention_backward_kv(
    k: Buffer | Tensor,
    v: Buffer | Tensor,
    dkv: Buffer | Tensor,
    heads: int,
    head_dim: int,
    shards: SequenceShards,
    config: AttentionConfig | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> dict[str, Any]:
    """Binds `attention_backward_kv`: what the queries of a rank contribute to all of a sequence's keys and values.

    Args:
        k: The keys; other arguments are as for `bind_attention`.
        v: The values.
        dkv: The gradients, [length, kv_heads · 2 · head_dim], for each head that of keys and then that of values, of
            any floating-point type: the plan's buffer, as `syncopate.plan.sequence_sums.reduce_sequence` adds it up, or
            an output of the rank.
        heads: Heads of the queries.
        head_dim: Elements of a head.
        shards: Which queries a rank has.
        config: `block_n` keys of a tile, and `block_m` queries of a turn of the loop inside; chosen by the number of
            elements of a head if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`, `do`
        and `lse` as `bind_attention_backward_q` says; `delta`, as its program gives it; and `positions`, if it is
        causal or some rank has rows that stand for no query.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or _choose_for_keys(head_dim)
    group = count_group(k, v, heads, head_dim, shards)
    if tuple(dkv.shape) != (k.shape[0], 2 * k.shape[1]):
        raise SyncopateError(
            f"dkv: expects {[k.shape[0], 2 * k.shape[1]]}, twice what the keys have, but got {list(dkv.shape)}"
        )
    bm, bn, rows = config.block_m, config.block_n, shards.rows
    shape = (rows, heads * head_dim)
    has_positions = causal or any(
        np.any(shards.positions(rank) < 0) for rank in range(shards.world_size)
    )
    kv_heads = heads // group
    bind = {
        "q_desc": Descriptor(Tensor("q", shape, k.dtype), (bm, head_dim)),
        "k_desc": Descriptor(k, (bn, head_dim)),
        "v_desc": Descriptor(v, (bn, head_dim)),
        "do_desc": Descriptor(Tensor("do", shape, k.dtype), (bm, head_dim)),
        "dkv_desc": Descriptor(dkv, (bn, head_dim)),
        "lse_ptr": Pointer(Tensor("lse", (heads, rows), "f32")),
        "delta_ptr": Pointer(Tensor("delta", (heads, rows), "f32")),
        "positions_ptr": Pointer(Tensor("positions", (rows,), "i32")) if has_positions else None,
        "scale": head_dim**-0.5 if scale is None else float(scale),
        "KV_HEADS": kv_heads,
        "GROUP": group,
        "SQ": rows,
        "SK": shards.length,
        "BLOCK_M": bm,
        "BLOCK_N": bn,
        "HEAD_DIM": head_dim,
        "CAUSAL": causal,
        "NUM_SMS": Ctas() if config.num_ctas is None else config.num_ctas,
    }
    return {
        "bind": bind,
        "tiles": (kv_heads, -(-shards.length // bn)),
        "ctas": config.num_ctas,
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }


def _choose_for_queries(head_dim: int) -> AttentionConfig:
    """Blocks of which nothing spills in a fused kernel on Hopper, and whose stages fit into its shared memory."""
    if head_dim > 128:
        return AttentionConfig(block_m=64, block_n=32, num_stages=2)
    if head_dim > 64:
        return AttentionConfig(block_m=128, block_n=64, num_stages=2)
    return AttentionConfig(block_m=128, block_n=128, num_stages=3)


def _choose_for_keys(head_dim: int) -> AttentionConfig:
    """Likewise; beside two accumulators of 128 columns, scores of 64 queries would spill."""
    if head_dim > 64:
        return AttentionConfig(block_m=32, block_n=128, num_stages=2)
    return AttentionConfig(block_m=64, block_n=128, num_stages=3)
