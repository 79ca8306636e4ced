"""Arguments of `syncopate.compile` for attention of one query of each sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncopate.compiler.binding import Descriptor, Footprint, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.config import DecodeConfig
from syncopate.kernels.heads import count_group, find_scale
from syncopate.plan import Buffer

__all__ = ["bind_decode_attention", "partial_shape"]

_LSE_COLUMNS = 4
"""Columns of the logarithm behind those of an output, so that rows are multiples of 16 bytes."""

_LEAST_ROWS = 16
"""Of the smallest product on tensor cores."""

_WEIGHED = 8192
"""Elements of partial results that a tile weighs at a time: 64 for each of 128 threads."""


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def partial_shape(
    batch: int, heads: int, kv_heads: int, head_dim: int, config: DecodeConfig
) -> tuple[int, int, int]:
    """The shape of what the tiles of a rank compute, f32: one rank, rows, and columns."""
    return (
        1,
        config.count_partial_tiles(batch, kv_heads) * (heads // kv_heads),
        head_dim + _LSE_COLUMNS,
    )


def bind_decode_attention(
    part: Buffer,
    gathered: Buffer,
    batch: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    capacity: int,
    dtype: str,
    config: DecodeConfig | None = None,
    *,
    scale: float | None = None,
) -> dict[str, Any]:
    """Binds `decode_attention` for a batch of sequences whose keys and values ranks share.

    Args:
        part: What the tiles of a rank compute, f32 of `partial_shape`.
        gathered: What those of all ranks have computed, [ranks, …] of that shape, as `all_gather_tiles` brings it.
        batch: Sequences, of each of which there is one query.
        heads: Heads of a query, a multiple of those of keys and values; as many neighbours share one of these.
        kv_heads: Heads of keys and values.
        head_dim: Elements of a head, a power of two of at least 16.
        capacity: Keys of each sequence that a rank has room for.
        dtype: Element type of queries, keys, values and outputs: f16 or bf16.
        config: Tiles; chosen by `DecodeConfig.choose` if it is left out.
        scale: By what scores are multiplied, more than 0; 1 / √head_dim if it is left out.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes `q`, [batch, heads · head_dim], the same
        on every rank; `k` and `v`, [batch · capacity, kv_heads · head_dim], what the rank has of keys and values;
        `lengths`, i32 [batch], how many of these each sequence has; and, optionally, `o`, like `q`, and `lse`,
        f32 [batch, heads], which all ranks get.

    Raises:
        SyncopateError: An argument is wrong.
    """
    config = config or DecodeConfig.choose(batch, kv_heads, capacity)
    for name, value in (("batch", batch), ("capacity", capacity)):
        if type(value) is not int or value < 1:
            raise SyncopateError(f"{name}: expects a positive integer, but got {value!r}")
    group, pairs = count_group(heads, kv_heads, head_dim), batch * kv_heads
    lanes = _power_of_two(group)
    shape = partial_shape(batch, heads, kv_heads, head_dim, config)
    ranks = gathered.shape[0]
    for name, buffer, expected in (
        ("part", part, shape),
        ("gathered", gathered, (ranks, *shape[1:])),
    ):
        if tuple(buffer.shape) != expected or buffer.dtype != "f32":
            raise SyncopateError(
                f"{name}: expects {list(expected)} of f32, but got {list(buffer.shape)} of {buffer.dtype}"
            )
    block_p = min(_power_of_two(ranks * config.parts), max(1, _WEIGHED // (lanes * head_dim)))
    partial_tiles = config.count_partial_tiles(batch, kv_heads)
    ctas = config.num_ctas
    first = partial_tiles + ctas
    q, o = (Tensor(name, (batch, heads * head_dim), dtype, output=name == "o") for name in "qo")
    k, v = (Tensor(name, (batch * capacity, kv_heads * head_dim), dtype) for name in "kv")
    return {
        "bind": {
            "q_ptr": Pointer(q),
            "k_desc": Descriptor(k, (config.block_n, head_dim)),
            "v_desc": Descriptor(v, (config.block_n, head_dim)),
            "lengths_ptr": Pointer(Tensor("lengths", (batch,), "i32")),
            "part_ptr": Pointer(part),
            "gathered_ptr": Pointer(gathered),
            "o_ptr": Pointer(o),
            "lse_ptr": Pointer(Tensor("lse", (batch, heads), "f32", output=True)),
            "scale": find_scale(scale, head_dim),
            "PAIRS": pairs,
            "KV_HEADS": kv_heads,
            "CAPACITY": capacity,
            "PARTS": config.parts,
            "RANKS": ranks,
            "GROUP": group,
            "ROWS": max(_LEAST_ROWS, lanes),
            "HEADS": lanes,
            "BLOCK_P": block_p,
            "BLOCK_N": config.block_n,
            "HEAD_DIM": head_dim,
            "WIDTH": shape[2],
            "NUM_SMS": ctas,
        },
        "tiles": (first + pairs,),
        # What lies outside a buffer does not count: tiles of another kind access nothing of it.
        "footprints": [
            Footprint(
                "part_ptr", lambda c: (0, c * group, 0), (1, group, shape[2]), access="write"
            ),
            Footprint(
                "gathered_ptr",
                lambda c: (0, (c - first) * (config.parts * group), 0),
                (ranks, config.parts * group, shape[2]),
            ),
        ],
        "ctas": ctas,
        "tile_order": np.arange(first + pairs),
        "options": {"num_warps": config.num_warps, "num_stages": config.num_stages},
    }
