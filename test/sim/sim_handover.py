"""Programs whose tiles hand what they compute over to the warps beside them: every tile goes to every rank."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import compile_program
from sim_programs import SMALL

import syncopate
from syncopate.choices import Realization
from syncopate.kernels import (
    GemmConfig,
    bind_gemm,
    bind_gemm_pointers,
    gemm,
    gemm_pointers,
)
from syncopate.sim.simulate import Result

__all__ = ["HANDOVERS", "HandoverCase", "spread_tiles"]

LDST, TMA = Realization.LDST_COLOCATED, Realization.TMA_COLOCATED
ENGINE, DEDICATED = Realization.COPY_ENGINE, Realization.LDST_DEDICATED
ONE_CTA = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=1)
THREE_CTAS = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=3)


def spread_tiles(
    plan: syncopate.Plan,
    part: Any,
    whole: Any,
    block: tuple[int, int],
    realization: str,
    made: list[Any],
) -> None:
    """Puts each block of what a rank's tiles compute, which `made` says, into its rows of a buffer of every rank."""
    (m, n), (block_m, block_n) = part.shape, block
    for rank in range(plan.world_size):
        for row in range(0, m, block_m):
            for column in range(0, n, block_n):
                end, last = min(row + block_m, m), min(column + block_n, n)
                for peer in range(plan.world_size):
                    plan.put(
                        part[row:end, column:last],
                        whole[rank * m + row : rank * m + end, column:last],
                        src_rank=rank,
                        dst_rank=peer,
                        after=[made[rank]],
                        realization=realization,
                    )


@dataclass(frozen=True)
class HandoverCase:
    """One program: the rows of a rank's A times Bᵀ, of which every rank gets all.

    Attributes:
        realization: Of the transfers that tiles hand over.
        shape: M and N of what a rank computes, and K.
        gathering: Realization of an all-gather of A before, so that every rank computes the same rows; None without.
        also: Realization of transfers that move the same tiles once more, by rows of them.
        pointers: Whether tiles are stored by ordinary instructions rather than by TMA.
        tolerance: Largest error that rounding explains.
    """

    realization: Realization
    world: int = 2
    shape: tuple[int, int, int] = (128, 128, 64)
    config: GemmConfig = SMALL
    gathering: Realization | None = None
    also: Realization | None = None
    pointers: bool = False
    tolerance: float = 2e-2

    @property
    def name(self) -> str:
        """What tells it from the others."""
        parts = [self.realization.value, f"w{self.world}", "x".join(map(str, self.shape))]
        parts += [f"{self.config.num_ctas} ctas"]
        parts += [f"gathered by {self.gathering.value}"] if self.gathering else []
        parts += [f"also by {self.also.value}"] if self.also else []
        parts += ["pointers"] if self.pointers else []
        return "-".join(parts)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        m, n, k = self.shape
        plan = syncopate.Plan("spread", [self.world])
        if self.gathering is None:
            a: Any = syncopate.Tensor("a", (m, k), "bf16")
        else:
            a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
            plan.all_gather(a)
        part = plan.buffer("c", (m, n), "bf16")
        whole = plan.buffer("d", (self.world * m, n), "bf16")
        block = (self.config.block_m, self.config.block_n)
        made = [plan.produce(part[:], rank=rank) for rank in range(self.world)]
        spread_tiles(plan, part, whole, block, self.realization.value, made)
        buffers = [whole]
        if self.also is not None:
            again = plan.buffer("e", (self.world * m, n), "bf16")
            rows = (self.config.block_m, n)
            spread_tiles(plan, part, again, rows, self.also.value, made)
            buffers.append(again)
        for buffer in buffers:
            for rank in range(self.world):
                plan.output(buffer[:], rank=rank)
        strategy = syncopate.Strategy(
            realization=self.gathering or self.realization, comm_ctas=2, direction="push"
        )
        bind = (bind_gemm_pointers if self.pointers else bind_gemm)(a, n, self.config, c=part)
        kernel = gemm_pointers if self.pointers else gemm
        return compile_program(kernel, plan, **bind, strategy=strategy)

    def error(self, result: Result) -> float:
        """How far the outputs are from a float64 reference, relative to its largest element."""
        worst = 0.0
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            rows = [a.astype(np.float64) for a in inputs["a"]]
            if self.gathering is not None:
                rows = [np.concatenate(rows)] * self.world
            pairs = zip(rows, inputs["b"], strict=True)
            expected = np.concatenate([a @ b.astype(np.float64).T for a, b in pairs])
            for name in ("d", "e") if self.also else ("d",):
                for found in outputs[name]:
                    error = np.abs(found.astype(np.float64) - expected).max()
                    worst = float(np.maximum(worst, error / np.abs(expected).max()))
        return worst


HANDOVERS: tuple[HandoverCase, ...] = (
    *(HandoverCase(realization, world) for realization in (LDST, TMA) for world in (2, 3)),
    # More tiles of a CTA than the ring has slots.
    HandoverCase(LDST, shape=(192, 192, 64), config=ONE_CTA),
    HandoverCase(TMA, shape=(192, 192, 64), config=ONE_CTA),
    # Tiles that are cut off; CTAs with fewer tiles than others, or none.
    HandoverCase(LDST, 3, shape=(200, 104, 72), config=THREE_CTAS),
    HandoverCase(TMA, 3, shape=(136, 104, 72), config=THREE_CTAS),
    HandoverCase(LDST, shape=(64, 72, 64), config=THREE_CTAS),
    # Tiles that others wait for besides.
    HandoverCase(LDST, also=ENGINE),
    HandoverCase(TMA, 3, also=DEDICATED),
    HandoverCase(TMA, also=LDST),
    HandoverCase(LDST, 3, also=LDST),
    # Tiles that are stored by ordinary instructions.
    HandoverCase(LDST, 3, shape=(200, 104, 72), config=THREE_CTAS, pointers=True),
    HandoverCase(TMA, shape=(192, 192, 64), config=ONE_CTA, pointers=True),
    # Tiles that wait for what the same role brings, or another one.
    HandoverCase(LDST, gathering=LDST),
    HandoverCase(TMA, 3, gathering=TMA, shape=(192, 64, 64)),
    HandoverCase(TMA, gathering=LDST),
    HandoverCase(LDST, gathering=ENGINE),
)
"""Sizes are small; tiles are many enough that rings are used again."""
