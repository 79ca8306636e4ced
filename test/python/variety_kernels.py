# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls, allow-incomplete-defs

"""Kernels in the style of Triton's tutorials, with a tile marker in each: what people bring."""

import triton
import triton.language as tl

import syncopate.language as sy


@triton.jit
def swizzle(t, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = (t // in_group) * GROUP
    size = min(tiles_m - first, GROUP)
    return first + (t % in_group) % size, (t % in_group) // size


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def tutorial_matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """One tile per program; rows wrap around at M; pointers run along K."""
    pid = tl.program_id(0)
    m, n = swizzle(pid, M, N, BM, BN, GROUP)
    m, n, _ = sy.tile(pid, m, n)
    offs_am = (m * BM + tl.arange(0, BM)) % M
    offs_bn = (n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION:
        total = leaky_relu(total)
    offs_cm = m * BM + tl.arange(0, BM)
    offs_cn = n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def persistent_matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    CTAS: tl.constexpr,
):
    """The tutorial's persistent kernel: rows out of range read row 0."""
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tiles, CTAS, flatten=True):
        m, n = swizzle(t, M, N, BM, BN, GROUP)
        m, n, _ = sy.tile(t, m, n)
        offs_am = m * BM + tl.arange(0, BM)
        offs_bn = n * BN + tl.arange(0, BN)
        rows = tl.where(offs_am < M, offs_am, 0)
        cols = tl.where(offs_bn < N, offs_bn, 0)
        rows = tl.max_contiguous(tl.multiple_of(rows, BM), BM)
        cols = tl.max_contiguous(tl.multiple_of(cols, BN), BN)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            offs_k = k * BK + tl.arange(0, BK)
            a_ptrs = a_ptr + (rows[:, None] * stride_am + offs_k[None, :])
            b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + cols[None, :])
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K, other=0.0)
            total = tl.dot(a, b, total)
        c_ptrs = c_ptr + stride_cm * offs_am[:, None] + offs_bn[None, :]
        mask = (offs_am[:, None] < M) & (offs_bn[None, :] < N)
        tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def transposed_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """C = Aᵀ B: the rows of A are K. Positions of 64 bits."""
    tiles_n = tl.cdiv(N, BN)
    t = tl.program_id(0).to(tl.int64)
    m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
    rows = tl.minimum(m * BM + tl.arange(0, BM), M - 1)
    cols = n * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a = tl.load(a_ptr + ks[:, None] * M + rows[None, :], mask=ks[:, None] < K, other=0.0)
        inside = (ks[:, None] < K) & (cols[None, :] < N)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total = tl.dot(tl.trans(a), b, total)
    offs_m = m * BM + tl.arange(0, BM)
    keep = (offs_m[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + cols[None, :], total, mask=keep)


@triton.jit
def block_pointer_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """On block pointers, of Triton versions that have them."""
    tiles_n = tl.cdiv(N, BN)
    t = tl.program_id(0)
    m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
    a_block = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (m * BM, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, n * BN), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _k in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(a, b, total)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (m * BM, n * BN), (BM, BN), (1, 0))
    tl.store(c_block, total.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def made_descriptor_matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    CTAS: tl.constexpr,
    PIECES: tl.constexpr,
):
    """Descriptors made in the kernel, and an epilogue in two halves."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN // PIECES])
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tiles, CTAS):
        m, n = swizzle(t, M, N, BM, BN, GROUP)
        m, n, _ = sy.tile(t, m, n)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([m * BM, k * BK])
            b = b_desc.load([n * BN, k * BK])
            total = tl.dot(a, b.T, total)
        if PIECES == 1:
            c_desc.store([m * BM, n * BN], total.to(c_ptr.dtype.element_ty))
        else:
            halves = tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([m * BM, n * BN], left.to(c_ptr.dtype.element_ty))
            c_desc.store([m * BM, n * BN + BN // 2], right.to(c_ptr.dtype.element_ty))


@triton.jit
def split_k_matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    K_PER_TILE: tl.constexpr,
    CTAS: tl.constexpr,
):
    """A third coordinate says which part of K a tile adds up, into a plane of its own."""
    tiles_n = tl.cdiv(N, BN)
    parts = tl.cdiv(K, K_PER_TILE)
    tiles = tl.cdiv(M, BM) * tiles_n * parts
    for t in tl.range(tl.program_id(0), tiles, CTAS):
        m, n, part, _ = sy.tile(t, t // (tiles_n * parts), (t // parts) % tiles_n, t % parts)
        rows = m * BM + tl.arange(0, BM)
        cols = n * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K_PER_TILE, BK):
            ks = part * K_PER_TILE + k + tl.arange(0, BK)
            a_ok = (rows[:, None] < M) & (ks[None, :] < K)
            b_ok = (cols[None, :] < N) & (ks[:, None] < K)
            a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], a_ok, 0.0)
            b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], b_ok, 0.0)
            total = tl.dot(a, b, total)
        keep = (rows[:, None] < M) & (cols[None, :] < N)
        tl.store(c_ptr + part * M * N + rows[:, None] * N + cols[None, :], total, mask=keep)


@triton.jit
def causal_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    LENGTH,
    scale,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """FlashAttention, one head: K and V up to the diagonal, in two stages as in the tutorial."""
    t = tl.program_id(0)
    m, _ = sy.tile(t, t)
    rows = m * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    best = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for n in range(0, (m + 1) * BM, BN):
        cols = n + tl.arange(0, BN)
        k = tl.load(k_ptr + cols[None, :] * D + d[:, None])
        v = tl.load(v_ptr + cols[:, None] * D + d[None, :])
        scores = tl.dot(q, k) * scale
        scores = tl.where(rows[:, None] >= cols[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(best - higher)
        weight = weight * shrink + tl.sum(p, 1)
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None])
        best = higher
    out = (total / weight[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], out)


@triton.jit
def flat_copy(x_ptr, y_ptr, size, BLOCK: tl.constexpr, CTAS: tl.constexpr):
    """Elementwise on the flattened buffer."""
    for t in tl.range(tl.program_id(0), tl.cdiv(size, BLOCK), CTAS):
        i, _ = sy.tile(t, t)
        where = i * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + where, tl.load(x_ptr + where, where < size) * 2, where < size)


@triton.jit
def specialized_matmul(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CTAS: tl.constexpr,
):
    """Descriptors of the host, in a loop whose warps Triton may specialize."""
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for t in tl.range(tl.program_id(0), tiles, CTAS, flatten=True, warp_specialize=True):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([m * BM, k * BK])
            b = b_desc.load([n * BN, k * BK])
            total = tl.dot(a, b.T, total)
        c_desc.store([m * BM, n * BN], total.to(c_desc.dtype))
