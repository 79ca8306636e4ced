"""Arguments of `syncopate.compile` for the kernels of this package."""

from __future__ import annotations

from typing import Any

from syncopate.compiler.binding import Descriptor, Pointer, Tensor
from syncopate.kernels.config import GemmConfig
from syncopate.plan import Buffer

__all__ = ["bind_add_rms_norm", "bind_gemm", "bind_gemm_pointers"]


def bind_gemm(
    a: Buffer | Tensor,
    n: int,
    config: GemmConfig,
    *,
    c: Buffer | None = None,
    out_dtype: str | None = None,
) -> dict[str, Any]:
    """Binds `gemm` for C[M, N] = A[M, K] · B[N, K]ᵀ.

    Args:
        a: A: the plan's buffer of it, or a tensor of the rank.
        n: Columns of C that a rank computes.
        config: How the GEMM is cut into tiles.
        c: The plan's buffer of C; without it C is an output of the program.
        out_dtype: Element type of such an output; that of A by default.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes A by its name, `b` and, optionally, `c`.
    """
    m, k = a.shape
    b = Tensor("b", (n, k), a.dtype)
    out = Tensor("c", (m, n), out_dtype or a.dtype, output=True) if c is None else c
    bind = {
        "a_desc": Descriptor(a, (config.block_m, config.block_k)),
        "b_desc": Descriptor(b, (config.block_n, config.block_k)),
        "c_desc": Descriptor(out, (config.block_m, config.block_n)),
        "M": m,
        "N": n,
        "K": k,
        **config.constexprs(),
    }
    return _arguments(bind, m, n, config)


def bind_gemm_pointers(
    a: Buffer, n: int, config: GemmConfig, *, out_dtype: str | None = None
) -> dict[str, Any]:
    """Binds `gemm_pointers`; otherwise like `bind_gemm`."""
    m, k = a.shape
    b = Tensor("b", (n, k), a.dtype)
    c = Tensor("c", (m, n), out_dtype or a.dtype, output=True)
    bind = {
        "a_ptr": Pointer(a),
        "b_ptr": Pointer(b),
        "c_ptr": Pointer(c),
        "M": m,
        "N": n,
        "K": k,
        "stride_a": k,
        "stride_b": k,
        "stride_c": n,
        **config.constexprs(),
    }
    return _arguments(bind, m, n, config)


def bind_add_rms_norm(
    y: Buffer,
    *,
    epsilon: float = 1e-6,
    block_m: int = 1,
    num_warps: int = 8,
    num_ctas: int = 132,
) -> dict[str, Any]:
    """Binds `add_rms_norm` for what one rank normalizes.

    Args:
        y: The plan's buffer of Y[M, N].
        epsilon: What is added to the mean of squares.
        block_m: Rows of a tile.
        num_warps: Warps that compute.
        num_ctas: CTAs that walk the tiles.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes `x`, `residual` and `weight`, and gives
        `sum`, X + R, beside what the plan gives back; all have the element type of Y.
    """
    m, n = y.shape
    block_n = 1 << (n - 1).bit_length()
    bind = {
        "x_ptr": Pointer(Tensor("x", (m, n), y.dtype)),
        "residual_ptr": Pointer(Tensor("residual", (m, n), y.dtype)),
        "weight_ptr": Pointer(Tensor("weight", (n,), y.dtype)),
        "sum_ptr": Pointer(Tensor("sum", (m, n), y.dtype, output=True)),
        "y_desc": Descriptor(y, (block_m, block_n)),
        "M": m,
        "N": n,
        "EPSILON": epsilon,
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "NUM_SMS": num_ctas,
    }
    return {
        "bind": bind,
        "tiles": (-(-m // block_m),),
        "ctas": num_ctas,
        "options": {"num_warps": num_warps},
    }


def _arguments(bind: dict[str, Any], m: int, n: int, config: GemmConfig) -> dict[str, Any]:
    return {
        "bind": bind,
        "tiles": config.tiles(m, n),
        "ctas": config.num_ctas,
        "options": config.options(),
    }
