"""Builds the programs of benchmarks and GPU tests: the one place there that calls `syncopate.compile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncopate.kernels import GemmConfig, gemm, gemm_pointers

ITEM_BYTES = 2  # bf16, f16


@dataclass(frozen=True)
class Variant:
    """One way to run a plan.

    Attributes:
        realization: `ldst_colocated` or `copy_engine`.
        direction: `push` or `pull`.
        splits: Pieces that each shard is cut into.
        zero_copy: The input is written into the symmetric buffer by whoever makes it.
    """

    realization: str
    direction: str
    splits: int
    zero_copy: bool = False

    @property
    def name(self) -> str:
        """For tables and messages."""
        return f"{self.realization}/{self.direction}/{self.splits}{'/zero-copy' if self.zero_copy else ''}"


def tma_can_address(*row_elements: int) -> bool:
    """Whether rows of these many 2-byte elements start at multiples of 16 bytes."""
    return all(elements * ITEM_BYTES % 16 == 0 for elements in row_elements)


def choose_config(m: int, n: int) -> GemmConfig:
    """Tiles for a GEMM: the large ones, unless there would be too few of them for the streaming multiprocessors."""
    large = GemmConfig()
    tiles_m, tiles_n = large.tiles(m, n)
    if tiles_m * tiles_n >= large.num_ctas:
        return large
    return GemmConfig(block_n=128, num_stages=4)


def build_program(
    m: int,
    n: int,
    k: int,
    *,
    world_size: int,
    realization: str = "ldst_colocated",
    algorithm: str = "direct_push",
    splits: int = 1,
    dtype: str = "bf16",
    config: GemmConfig | None = None,
    timeout: float = 10.0,
) -> Any:
    """Compiles C[m, n] = all_gather(A)[m, k] · B[n, k]ᵀ.

    Args:
        m: Rows of the gathered A.
        n: Rows of B, this rank's.
        k: Columns of A and B.
        world_size: Number of ranks.
        realization: Of every transfer.
        algorithm: `direct_push`, `direct_pull`, `ring_push` or `ring_pull`.
        splits: Pieces per shard.
        dtype: Of A, B and C.
        config: Tiles; by default those of `choose_config`.
        timeout: Limit of device waits in seconds.

    Returns:
        A `syncopate.Program` with the input `a` and the tensors `b` and `c`.
    """
    import syncopate

    config = config or choose_config(m, n)
    plan = syncopate.Plan("ag_gemm", mesh=[world_size])
    a = plan.buffer("a", (m, k), dtype, shard_axis=0)
    plan.all_gather(a, axis=0)
    b = syncopate.Tensor("b", (n, k), dtype)
    c = syncopate.Tensor("c", (m, n), dtype, output=True)
    footprints = []
    scalars = {"M": m, "N": n, "K": k, **config.constexprs()}
    if tma_can_address(n, k):
        kernel = gemm
        bind = {
            "a_desc": syncopate.Descriptor(a, (config.block_m, config.block_k)),
            "b_desc": syncopate.Descriptor(b, (config.block_n, config.block_k)),
            "c_desc": syncopate.Descriptor(c, (config.block_m, config.block_n)),
            **scalars,
        }
    else:
        kernel = gemm_pointers
        pointers = {
            f"{name}_ptr": syncopate.Pointer(what) for name, what in (("a", a), ("b", b), ("c", c))
        }
        bind = {**pointers, "stride_a": k, "stride_b": k, "stride_c": n, **scalars}
        footprints = [
            syncopate.Footprint(
                "a_ptr", lambda tile_m, _: (tile_m * config.block_m, 0), (config.block_m, k)
            )
        ]
    return syncopate.compile(
        kernel,
        plan,
        bind=bind,
        tiles=config.tiles(m, n),
        ctas=config.num_ctas,
        strategy=syncopate.Strategy(
            algorithm=algorithm, realization=realization, splits=splits, group=config.group_m
        ),
        target="sm_90",
        footprints=footprints,
        options=config.options(),
        timeout=timeout,
    )


def tensor_names(program: Any) -> tuple[str, str, str]:
    """The keywords of a built program's gathered input, its weight and its output."""
    from syncopate.runtime.interface import TensorParam

    tensors = [param for param in program.params if isinstance(param, TensorParam)]
    output = next(param.tensor for param in tensors if param.output)
    weight = next(param.tensor for param in tensors if not param.output)
    return program.buffers[0].name, weight, output
