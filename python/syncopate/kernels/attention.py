# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""Flash attention, forward, on host TMA descriptors: O = softmax(scale · Q · Kᵀ) · V, and the log of its denominators.

The softmax is computed online in float32, in base 2, over blocks of keys, which a fused kernel takes in the order in
which they arrive. So a block may be one of which a row takes no key, before the row has taken any: what is masked is a
large negative number, not infinity, and its weights vanish with the first key that counts.
"""

import triton
import triton.language as tl

import syncopate.language as sy

__all__ = ["attention"]

_MASKED = tl.constexpr(-1.0e30)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=["SQ", "SK"])
def attention(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    lse_ptr,
    positions_ptr,
    scale,
    HEADS,
    GROUP,
    SQ,
    SK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes attention in a loop over heads and blocks of queries, on NUM_SMS programs.

    Tensors have the sequence first: ``q_desc`` describes Q[SQ, HEADS · HEAD_DIM], and ``o_desc`` O, in blocks of
    [BLOCK_M, HEAD_DIM]; ``k_desc`` and ``v_desc`` describe K and V, [SK, HEADS / GROUP · HEAD_DIM], in blocks of
    [BLOCK_N, HEAD_DIM]. Heads of a batch count as further heads; GROUP of them share one of K and V. Blocks need not
    divide SQ or SK; with RAGGED, BLOCK_N does not divide SK. ``lse_ptr`` leads to [HEADS, SQ] of float32: the natural
    logarithm of the sum of the exponentials of a row's scores.

    With CAUSAL, ``positions_ptr`` leads to an i32 for each query: its place in the sequence of the keys, of which it
    takes those up to there. A row that takes none gives zeros, and minus infinity.
    """
    tiles_m = tl.cdiv(SQ, BLOCK_M)
    scale_log2 = scale * _LOG2_E
    columns = tl.arange(0, BLOCK_N)
    for t in tl.range(tl.program_id(0), HEADS * tiles_m, NUM_SMS):
        h, m, _ = sy.tile(t, t // tiles_m, t % tiles_m)
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        last = tl.full((BLOCK_M,), SK - 1, tl.int32)
        end = tl.cdiv(SK, BLOCK_N)
        if CAUSAL:
            places = tl.load(positions_ptr + rows, mask=rows < SQ, other=-1)
            last = tl.minimum(places, last)
            end = (tl.max(last) + BLOCK_N) // BLOCK_N
        q = q_desc.load([m * BLOCK_M, h * HEAD_DIM])
        top = tl.full((BLOCK_M,), _MASKED, tl.float32)
        total = tl.zeros((BLOCK_M,), tl.float32)
        out = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        first_step, end_step = sy.steps(0, end)
        for i in tl.range(first_step, end_step):
            n = sy.step(i)
            k = k_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            scores = tl.dot(q, k.T)
            if CAUSAL or RAGGED:
                kept = (n * BLOCK_N + columns)[None, :] <= last[:, None]
                scores = tl.where(kept, scores, _MASKED)
            higher = tl.maximum(top, tl.max(scores, 1) * scale_log2)
            exponents = scores * scale_log2 - higher[:, None]
            if CAUSAL or RAGGED:
                # A fused multiplication and subtraction does not round the product as `higher` was rounded, so that of
                # a row in which all is masked may come out far above zero.
                exponents = tl.minimum(exponents, 0.0)
            weights = tl.math.exp2(exponents)
            shrink = tl.math.exp2(top - higher)
            total = total * shrink + tl.sum(weights, 1)
            out = out * shrink[:, None]
            v = v_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            out = tl.dot(weights.to(v.dtype), v, out)
            top = higher
        takes = (total > 0) & (last >= 0)
        out = tl.where(takes[:, None], out / total[:, None], 0.0)
        o_desc.store([m * BLOCK_M, h * HEAD_DIM], out.to(o_desc.dtype))
        lse = tl.where(takes, (top + tl.math.log2(total)) / _LOG2_E, float("-inf"))
        tl.store(lse_ptr + h * SQ + rows, lse, mask=rows < SQ)
