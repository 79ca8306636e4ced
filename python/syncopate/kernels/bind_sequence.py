"""Arguments of `syncopate.compile` for attention."""

from __future__ import annotations

from typing import Any

from syncopate.compiler.binding import Ctas, Descriptor, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.causal import steps_up_to_diagonal
from syncopate.kernels.config import AttentionConfig
from syncopate.plan import Buffer
from syncopate.plan.sequence import SequenceShards

__all__ = ["bind_attention", "count_group"]


def bind_attention(
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
    """Binds `attention` for the queries that a rank has of a sequence, to the keys and values of all of it.

    Tensors have the sequence first, then the heads: [sequence, heads · head_dim]. The heads of a batch are further
    heads.

    Args:
        k: The keys: [length, kv_heads · head_dim], the plan's buffer of them, or a tensor of the rank.
        v: The values, likewise.
        heads: Heads of the queries, a multiple of those of keys and values; as many neighbours share one of these.
        head_dim: Elements of a head: 64, 128 or 256, or another power of two.
        shards: Which queries a rank has.
        config: Tiles and steps; chosen by `AttentionConfig.choose` if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied; 1 / √head_dim if it is left out.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`,
        [shards.rows, heads · head_dim]; if it is causal, `positions`, i32 [shards.rows], as `SequenceShards.positions`
        gives them; and, optionally, `o`, like `q`, and `lse`, f32 [heads, shards.rows], the natural logarithm of the
        sum of the exponentials of each query's scores.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or AttentionConfig.choose(head_dim)
    group = count_group(k, v, heads, head_dim, shards)
    bm, bn, rows = config.block_m, config.block_n, shards.rows
    shape = (rows, heads * head_dim)
    q, o = (Tensor(name, shape, k.dtype, output=name == "o") for name in "qo")
    tiles_m = -(-rows // bm)
    bind = {
        "q_desc": Descriptor(q, (bm, head_dim)),
        "k_desc": Descriptor(k, (bn, head_dim)),
        "v_desc": Descriptor(v, (bn, head_dim)),
        "o_desc": Descriptor(o, (bm, head_dim)),
        "lse_ptr": Pointer(Tensor("lse", (heads, rows), "f32", output=True)),
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
        "tiles": (heads, tiles_m),
        "ctas": config.num_ctas,
        "steps": steps_up_to_diagonal(shards, bm, bn) if causal else (),
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }


def count_group(
    k: Buffer | Tensor, v: Buffer | Tensor, heads: int, head_dim: int, shards: SequenceShards
) -> int:
    """How many heads of the queries share one of the keys."""
    for name, value in (("heads", heads), ("head_dim", head_dim)):
        if type(value) is not int or value < 1:
            raise SyncopateError(f"{name}: expects a positive integer, but got {value!r}")
    if head_dim & (head_dim - 1) or head_dim < 16:
        raise SyncopateError(
            f"head_dim: expects a power of two of at least 16, but got {head_dim}; pad the heads with zeros"
        )
    if tuple(k.shape) != tuple(v.shape) or k.dtype != v.dtype:
        raise SyncopateError(
            f"v: expects values like the keys, {list(k.shape)} of {k.dtype}, but got {list(v.shape)} of {v.dtype}"
        )
    if len(k.shape) != 2 or k.shape[0] != shards.length or k.shape[1] % head_dim:
        raise SyncopateError(
            f"k: expects [{shards.length}, kv_heads · {head_dim}], but got {list(k.shape)}"
        )
    kv_heads = k.shape[1] // head_dim
    if heads % kv_heads:
        raise SyncopateError(
            f"heads: expects a multiple of the {kv_heads} heads of keys and values, but got {heads}"
        )
    return heads // kv_heads
