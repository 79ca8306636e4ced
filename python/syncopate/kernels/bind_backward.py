"""Arguments of `syncopate.compile` for the gradients of attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncopate.compiler.binding import Descriptor, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.bind_sequence import bind_queries, bind_sequence
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
    cu_seqlens: Sequence[int] | None = None,
    of_lse: bool = False,
    q: Buffer | None = None,
    o: Buffer | None = None,
    do: Buffer | None = None,
    dq: Buffer | None = None,
) -> dict[str, Any]:
    """Binds `attention_backward_q` for the queries that a rank has, to the keys and values of all of a sequence.

    Args:
        k: The keys; all arguments are as for `bind_attention`, but for the last four.
        v: The values.
        heads: Heads of the queries.
        head_dim: Elements of a head.
        shards: Which queries a rank has.
        config: Tiles and steps; `AttentionConfig.choose_backward_q` if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends.
        of_lse: Whether the logarithms have a gradient, too.
        q: The plan's buffer of the queries, where they move, as for `bind_attention`.
        o: That of the outputs, likewise.
        do: That of their gradients, likewise.
        dq: That of the gradients of the queries, which tiles compute. Not with `cu_seqlens`.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`, `o`
        and `do`, [shards.rows, heads · head_dim]; `lse`, f32 [heads, shards.rows], as `attention` leaves it; `dlse`,
        its gradient, if it has one; and `positions` and `tiles` as `attention` does. It gives `dq`, like `q`, and
        `delta`, like `lse`, the sums of the rows of dO ∘ O less `dlse`.

    Raises:
        SyncopateError: An argument is wrong.
    """
    if dq is not None and cu_seqlens is not None:
        raise SyncopateError(f"dq: expects None with cu_seqlens, but got buffer {dq.name}")
    bound = bind_queries(
        *(k, v, heads, head_dim, shards),
        config or AttentionConfig.choose_backward_q(head_dim),
        *(causal, scale, cu_seqlens),
        rows={"q": q, "o": o, "do": do, "dq": dq},
        output="dq",
    )
    shape = (heads, shards.rows)
    bound["bind"] |= {
        "lse_ptr": Pointer(Tensor("lse", shape, "f32")),
        "dlse_ptr": Pointer(Tensor("dlse", shape, "f32")) if of_lse else None,
        "delta_ptr": Pointer(Tensor("delta", shape, "f32", output=True)),
    }
    return bound


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
    cu_seqlens: Sequence[int] | None = None,
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
        config: `block_n` keys of a tile, and `block_m` queries of a turn of the loop inside;
            `AttentionConfig.choose_backward_kv` if it is left out.
        causal: Whether a query takes the keys up to its own place only.
        scale: By what scores are multiplied.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes keys and values by their names; `q`, `do`
        and `lse` as `bind_attention_backward_q` says; `delta`, as its program gives it; and, where
        `SequenceTiles.places_of_queries` gives tables, these.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or AttentionConfig.choose_backward_kv(head_dim)
    common = bind_sequence(k, v, heads, head_dim, shards, config, causal, scale)
    if tuple(dkv.shape) != (k.shape[0], 2 * k.shape[1]):
        raise SyncopateError(
            f"dkv: expects {[k.shape[0], 2 * k.shape[1]]}, twice what the keys have, but got {list(dkv.shape)}"
        )
    bm, bn, rows = config.block_m, config.block_n, shards.rows
    packed = None if cu_seqlens is None else tuple(cu_seqlens)
    tables = SequenceTiles(shards, bm, bn, causal, packed).places_of_queries(0)
    places = {name: Pointer(Tensor(name, table.shape, "i32")) for name, table in tables.items()}
    shape = (rows, heads * head_dim)
    kv_heads = k.shape[1] // head_dim
    common["bind"] |= {
        "q_desc": Descriptor(Tensor("q", shape, k.dtype), (bm, head_dim)),
        "do_desc": Descriptor(Tensor("do", shape, k.dtype), (bm, head_dim)),
        "dkv_desc": Descriptor(dkv, (bn, head_dim)),
        "lse_ptr": Pointer(Tensor("lse", (heads, rows), "f32")),
        "delta_ptr": Pointer(Tensor("delta", (heads, rows), "f32")),
        "positions_ptr": places.get("positions"),
        "keys_ptr": places.get("keys"),
        "KV_HEADS": kv_heads,
        "PACKED": packed is not None,
        "PASSES": 2 if head_dim > 128 else 1,
    }
    return common | {"tiles": (kv_heads, -(-shards.length // bn))}
