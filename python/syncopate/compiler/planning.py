"""The part of `compile` that needs no code: what a kernel is bound to, and the tables that the passes make of it.

The cost model ranks strategies by this part alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from triton.runtime.jit import JITFunction

from syncopate.choices import TileOrder
from syncopate.compiler.arguments import (
    check_binding,
    check_ctas_per_sm,
    check_numbers,
    check_roles,
    check_sums,
)
from syncopate.compiler.binding import Binding, Footprint, bind_parameters, resolve
from syncopate.compiler.module import (
    KernelBinding,
    add_kernel_code,
    bind_kernel,
    count_comm_ctas,
    find_plan,
)
from syncopate.compiler.steps import Steps
from syncopate.compiler.target import Target
from syncopate.compiler.tile_order import read_tile_order
from syncopate.compiler.tma_rules import check_tma
from syncopate.errors import PlanError, SyncopateError
from syncopate.ir import run_pipeline
from syncopate.mlir import ir
from syncopate.plan import Chunk, Plan, Schedule, read_schedule
from syncopate.strategy import Strategy

__all__ = ["BoundKernel", "bind_arguments", "make_tables", "schedule_kernel"]

# What `chunk-check-kernel` says of a tile that adds to a part of what it writes, which passes cannot say how to mend.
_ADDS_IN_PART: Final = "what it adds to at one part, but not at"
_ADDS_IN_PART_HINT: Final = (
    "what tiles add to has to end where a tile does: bind tiles that divide it, or have a role add, which takes "
    "regions that end anywhere: Strategy(combine=Combine.ROLE) for a template of sums, a transfer with "
    "reduction='sum' in a plan of your own"
)


@dataclass(frozen=True)
class BoundKernel:
    """A kernel with all that it is bound to.

    Attributes:
        binding: Its parameters.
        kernel: What the plan is told of it.
    """

    binding: Binding
    kernel: KernelBinding


def bind_arguments(
    kernel: JITFunction[Any],
    plan: Plan,
    strategy: Strategy,
    target: Target,
    *,
    bind: Mapping[str, Any],
    tiles: Sequence[int],
    ctas: int | None = None,
    ctas_per_sm: int = 1,
    footprints: Sequence[Footprint] = (),
    needs: Chunk | None = None,
    steps: Sequence[Steps] = (),
    tile_order: Any = None,
    place: tuple[str, int],
) -> BoundKernel:
    """Binds a kernel's parameters, and chooses how many CTAs compute if nobody has; arguments are those of `compile`.

    Raises:
        SyncopateError: An argument is wrong.
    """
    check_ctas_per_sm(ctas_per_sm)
    if ctas is None:
        others = count_comm_ctas(plan, strategy, ctas_per_sm)
        ctas = target.num_sms * ctas_per_sm - others
        if ctas < 1:
            raise SyncopateError(
                f"strategy: comm_ctas {strategy.comm_ctas or others} leaves none of the {target.num_sms} streaming "
                f"multiprocessors of {target} to compute; use fewer"
            )
    check_numbers(tiles, ctas)
    order = None
    if tile_order is not None:
        order = read_tile_order(tile_order, tiles, plan.world_size)
    elif strategy.order is TileOrder.GIVEN:
        raise SyncopateError(
            "tile_order: strategy leaves the order of tiles to it, but it is left out; give one, or name a policy"
        )
    resolved, parts = resolve(bind, math.prod(tiles), ctas)
    binding = bind_parameters(kernel, resolved)
    check_binding(binding, plan, target)
    kernel_op = KernelBinding(
        f"{kernel.__name__}_fused",
        tuple(tiles),
        ctas,
        parts,
        binding.buffers,
        binding.integers,
        tuple(footprints),
        needs,
        place,
        tuple(steps),
        order,
    )
    return BoundKernel(binding, kernel_op)


def make_tables(
    module: ir.Module,
    target: Target,
    *,
    ttir: str | None = None,
    options: str = "",
    check_tables: bool = True,
) -> Schedule:
    """Runs the passes up to the tables on a module in place.

    Args:
        module: A module with one plan that has the kernel's binding in it.
        target: What is to run it.
        ttir: The kernel before TritonGPU's passes, in generic form, of which footprints are inferred; without it, the
            binding has all of them.
        options: Of the pipeline: choices that go before the plan's strategy.
        check_tables: Whether the tables are checked against the plan.

    Raises:
        PlanError: A pass refuses the plan, or the kernel's binding to it.
        SyncopateError: The target lacks what a realization needs.
    """
    if ttir is not None:
        add_kernel_code(module, ttir)
    words = f"{options} check_tables={str(check_tables).lower()}"
    try:
        run_pipeline(module, f"syncopate-plan-pipeline{{{words}}}")
    except PlanError as error:
        if _ADDS_IN_PART not in str(error):
            raise
        raise PlanError(f"{error}\n{_ADDS_IN_PART_HINT}") from None
    schedule = read_schedule(find_plan(module))
    check_tma(schedule.tables, schedule.buffers, target)
    check_roles(schedule.tables, target)
    check_sums(schedule.tables, schedule.buffers, target)
    return schedule


def schedule_kernel(
    kernel: JITFunction[Any],
    plan: Plan,
    strategy: Strategy,
    target: Target,
    **arguments: Any,
) -> Schedule:
    """The schedule that `compile` makes, in milliseconds and without compiling anything.

    The tables are not checked against the plan once more, which would take as long as the rest.

    Args:
        kernel: The kernel.
        plan: The plan.
        strategy: The choices.
        target: What for.
        **arguments: Those of `bind_arguments`, with a footprint for each of the plan's buffers that tiles access.

    Raises:
        SyncopateError: As for `compile`, but for what its code shows.
        PlanError: A pass refuses the plan, or the kernel's binding to it.
    """
    bound = bind_arguments(kernel, plan, strategy, target, **arguments)
    module = bind_kernel(plan, bound.kernel, strategy)
    return make_tables(module, target, check_tables=False)
