"""The table of good programs: what the simulator must find sound, whatever the interleaving, and right in its results.

A new workload, realization or algorithm is one more line of PROGRAMS. `check` runs one program with one seed; the test
suite calls it with a few seeds of each program, `sim_soak.py` with as many as it is asked for.
"""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_attention import attention_error, build_attention
from sim_programs import SMALL, ag_gemm, largest_error

from syncopate import Strategy
from syncopate.choices import Realization, TileOrder
from syncopate.kernels import GemmConfig
from syncopate.sim.scheduler import Policy
from syncopate.sim.simulate import Result, simulate

__all__ = ["COMMON_WAYS", "PROGRAMS", "TRANSFERS", "Case", "Way", "Workload", "check", "options_of"]

TINY = GemmConfig(block_m=64, block_n=32, block_k=32, num_warps=4, num_ctas=2)
ONE_CTA = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=1)
THREE_CTAS = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=3)
LDST, ENGINE = Realization.LDST_COLOCATED, Realization.COPY_ENGINE
TMA_COLOCATED, TMA_DEDICATED = Realization.TMA_COLOCATED, Realization.TMA_DEDICATED
DEDICATED = Realization.LDST_DEDICATED
TRANSFERS = tuple(kind for kind in Realization if kind is not Realization.NCCL)
"""Those that one rank carries out; what NCCL does has tests of its own."""


class Way(enum.Enum):
    """An algorithm of collectives with its direction."""

    PUSH = "direct push"
    PULL = "direct pull"
    RING_PUSH = "ring push"
    RING_PULL = "ring pull"
    BOTH_WAYS_PUSH = "bidirectional_ring push"
    BOTH_WAYS_PULL = "bidirectional_ring pull"
    DOUBLING_PUSH = "recursive_doubling push"
    DOUBLING_PULL = "recursive_doubling pull"


PUSH, PULL, RING_PUSH, RING_PULL = Way.PUSH, Way.PULL, Way.RING_PUSH, Way.RING_PULL
COMMON_WAYS = (PUSH, PULL, RING_PUSH, RING_PULL)


class Workload(enum.Enum):
    """What a program computes."""

    AG_GEMM = "ag-gemm"
    AG_GEMM_POINTERS = "ag-gemm-pointers"
    AG_ATTENTION = "ag-attention"
    AG_ATTENTION_CAUSAL = "ag-attention-causal"


@dataclass(frozen=True)
class Case:
    """One good program.

    Attributes:
        world: Number of ranks.
        shape: M, N and K of a GEMM.
        mix: Realizations that transfers have in turn, instead of one for all.
        comm_ctas: CTAs of dedicated realizations.
        tolerance: Largest error that rounding to the output's type explains.
    """

    workload: Workload = Workload.AG_GEMM
    realization: Realization = LDST
    algorithm: Way = PUSH
    world: int = 2
    shape: tuple[int, int, int] = (128, 64, 128)
    dtype: str = "bf16"
    out_dtype: str | None = None
    splits: int = 1
    order: TileOrder = TileOrder.ARRIVAL
    config: GemmConfig = SMALL
    target: str = "sm_90"
    mix: tuple[Realization, ...] = ()
    comm_ctas: int = 2
    tolerance: float = 5e-3

    @property
    def name(self) -> str:
        """What tells it from the others, in words joined by dashes."""
        parts = [
            self.workload.value,
            "+".join(realization.value for realization in self.mix or (self.realization,)),
            self.algorithm.value.replace(" ", "_"),
            f"w{self.world}",
        ]
        if not self.is_attention:
            parts += ["x".join(map(str, self.shape)), self.dtype]
        parts += [self.out_dtype] if self.out_dtype else []
        parts += [f"{self.splits} splits"] if self.splits > 1 else []
        parts += [self.order.value] if self.order is not TileOrder.ARRIVAL else []
        parts += [f"{self.config.num_ctas} ctas"] if self.config.num_ctas != SMALL.num_ctas else []
        parts += [f"{self.comm_ctas} comm ctas"] if self.comm_ctas != 2 else []
        parts += [self.target] if self.target != "sm_90" else []
        return "-".join(parts)

    @property
    def is_attention(self) -> bool:
        """Whether the workload is attention."""
        return self.workload in (Workload.AG_ATTENTION, Workload.AG_ATTENTION_CAUSAL)

    @property
    def has_pointers(self) -> bool:
        """Whether the kernel loads and stores through pointers rather than TMA."""
        return self.workload is Workload.AG_GEMM_POINTERS

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        way, direction = self.algorithm.value.split()
        strategy = Strategy(way, direction, self.realization, self.splits, self.order)
        if self.is_attention:
            causal = self.workload is Workload.AG_ATTENTION_CAUSAL
            return build_attention(causal, strategy, self.world)
        return ag_gemm(
            self.realization.value,
            self.algorithm.value,
            self.world,
            self.shape,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
            splits=self.splits,
            order=self.order.value,
            config=self.config,
            pointers=self.has_pointers,
            target=self.target,
            mix=tuple(realization.value for realization in self.mix),
            comm_ctas=self.comm_ctas,
        )

    def error(self, result: Result) -> float:
        """How far the outputs are from a float64 reference."""
        if self.is_attention:
            return attention_error(result, self.workload is Workload.AG_ATTENTION_CAUSAL)
        return largest_error(result)


def _grid() -> tuple[Case, ...]:
    """Every realization with the common algorithms on 2, 3, 4 and 8 ranks, and with the others on 4."""
    return tuple(
        Case(realization=realization, algorithm=algorithm, world=world, shape=(64 * world, 64, 128))
        for realization, algorithm, world in itertools.product(TRANSFERS, Way, (2, 3, 4, 8))
        if algorithm in COMMON_WAYS or world == 4
    )


_POINTERS = Workload.AG_GEMM_POINTERS
PROGRAMS: tuple[Case, ...] = (
    *_grid(),
    # Shards and chunks that are no whole tiles.
    Case(algorithm=PUSH, world=3, shape=(200, 104, 136), splits=2),
    Case(realization=ENGINE, algorithm=PUSH, world=3, shape=(200, 104, 136), splits=2),
    Case(algorithm=RING_PULL, world=4, shape=(164, 72, 88), splits=3),
    Case(realization=ENGINE, algorithm=PULL, world=4, shape=(164, 72, 88), splits=3),
    # Tiles that read chunks of several ranks.
    Case(world=4, shape=(120, 104, 136), splits=2),
    Case(realization=ENGINE, world=4, shape=(120, 104, 136), splits=2),
    # In the order of their rows a rank's first tile is another rank's, so the pipeline's prologue waits.
    Case(algorithm=PUSH, shape=(192, 64, 192), order=TileOrder.GROUPED),
    Case(algorithm=RING_PULL, world=3, shape=(192, 64, 192), order=TileOrder.GROUPED),
    Case(
        realization=ENGINE,
        algorithm=RING_PULL,
        world=3,
        shape=(192, 64, 192),
        order=TileOrder.GROUPED,
    ),
    # The rows of other ranks in turn.
    Case(algorithm=PUSH, world=4, shape=(256, 64, 192), order=TileOrder.PACED),
    Case(algorithm=RING_PULL, world=3, shape=(200, 104, 136), order=TileOrder.PACED),
    Case(algorithm=RING_PUSH, world=3, shape=(192, 128, 128), config=ONE_CTA),
    Case(algorithm=PULL, world=3, shape=(192, 128, 128), config=THREE_CTAS),
    # More blocks of a command than a ring has slots; rows of several blocks; what is left behind the last whole row.
    Case(realization=TMA_COLOCATED, shape=(384, 64, 256)),
    Case(realization=TMA_COLOCATED, algorithm=PULL, world=3, shape=(129, 64, 680)),
    Case(realization=TMA_COLOCATED, algorithm=RING_PULL, world=4, shape=(164, 72, 88), splits=3),
    Case(realization=TMA_DEDICATED, algorithm=RING_PUSH, world=3, shape=(200, 104, 136), splits=2),
    # Element types.
    Case(shape=(128, 64, 64), dtype="f16", config=TINY, tolerance=1e-3),
    Case(realization=ENGINE, shape=(130, 72, 80), dtype="f16", config=TINY, tolerance=1e-3),
    Case(shape=(128, 64, 64), dtype="f8E4M3FN", out_dtype="bf16", config=TINY),
    Case(shape=(128, 64, 64), dtype="f8E5M2", out_dtype="f16", config=TINY, tolerance=1e-3),
    Case(shape=(128, 64, 64), dtype="f32", config=TINY, tolerance=1e-6),
    Case(
        realization=ENGINE,
        algorithm=PULL,
        shape=(130, 60, 68),
        dtype="f32",
        config=TINY,
        tolerance=1e-6,
    ),
    # Kernels on pointers.
    Case(_POINTERS, LDST, PUSH, shape=(128, 64, 128)),
    Case(_POINTERS, LDST, RING_PULL, world=3, shape=(130, 70, 51), splits=2),
    Case(_POINTERS, TMA_COLOCATED, PUSH, shape=(128, 64, 128)),
    Case(_POINTERS, ENGINE, PULL, world=3, shape=(130, 70, 51)),
    Case(_POINTERS, ENGINE, PUSH, shape=(128, 64, 128), target="sm_80"),
    Case(
        _POINTERS,
        ENGINE,
        RING_PUSH,
        world=3,
        shape=(130, 70, 51),
        dtype="f16",
        target="sm_80",
        tolerance=1e-3,
    ),
    # CTAs for communication alone: few, one, more than there are blocks to copy; a GPU without warp specialization.
    Case(realization=DEDICATED, algorithm=PULL, world=3, shape=(192, 128, 128), config=THREE_CTAS),
    Case(realization=DEDICATED, algorithm=PULL, world=3, shape=(200, 104, 136), comm_ctas=1),
    Case(realization=DEDICATED, algorithm=RING_PUSH, shape=(130, 72, 80), config=TINY, comm_ctas=5),
    Case(_POINTERS, DEDICATED, RING_PULL, world=3, shape=(130, 70, 51), splits=2),
    Case(_POINTERS, DEDICATED, PULL, shape=(128, 64, 128), target="sm_80"),
    Case(Workload.AG_ATTENTION, DEDICATED, PULL, world=4),
    # Several realizations in one plan.
    *(
        Case(mix=(DEDICATED, LDST, ENGINE), algorithm=algorithm, world=3, shape=(200, 104, 136))
        for algorithm in COMMON_WAYS
    ),
    Case(mix=(LDST, DEDICATED), algorithm=PULL, world=4, shape=(164, 72, 88)),
    Case(mix=(ENGINE, DEDICATED), algorithm=RING_PULL, world=4, shape=(164, 72, 88)),
    Case(mix=(LDST, ENGINE), algorithm=RING_PUSH, world=3, shape=(192, 128, 128)),
    Case(mix=(TMA_COLOCATED, LDST), algorithm=PULL, world=4, shape=(164, 72, 88)),
    Case(mix=(TMA_DEDICATED, DEDICATED), algorithm=PUSH, world=3, shape=(200, 104, 136)),
    Case(
        mix=(TMA_COLOCATED, ENGINE, TMA_DEDICATED),
        algorithm=RING_PULL,
        world=4,
        shape=(164, 72, 88),
    ),
    Case(mix=(DEDICATED, TMA_COLOCATED, LDST, TMA_DEDICATED), world=4, shape=(256, 64, 128)),
    # Attention.
    Case(Workload.AG_ATTENTION, LDST, PUSH),
    Case(Workload.AG_ATTENTION, TMA_DEDICATED, RING_PULL),
    Case(Workload.AG_ATTENTION, ENGINE, PULL, world=4),
    Case(Workload.AG_ATTENTION_CAUSAL, LDST, RING_PULL, world=4),
    Case(Workload.AG_ATTENTION_CAUSAL, ENGINE, PUSH),
)
"""Good programs. Sizes are small: what matters is in how many ways their parts can be interleaved."""

_POLICIES = (Policy.RANDOM, Policy.LATE, Policy.RANDOM, Policy.EARLY, Policy.RANDOM)
_FIRST_EPOCHS = {3: 2**31 - 2, 4: 2**32 - 2, 8: 2**31 - 1, 9: 2**30}


def options_of(seed: int) -> dict[str, Any]:
    """What `simulate` is given with a seed: policies in turn, inputs staged or not, signals that wrap around or not."""
    options: dict[str, Any] = {
        "calls": 2 + seed % 2,
        "seed": seed,
        "scheduler": _POLICIES[seed % len(_POLICIES)],
        "staged": seed % 4 == 2,
    }
    if seed % 12 in _FIRST_EPOCHS:
        options["first_epoch"] = _FIRST_EPOCHS[seed % 12]
    return options


def check(case: Case, seed: int) -> int:
    """Runs a program with a seed; returns how many steps the scheduler took.

    Raises:
        AssertionError: Something was found, or a result is wrong.
    """
    options = options_of(seed)
    result = simulate(case.build(), **options)
    if not result.verdict.ok:
        raise AssertionError(f"{case.name}, seed {seed}: {result.verdict}")
    if len(result.outputs) != options["calls"]:
        raise AssertionError(f"{case.name}, seed {seed}: only {len(result.outputs)} calls ended")
    error = case.error(result)
    if not np.isfinite(error) or error > case.tolerance:
        raise AssertionError(f"{case.name}, seed {seed}: wrong results, by {error:.2e}")
    return result.verdict.steps
