"""Schedules of GEMMs without their code: what the passes make of a plan in milliseconds, for the model to rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError
from syncopate.ir import run_pipeline
from syncopate.plan import Buffer, Plan
from syncopate.plan.schedule import Schedule, read_schedule

if TYPE_CHECKING:
    from syncopate.kernels import GemmConfig
    from syncopate.strategy import Strategy

__all__ = ["schedule_gemm"]


def schedule_gemm(
    plan: Plan,
    n: int,
    config: GemmConfig,
    strategy: Strategy,
    *,
    k: int | None = None,
    a: Buffer | None = None,
    c: Buffer | None = None,
    num_sms: int = 132,
    tile_order: Any = None,
) -> Schedule:
    """The schedule that `syncopate.compile` makes of a plan and a GEMM, without compiling anything.

    Args:
        plan: The communication.
        n: Columns of C that a rank computes.
        config: How the GEMM is cut into tiles; without `num_ctas`, its CTAs are as many as multiprocessors, less those
            of dedicated realizations.
        strategy: The choices that the plan leaves open.
        k: K, which decides into how many parts a tile of the last round may be split; that of `a` if it is left out.
        a: The plan's buffer of A, [M, K], if it is one of its own.
        c: The plan's buffer of C, [M, N], likewise.
        num_sms: Multiprocessors.
        tile_order: As for `syncopate.compile`.

    Returns:
        The schedule of all ranks.

    Raises:
        SyncopateError: There is neither `k` nor `a`, or there are too few CTAs for `config.parts`, or the order of
            tiles is none.
        PlanError: A pass refuses the plan.
    """
    from syncopate.compiler.binding import Footprint
    from syncopate.compiler.module import KernelBinding, bind_kernel, find_plan, needs_comm_ctas
    from syncopate.compiler.tile_order import read_tile_order

    operands = {
        name: buffer for name, buffer in (("a_desc", a), ("c_desc", c)) if buffer is not None
    }
    m = next(iter(operands.values())).shape[0]
    if k is None:
        if a is None:
            raise SyncopateError(
                "k: expects K of the GEMM, which without a buffer for A nothing says"
            )
        k = a.shape[1]
    block_m, block_n = config.block_m, config.block_n
    footprints = []
    if a is not None:
        footprints.append(Footprint("a_desc", lambda i, j: (i * block_m, 0), (block_m, a.shape[1])))
    if c is not None:
        footprints.append(
            Footprint(
                "c_desc", lambda i, j: (i * block_m, j * block_n), (block_m, block_n), "write"
            )
        )
    ctas = config.num_ctas
    if ctas is None:
        ctas = num_sms - (strategy.comm_ctas if needs_comm_ctas(plan, strategy) else 0)
    binding = KernelBinding(
        name="gemm_fused",
        tiles=config.tiles(m, n),
        ctas=ctas,
        parts=config.count_parts(m, n, k, ctas),
        buffers=operands,
        integers={},
        footprints=tuple(footprints),
        needs=None,
        place=("gemm.py", 1),
        tile_order=None
        if tile_order is None
        else read_tile_order(tile_order, config.tiles(m, n), plan.world_size),
    )
    module = bind_kernel(plan, binding, strategy)
    run_pipeline(module, "syncopate-plan-pipeline")
    return read_schedule(find_plan(module))
