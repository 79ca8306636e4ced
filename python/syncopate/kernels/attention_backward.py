# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The gradients of `attention`, on host TMA descriptors, in two kernels: of queries, and of keys and values.

Both compute the weights P = exp(scale · Q · Kᵀ - lse) again, from what `attention` has left of each row. With D, the
sums of the rows of dO ∘ O,

    dV = Pᵀ · dO      dS = P ∘ (dO · Vᵀ - D)      dQ = scale · dS · K      dK = scale · dSᵀ · Q

A tile of the first kernel has the accumulators of a block of queries and walks blocks of keys, which a fused kernel
takes in the order in which they arrive; one of the second has those of a block of keys and walks the rank's own
queries, of all heads that share the keys. So no two tiles add to one place, and results do not depend on time.
"""

import triton
import triton.language as tl

import syncopate.language as sy

__all__ = ["attention_backward_kv", "attention_backward_q"]

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _load_lse(lse_ptr, h, rows, SQ):
    """The logarithm, in base 2, of the denominators of some rows; infinity where a row takes no key."""
    lse = tl.load(lse_ptr + h * SQ + rows, mask=rows < SQ, other=float("inf")) * _LOG2_E
    return tl.where(lse == float("-inf"), float("inf"), lse)


@triton.jit(do_not_specialize=["SQ", "SK"])
def attention_backward_q(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    do_desc,
    dq_desc,
    lse_ptr,
    delta_ptr,
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
    """Computes dQ in a loop over heads and blocks of queries, on NUM_SMS programs.

    Parameters are those of `attention`; ``do_desc`` and ``dq_desc`` describe dO and dQ, as ``q_desc`` and ``o_desc`` do
    Q and O. ``lse_ptr`` leads to what `attention` has stored there. Leaves at ``delta_ptr``, [HEADS, SQ] of float32,
    the sums of the rows of dO ∘ O, for `attention_backward_kv`.
    """
    tiles_m = tl.cdiv(SQ, BLOCK_M)
    scale_log2 = scale * _LOG2_E
    columns = tl.arange(0, BLOCK_N)
    for t in tl.range(tl.program_id(0), HEADS * tiles_m, NUM_SMS):
        # Causal tiles with the most keys come first.
        m = tiles_m - 1 - t % tiles_m if CAUSAL else t % tiles_m
        h, m, _ = sy.tile(t, t // tiles_m, m)
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        last = tl.full((BLOCK_M,), SK - 1, tl.int32)
        end = tl.cdiv(SK, BLOCK_N)
        whole = SK
        if CAUSAL:
            places = tl.load(positions_ptr + rows, mask=rows < SQ, other=-1)
            last = tl.minimum(places, last)
            end = (tl.max(last) + BLOCK_N) // BLOCK_N
            # Rows that are not stored need no mask.
            whole = tl.min(tl.where(rows < SQ, last, SK - 1)) + 1
        o = o_desc.load([m * BLOCK_M, h * HEAD_DIM])
        do = do_desc.load([m * BLOCK_M, h * HEAD_DIM])
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
        tl.store(delta_ptr + h * SQ + rows, delta, mask=rows < SQ)
        lse = _load_lse(lse_ptr, h, rows, SQ)
        q = q_desc.load([m * BLOCK_M, h * HEAD_DIM])
        dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        first_step, end_step = sy.steps(0, end)
        for i in tl.range(first_step, end_step):
            n = sy.step(i)
            k = k_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            v = v_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            weights = tl.math.exp2(tl.dot(q, k.T) * scale_log2 - lse[:, None])
            if CAUSAL or RAGGED:  # noqa: SIM102 (the one is known to the compiler, the other at run time)
                if n * BLOCK_N + BLOCK_N > whole:
                    kept = columns[None, :] <= (last - n * BLOCK_N)[:, None]
                    weights = tl.where(kept, weights, 0.0)
            ds = weights * (tl.dot(do, v.T) - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq)
        dq_desc.store([m * BLOCK_M, h * HEAD_DIM], (dq * scale).to(dq_desc.dtype))


@triton.jit
def _count_blocks_before(positions_ptr, place, SQ, BLOCK_M: tl.constexpr):
    """How many blocks of queries come before a place altogether; places grow with the row, those of no query are -1."""
    CHUNK: tl.constexpr = 128
    blocks = tl.cdiv(SQ, BLOCK_M)
    before = 0
    for first in tl.range(0, blocks, CHUNK, num_stages=1):
        ends = tl.minimum((first + 1 + tl.arange(0, CHUNK)) * BLOCK_M, SQ)
        places = tl.load(positions_ptr + ends - 1)
        inside = first + tl.arange(0, CHUNK) < blocks
        is_before = inside & (places >= 0) & (places < place)
        before += tl.sum(is_before.to(tl.int32), 0)
    return before


@triton.jit(do_not_specialize=["SQ", "SK"])
def attention_backward_kv(
    q_desc,
    k_desc,
    v_desc,
    do_desc,
    dkv_desc,
    lse_ptr,
    delta_ptr,
    positions_ptr,
    scale,
    KV_HEADS,
    GROUP,
    SQ,
    SK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes what SQ queries contribute to dK and dV, in a loop over heads and blocks of keys, on NUM_SMS programs.

    ``q_desc`` and ``do_desc`` describe Q and dO, [SQ, KV_HEADS · GROUP · HEAD_DIM], in blocks of [BLOCK_M, HEAD_DIM];
    ``k_desc`` and ``v_desc`` describe K and V, [SK, KV_HEADS · HEAD_DIM], in blocks of [BLOCK_N, HEAD_DIM], and
    ``dkv_desc``, in the same blocks, [SK, KV_HEADS · 2 · HEAD_DIM]: for each head, dK and then dV. ``lse_ptr`` and
    ``delta_ptr`` lead to what `attention` and `attention_backward_q` have left there.

    ``positions_ptr`` leads to an i32 for each query, in ascending order: its place in the sequence of the keys, or -1
    in the last rows, which stand for no query and contribute nothing. It is needed if there are such rows, or with
    CAUSAL: then a query contributes to the keys up to its place. Keys behind all queries get zeros.
    """
    tiles_n, tiles_m = tl.cdiv(SK, BLOCK_N), tl.cdiv(SQ, BLOCK_M)
    scale_log2 = scale * _LOG2_E
    for t in tl.range(tl.program_id(0), KV_HEADS * tiles_n, NUM_SMS):
        g, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        k = k_desc.load([n * BLOCK_N, g * HEAD_DIM])
        v = v_desc.load([n * BLOCK_N, g * HEAD_DIM])
        keys = n * BLOCK_N + tl.arange(0, BLOCK_N)
        before = 0
        if CAUSAL:
            before = _count_blocks_before(positions_ptr, n * BLOCK_N, SQ, BLOCK_M)
        count = tiles_m - before
        dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
        dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
        for i in tl.range(0, GROUP * count):
            head = i // tl.maximum(count, 1)
            m, h = before + i - head * count, g * GROUP + head
            q = q_desc.load([m * BLOCK_M, h * HEAD_DIM])
            do = do_desc.load([m * BLOCK_M, h * HEAD_DIM])
            rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
            lse = _load_lse(lse_ptr, h, rows, SQ)
            delta = tl.load(delta_ptr + h * SQ + rows, mask=rows < SQ, other=0.0)
            weights = tl.math.exp2(tl.dot(k, q.T) * scale_log2 - lse[None, :])
            if positions_ptr is not None:
                places = tl.load(positions_ptr + rows, mask=rows < SQ, other=-1)
                first_key = keys if CAUSAL else tl.zeros_like(keys)
                weights = tl.where(first_key[:, None] <= places[None, :], weights, 0.0)
            dv = tl.dot(weights.to(do.dtype), do, dv)
            ds = weights * (tl.dot(v, do.T) - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk)
        dkv_desc.store([n * BLOCK_N, 2 * g * HEAD_DIM], (dk * scale).to(dkv_desc.dtype))
        dkv_desc.store([n * BLOCK_N, (2 * g + 1) * HEAD_DIM], dv.to(dkv_desc.dtype))
