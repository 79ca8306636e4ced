"""Arguments of `syncopate.compile` for the kernels of this package."""

from __future__ import annotations

from typing import Any

from syncopate.compiler.binding import Descriptor, Pointer, Tensor
from syncopate.kernels.config import GemmConfig
from syncopate.plan import Buffer

__all__ = ["bind_gemm", "bind_gemm_pointers"]


def bind_gemm(
    a: Buffer, n: int, config: GemmConfig, *, out_dtype: str | None = None
) -> dict[str, Any]:
    """Binds `gemm` for C[M, N] = A[M, K] · B[N, K]ᵀ, where A is a plan buffer.

    Args:
        a: The plan's buffer of A.
        n: Columns of C that a rank computes.
        config: How the GEMM is cut into tiles.
        out_dtype: Element type of C; that of A by default.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes `a`, `b` and, optionally, `c`.
    """
    m, k = a.shape
    b = Tensor("b", (n, k), a.dtype)
    c = Tensor("c", (m, n), out_dtype or a.dtype, output=True)
    bind = {
        "a_desc": Descriptor(a, (config.block_m, config.block_k)),
        "b_desc": Descriptor(b, (config.block_n, config.block_k)),
        "c_desc": Descriptor(c, (config.block_m, config.block_n)),
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


def _arguments(bind: dict[str, Any], m: int, n: int, config: GemmConfig) -> dict[str, Any]:
    return {
        "bind": bind,
        "tiles": config.tiles(m, n),
        "ctas": config.num_ctas,
        "options": config.options(),
    }
