# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The gradients of `attention`, on host TMA descriptors, in two kernels: of queries, and of keys and values.

Both compute the weights P = exp(scale · Q · Kᵀ - lse) again, from what `attention` has left of each row. With D, the
sums of the rows of dO ∘ O, less the gradients of the logarithms lse, if those have any,

    dV = Pᵀ · dO      dS = P ∘ (dO · Vᵀ - D)      dQ = scale · dS · K      dK = scale · dSᵀ · Q

A tile of the first kernel has the accumulators of a block of queries and walks blocks of keys, which a fused kernel
takes in the order in which they arrive; one of the second has those of a block of keys and walks the rank's own
queries, of all heads that share the keys. So no two tiles add to one place, and results do not depend on time.
"""

import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.kernels.attention_parts import find_kept, find_queries, store_rows

__all__ = ["attention_backward_kv", "attention_backward_q"]

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _load_lse(lse_ptr, h, rows, inside, SQ):
    """The logarithm, in base 2, of the denominators of some rows; infinity where a row takes no key."""
    lse = tl.load(lse_ptr + h * SQ + rows, mask=inside, other=float("inf")) * _LOG2_E
    return tl.where(lse == float("-inf"), float("inf"), lse)


@triton.jit(do_not_specialize=["SQ", "SK"])
def attention_backward_q(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    do_desc,
    dq_desc,
    dq_ptr,
    lse_ptr,
    dlse_ptr,
    delta_ptr,
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
    """Computes dQ in a loop over heads and TILES_M blocks of queries, on NUM_SMS programs.

    Parameters are those of `attention`; ``do_desc`` and ``dq_desc`` describe dO and dQ, as ``q_desc`` and ``o_desc`` do
    Q and O, and with PACKED, dQ is stored through ``dq_ptr``. ``lse_ptr`` leads to what `attention` has stored there,
    and ``dlse_ptr`` to its gradient, [HEADS, SQ] of float32, if it has any. Leaves at ``delta_ptr``, likewise, the sums
    of the rows of dO ∘ O, less that gradient, for `attention_backward_kv`.
    """
    scale_log2 = scale * _LOG2_E
    for t in tl.range(tl.program_id(0), HEADS * TILES_M, NUM_SMS):
        # Causal tiles with the most keys come first.
        m = TILES_M - 1 - t % TILES_M if CAUSAL else t % TILES_M
        h, m, _ = sy.tile(t, t // TILES_M, m)
        first_row, rows, inside, first_key, last, end, whole = find_queries(
            m, positions_ptr, tiles_ptr, SQ, SK, BLOCK_M, BLOCK_N, CAUSAL, PACKED
        )
        o = o_desc.load([first_row, h * HEAD_DIM])
        do = do_desc.load([first_row, h * HEAD_DIM])
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
        if dlse_ptr is not None:
            delta -= tl.load(dlse_ptr + h * SQ + rows, mask=inside, other=0.0)
        tl.store(delta_ptr + h * SQ + rows, delta, mask=inside)
        lse = _load_lse(lse_ptr, h, rows, inside, SQ)
        q = q_desc.load([first_row, h * HEAD_DIM])
        dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        first_step, end_step = sy.steps(first_key // BLOCK_N, end)
        for i in tl.range(first_step, end_step):
            n = sy.step(i)
            k = k_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            v = v_desc.load([n * BLOCK_N, h // GROUP * HEAD_DIM])
            weights = tl.math.exp2(tl.dot(q, k.T) * scale_log2 - lse[:, None])
            if CAUSAL or RAGGED or PACKED:  # noqa: SIM102 (the one is known to the compiler, the other at run time)
                if (n * BLOCK_N + BLOCK_N > whole) | (n * BLOCK_N < first_key):
                    kept = find_kept(n * BLOCK_N, first_key, last, BLOCK_N, PACKED)
                    weights = tl.where(kept, weights, 0.0)
            ds = weights * (tl.dot(do, v.T) - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq)
        dq *= scale
        if PACKED:
            store_rows(dq_ptr, dq, rows, inside, h, HEADS, HEAD_DIM)
        else:
            dq_desc.store([first_row, h * HEAD_DIM], dq.to(dq_desc.dtype))


@triton.jit
def _count_blocks(keys_ptr, key, SQ, BLOCK_M: tl.constexpr, BEHIND: tl.constexpr):
    """How many blocks of queries take keys before a key only, or BEHIND it.

    ``keys_ptr`` leads to the last key of each query, or to the first one. They grow with the row; a row that stands for
    no query has -1 as its last key, and as its first one a key behind all others.
    """
    CHUNK: tl.constexpr = 128
    blocks = tl.cdiv(SQ, BLOCK_M)
    count = 0
    for first in tl.range(0, blocks, CHUNK, num_stages=1):
        numbers = first + tl.arange(0, CHUNK)
        inside = numbers < blocks
        if BEHIND:
            found = tl.load(keys_ptr + numbers * BLOCK_M, mask=inside, other=0) > key
        else:
            ends = tl.minimum((numbers + 1) * BLOCK_M, SQ)
            lasts = tl.load(keys_ptr + ends - 1)
            found = (lasts >= 0) & (lasts < key)
        count += tl.sum((inside & found).to(tl.int32), 0)
    return count


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
    keys_ptr,
    scale,
    KV_HEADS,
    GROUP,
    SQ,
    SK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    PACKED: tl.constexpr,
    PASSES: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Computes what SQ queries contribute to dK and dV, in a loop over heads and blocks of keys, on NUM_SMS programs.

    ``q_desc`` and ``do_desc`` describe Q and dO, [SQ, KV_HEADS · GROUP · HEAD_DIM], in blocks of [BLOCK_M, HEAD_DIM];
    ``k_desc`` and ``v_desc`` describe K and V, [SK, KV_HEADS · HEAD_DIM], in blocks of [BLOCK_N, HEAD_DIM], and
    ``dkv_desc``, in the same blocks, [SK, KV_HEADS · 2 · HEAD_DIM]: for each head, dK and then dV. ``lse_ptr`` and
    ``delta_ptr`` lead to what `attention` and `attention_backward_q` have left there.

    ``positions_ptr`` leads to an i32 for each query, in ascending order: its place in the sequence of the keys, or -1
    in the last rows, which stand for no query and contribute nothing. It is needed if there are such rows. With CAUSAL,
    a query contributes to the keys up to its place, which is its row without ``positions_ptr``. Keys behind all queries
    get zeros.

    With PACKED, ``keys_ptr`` leads to two rows of an i32 for each query instead, also in ascending order: the first key
    to which it contributes, and the last one; of rows that stand for no query, SK and -1.

    With 2 PASSES, dV is computed before dK, each by a loop of its own, as there are no registers for both.
    """
    tiles_n, tiles_m = tl.cdiv(SK, BLOCK_N), tl.cdiv(SQ, BLOCK_M)
    scale_log2 = scale * _LOG2_E
    for t in tl.range(tl.program_id(0), KV_HEADS * tiles_n, NUM_SMS):
        g, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        k = k_desc.load([n * BLOCK_N, g * HEAD_DIM])
        v = v_desc.load([n * BLOCK_N, g * HEAD_DIM])
        first_key = n * BLOCK_N
        keys = first_key + tl.arange(0, BLOCK_N)
        before = 0
        count = tiles_m
        if PACKED:
            before = _count_blocks(keys_ptr + SQ, first_key, SQ, BLOCK_M, BEHIND=False)
            last_key = tl.minimum(first_key + BLOCK_N, SK) - 1
            count -= _count_blocks(keys_ptr, last_key, SQ, BLOCK_M, BEHIND=True)
        elif CAUSAL:
            if positions_ptr is None:
                before = first_key // BLOCK_M
            else:
                before = _count_blocks(positions_ptr, first_key, SQ, BLOCK_M, BEHIND=False)
        count -= before
        for turn in tl.static_range(PASSES):
            dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
            dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
            for i in tl.range(0, GROUP * count):
                head = i // tl.maximum(count, 1)
                m, h = before + i - head * count, g * GROUP + head
                q = q_desc.load([m * BLOCK_M, h * HEAD_DIM])
                do = do_desc.load([m * BLOCK_M, h * HEAD_DIM])
                rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
                inside = rows < SQ
                lse = _load_lse(lse_ptr, h, rows, inside, SQ)
                weights = tl.math.exp2(tl.dot(k, q.T) * scale_log2 - lse[None, :])
                if PACKED:
                    first = tl.load(keys_ptr + rows, mask=inside, other=SK)
                    last = tl.load(keys_ptr + SQ + rows, mask=inside, other=-1)
                    kept = (first[None, :] <= keys[:, None]) & (keys[:, None] <= last[None, :])
                    weights = tl.where(kept, weights, 0.0)
                elif CAUSAL or positions_ptr is not None:
                    places = rows
                    if positions_ptr is not None:
                        places = tl.load(positions_ptr + rows, mask=inside, other=-1)
                    least = keys if CAUSAL else tl.zeros_like(keys)
                    weights = tl.where(least[:, None] <= places[None, :], weights, 0.0)
                if turn == 0:
                    dv = tl.dot(weights.to(do.dtype), do, dv)
                if turn == PASSES - 1:
                    delta = tl.load(delta_ptr + h * SQ + rows, mask=inside, other=0.0)
                    ds = weights * (tl.dot(v, do.T) - delta[None, :])
                    dk = tl.dot(ds.to(q.dtype), q, dk)
            if turn == PASSES - 1:
                dkv_desc.store([n * BLOCK_N, 2 * g * HEAD_DIM], (dk * scale).to(dkv_desc.dtype))
            if turn == 0:
                dkv_desc.store([n * BLOCK_N, (2 * g + 1) * HEAD_DIM], dv.to(dkv_desc.dtype))
