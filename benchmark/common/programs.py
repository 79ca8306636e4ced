"""Builds the programs of benchmarks and GPU tests: the one place there that calls `syncopate.compile`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import syncopate
from syncopate.kernels import (
    GemmConfig,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.runtime.interface import TensorParam

SHAPES = {
    "llama3-70b-slice-of-8": (8192, 3584, 8192),
    "llama3-8b": (8192, 7168, 4096),
    "llama3-70b": (8192, 14336, 8192),
    "llama3-405b-slice-of-8": (8192, 6656, 16384),
    "qwen2-72b-slice-of-8": (8192, 3696, 8192),
    "small-m": (512, 3584, 8192),
    "ragged": (8200, 3600, 8184),
    "ragged-unaligned": (8200, 3600, 8190),
}
"""(M, N, K): M gathered rows, N and K of one rank."""

COLOCATED = ("ldst_colocated", "tma_colocated")
REALIZATIONS = (*COLOCATED, "ldst_dedicated", "tma_dedicated", "copy_engine")
DIRECTIONS = ("push", "pull")

ITEM_BYTES = 2  # bf16, f16


@dataclass(frozen=True)
class Variant:
    """One way to run a plan.

    Attributes:
        realization: One of `REALIZATIONS`.
        direction: `push` or `pull`.
        splits: Pieces that each shard is cut into.
        pause: Nanoseconds between the blocks that a communication role stores to another rank.
        zero_copy: The input is written into the symmetric buffer by whoever makes it.
    """

    realization: str
    direction: str
    splits: int
    pause: int = 0
    zero_copy: bool = False

    @property
    def name(self) -> str:
        """For tables and messages."""
        parts = [self.realization, self.direction, str(self.splits)]
        parts += [f"pause {self.pause}"] if self.pause else []
        parts += ["zero-copy"] if self.zero_copy else []
        return "/".join(parts)


def variants(splits: Sequence[int], pauses: Sequence[int]) -> list[Variant]:
    """Every way to run an all-gather that the suites compare, from plain tensors."""
    ways = [
        Variant(realization, direction, pieces)
        for realization, direction, pieces in itertools.product(REALIZATIONS, DIRECTIONS, splits)
    ]
    # Only a co-located role that stores to other ranks rests.
    paced = itertools.product(COLOCATED, splits, pauses)
    return ways + [Variant(name, "push", pieces, pause) for name, pieces, pause in paced]


def tma_can_address(*row_elements: int) -> bool:
    """Whether rows of these many 2-byte elements start at multiples of 16 bytes."""
    return all(elements * ITEM_BYTES % 16 == 0 for elements in row_elements)


def choose_config(m: int, n: int, k: int) -> GemmConfig:
    """Tiles for a GEMM: the large ones, unless there would be too few of them, or pointers to keep in registers.

    With few tiles, those that need other ranks' data should still come in a second round.
    """
    large = GemmConfig()
    tiles_m, tiles_n = large.tiles(m, n)
    if not tma_can_address(n, k):
        return GemmConfig(block_n=128)
    if tiles_m * tiles_n < large.num_ctas:
        return GemmConfig(block_m=64, block_n=128, group_m=4, num_warps=4, num_stages=6)
    return large


def build_program(
    m: int,
    n: int,
    k: int,
    *,
    world_size: int,
    realization: str = "ldst_colocated",
    algorithm: str = "direct",
    direction: str = "push",
    splits: int = 1,
    pause: int = 0,
    dtype: str = "bf16",
    comm_ctas: int = 8,
    config: GemmConfig | None = None,
    timeout: float = 60.0,
) -> Any:
    """Compiles C[m, n] = all_gather(A)[m, k] · B[n, k]ᵀ.

    Args:
        m: Rows of the gathered A.
        n: Rows of B, this rank's.
        k: Columns of A and B.
        world_size: Number of ranks.
        realization: Of every transfer.
        algorithm: Of the all-gather, as `syncopate.Strategy` takes it.
        direction: `push` or `pull`.
        splits: Pieces per shard.
        pause: Nanoseconds between blocks stored to another rank.
        dtype: Of A, B and C.
        comm_ctas: CTAs of a dedicated realization, taken from those that compute, but at most half of them.
        config: Tiles; by default those of `choose_config`.
        timeout: Limit of device waits in seconds.

    Returns:
        A program with the input `a` and the tensors `b` and `c`.
    """
    config = config or choose_config(m, n, k)
    comm_ctas = min(comm_ctas, config.num_ctas // 2)
    if realization.endswith("_dedicated"):
        config = dataclasses.replace(config, num_ctas=config.num_ctas - comm_ctas)
    plan = syncopate.Plan("ag_gemm", mesh=[world_size])
    a = plan.buffer("a", (m, k), dtype, shard_axis=0)
    plan.all_gather(a, axis=0)
    bind = bind_gemm if tma_can_address(n, k) else bind_gemm_pointers
    return syncopate.compile(
        gemm if bind is bind_gemm else gemm_pointers,
        plan,
        **bind(a, n, config),
        strategy=syncopate.Strategy(
            algorithm=algorithm,
            direction=direction,
            realization=realization,
            splits=splits,
            group=config.group_m,
            pause=pause,
            comm_ctas=comm_ctas,
        ),
        target="sm_90",
        timeout=timeout,
    )


def tensor_names(program: Any) -> tuple[str, str, str]:
    """The keywords of a built program's gathered input, its weight and its output."""
    tensors = [param for param in program.params if isinstance(param, TensorParam)]
    output = next(param.tensor for param in tensors if param.output)
    weight = next(param.tensor for param in tensors if not param.output)
    return program.buffers[0].name, weight, output
