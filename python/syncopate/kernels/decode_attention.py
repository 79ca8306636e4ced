# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Attention of one query of each sequence of a batch to keys that are split among CTAs and among ranks.

The first tiles each compute what the queries that share keys take from one part of a rank's keys: normalized outputs,
and the logarithm, in base 2, of their denominators. The last tiles weigh what all parts of all ranks have given, in
float32 and in the order of the ranks, so that every rank gets the same bits. Between both each program has a tile that
does nothing, since it may not store a tile before the next one has what it waits for.
"""

import triton
import triton.language as tl

import syncopate.language as sy

__all__ = ["decode_attention"]

_LEAST = tl.constexpr(-1.0e30)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=["PAIRS", "CAPACITY", "PARTS"])
def decode_attention(
    q_ptr,
    k_desc,
    v_desc,
    lengths_ptr,
    part_ptr,
    gathered_ptr,
    o_ptr,
    lse_ptr,
    scale,
    PAIRS,
    KV_HEADS,
    CAPACITY,
    PARTS,
    RANKS,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes PAIRS · PARTS tiles of partial results, none in NUM_SMS more, and PAIRS tiles of results.

    A pair is a sequence and a head of its keys, which GROUP heads of the query share: ``q_ptr`` and ``o_ptr`` lead to
    [PAIRS · GROUP, HEAD_DIM], ``lse_ptr`` to [PAIRS · GROUP] of float32, the natural logarithms. ``k_desc`` and
    ``v_desc`` describe what a rank has of keys and values, [sequences · CAPACITY, KV_HEADS · HEAD_DIM], in blocks of
    [BLOCK_N, HEAD_DIM], of which ``lengths_ptr`` leads to how many of each sequence there are, as i32.

    ``part_ptr`` leads to [PAIRS · PARTS · GROUP, WIDTH] of float32 for partial results, each followed by its logarithm
    in all columns from HEAD_DIM on, and ``gathered_ptr`` to those of all ranks. ROWS is a power of two of at least
    GROUP. There are NUM_SMS programs.
    """
    partial_tiles = PAIRS * PARTS
    rows = tl.arange(0, ROWS)
    inside = rows < GROUP
    columns = tl.arange(0, HEAD_DIM)
    behind = HEAD_DIM + tl.arange(0, WIDTH - HEAD_DIM)
    keys = tl.arange(0, BLOCK_N)
    waiting_tiles = partial_tiles + NUM_SMS
    for t in tl.range(tl.program_id(0), waiting_tiles + PAIRS, NUM_SMS):
        c, _ = sy.tile(t, t)
        is_partial = c < partial_tiles
        waits = c >= waiting_tiles
        pair = tl.where(is_partial, c // PARTS, tl.maximum(c - waiting_tiles, 0))
        heads = pair * GROUP + rows
        at = heads[:, None] * HEAD_DIM + columns[None, :]
        q = tl.load(q_ptr + at, mask=inside[:, None], other=0.0)
        sequence = pair // KV_HEADS
        length = tl.load(lengths_ptr + sequence)
        blocks = tl.where(is_partial, tl.cdiv(length, BLOCK_N), 0)
        top = tl.full((ROWS,), _LEAST, tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        out = tl.zeros((ROWS, HEAD_DIM), tl.float32)
        for n in tl.range(c % PARTS * blocks // PARTS, (c % PARTS + 1) * blocks // PARTS):
            place = [sequence * CAPACITY + n * BLOCK_N, pair % KV_HEADS * HEAD_DIM]
            scores = tl.dot(q, k_desc.load(place).T) * (scale * _LOG2_E)
            scores = tl.where((n * BLOCK_N + keys < length)[None, :], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            weights = tl.math.exp2(scores - higher[:, None])
            fade = tl.math.exp2(top - higher)
            total = total * fade + tl.sum(weights, 1)
            # What stands behind a sequence is its neighbour's, or nothing that could be multiplied by zero.
            v = v_desc.load(place)
            v = tl.where((n * BLOCK_N + keys < length)[:, None], v, 0.0)
            out = tl.dot(weights.to(v.dtype), v, out * fade[:, None])
            top = higher
        takes = total > 0
        total = tl.where(takes, total, 1.0)
        lse = tl.where(takes, top + tl.math.log2(total), float("-inf"))
        out = out * (1 / total)[:, None]
        place = (c * GROUP + rows) * WIDTH
        store = (inside & is_partial)[:, None]
        tl.store(part_ptr + place[:, None] + columns[None, :], out, mask=store)
        wide = tl.broadcast_to(lse[:, None], (ROWS, WIDTH - HEAD_DIM))
        tl.store(part_ptr + place[:, None] + behind[None, :], wide, mask=store)

        top = tl.full((ROWS,), _LEAST, tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        out = tl.zeros((ROWS, HEAD_DIM), tl.float32)
        for i in tl.range(0, tl.where(waits, RANKS * PARTS, 0)):
            row = (i // PARTS * PAIRS + pair) * PARTS + i % PARTS
            place = (row * GROUP + rows) * WIDTH
            part = tl.load(
                gathered_ptr + place[:, None] + columns[None, :], mask=inside[:, None], other=0.0
            )
            lse = tl.load(gathered_ptr + place + HEAD_DIM, mask=inside, other=float("-inf"))
            higher = tl.maximum(top, lse)
            weight = tl.math.exp2(lse - higher)
            fade = tl.math.exp2(top - higher)
            total = total * fade + weight
            out = out * fade[:, None] + part * weight[:, None]
            top = higher
        takes = total > 0
        total = tl.where(takes, total, 1.0)
        out = out * (1 / total)[:, None]
        store = inside & waits
        tl.store(o_ptr + at, out.to(o_ptr.dtype.element_ty), mask=store[:, None])
        lse = tl.where(takes, (top + tl.math.log2(total)) / _LOG2_E, float("-inf"))
        tl.store(lse_ptr + heads, lse, mask=store)
