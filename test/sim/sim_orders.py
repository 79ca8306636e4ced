"""GEMMs that gather, scatter or do both, with tiles in any order."""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from sim_calls import largest_error as calls_error
from sim_compile import compile_program

import syncopate
from syncopate.choices import Combine, Realization, TileOrder
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_to_all_tiles, reduce_scatter_tiles
from syncopate.sim.simulate import Result

__all__ = ["POLICIES", "Ends", "build", "largest_error", "random_orders"]

POLICIES = tuple(order for order in TileOrder if order is not TileOrder.GIVEN)
CONFIG = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=3)


class Ends(enum.Enum):
    """What the tiles of a program wait for, and what waits for them."""

    CONSUMER = "all-gather before"
    PRODUCER = "reduce-scatter behind"
    BOTH = "all-gather before and reduce-scatter behind"
    SCATTERED_BY_CALLS = "reduce-scatter by library calls"
    EXCHANGED_BY_CALLS = "all-to-all by library calls"

    @property
    def gathers(self) -> bool:
        """Whether A is gathered."""
        return self in (Ends.CONSUMER, Ends.BOTH)

    @property
    def calls(self) -> bool:
        """Whether a library moves the result."""
        return self in (Ends.SCATTERED_BY_CALLS, Ends.EXCHANGED_BY_CALLS)


def shape_of(ends: Ends, world: int) -> tuple[int, int, int]:
    """Sizes that neither tiles nor ranks divide, but for blocks of an all-to-all, which have one size."""
    return ((45 * world if ends is Ends.EXCHANGED_BY_CALLS else 53 * world - 7), 88, 72)


def random_orders(ends: Ends, world: int, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """For each rank its tiles in an order of its own."""
    m, n, _ = shape_of(ends, world)
    count = int(np.prod(CONFIG.tiles(m, n)))
    return np.stack([draw.permutation(count) for _ in range(world)])


def build(
    ends: Ends,
    world: int,
    order: TileOrder = TileOrder.ARRIVAL,
    *,
    tile_order: Any = None,
    combine: Combine = Combine.ROLE,
    slots: str = "rows",
    realization: Realization = Realization.LDST_COLOCATED,
) -> Any:
    """Compiles the program."""
    m, n, k = shape_of(ends, world)
    plan = syncopate.Plan("orders", [world])
    strategy = syncopate.Strategy(
        realization=Realization.NCCL if ends.calls else realization,
        splits=0 if ends.calls else 2,
        order=order,
        group_m=3,
        comm_ctas=2,
        waves=(1, 2) if ends.calls else (),
        slots=slots,
        combine=None if ends.calls or ends is Ends.CONSUMER else combine,
    )
    a: Any = syncopate.Tensor("a", (m, k), "bf16")
    if ends.gathers:
        a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
        plan.all_gather(a)
    c = None
    if ends is not Ends.CONSUMER:
        c = plan.buffer("c", (m, n), "bf16")
        if ends is Ends.EXCHANGED_BY_CALLS:
            all_to_all_tiles(plan, c, plan.buffer("received", (m, n), "bf16"))
        else:
            reduce_scatter_tiles(plan, c, strategy)
    return compile_program(
        gemm, plan, **bind_gemm(a, n, CONFIG, c=c), strategy=strategy, tile_order=tile_order
    )


def largest_error(ends: Ends, result: Result) -> float:
    """How far outputs are from a float64 reference, relative to its largest element."""
    if ends.calls:
        return calls_error(
            "all_to_all" if ends is Ends.EXCHANGED_BY_CALLS else "reduce_scatter", result
        )
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = np.concatenate(inputs["a"]).astype(np.float64)
        a = [whole] * len(inputs["b"]) if ends.gathers else inputs["a"]
        right = [
            x.astype(np.float64) @ y.astype(np.float64).T
            for x, y in zip(a, inputs["b"], strict=True)
        ]
        if ends is Ends.CONSUMER:
            pairs = list(zip(outputs["c"], right, strict=True))
        else:
            found = np.concatenate([block.astype(np.float64) for block in outputs["c"]])
            pairs = [(found, np.sum(right, axis=0))]
        for found, expected in pairs:
            assert found.shape == expected.shape
            error = np.abs(found - expected).max() / np.abs(expected).max()
            worst = float(np.maximum(worst, error))
    return worst


@functools.cache
def by_policy(ends: Ends, world: int, order: TileOrder, slots: str) -> Any:
    """`build`, once."""
    return build(ends, world, order, slots=slots)
