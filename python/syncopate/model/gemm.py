"""How long the tiles of a local kernel take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.model.machine import Latencies, Machine
from syncopate.model.numbers import expect_count
from syncopate.model.tables import Tile

__all__ = ["KernelCost", "gemm_cost", "predict_gemm_us"]

_MIB = 2**20


@dataclass(frozen=True)
class KernelCost:
    """What the tiles of a kernel take while all multiprocessors compute.

    Attributes:
        tile_us: Microseconds of a tile: one number for all, or one for each, row-major in the grid.
        tile_bytes: Bytes that a tile stores.
        fixed_us: What of `tile_us` is not the K loop: each part of a tile of the last round takes it in full.
        part_bytes: Bytes that such a part leaves, of float32.
    """

    tile_us: float | Sequence[float]
    tile_bytes: int = 0
    fixed_us: float = 0.0
    part_bytes: int = 0

    def of(self, number: int) -> float:
        """Microseconds of one tile."""
        return self.tile_us if isinstance(self.tile_us, (int, float)) else self.tile_us[number]

    def part_us(self, number: int, parts: int, latencies: Latencies) -> float:
        """Microseconds of a part of one tile until it is left in memory, or of the tile if it has no parts.

        Parts differ by a step of K at most, and count as equal.
        """
        whole = self.of(number)
        if parts == 1:
            return whole
        leaving = latencies.store_part * self.part_bytes / _MIB
        return self.fixed_us + (whole - self.fixed_us) / parts + leaving

    def sum_us(self, parts: int, latencies: Latencies) -> float:
        """Microseconds that the last part of a tile takes to add all of them up."""
        return latencies.add_part * parts * self.part_bytes / _MIB

    def storing_us(self, tile: Tile, latencies: Latencies) -> float:
        """Microseconds more of a tile that others wait for, or that adds to what is there."""
        us = 0.0
        if tile.group >= 0:
            us += latencies.produce
        if tile.commands:
            us += latencies.hand_over
        if tile.accumulates:
            us += latencies.accumulate * self.tile_bytes / _MIB
        return us


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
        SyncopateError: Nothing was measured with such operands, or K is not positive.
    """
    expect_count("k", k, 1)
    rate = machine.find_gemm_rate(block_m, block_n, block_k, dtype)
    itemsize = DTYPES[dtype].nbytes
    step_us = rate.step_us * machine.row_slowdown(k * itemsize)
    return KernelCost(
        rate.tile_us + -(-k // block_k) * step_us,
        tile_bytes=block_m * block_n * itemsize,
        fixed_us=rate.tile_us,
        part_bytes=block_m * block_n * 4,
    )


def predict_gemm_us(
    machine: Machine, cost: KernelCost, tiles: int, ctas: int | None = None, parts: int = 1
) -> float:
    """Microseconds of the kernel alone, with the launch: rounds of tiles, the last one of what is left.

    All CTAs of a tile of the last round end at the same time, and one of them then adds up.

    Args:
        machine: The machine.
        cost: Of a tile; the same for all.
        tiles: How many there are.
        ctas: CTAs that compute; all multiprocessors if it is left out.
        parts: Among how many of them each tile of the last round is split.

    Raises:
        SyncopateError: The cost is not the same for all tiles, or a number is negative, or there are no CTAs or parts.
    """
    if not isinstance(cost.tile_us, (int, float)):
        raise SyncopateError("cost: expects one number for all tiles; simulate the tables instead")
    ctas = machine.sms if ctas is None else ctas
    expect_count("tiles", tiles)
    expect_count("ctas", ctas, 1)
    expect_count("parts", parts, 1)
    rounds, last = divmod(tiles, ctas)
    us = rounds * cost.tile_us * machine.load_slowdown(ctas)
    if last:
        us += cost.part_us(0, parts, machine.latencies) * machine.load_slowdown(last * parts)
        if parts > 1:
            us += cost.sum_us(parts, machine.latencies) * machine.load_slowdown(last)
    return machine.latencies.launch + machine.sustained_us(us)
