# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls, allow-incomplete-defs

"""Kernels that store their tiles in several ways."""

import triton
import triton.language as tl

import syncopate.language as sy


@triton.jit
def multiply(a_ptr, b_ptr, rows, columns, M, N, K, BK: tl.constexpr):
    """The elements of A[M, K] · B[N, K]ᵀ at some rows and columns, float32."""
    total = tl.zeros((rows.shape[0], columns.shape[0]), tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (columns[:, None] < N) & (inner[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], a_mask, 0.0)
        b = tl.load(b_ptr + columns[:, None] * K + inner[None, :], b_mask, 0.0)
        total = tl.dot(a, b.T, total)
    return total


@triton.jit
def device_descriptors(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CTAS: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """A persistent GEMM on descriptors that it makes itself."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    tiles_n = tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, CTAS, flatten=FLATTEN):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([m * BM, k * BK])
            total = tl.dot(a, b_desc.load([n * BN, k * BK]).T, total)
        c_desc.store([m * BM, n * BN], total.to(c_ptr.dtype.element_ty))


@triton.jit
def one_tile(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """A GEMM of one tile per program."""
    t = tl.program_id(0)
    tiles_n = tl.cdiv(N, BN)
    m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
    rows, columns = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    total = multiply(a_ptr, b_ptr, rows, columns, M, N, K, BK)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    where = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(where, total.to(c_ptr.dtype.element_ty), inside)


@triton.jit
def store_halves(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CTAS: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """A persistent GEMM that stores the halves of a tile one after the other; N may end in the first."""
    tiles_n = tl.cdiv(N, BN)
    half: tl.constexpr = BN // 2
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, CTAS, flatten=FLATTEN):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        rows = m * BM + tl.arange(0, BM)
        total = multiply(a_ptr, b_ptr, rows, n * BN + tl.arange(0, BN), M, N, K, BK)
        left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, half)), (0, 2, 1)))
        columns = n * BN + tl.arange(0, half)
        where = c_ptr + rows[:, None] * N + columns[None, :]
        inside = rows[:, None] < M
        tl.store(where, left.to(c_ptr.dtype.element_ty), inside & (columns[None, :] < N))
        tl.store(
            where + half, right.to(c_ptr.dtype.element_ty), inside & (columns[None, :] + half < N)
        )


@triton.jit
def store_in_loop(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    CTAS: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """A persistent GEMM that computes and stores a quarter of a tile's columns at a time, in a loop."""
    tiles_n = tl.cdiv(N, BN)
    quarter: tl.constexpr = BN // 4
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, CTAS, flatten=FLATTEN):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        rows = m * BM + tl.arange(0, BM)
        for part in range(4):
            columns = n * BN + part * quarter + tl.arange(0, quarter)
            total = multiply(a_ptr, b_ptr, rows, columns, M, N, K, BK)
            where = c_ptr + rows[:, None] * N + columns[None, :]
            inside = (rows[:, None] < M) & (columns[None, :] < N)
            tl.store(where, total.to(c_ptr.dtype.element_ty), inside)


@triton.jit
def copy_in_loop(
    a_ptr,
    c_ptr,
    M,
    N,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CTAS: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """Copies A[M, N], a quarter of a tile's columns at a time, in a loop."""
    tiles_n = tl.cdiv(N, BN)
    quarter: tl.constexpr = BN // 4
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, CTAS, flatten=FLATTEN):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        rows = m * BM + tl.arange(0, BM)
        for part in range(4):
            columns = n * BN + part * quarter + tl.arange(0, quarter)
            where = rows[:, None] * N + columns[None, :]
            inside = (rows[:, None] < M) & (columns[None, :] < N)
            value = tl.load(a_ptr + where, inside, 0.0)
            tl.store(c_ptr + where, value.to(c_ptr.dtype.element_ty), inside)
