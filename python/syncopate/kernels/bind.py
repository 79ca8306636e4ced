"""Arguments of `syncopate.compile` for the kernels of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncopate.compiler.binding import Ctas, Descriptor, Footprint, Pointer, Tensor
from syncopate.errors import SyncopateError
from syncopate.kernels.config import Activation, GemmConfig, Precision
from syncopate.plan import Buffer
from syncopate.plan.tokens import Dispatch, RoutingShape
from syncopate.tables import BufferSpec

__all__ = [
    "bind_add_rms_norm",
    "bind_combine_rows",
    "bind_gemm",
    "bind_gemm_pointers",
    "bind_grouped_gemm",
]


def bind_gemm(
    a: Buffer | Tensor,
    n: int,
    config: GemmConfig,
    *,
    c: Buffer | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: bool = False,
    activation: Activation | None = None,
    precision: Precision = Precision.TF32,
    pitch_b: int | None = None,
) -> dict[str, Any]:
    """Binds `gemm` for C[M, N] = activation(A · B + bias).

    A bias or an activation has no meaning for parts of a sum over ranks.

    Args:
        a: A as [M, K]: the plan's buffer of it, or a tensor of the rank.
        n: Columns of C that a rank computes.
        config: How the GEMM is cut into tiles.
        c: The plan's buffer of C; without it C is an output of the program.
        out_dtype: Element type of such an output; that of A by default.
        transpose_a: A is given as [K, M].
        transpose_b: B is given as [K, N] instead of [N, K].
        bias: Whether to add a value to each column.
        activation: What to apply after that.
        precision: How float32 operands are multiplied.
        pitch_b: Elements from one row of B in memory to the next; the length of a row by default.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes A by its name, `b`, `bias` [N] of the
        element type of C if there is one, and, optionally, `c`.

    Raises:
        SyncopateError: An argument is wrong.
    """
    gemm = _Gemm(a, n, c, out_dtype, transpose_a, transpose_b, bias, activation, precision, pitch_b)
    m, k, bm, bn, bk = gemm.m, gemm.k, config.block_m, config.block_n, config.block_k
    bind = {
        "a_desc": Descriptor(a, (bk, bm) if transpose_a else (bm, bk)),
        "b_desc": Descriptor(gemm.b, (bk, bn) if transpose_b else (bn, bk)),
        "c_desc": Descriptor(gemm.out, (bm, bn)),
        "M": m,
        "N": n,
        "K": k,
        **config.constexprs(),
        **config.last_round(gemm.k),
        **gemm.choices(),
    }
    return _arguments(bind, m, n, config)


def bind_gemm_pointers(
    a: Buffer | Tensor,
    n: int,
    config: GemmConfig,
    *,
    c: Buffer | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: bool = False,
    activation: Activation | None = None,
    precision: Precision = Precision.TF32,
    pitch_b: int | None = None,
) -> dict[str, Any]:
    """Binds `gemm_pointers`; otherwise like `bind_gemm`."""
    gemm = _Gemm(a, n, c, out_dtype, transpose_a, transpose_b, bias, activation, precision, pitch_b)
    bind = {
        "a_ptr": Pointer(a),
        "b_ptr": Pointer(gemm.b),
        "c_ptr": Pointer(gemm.out),
        "M": gemm.m,
        "N": n,
        "K": gemm.k,
        "stride_a": a.shape[1],
        "stride_b": pitch_b or gemm.b.shape[1],
        "stride_c": n,
        **config.constexprs(),
        # Addresses of pointers leave few registers for it.
        **config.last_round(gemm.k, always=False),
        **gemm.choices(),
    }
    return _arguments(bind, gemm.m, n, config)


@dataclass(frozen=True)
class _Gemm:
    """What both kernels are bound to; see `bind_gemm`."""

    a: Buffer | Tensor
    n: int
    c: Buffer | None
    out_dtype: str | None
    transpose_a: bool
    transpose_b: bool
    bias: bool
    activation: Activation | None
    precision: Precision
    pitch_b: int | None

    def __post_init__(self) -> None:
        if self.activation is not None and not isinstance(self.activation, Activation):
            raise SyncopateError(
                f"activation: expects a member of syncopate.kernels.Activation or None, but got {self.activation!r}"
            )
        if not isinstance(self.precision, Precision):
            raise SyncopateError(
                f"precision: expects a member of syncopate.kernels.Precision, but got {self.precision!r}"
            )
        if len(getattr(self.a, "shape", ())) != 2:
            raise SyncopateError(
                f"a: expects a buffer of the plan or a Tensor of two dimensions, but got {self.a!r}"
            )
        if self.c is not None and self.c.shape != (self.m, self.n):
            raise SyncopateError(
                f"c: expects a buffer of {[self.m, self.n]}, as A and n say, but {self.c.name} has {list(self.c.shape)}"
            )

    @property
    def m(self) -> int:
        return self.a.shape[1 if self.transpose_a else 0]

    @property
    def k(self) -> int:
        return self.a.shape[0 if self.transpose_a else 1]

    @property
    def b(self) -> Tensor:
        shape = (self.k, self.n) if self.transpose_b else (self.n, self.k)
        strides = None if self.pitch_b is None else (self.pitch_b, 1)
        return Tensor("b", shape, self.a.dtype, strides=strides)

    @property
    def out(self) -> Buffer | Tensor:
        if self.c is not None:
            return self.c
        return Tensor("c", (self.m, self.n), self.out_dtype or self.a.dtype, output=True)

    def choices(self) -> dict[str, Any]:
        """The parameters that both kernels have for them, by name."""
        bias = Pointer(Tensor("bias", (self.n,), self.out.dtype)) if self.bias else None
        return {
            "bias_ptr": bias,
            "TRANSPOSE_A": self.transpose_a,
            "TRANSPOSE_B": self.transpose_b,
            "ACTIVATION": None if self.activation is None else self.activation.value,
            "PRECISION": self.precision.value,
        }


def bind_add_rms_norm(
    y: Buffer,
    *,
    epsilon: float = 1e-6,
    block_m: int = 1,
    num_warps: int = 8,
    num_ctas: int | None = None,
    slots: BufferSpec | None = None,
) -> dict[str, Any]:
    """Binds `add_rms_norm` for what one rank normalizes.

    Args:
        y: The plan's buffer of Y[M, N].
        epsilon: What is added to the mean of squares.
        block_m: Rows of a tile.
        num_warps: Warps that compute.
        num_ctas: CTAs that walk the tiles; `syncopate.compile` chooses, if it is left out.
        slots: The buffer of a program from which X comes in slots, as library calls leave it: one of its `buffers`.

    Returns:
        Keyword arguments of `syncopate.compile`. A call of the program takes `x`, `residual` and `weight`, and gives
        `sum`, X + R, beside what the plan gives back; all have the element type of Y. With `slots`, it takes `x_rows`
        as well: `LoadedProgram.slots` of that program.

    Raises:
        SyncopateError: The buffer of `slots` has none.
    """
    m, n = y.shape
    x, more = Tensor("x", (m, n), y.dtype), {}
    if slots is not None:
        if slots.slots is None:
            raise SyncopateError(f"slots: expects a buffer with slots, but {slots.name} has rows")
        x = Tensor("x", slots.memory_shape, slots.dtype)
        columns = slots.slots.tile[1]
        x_rows = Tensor("x_rows", (m, -(-n // columns)), "i32")
        more = {"x_rows_ptr": Pointer(x_rows), "SLOT_N": columns}
    block_n = 1 << (n - 1).bit_length()
    bind = {
        **more,
        "x_ptr": Pointer(x),
        "residual_ptr": Pointer(Tensor("residual", (m, n), y.dtype)),
        "weight_ptr": Pointer(Tensor("weight", (n,), y.dtype)),
        "sum_ptr": Pointer(Tensor("sum", (m, n), y.dtype, output=True)),
        "y_desc": Descriptor(y, (block_m, block_n)),
        "M": m,
        "N": n,
        "EPSILON": epsilon,
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "NUM_SMS": Ctas() if num_ctas is None else num_ctas,
    }
    return {
        "bind": bind,
        "tiles": (-(-m // block_m),),
        "ctas": num_ctas,
        "options": {"num_warps": num_warps},
    }


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
        **_named(config, "BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_SMS"),
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
    bind = {
        "y_ptr": Pointer(Tensor("y", (shape.blocks * shape.block_m, n), combined.dtype)),
        "places_ptr": Pointer(Tensor("places", chosen, "i32")),
        "weights_ptr": Pointer(Tensor("weights", chosen, "f32")),
        "c_desc": Descriptor(combined, (config.block_m, config.block_n)),
        "M": m,
        "N": n,
        "stride_y": n,
        "TOP_K": shape.top_k,
        **_named(config, "BLOCK_M", "BLOCK_N", "GROUP_M", "NUM_SMS"),
    }
    # Triton would pipeline the loop over tiles, which has no loop inside.
    options = {**config.options(), "num_stages": 1}
    return {**_arguments(bind, m, n, config), "options": options}


def _named(config: GemmConfig, *names: str) -> dict[str, Any]:
    """Some of the compile-time parameters of a configuration."""
    constexprs = config.constexprs()
    return {name: constexprs[name] for name in names}


def _arguments(bind: dict[str, Any], m: int, n: int, config: GemmConfig) -> dict[str, Any]:
    return {
        "bind": bind,
        "tiles": config.tiles(m, n),
        "ctas": config.num_ctas,
        "options": config.options(),
    }
