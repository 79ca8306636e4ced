"""Schedules of GEMMs without their code: what the passes make of a plan in milliseconds, for the model to rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError
from syncopate.plan import Buffer, Plan
from syncopate.plan.schedule import Schedule

if TYPE_CHECKING:
    from syncopate.compiler import Target
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
    pointers: bool = False,
    target: Target | None = None,
    tile_order: Any = None,
) -> Schedule:
    """The schedule that `syncopate.compile` makes of a plan and a GEMM, without compiling anything.

    Args:
        plan: The communication.
        n: Columns of C that a rank computes.
        config: How the GEMM is cut into tiles.
        strategy: The choices that the plan leaves open.
        k: K, which decides into how many parts a tile of the last round may be split; that of `a` if it is left out.
        a: The plan's buffer of A, [M, K], if it is one of its own.
        c: The plan's buffer of C, [M, N], likewise.
        pointers: Whether the kernel is `gemm_pointers`, and not `gemm`.
        target: What to compile for; an H200 if it is left out.
        tile_order: As for `syncopate.compile`.

    Returns:
        The schedule of all ranks.

    Raises:
        SyncopateError: There is neither `k` nor `a`, or `compile` would refuse the arguments.
        PlanError: A pass refuses the plan.
    """
    from syncopate import kernels
    from syncopate.compiler import Footprint, Target, Tensor
    from syncopate.compiler.planning import schedule_kernel

    if k is None:
        if a is None:
            raise SyncopateError(
                "k: expects K of the GEMM, which without a buffer for A nothing says"
            )
        k = a.shape[1]
    block_m, block_n = config.block_m, config.block_n
    kind, footprints = "ptr" if pointers else "desc", []
    if a is not None:
        footprints.append(Footprint(f"a_{kind}", lambda i, _: (i * block_m, 0), (block_m, k)))
    if c is not None:
        footprints.append(
            Footprint(
                f"c_{kind}", lambda i, j: (i * block_m, j * block_n), (block_m, block_n), "write"
            )
        )
    if a is None and c is None:
        raise SyncopateError("a: expects a buffer of the plan for A or for C, but got neither")
    operand = a or Tensor("operand", (c.shape[0], k), c.dtype)  # type: ignore[union-attr]
    bind = kernels.bind_gemm_pointers if pointers else kernels.bind_gemm
    arguments = bind(operand, n, config, c=c)
    del arguments["options"]
    return schedule_kernel(
        kernels.gemm_pointers if pointers else kernels.gemm,
        plan,
        strategy,
        Target() if target is None else target,
        footprints=footprints,
        place=("gemm.py", 1),
        tile_order=tile_order,
        **arguments,
    )
