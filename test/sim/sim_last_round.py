"""Programs whose kernel splits the tiles of its last round over K: as consumer, as producer, as both."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import compile_program
from sim_gemms import GemmCase, Program

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import Activation, GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import reduce_scatter_tiles

__all__ = ["LAST_ROUNDS", "BothCase", "in_parts", "split"]


def in_parts(parts: int | None, num_ctas: int, **options: Any) -> GemmConfig:
    """A configuration of small tiles for so many CTAs."""
    small = {"block_m": 32, "block_n": 32, "block_k": 32, "num_warps": 4}
    return GemmConfig(**{**small, **options}, num_ctas=num_ctas, parts=parts)


def split(program: Any) -> dict[int, int]:
    """By rank, how many of its positions are parts of tiles."""
    size = np.prod(program.tiles)
    found = {}
    for rank in range(program.world_size):
        last = size % program.num_ctas
        found[rank] = len(program.rank_tables(rank)["tiles"].values) - (size - last)
    return found


@dataclass(frozen=True)
class BothCase:
    """A GEMM whose A is gathered, and whose C is a part of a sum of which each rank gets a block of rows."""

    world: int
    shape: tuple[int, int, int]
    combine: Combine
    realization: str
    config: GemmConfig
    tolerance: float = 2e-2

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        m, n, k = self.shape
        plan = syncopate.Plan("ag_gemm_rs", [self.world])
        a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
        plan.all_gather(a, axis=0)
        c = plan.buffer("c", (m, n), "bf16")
        strategy = syncopate.Strategy(
            realization=self.realization, comm_ctas=2, combine=self.combine
        )
        reduce_scatter_tiles(plan, c, strategy)
        return compile_program(gemm, plan, **bind_gemm(a, n, self.config, c=c), strategy=strategy)

    def error(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> float:
        """How far outputs are from the sum in float64, relative to the largest element."""
        a = np.concatenate(inputs["a"]).astype(np.float64)
        total = sum(a @ np.asarray(b, np.float64).T for b in inputs["b"])
        found = np.concatenate([np.asarray(c, np.float64) for c in outputs["c"]])
        return float(np.abs(found - total).max() / np.abs(total).max())


_AG, _RS, _AR, _A2A = Program
_ENGINE, _DEDICATED = "copy_engine", "ldst_dedicated"
LAST_ROUNDS: dict[str, GemmCase | BothCase] = {
    # Consumers. 12 tiles or more of 32 by 32, in 7 steps of K.
    "one tile left, 8 parts of 7 steps": GemmCase(
        _AG, shape=(128, 104, 200), config=in_parts(8, 15), pointers=False
    ),
    "one tile left, by pointers": GemmCase(_AG, shape=(130, 97, 201), config=in_parts(3, 19)),
    "half a round left": GemmCase(
        _AG, world=3, shape=(96, 104, 200), config=in_parts(2, 8), pointers=False
    ),
    "less than a round": GemmCase(_AG, world=3, shape=(99, 50, 201), config=in_parts(2, 17)),
    "chosen": GemmCase(
        _AG, shape=(128, 96, 264), config=in_parts(None, 5), pointers=False, realization=_ENGINE
    ),
    "gathered by CTAs of their own": GemmCase(
        _AG, shape=(128, 96, 200), config=in_parts(2, 5), realization=_DEDICATED
    ),
    "gathered by TMA": GemmCase(
        _AG,
        shape=(128, 96, 200),
        config=in_parts(2, 5),
        pointers=False,
        realization="tma_colocated",
    ),
    "operands transposed, with an epilogue": GemmCase(
        _AG,
        shape=(128, 96, 200),
        config=in_parts(3, 10),
        pointers=False,
        transpose_a=True,
        transpose_b=True,
        bias=True,
        activation=Activation.SILU,
    ),
    "operands transposed, by pointers": GemmCase(
        _AG, world=3, shape=(99, 97, 201), config=in_parts(3, 7), transpose_a=True, bias=True
    ),
    "without TMA": GemmCase(
        _AG, shape=(130, 97, 201), config=in_parts(3, 19), target="sm_80", realization=_ENGINE
    ),
    # Producers: tiles that are counted, that hand over, that add.
    "exchanged": GemmCase(
        _A2A, world=3, shape=(96, 104, 200), config=in_parts(2, 5), pointers=False, bias=True
    ),
    "exchanged, by pointers": GemmCase(_A2A, shape=(74, 97, 201), config=in_parts(3, 11)),
    "added by tiles": GemmCase(_RS, shape=(128, 104, 200), config=in_parts(2, 7), pointers=False),
    "added by tiles, by pointers": GemmCase(
        _RS, world=3, shape=(192, 97, 201), config=in_parts(2, 10), tolerance=2e-2
    ),
    "added by a role": GemmCase(
        _RS,
        world=3,
        shape=(96, 104, 200),
        config=in_parts(2, 5),
        combine=Combine.ROLE,
        pointers=False,
    ),
    "pulled": GemmCase(
        _RS, shape=(128, 97, 201), config=in_parts(3, 13), combine=Combine.ROLE, direction="pull"
    ),
    "all-reduced": GemmCase(
        _AR, shape=(128, 104, 200), config=in_parts(4, 15), pointers=False, realization=_ENGINE
    ),
    "all-reduced, without TMA": GemmCase(
        _AR, shape=(128, 97, 201), config=in_parts(2, 7), target="sm_80", realization=_DEDICATED
    ),
    "added at the destination": GemmCase(
        _RS,
        "f32",
        "f32",
        shape=(128, 104, 200),
        config=in_parts(2, 7),
        combine=Combine.DESTINATION,
        pointers=False,
        tolerance=1e-5,
    ),
    # Both.
    "gathered and added by tiles": BothCase(
        2, (128, 104, 200), Combine.TILES, "ldst_colocated", in_parts(3, 7)
    ),
    "gathered and added by a role": BothCase(
        3, (192, 104, 200), Combine.ROLE, "ldst_colocated", in_parts(2, 10)
    ),
    "gathered and added by TMA": BothCase(
        2, (128, 104, 200), Combine.TILES, "tma_colocated", in_parts(3, 7)
    ),
}
"""Of each, some tiles are computed by several CTAs."""
