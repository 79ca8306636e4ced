# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Attention of one query of each sequence of a batch to keys that are split among CTAs and among ranks.

The first tiles each compute what the queries that share keys take from one part of a rank's keys: normalized outputs,
and the logarithm, in base 2, of their denominators. The last tiles weigh what all parts of all ranks have given, in
float32 and in an order that is the same on every rank, and so are the bits. Between both each program has a tile that
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
    HEADS: tl.constexpr,
    BLOCK_P: tl.constexpr,
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
    in all columns from HEAD_DIM on, and ``gathered_ptr`` to those of all ranks, of which BLOCK_P parts are weighed at a
    time. ROWS and HEADS are powers of two of at least GROUP. There are NUM_SMS programs.
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
            k = k_desc.load(place)
            v = v_desc.load(place)
            scores = tl.dot(q, k.T) * (scale * _LOG2_E)
            scores = tl.where((n * BLOCK_N + keys < length)[None, :], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            weights = tl.math.exp2(scores - higher[:, None])
            fade = tl.math.exp2(top - higher)
            total = total * fade + tl.sum(weights, 1)
            # What stands behind a sequence is its neighbour's, or nothing that could be multiplied by zero.
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

        best = tl.full((HEADS,), _LEAST, tl.float32)
        sums = tl.zeros((HEADS,), tl.float32)
        result = tl.zeros((HEADS, HEAD_DIM), tl.float32)
        lanes = tl.arange(0, HEADS)
        exists = lanes < GROUP
        for first in tl.range(0, tl.where(waits, RANKS * PARTS, 0), BLOCK_P):
            i = first + tl.arange(0, BLOCK_P)
            row = (i // PARTS * PAIRS + pair) * PARTS + i % PARTS
            places = (row[:, None] * GROUP + lanes[None, :]) * WIDTH
            given = (i < RANKS * PARTS)[:, None] & exists[None, :]
            logs = tl.load(gathered_ptr + places + HEAD_DIM, mask=given, other=float("-inf"))
            at_part = gathered_ptr + places[:, :, None] + columns[None, None, :]
            part = tl.load(at_part, mask=given[:, :, None], other=0.0)
            higher_best = tl.maximum(best, tl.max(logs, 0))
            shares = tl.math.exp2(logs - higher_best[None, :])
            shrink = tl.math.exp2(best - higher_best)
            sums = sums * shrink + tl.sum(shares, 0)
            result = result * shrink[:, None] + tl.sum(part * shares[:, :, None], 0)
            best = higher_best
        takes = sums > 0
        sums = tl.where(takes, sums, 1.0)
        result = result * (1 / sums)[:, None]
        heads = pair * GROUP + lanes
        at = heads[:, None] * HEAD_DIM + columns[None, :]
        store = exists & waits
        tl.store(o_ptr + at, result.to(o_ptr.dtype.element_ty), mask=store[:, None])
        lse = tl.where(takes, (best + tl.math.log2(sums)) / _LOG2_E, float("-inf"))
        tl.store(lse_ptr + heads, lse, mask=store)
