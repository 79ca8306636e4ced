"""Programs that exchange blocks before or after a GEMM, and those that move something on both sides of it."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import compile_program
from sim_programs import SMALL
from sim_table import TRANSFERS

import syncopate
from syncopate.choices import Combine, Direction, Realization
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_to_all_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import Result

__all__ = ["EXCHANGES", "Exchange", "ExchangeCase"]


class Exchange(enum.Enum):
    """What moves around the GEMM."""

    A2A_GEMM = "a2a-gemm"
    GEMM_A2A = "gemm-a2a"
    A2A_GEMM_A2A = "a2a-gemm-a2a"
    AG_GEMM_RS = "ag-gemm-rs"


@dataclass(frozen=True)
class ExchangeCase:
    """One program; `shape` is M, N and K of one rank's GEMM."""

    exchange: Exchange
    strategy: syncopate.Strategy
    world: int = 2
    shape: tuple[int, int, int] = (256, 64, 64)
    config: GemmConfig = SMALL

    @property
    def name(self) -> str:
        """What tells it from the others."""
        parts = [self.exchange.value, self.strategy.realization, self.strategy.direction]
        words = [getattr(part, "value", part) for part in parts]
        words += [f"w{self.world}", "x".join(map(str, self.shape)), f"{self.config.num_ctas}ctas"]
        combine = Combine(self.strategy.combine or Combine.TILES)
        return "-".join([*words, combine.value])

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        m, n, k = self.shape
        plan = syncopate.Plan("exchange", [self.world])
        a: Any = syncopate.Tensor("a", (m, k), "bf16")
        c: Any = None
        if self.exchange is Exchange.AG_GEMM_RS:
            a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
            plan.all_gather(a)
            c = plan.buffer("c", (m, n), "bf16")
            reduce_scatter_tiles(plan, c, self.strategy)
        if self.exchange in (Exchange.A2A_GEMM, Exchange.A2A_GEMM_A2A):
            given = plan.buffer("a", (m, k), "bf16")
            a = plan.buffer("arrived", (m, k), "bf16")
            for rank in range(self.world):
                plan.input(given[:], rank=rank)
            plan.all_to_all(given, a)
        if self.exchange in (Exchange.GEMM_A2A, Exchange.A2A_GEMM_A2A):
            c = plan.buffer("c", (m, n), "bf16")
            all_to_all_tiles(plan, c, plan.buffer("returned", (m, n), "bf16"))
        return compile_program(
            gemm, plan, **bind_gemm(a, n, self.config, c=c), strategy=self.strategy
        )

    def error(self, result: Result) -> float:
        """How far the outputs are from a float64 reference, relative to its largest element."""
        worst = 0.0
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            given = [part.astype(np.float64) for part in inputs["a"]]
            weights = [part.astype(np.float64) for part in inputs["b"]]
            expected = self.expect(given, weights)
            (found,) = outputs.values()
            for right, out in zip(expected, found, strict=True):
                difference = np.abs(out.astype(np.float64) - right).max()
                worst = float(np.maximum(worst, difference / np.abs(right).max()))
        return worst

    def expect(self, given: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """What the ranks get, from arrays of numpy or tensors of torch."""
        if self.exchange is Exchange.AG_GEMM_RS:
            return self._cut(sum(_join(given) @ b.T for b in weights))
        if self.exchange is not Exchange.GEMM_A2A:
            given = self._exchange(given)
        products = [a @ b.T for a, b in zip(given, weights, strict=True)]
        return products if self.exchange is Exchange.A2A_GEMM else self._exchange(products)

    def _cut(self, whole: Any) -> list[Any]:
        rows = -(-len(whole) // self.world)
        return [whole[rank * rows : (rank + 1) * rows] for rank in range(self.world)]

    def _exchange(self, parts: Sequence[Any]) -> list[Any]:
        """Block j of part i becomes block i of part j."""
        blocks = [self._cut(part) for part in parts]
        return [_join([mine[rank] for mine in blocks]) for rank in range(self.world)]


def _join(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(list(parts))


def _strategy(realization: Realization, direction: Direction, splits: int) -> syncopate.Strategy:
    return syncopate.Strategy(
        realization=realization, direction=direction, splits=splits, comm_ctas=2
    )


def _grid() -> tuple[ExchangeCase, ...]:
    """Every realization, and both directions, before and after a GEMM."""
    cases = []
    for number, realization in enumerate(TRANSFERS):
        for direction in Direction:
            for exchange in (Exchange.A2A_GEMM, Exchange.GEMM_A2A):
                world = 2 + number % 2
                cases.append(
                    ExchangeCase(
                        exchange,
                        _strategy(realization, direction, 2),
                        world=world,
                        shape=(128 * world, 64, 64),
                    )
                )
    return tuple(cases)


_LDST, _PUSH = Realization.LDST_COLOCATED, Direction.PUSH
_ONE_CTA = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=1)

EXCHANGES: tuple[ExchangeCase, ...] = (
    *_grid(),
    ExchangeCase(Exchange.A2A_GEMM_A2A, _strategy(_LDST, _PUSH, 1), world=3, shape=(192, 64, 64)),
    ExchangeCase(Exchange.GEMM_A2A, _strategy(_LDST, _PUSH, 1), world=3, shape=(201, 104, 72)),
    ExchangeCase(
        Exchange.GEMM_A2A,
        _strategy(Realization.COPY_ENGINE, Direction.PULL, 3),
        world=4,
        shape=(248, 72, 136),
    ),
    ExchangeCase(
        Exchange.AG_GEMM_RS, _strategy(_LDST, _PUSH, 1), shape=(256, 64, 64), config=_ONE_CTA
    ),
    ExchangeCase(
        Exchange.AG_GEMM_RS, _strategy(_LDST, Direction.PULL, 2), world=3, shape=(384, 104, 72)
    ),
    ExchangeCase(
        Exchange.AG_GEMM_RS,
        dataclasses.replace(_strategy(_LDST, _PUSH, 2), combine=Combine.ROLE),
        world=3,
        shape=(200, 104, 72),
    ),
)
