"""Programs whose tiles compute parts of a sum: GEMM + reduce-scatter, GEMM + all-reduce."""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import compile_program
from sim_programs import SMALL

import syncopate
from syncopate.choices import Combine, Direction, Realization, Shots, TileOrder
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import Result

__all__ = ["SUMS", "Collective", "SumCase"]

LDST, ENGINE = Realization.LDST_COLOCATED, Realization.COPY_ENGINE
DEDICATED = Realization.LDST_DEDICATED
THREE_CTAS = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=3)


class Collective(enum.Enum):
    """What becomes of the parts."""

    REDUCE_SCATTER = "gemm-rs"
    ALL_REDUCE = "gemm-ar"
    ALL_REDUCE_ONCE = "gemm-ar-one-shot"


@dataclass(frozen=True)
class SumCase:
    """One program.

    Attributes:
        realization: Of the transfers between ranks.
        reducing: Of those that add.
        shape: M and N of the sum, and K of a rank.
        tolerance: Largest error that rounding parts and sums to the output's type explains.
    """

    collective: Collective
    combine: Combine
    direction: Direction
    realization: Realization
    reducing: Realization = LDST
    world: int = 2
    shape: tuple[int, int, int] = (256, 64, 64)
    dtype: str = "bf16"
    splits: int = 1
    order: TileOrder = TileOrder.ARRIVAL
    config: GemmConfig = SMALL
    tolerance: float = 2e-2

    @property
    def name(self) -> str:
        """What tells it from the others."""
        parts = [
            self.collective.value,
            self.combine.value,
            self.direction.value,
            self.realization.value,
            self.reducing.value,
            f"w{self.world}",
            "x".join(map(str, self.shape)),
            self.dtype,
            f"{self.splits}",
        ]
        parts += [self.order.value] if self.order is not TileOrder.ARRIVAL else []
        return "-".join(parts)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        m, n, k = self.shape
        plan = syncopate.Plan("sum", [self.world])
        parts = plan.buffer("c", (m, n), self.dtype)
        once = self.collective is Collective.ALL_REDUCE_ONCE
        strategy = syncopate.Strategy(
            direction=self.direction,
            realization=self.realization,
            splits=self.splits,
            order=self.order,
            comm_ctas=2,
            combine=self.combine,
            shots=Shots.ONE if once else Shots.TWO,
            reducing=self.reducing,
        )
        scatters = self.collective is Collective.REDUCE_SCATTER
        (reduce_scatter_tiles if scatters else all_reduce_tiles)(plan, parts, strategy)
        a = syncopate.Tensor("a", (m, k), self.dtype)
        return compile_program(
            gemm,
            plan,
            **bind_gemm(a, n, self.config, c=parts),
        )

    def error(self, result: Result) -> float:
        """How far the outputs are from a float64 reference, relative to its largest element."""
        worst = 0.0
        rows = -(-self.shape[0] // self.world)
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            pairs = zip(inputs["a"], inputs["b"], strict=True)
            total = sum(a.astype(np.float64) @ b.astype(np.float64).T for a, b in pairs)
            for rank, found in enumerate(outputs["c"]):
                expected = total
                if self.collective is Collective.REDUCE_SCATTER:
                    expected = total[rank * rows : (rank + 1) * rows]
                error = np.abs(found.astype(np.float64) - expected).max(initial=0)
                worst = float(np.maximum(worst, error / np.abs(total).max()))
        return worst


_RS, _AR = Collective.REDUCE_SCATTER, Collective.ALL_REDUCE
_ONCE = Collective.ALL_REDUCE_ONCE
_TILES, _ROLE, _THERE = Combine.TILES, Combine.ROLE, Combine.DESTINATION
TMA, TMA_DEDICATED = Realization.TMA_COLOCATED, Realization.TMA_DEDICATED


def _grid() -> tuple[SumCase, ...]:
    """Who adds, who moves and how, on 2, 3 and 4 ranks."""
    return tuple(
        SumCase(
            collective,
            combine,
            direction,
            realization,
            reducing=DEDICATED if realization is DEDICATED else LDST,
            world=world,
            shape=(128 * world, 64, 64),
            splits=2,
        )
        for collective, combine, direction, realization, world in itertools.product(
            (_RS, _AR), (_TILES, _ROLE), Direction, (LDST, DEDICATED, ENGINE), (2, 3, 4)
        )
    )


_PUSH, _PULL = Direction.PUSH, Direction.PULL
SUMS: tuple[SumCase, ...] = (
    *_grid(),
    SumCase(_RS, _TILES, _PUSH, LDST, world=8, shape=(512, 64, 64)),
    SumCase(_AR, _ROLE, _PUSH, ENGINE, world=8, shape=(512, 64, 64)),
    # Blocks and chunks that are no whole tiles; tiles of several blocks.
    SumCase(_RS, _ROLE, _PULL, LDST, world=3, shape=(200, 104, 72), splits=2),
    SumCase(_RS, _ROLE, _PUSH, ENGINE, world=3, shape=(200, 104, 72), splits=3),
    SumCase(_AR, _ROLE, _PULL, LDST, world=4, shape=(120, 72, 136)),
    SumCase(_AR, _ROLE, _PUSH, DEDICATED, world=3, shape=(130, 104, 72)),
    # Fewer rows than ranks.
    SumCase(_RS, _ROLE, _PUSH, LDST, world=4, shape=(5, 64, 64)),
    SumCase(_AR, _TILES, _PULL, LDST, shape=(1, 64, 64)),
    # A chunk ends within a tile, whose two parts arrive apart.
    SumCase(_RS, _TILES, _PUSH, ENGINE, shape=(384, 104, 72), splits=4, config=THREE_CTAS),
    SumCase(_AR, _TILES, _PULL, LDST, shape=(384, 104, 72), splits=4, config=THREE_CTAS),
    # Tiles for every other rank in turn.
    *(
        SumCase(
            collective, combine, _PUSH, LDST, world=4, shape=(256, 128, 64), order=TileOrder.PACED
        )
        for collective, combine in itertools.product((_RS, _AR), (_TILES, _ROLE))
    ),
    SumCase(_RS, _ROLE, _PULL, ENGINE, world=3, shape=(200, 104, 72), order=TileOrder.PACED),
    # Element types.
    SumCase(_RS, _TILES, _PUSH, LDST, dtype="f16", tolerance=3e-3),
    SumCase(_RS, _ROLE, _PULL, LDST, dtype="f16", tolerance=3e-3),
    SumCase(_RS, _TILES, _PUSH, ENGINE, shape=(256, 64, 32), dtype="f32", tolerance=1e-5),
    SumCase(_AR, _ROLE, _PULL, LDST, shape=(256, 64, 32), dtype="f32", tolerance=1e-5),
    SumCase(_RS, _ROLE, _PUSH, LDST, world=3, shape=(192, 64, 64), dtype="f8E5M2", tolerance=0.3),
    SumCase(_AR, _ROLE, _PULL, LDST, world=3, shape=(192, 64, 64), dtype="f8E4M3FN", tolerance=0.2),
    # All parts at all ranks, in one shot.
    *(
        SumCase(_ONCE, _ROLE, direction, realization, LDST, world, (40 * world, 64, 64), splits=2)
        for direction, realization, world in itertools.product(
            Direction, (LDST, DEDICATED, ENGINE, TMA), (2, 3)
        )
    ),
    SumCase(_ONCE, _ROLE, _PUSH, LDST, world=8, shape=(72, 104, 72)),
    SumCase(_ONCE, _ROLE, _PULL, LDST, shape=(37, 64, 32), dtype="f32", splits=3, tolerance=1e-5),
    # Others add at the destination.
    *(
        SumCase(_RS, _THERE, _PUSH, realization, realization, 3, (192, 64, 64), splits=splits)
        for realization, splits in itertools.product((LDST, DEDICATED, TMA, TMA_DEDICATED), (1, 2))
    ),
    SumCase(_RS, _THERE, _PUSH, LDST, world=4, shape=(130, 104, 72), splits=2),
    SumCase(_AR, _THERE, _PUSH, LDST, world=3, shape=(200, 104, 72), dtype="f16", tolerance=3e-3),
    SumCase(_AR, _THERE, _PUSH, TMA, TMA, 3, (200, 104, 32), "f32", tolerance=1e-5),
)
