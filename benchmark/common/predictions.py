"""What the cost model says of the rows of docs/results: their schedules, and the shapes that it is fitted on."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark.common.programs import Way
from benchmark.common.tables import Measured, read_table

from syncopate.kernels import GemmConfig
from syncopate.model import KernelCost, Machine, Timeline, gemm_cost, predict, predict_gemm_us
from syncopate.workloads import GemmKind, GemmWorkload

__all__ = ["FIT_SHAPES", "is_fitted", "predict_local_us", "predict_row", "read_rows"]

Shape = tuple[int, int, int]

RANKS = 2
"""Of the rows."""

TABLES = ("models-w2-h200.md", "matrix-w2-h200.md")

FIT_SHAPES = frozenset(
    [
        # The MLP of llama-7b among 8 and 2 ranks, that of qwen2-72b among 8, whose rows are not aligned to cache lines,
        # that of llama3-405b among 2 at M 8192, in which clocks drop, and the rows that are aligned to 16 bytes only.
        (8192, 1376, 4096), (2048, 1376, 4096), (8192, 5504, 4096), (2048, 5504, 4096),
        (8192, 3696, 8192), (2048, 3696, 8192), (8192, 26624, 16384), (8200, 3600, 8184),
        (8192, 4096, 1376), (2048, 4096, 1376), (8192, 4096, 5504), (2048, 4096, 5504),
        (8192, 8192, 3696), (2048, 8192, 3696), (8192, 16384, 26624),
        # One shape of each workload with all realizations but the all-gather, of which there is one only.
        (8192, 8192, 3584),
    ]
)  # fmt: skip
"""Shapes, as (M, N, K), on whose rows a machine may be fitted; for exchanges see `is_fitted`."""

FIT_EXCHANGE = (4096, 8192, 8192)
"""Of the two shapes of exchanges the one that no other workload has."""


def is_fitted(row: Measured) -> bool:
    """Whether a row may be used to fit a machine; all others are for validation only."""
    if row.workload.collective == "all_to_all":
        return row.shape == FIT_EXCHANGE
    return row.shape in FIT_SHAPES


def read_rows(folder: Path) -> Iterator[Measured]:
    """The rows that the model can say something of.

    The kernel by pointers has one shape, and a rate of its own.
    """
    for name in TABLES:
        for row in read_table(folder / name):
            if GemmWorkload(row.workload, *row.shape, RANKS).uses_tma:
                yield row


def choose_measured_config(m: int, n: int) -> GemmConfig:
    """The tiles of the rows, which have no small ones and no parts: those of which whole rounds take less time."""
    large = GemmConfig(parts=1)
    narrow = GemmConfig(block_n=128, num_warps=4, num_stages=4, parts=1)
    rounds = [-(-math.prod(config.tiles(m, n)) // 132) for config in (large, narrow)]
    return large if rounds[0] <= 0.535 * rounds[1] else narrow


def measured_splits(kind: GemmKind, shape: Shape) -> int:
    """The pieces of a transfer by size in the rows on two ranks: of 8 MiB or more, at most four, however few rows."""
    m, n, k = shape
    return min(max(m // RANKS * (k if kind.is_before else n) * 2 // (8 << 20), 1), 4)


def tile_cost(machine: Machine, shape: Shape) -> KernelCost:
    """The cost of the tiles of a shape."""
    m, n, k = shape
    config = choose_measured_config(m, n)
    return gemm_cost(
        machine, k, block_m=config.block_m, block_n=config.block_n, block_k=config.block_k
    )


def predict_local_us(machine: Machine, shape: Shape) -> float:
    """The local kernel alone."""
    m, n, _ = shape
    rows, columns = choose_measured_config(m, n).tiles(m, n)
    return predict_gemm_us(machine, tile_cost(machine, shape), rows * columns)


def predict_row(machine: Machine, row: Measured) -> Timeline:
    """The timeline of a row."""
    schedule = schedule_row(row.workload, row.shape, row.way)
    cost = tile_cost(machine, row.shape)
    return predict(schedule, cost, machine, in_place=row.way.zero_copy)


@functools.cache
def schedule_row(kind: GemmKind, shape: Shape, way: Way) -> Any:
    """The schedule of a row."""
    m, n, _ = shape
    splits = way.strategy.splits or measured_splits(kind, shape)
    strategy = dataclasses.replace(way.strategy, splits=splits)
    workload = GemmWorkload(kind, *shape, RANKS)
    return workload.schedule(strategy, choose_measured_config(m, n))
