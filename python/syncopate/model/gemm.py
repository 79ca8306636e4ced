"""How long the tiles of a local kernel take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.model.machine import Machine

__all__ = ["KernelCost", "gemm_cost", "predict_gemm_us"]


@dataclass(frozen=True)
class KernelCost:
    """What the tiles of a kernel take while all multiprocessors compute.

    Attributes:
        tile_us: Microseconds of a tile: one number for all, or one for each, row-major in the grid.
        tile_bytes: Bytes that a tile stores.
    """

    tile_us: float | Sequence[float]
    tile_bytes: int = 0

    def of(self, number: int) -> float:
        """Microseconds of one tile."""
        return self.tile_us if isinstance(self.tile_us, (int, float)) else self.tile_us[number]


def gemm_cost(
    machine: Machine,
    k: int,
    *,
    block_m: int,
    block_n: int,
    block_k: int,
    dtype: str = "bf16",
) -> KernelCost:
    """The cost of the tiles of C[M, N] = A[M, K] · B[N, K]ᵀ, row-major, C of the type of A and B.

    Tiles at the edge take as long as others, since they multiply zeros.

    Args:
        machine: The machine.
        k: K.
        block_m: Rows of a tile.
        block_n: Columns of a tile.
        block_k: Elements of K in a step.
        dtype: MLIR's spelling.

    Raises:
        SyncopateError: Nothing was measured with such operands.
    """
    rate = machine.find_gemm_rate(block_m, block_n, block_k, dtype)
    itemsize = DTYPES[dtype].nbytes
    step_us = rate.step_us * machine.row_slowdown(k * itemsize)
    return KernelCost(
        rate.tile_us + -(-k // block_k) * step_us, tile_bytes=block_m * block_n * itemsize
    )


def predict_gemm_us(
    machine: Machine, cost: KernelCost, tiles: int, ctas: int | None = None
) -> float:
    """Microseconds of the kernel alone, with the launch: rounds of tiles, the last one of what is left.

    Args:
        machine: The machine.
        cost: Of a tile; the same for all.
        tiles: How many there are.
        ctas: CTAs that compute; all multiprocessors if it is left out.

    Raises:
        SyncopateError: The cost is not the same for all tiles.
    """
    if not isinstance(cost.tile_us, (int, float)):
        raise SyncopateError("cost: expects one number for all tiles; simulate the tables instead")
    ctas = machine.sms if ctas is None else ctas
    us = 0.0
    for count, rounds in ((ctas, tiles // ctas), (tiles % ctas, 1)):
        if count and rounds:
            us += rounds * cost.tile_us * machine.load_slowdown(count)
    fast = min(us, machine.burst_us)
    return machine.latencies.launch + fast + (us - fast) * machine.sustained_slowdown
