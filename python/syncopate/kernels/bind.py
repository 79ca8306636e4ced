"""Arguments of `syncopate.compile` for the kernels of this package."""

from __future__ import annotations

from typing import Any

from syncopate.compiler.binding import Descriptor, Footprint, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.config import GemmConfig
from syncopate.plan import Buffer
from syncopate.plan.tokens import Dispatch, RoutingShape

__all__ = ["bind_combine_rows", "bind_gemm", "bind_gemm_pointers", "bind_grouped_gemm"]


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


def bind_grouped_gemm(
    dispatch: Dispatch,
    shape: RoutingShape,
    n: int,
    config: GemmConfig,
    *,
    out_dtype: str | None = None,
) -> dict[str, Any]:
    """Binds `grouped_gemm` to the tokens that a plan dispatches.

    Args:
        dispatch: What `syncopate.plan.tokens.dispatch_tokens` has added to the plan.
        shape: Sizes of the routing; its blocks of rows are those of the GEMM.
        n: Columns that a rank computes of each row.
        config: How the GEMM is cut into tiles; `group_m` means nothing, since tiles are in the order of experts.
        out_dtype: Element type of the output; that of the tokens by default.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes the three inputs of the dispatch by their
        names; `rows`, `experts` and `used` of the routing; `b`, the weights of the rank's experts,
        [experts · n, width]; and, optionally, `c`, which has a row for each of `rows`.

    Raises:
        SyncopateError: `block_m` of the two are not the same.
    """
    if config.block_m != shape.block_m:
        raise SyncopateError(
            f"config: expects block_m {shape.block_m}, that of the routing, but got {config.block_m}"
        )
    tokens, m, k = dispatch.tokens, shape.blocks * shape.block_m, dispatch.tokens.shape[1]
    constexprs = config.constexprs()
    del constexprs["GROUP_M"]
    b = Tensor("b", (shape.experts_per_rank * n, k), tokens.dtype)
    c = Tensor("c", (m, n), out_dtype or tokens.dtype, output=True)
    bind = {
        "x_ptr": Pointer(tokens),
        "rows_ptr": Pointer(Tensor("rows", (m,), "i32")),
        "experts_ptr": Pointer(Tensor("experts", (shape.blocks,), "i32")),
        "used_ptr": Pointer(Tensor("used", (1,), "i32")),
        "b_desc": Descriptor(b, (config.block_n, config.block_k)),
        "c_desc": Descriptor(c, (config.block_m, config.block_n)),
        "M": m,
        "N": n,
        "K": k,
        "stride_x": k,
        **constexprs,
    }
    # Which rows a tile gathers is known at run time.
    gathered = Footprint("x_ptr", lambda *_: (0, 0), tokens.shape)
    return {**_arguments(bind, m, n, config), "footprints": [gathered], "needs": dispatch.needs}


def bind_combine_rows(combined: Buffer, shape: RoutingShape, config: GemmConfig) -> dict[str, Any]:
    """Binds `combine_rows` to a buffer in which ranks compute their parts of what becomes of all tokens.

    Args:
        combined: The plan's buffer, [shape.rows, n]; `syncopate.plan.templates.reduce_scatter_tiles` adds its parts up.
        shape: Sizes of the routing.
        config: How the buffer is cut into tiles; `block_k` and `num_stages` mean nothing.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes `y`, rows of n elements in blocks of
        experts; `places` of the routing; and `weights`, f32 [world_size, tokens, top_k], what each choice of each token
        counts.
    """
    m, n = combined.shape
    chosen = (shape.world_size, shape.tokens, shape.top_k)
    constexprs = config.constexprs()
    del constexprs["BLOCK_K"]
    bind = {
        "y_ptr": Pointer(Tensor("y", (shape.blocks * shape.block_m, n), combined.dtype)),
        "places_ptr": Pointer(Tensor("places", chosen, "i32")),
        "weights_ptr": Pointer(Tensor("weights", chosen, "f32")),
        "c_desc": Descriptor(combined, (config.block_m, config.block_n)),
        "M": m,
        "N": n,
        "stride_y": n,
        "TOP_K": shape.top_k,
        **constexprs,
    }
    # Triton would pipeline the loop over tiles, which has no loop inside.
    options = {**config.options(), "num_stages": 1}
    return {**_arguments(bind, m, n, config), "options": options}


def _arguments(bind: dict[str, Any], m: int, n: int, config: GemmConfig) -> dict[str, Any]:
    return {
        "bind": bind,
        "tiles": config.tiles(m, n),
        "ctas": config.num_ctas,
        "options": config.options(),
    }
