"""Arguments of `syncopate.compile` for attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncopate.compiler.binding import Ctas, Descriptor, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.config import AttentionConfig
from syncopate.kernels.heads import check_heads, find_scale
from syncopate.kernels.sequence_tiles import SequenceTiles
from syncopate.plan import Buffer
from syncopate.plan.sequence import SequenceShards

__all__ = ["bind_attention"]


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
    cu_seqlens: Sequence[int] | None = None,
    q: Buffer | None = None,
    o: Buffer | None = None,
) -> dict[str, Any]:
    """Binds `attention` for the queries that a rank has of a sequence, to the keys and values of all of it.

    Tensors have the sequence first, then the heads: [sequence, heads · head_dim]. The heads of a batch are further
    heads.

    Args:
        k: The keys: [length, kv_heads · head_dim], the plan's buffer of them, or a tensor of the rank.
        v: The values, likewise.
        heads: Heads of the queries, a multiple of those of keys and values; as many neighbours share one of these.
        head_dim: Elements of a head: 64, 128 or 256, or another power of two.
        shards: Which queries a rank has; those of one rank where every rank has all.
        config: Tiles and steps; chosen by `AttentionConfig.choose` if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied, more than 0; 1 / √head_dim if it is left out.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends: 0, …, length. A
            query takes the keys of its own sequence only. If it is left out, there is one.
        q: The plan's buffer of the queries, [shards.rows, heads · head_dim], where they move; else they are a tensor of
            the rank.
        o: The plan's buffer that tiles compute, of that shape, where outputs move. Not with `cu_seqlens`.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`,
        [shards.rows, heads · head_dim]; if it is causal and the sequence is shared, `positions`, i32 [shards.rows], as
        `SequenceShards.positions` gives them; with `cu_seqlens`, `tiles`, i32 [tiles, 4], as `SequenceTiles.table`
        does; and, optionally, `o`, like `q`, and `lse`, f32 [heads, shards.rows], the natural logarithm of the sum of
        the exponentials of each query's scores.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or AttentionConfig.choose(head_dim)
    group = check_heads(k, v, heads, head_dim, shards.length)
    bm, bn, rows = config.block_m, config.block_n, shards.rows
    packed = None if cu_seqlens is None else tuple(cu_seqlens)
    tiles = SequenceTiles(shards, bm, bn, causal, packed)
    shape = (rows, heads * head_dim)
    for name, buffer in (("q", q), ("o", o)):
        if buffer is not None and tuple(buffer.shape) != shape:
            raise SyncopateError(f"{name}: expects {list(shape)}, but got {list(buffer.shape)}")
    if o is not None and packed is not None:
        raise SyncopateError(
            "o: expects None with cu_seqlens, where tiles end anywhere, so that outputs stay on their rank, but got "
            f"buffer {o.name}"
        )
    queries, outputs = (
        given if given is not None else Tensor(name, shape, k.dtype, output=name == "o")
        for name, given in (("q", q), ("o", o))
    )
    places = causal and shards.world_size > 1
    return {
        "bind": {
            "q_desc": Descriptor(queries, (bm, head_dim)),
            "k_desc": Descriptor(k, (bn, head_dim)),
            "v_desc": Descriptor(v, (bn, head_dim)),
            "o_desc": None if packed else Descriptor(outputs, (bm, head_dim)),
            "o_ptr": Pointer(outputs) if packed else None,
            "lse_ptr": Pointer(Tensor("lse", (heads, rows), "f32", output=True)),
            "positions_ptr": Pointer(Tensor("positions", (rows,), "i32")) if places else None,
            "tiles_ptr": Pointer(Tensor("tiles", (tiles.count, 4), "i32")) if packed else None,
            "scale": find_scale(scale, head_dim),
            "HEADS": heads,
            "GROUP": group,
            "TILES_M": tiles.count,
            "SQ": rows,
            "SK": shards.length,
            "BLOCK_M": bm,
            "BLOCK_N": bn,
            "HEAD_DIM": head_dim,
            "CAUSAL": causal,
            "RAGGED": shards.length % bn != 0,
            "PACKED": packed is not None,
            "LATE": config.late,
            "NUM_SMS": Ctas() if config.num_ctas is None else config.num_ctas,
        },
        "tiles": (heads, tiles.count),
        "ctas": config.num_ctas,
        "steps": tiles.steps(),
        # Queries that move decide the order by when they arrive.
        "tile_order": tiles.order(heads) if q is None and (causal or packed) else None,
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }
