# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Flash attention, forward, on host TMA descriptors: O = softmax(scale · Q · Kᵀ) · V, and the log of its denominators.

The softmax is computed online in float32, in base 2, over blocks of keys, which a fused kernel takes in the order in
which they arrive. So a block may be one of which a row takes no key, before the row has taken any: scores that are
masked are minus infinity, and the greatest score so far starts finite, so that their weights are zero in any case.

Keys and values of a step are loaded together, though values are needed later: a load of its own takes two barriers of
all warps, which are a tenth of a step's time.
"""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.attention_parts import find_kept, find_queries, store_rows

__all__ = ["attention"]

_LEAST = tl.constexpr(-1.0e30)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=["SQ", "SK"])
def attention(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    o_ptr,
    lse_ptr,
    positions_ptr,
    tiles_ptr,
    scale,
    HEADS,
    GROUP,
    TILES_M,
    SQ,
    SK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
    PACKED: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes attention in a loop over heads and TILES_M blocks of queries, on NUM_SMS programs.

    Tensors have the sequence first: ``q_desc`` describes Q[SQ, HEADS · HEAD_DIM], and ``o_desc`` O, in blocks of
    [BLOCK_M, HEAD_DIM]; ``k_desc`` and ``v_desc`` describe K and V, [SK, HEADS / GROUP · HEAD_DIM], in blocks of
    [BLOCK_N, HEAD_DIM]. Heads of a batch count as further heads; GROUP of them share one of K and V. Blocks need not
    divide SQ or SK; with RAGGED, BLOCK_N does not divide SK. ``lse_ptr`` leads to [HEADS, SQ] of float32: the natural
    logarithm of the sum of the exponentials of a row's scores. ``scale`` is positive.

    With CAUSAL, a query takes the keys up to its own place in their sequence: its row, or the i32 to which
    ``positions_ptr`` leads for it. A row that takes none gives zeros, and minus infinity.

    With PACKED, several sequences stand one behind another, and a block of queries belongs to one of them:
    ``tiles_ptr`` leads to four i32 for each block, its first row and the one behind its last, and likewise the keys of
    its sequence. As a block may end anywhere, O is stored through ``o_ptr``.
    """
    scale_log2 = scale * _LOG2_E
    # A loop in stages would stage outputs in memory of their own, beside that of keys and values.
    for t in tl.range(tl.program_id(0), HEADS * TILES_M, NUM_SMS, num_stages=1):
        # Causal tiles with the most keys come first.
        m = TILES_M - 1 - t % TILES_M if CAUSAL else t % TILES_M
        h, m, _ = sy.tile(t, t // TILES_M, m)
        first_row, rows, inside, first_key, last, end, whole = find_queries(
            m, positions_ptr, tiles_ptr, SQ, SK, BLOCK_M, BLOCK_N, CAUSAL, PACKED
        )
        q = q_desc.load([first_row, h * HEAD_DIM])
        top = tl.full((BLOCK_M,), _LEAST, tl.float32)
        total = tl.zeros((BLOCK_M,), tl.float32)
        out = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        first_step, end_step = sy.steps(first_key // BLOCK_N, end)
        for i in tl.range(first_step, end_step):
            n = sy.step(i)
            k = k_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            v = v_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            scores = tl.dot(q, k.T)
            if CAUSAL or RAGGED or PACKED:  # noqa: SIM102 (the one is known to the compiler, the other at run time)
                if (n * BLOCK_N + BLOCK_N > whole) | (n * BLOCK_N < first_key):
                    kept = find_kept(n * BLOCK_N, first_key, last, BLOCK_N, PACKED)
                    scores = tl.where(kept, scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1) * scale_log2)
            weights = tl.math.exp2(scores * scale_log2 - higher[:, None])
            fade = tl.math.exp2(top - higher)
            total = total * fade + tl.sum(weights, 1)
            out = tl.dot(weights.to(v.dtype), v, out * fade[:, None])
            top = higher
        takes = total > 0
        total = tl.where(takes, total, 1.0)
        out = out * (1 / total)[:, None]
        if PACKED:
            store_rows(o_ptr, out, rows, inside, h, HEADS, HEAD_DIM)
        else:
            o_desc.store([first_row, h * HEAD_DIM], out.to(o_desc.dtype))
        lse = tl.where(takes, (top + tl.math.log2(total)) / _LOG2_E, float("-inf"))
        tl.store(lse_ptr + h * SQ + rows, lse, mask=inside)
