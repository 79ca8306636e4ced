"""Arguments of `syncopate.compile` for attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from syncopate.abi import Realization
from syncopate.compiler.binding import Ctas, Descriptor, Pointer, Tensor
from syncopate.compiler.module import find_realizations
from syncopate.errors import SyncopateError
from syncopate.kernels.config import AttentionConfig
from syncopate.kernels.heads import check_heads, find_scale
from syncopate.kernels.sequence_tiles import SequenceTiles
from syncopate.plan import Buffer
from syncopate.plan.sequence import SequenceShards
from syncopate.strategy import Strategy

__all__ = ["bind_attention", "bind_queries", "bind_sequence"]


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
    if o is not None and cu_seqlens is not None:
        raise SyncopateError(
            "o: expects None with cu_seqlens, where tiles end anywhere, so that outputs stay on their rank, but got "
            f"buffer {o.name}"
        )
    config = config or AttentionConfig.choose(
        head_dim,
        packed=cu_seqlens is not None,
        realizations=_find_realizations(k, q, o),
    )
    bound = bind_queries(
        *(k, v, heads, head_dim, shards, config, causal, scale, cu_seqlens),
        rows={"q": q, "o": o},
        output="o",
    )
    bound["bind"] |= {
        "lse_ptr": Pointer(Tensor("lse", (heads, shards.rows), "f32", output=True)),
    }
    return bound


def _find_realizations(*tensors: Buffer | Tensor | None) -> set[Realization]:
    """How what moves does, by the plans that it belongs to."""
    plans = {each.plan for each in tensors if isinstance(each, Buffer)}
    return set().union(*(find_realizations(plan, plan.strategy or Strategy()) for plan in plans))


def bind_queries(
    k: Buffer | Tensor,
    v: Buffer | Tensor,
    heads: int,
    head_dim: int,
    shards: SequenceShards,
    config: AttentionConfig,
    causal: bool,
    scale: float | None,
    cu_seqlens: Sequence[int] | None,
    *,
    rows: Mapping[str, Buffer | None],
    output: str,
) -> dict[str, Any]:
    """Binds what all kernels have whose tiles are blocks of queries, which walk keys.

    Args:
        k: As for `bind_attention`, like all arguments up to `cu_seqlens`.
        v: Likewise.
        heads: Likewise.
        head_dim: Likewise.
        shards: Likewise.
        config: Likewise.
        causal: Likewise.
        scale: Likewise.
        cu_seqlens: Likewise.
        rows: What has a row for each query, by name: the plan's buffer where it moves, else None.
        output: The one of them that tiles compute. With `cu_seqlens` they store it by a pointer.

    Returns:
        Keyword arguments of `syncopate.compile`, but for some parameters.

    Raises:
        SyncopateError: An argument is wrong.
    """
    bm, bn = config.block_m, config.block_n
    packed = None if cu_seqlens is None else tuple(cu_seqlens)
    common = bind_sequence(k, v, heads, head_dim, shards, config, causal, scale)
    tiles = SequenceTiles(shards, bm, bn, causal, packed)
    shape = (shards.rows, heads * head_dim)
    tensors: dict[str, Buffer | Tensor] = {}
    for name, buffer in rows.items():
        if buffer is not None and tuple(buffer.shape) != shape:
            raise SyncopateError(f"{name}: expects {list(shape)}, but got {list(buffer.shape)}")
        tensors[name] = buffer or Tensor(name, shape, k.dtype, output=name == output)
    bind: dict[str, Any] = {
        f"{name}_desc": Descriptor(each, (bm, head_dim)) for name, each in tensors.items()
    }
    if packed:
        bind[f"{output}_desc"] = None
    shared = causal and shards.world_size > 1
    common["bind"] |= bind | {
        f"{output}_ptr": Pointer(tensors[output]) if packed else None,
        "positions_ptr": Pointer(Tensor("positions", shape[:1], "i32")) if shared else None,
        "tiles_ptr": Pointer(Tensor("tiles", (tiles.count, 4), "i32")) if packed else None,
        "HEADS": heads,
        "TILES_M": tiles.count,
        "RAGGED": shards.length % bn != 0,
        "PACKED": packed is not None,
    }
    moves = any(buffer is not None for buffer in rows.values())
    return common | {
        "tiles": (heads, tiles.count),
        "steps": tiles.steps(),
        # Queries that move decide the order by when they arrive.
        "tile_order": tiles.order(heads) if not moves and (causal or packed) else None,
    }


def bind_sequence(
    k: Buffer | Tensor,
    v: Buffer | Tensor,
    heads: int,
    head_dim: int,
    shards: SequenceShards,
    config: AttentionConfig,
    causal: bool,
    scale: float | None,
) -> dict[str, Any]:
    """Binds what all kernels have that multiply queries by the keys of a sequence; arguments are `bind_queries`'s."""
    bm, bn = config.block_m, config.block_n
    return {
        "bind": {
            "k_desc": Descriptor(k, (bn, head_dim)),
            "v_desc": Descriptor(v, (bn, head_dim)),
            "scale": find_scale(scale, head_dim),
            "GROUP": check_heads(k, v, heads, head_dim, shards.length),
            "SQ": shards.rows,
            "SK": shards.length,
            "BLOCK_M": bm,
            "BLOCK_N": bn,
            "HEAD_DIM": head_dim,
            "CAUSAL": causal,
            "NUM_SMS": Ctas() if config.num_ctas is None else config.num_ctas,
        },
        "ctas": config.num_ctas,
        "ctas_per_sm": config.ctas_per_sm,
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }
