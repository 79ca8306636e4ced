"""A kernel that knows nothing of Syncopate's own kernels, annotated for fusion.

It differs from an ordinary persistent GEMM in one line, the call of `sy.tile`, and
still runs under plain Triton, where that call changes nothing. It takes pointers
instead of descriptors, walks its tiles row by row, and ends in a bias and a ReLU.
"""

import triton
import triton.language as tl

import syncopate
import syncopate.language as sy
from syncopate import Footprint, Pointer, Strategy, Tensor


@triton.jit
def biased_gemm(
    x,
    w,
    bias,
    y,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    NUM_SMS: tl.constexpr,
):
    """Y[M, N] = relu(X[M, K] · W[N, K]ᵀ + bias[N])."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tiles_n, NUM_SMS, flatten=True):
        m, n, _ = sy.tile(t, t // tiles_n, t % tiles_n)
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = n * BLOCK_N + tl.arange(0, BLOCK_N)
        steps = tl.arange(0, BLOCK_K)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            inside = k + steps < K
            a_ok = (rows[:, None] < M) & inside[None, :]
            b_ok = (cols[None, :] < N) & inside[:, None]
            a = tl.load(x + rows[:, None] * K + (k + steps)[None, :], a_ok, 0.0)
            b = tl.load(w + cols[None, :] * K + (k + steps)[:, None], b_ok, 0.0)
            total = tl.dot(a, b, total)
        total += tl.load(bias + cols, cols < N, 0.0)[None, :]
        keep = (rows[:, None] < M) & (cols[None, :] < N)
        where = y + rows[:, None] * N + cols[None, :]
        tl.store(where, tl.maximum(total, 0.0).to(y.dtype.element_ty), keep)


def compile_program(world: int, m: int, n: int, k: int) -> syncopate.Program:
    """Fuses the kernel with an all-gather of X, pulled by the copy engines in one piece per peer."""
    plan = syncopate.Plan("biased_gemm", mesh=[world])
    x = plan.buffer("x", (m, k), "bf16", shard_axis=0)
    plan.all_gather(x, axis=0)
    block_m, block_n, ctas = 128, 128, 8
    return syncopate.compile(
        biased_gemm,
        plan,
        bind={
            "x": Pointer(x),
            "w": Pointer(Tensor("w", (n, k), "bf16")),
            "bias": Pointer(Tensor("bias", (n,), "bf16")),
            "y": Pointer(Tensor("y", (m, n), "bf16", output=True)),
            "M": m,
            "N": n,
            "K": k,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": 64,
            "NUM_SMS": ctas,
        },
        tiles=(-(-m // block_m), -(-n // block_n)),
        ctas=ctas,
        strategy=Strategy(direction="pull", realization="copy_engine"),
        # Addresses made of pointers are not followed: say which rows of X a tile reads.
        footprints=[Footprint("x", lambda m, n: (m * block_m, 0), (block_m, k))],
        options={"num_warps": 8, "num_stages": 3},
    )


if __name__ == "__main__":
    print(compile_program(world=3, m=1000, n=512, k=512).explain())
