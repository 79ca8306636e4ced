"""Builds the programs of benchmarks and GPU tests: the one place there that calls `syncopate.compile`."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import syncopate
from syncopate.choices import Combine, Direction, Realization, names_of
from syncopate.kernels import (
    GemmConfig,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles
from syncopate.runtime.interface import TensorParam

COLOCATED = ("ldst_colocated", "tma_colocated")
NCCL = Realization.NCCL.value
REALIZATIONS = tuple(name for name in names_of(Realization)[::-1] if name != NCCL)
DIRECTIONS = names_of(Direction)

ITEM_BYTES = 2  # bf16, f16


class Workload(enum.Enum):
    """A GEMM and what moves before or after it."""

    AG_GEMM = "ag_gemm"
    GEMM_RS = "gemm_rs"
    GEMM_AR = "gemm_ar"
    A2A_GEMM = "a2a_gemm"
    GEMM_A2A = "gemm_a2a"

    @property
    def calls(self) -> bool:
        """Whether what moves can be calls of a library."""
        return self.sums or self is Workload.GEMM_A2A

    @property
    def sums(self) -> bool:
        """Whether ranks compute parts of a sum."""
        return self in (Workload.GEMM_RS, Workload.GEMM_AR)


@dataclass(frozen=True)
class Variant:
    """One way to run a plan.

    Attributes:
        realization: Of every transfer between ranks; one of `REALIZATIONS`, or of the collective; `NCCL`.
        direction: `push` or `pull`.
        splits: Pieces that each transfer is cut into; 0 is by size.
        combine: Who adds the parts of a sum.
        comm_ctas: CTAs of a dedicated realization or of the library, taken from those that compute.
        pause: Nanoseconds between the blocks that a communication role stores to another rank.
        zero_copy: The input is written into the symmetric buffer by whoever makes it.
        waves: Waves of tiles in each library call, as a strategy takes them.
        slots: What such a call takes at a time, `rows` or `tiles`.
    """

    realization: str = "ldst_colocated"
    direction: str = "push"
    splits: int = 0
    combine: Combine = Combine.TILES
    comm_ctas: int = 8
    pause: int = 500
    zero_copy: bool = False
    waves: tuple[int, ...] = ()
    slots: str = "rows"

    @property
    def dedicated(self) -> bool:
        """Whether CTAs of their own carry transfers out."""
        return self.realization.endswith("_dedicated")

    @property
    def name(self) -> str:
        """For tables and messages."""
        default = Variant()
        if self.realization == NCCL:
            waves = "+".join(map(str, self.waves)) or "default"
            return f"{NCCL}/{self.slots}/{waves} waves/{self.comm_ctas} CTAs"
        parts = [self.realization, self.direction, str(self.splits or "by size")]
        parts += [f"sum by {self.combine.value}"] if self.combine is not default.combine else []
        parts += [f"{self.comm_ctas} CTAs"] if self.dedicated else []
        parts += [f"pause {self.pause}"] if self.pause != default.pause else []
        parts += ["zero-copy"] if self.zero_copy else []
        return "/".join(parts)


def variants(
    workload: Workload,
    realizations: Sequence[str],
    splits: Sequence[int],
    comm_ctas: Sequence[int],
    pauses: Sequence[int],
    waves: Sequence[tuple[int, ...]] = ((),),
    slots: Sequence[str] = ("rows", "tiles"),
) -> list[Variant]:
    """Every way that a suite compares, from plain tensors."""
    ways = []
    if NCCL in realizations and workload.calls:
        combine = Combine.STRATEGY if workload.sums else Combine.TILES
        ways = [
            Variant(NCCL, combine=combine, comm_ctas=ctas, waves=groups, slots=shape)
            for ctas, groups, shape in itertools.product(comm_ctas, waves, slots)
        ]
    realizations = [name for name in realizations if name != NCCL]
    for name, direction, pieces, pause in itertools.product(
        realizations, DIRECTIONS, splits, pauses
    ):
        base = Variant(name, direction, pieces, pause=pause)
        counts = comm_ctas if base.dedicated else [base.comm_ctas]
        these = [dataclasses.replace(base, comm_ctas=count) for count in counts]
        ways += these
        if workload.sums and name != "copy_engine" and direction == "push":
            ways += [dataclasses.replace(way, combine=Combine.DESTINATION) for way in these]
        if workload.sums and name == "ldst_colocated" and direction == "pull":
            ways.append(dataclasses.replace(base, combine=Combine.ROLE))
    return ways


def tma_can_address(*row_elements: int) -> bool:
    """Whether rows of these many 2-byte elements start at multiples of 16 bytes."""
    return all(elements * ITEM_BYTES % 16 == 0 for elements in row_elements)


def choose_config(m: int, n: int, k: int) -> GemmConfig:
    """Tiles for a GEMM."""
    return GemmConfig.choose(m, n, 2 * k) if tma_can_address(n, k) else GemmConfig(block_n=128)


def build_program(
    m: int,
    n: int,
    k: int,
    variant: Variant,
    *,
    world_size: int,
    workload: Workload = Workload.AG_GEMM,
    algorithm: str = "direct",
    dtype: str = "bf16",
    config: GemmConfig | None = None,
    timeout: float = 60.0,
) -> Any:
    """Compiles C[m, n] = A[m, k] · B[n, k]ᵀ with what a workload moves before or after it.

    Args:
        m: Rows of A and C.
        n: Rows of B, this rank's.
        k: Columns of A and B, this rank's.
        variant: How it runs.
        world_size: Number of ranks.
        workload: What is moved.
        algorithm: Of an all-gather, as `syncopate.Strategy` takes it.
        dtype: Of A, B and C.
        config: Tiles; by default those of `choose_config`. Its CTAs, if it says how many, are to carry out transfers
            as well.
        timeout: Limit of device waits in seconds.

    Returns:
        A program with the input or tensor `a`, the tensor `b`, and, for an all-gather or an all-to-all before the
        GEMM, `c`.
    """
    config = config or choose_config(m, n, k)
    comm_ctas = variant.comm_ctas
    if config.num_ctas is not None and (variant.dedicated or variant.realization == NCCL):
        comm_ctas = min(comm_ctas, config.num_ctas // 2)
        config = dataclasses.replace(config, num_ctas=config.num_ctas - comm_ctas)
    strategy = dataclasses.replace(
        make_strategy(variant, workload, config), algorithm=algorithm, comm_ctas=comm_ctas
    )
    plan, bound = plan_workload((m, n, k), strategy, world_size, workload, dtype)
    pointers = not tma_can_address(n, k)
    return syncopate.compile(
        gemm_pointers if pointers else gemm,
        plan,
        **(bind_gemm_pointers if pointers else bind_gemm)(bound.pop("a"), n, config, **bound),
        strategy=strategy,
        target="sm_90",
        timeout=timeout,
    )


def make_strategy(variant: Variant, workload: Workload, config: GemmConfig) -> syncopate.Strategy:
    """The choices of a variant."""
    return syncopate.Strategy(
        direction=variant.direction,
        realization=variant.realization,
        splits=variant.splits,
        group_m=config.group_m,
        pause=variant.pause,
        comm_ctas=variant.comm_ctas,
        waves=variant.waves,
        slots=variant.slots,
        combine=variant.combine if workload.sums else None,
        reducing="ldst_dedicated" if variant.dedicated else "ldst_colocated",
    )


def plan_workload(
    shape: tuple[int, int, int],
    strategy: syncopate.Strategy,
    world_size: int,
    workload: Workload,
    dtype: str = "bf16",
) -> tuple[Any, dict[str, Any]]:
    """The plan of a workload, and what is A, and, where it is the plan's, C.

    Args:
        shape: M, N and K of one rank's GEMM.
        strategy: How.
        world_size: Number of ranks.
        workload: What is moved.
        dtype: Of A, B and C.
    """
    plan = syncopate.Plan(workload.value, mesh=[world_size])
    return plan, _ADDITIONS[workload](plan, shape, dtype, strategy)


def _add_all_gather(plan: Any, shape: Any, dtype: str, strategy: Any) -> dict[str, Any]:
    m, _, k = shape
    a = plan.buffer("a", (m, k), dtype, shard_axis=0)
    plan.all_gather(a, axis=0)
    return {"a": a}


def _add_sum(plan: Any, shape: Any, dtype: str, strategy: Any) -> dict[str, Any]:
    m, n, k = shape
    c = plan.buffer("c", (m, n), dtype)
    (reduce_scatter_tiles if plan.name == Workload.GEMM_RS.value else all_reduce_tiles)(
        plan, c, strategy
    )
    return {"a": syncopate.Tensor("a", (m, k), dtype), "c": c}


def _add_exchange_before(plan: Any, shape: Any, dtype: str, strategy: Any) -> dict[str, Any]:
    m, _, k = shape
    mine, received = plan.buffer("a", (m, k), dtype), plan.buffer("received", (m, k), dtype)
    for rank in range(plan.world_size):
        plan.input(mine[:], rank=rank)
    plan.all_to_all(mine, received)
    return {"a": received}


def _add_exchange_after(plan: Any, shape: Any, dtype: str, strategy: Any) -> dict[str, Any]:
    m, n, k = shape
    c, received = plan.buffer("c", (m, n), dtype), plan.buffer("received", (m, n), dtype)
    all_to_all_tiles(plan, c, received)
    return {"a": syncopate.Tensor("a", (m, k), dtype), "c": c}


_ADDITIONS = {
    Workload.AG_GEMM: _add_all_gather,
    Workload.GEMM_RS: _add_sum,
    Workload.GEMM_AR: _add_sum,
    Workload.A2A_GEMM: _add_exchange_before,
    Workload.GEMM_A2A: _add_exchange_after,
}
"""What a workload adds to a plan; each gives what is A, and, where it is the plan's, C."""


def tensor_names(program: Any) -> tuple[str, str, str]:
    """The keywords of a built all-gather program's gathered input, its weight and its output."""
    tensors = [param for param in program.params if isinstance(param, TensorParam)]
    output = next(param.tensor for param in tensors if param.output)
    weight = next(param.tensor for param in tensors if not param.output)
    return program.buffers[0].name, weight, output
