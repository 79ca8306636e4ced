"""Schedules that were made before, by all that they depend on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from syncopate.bridge import Captured, KernelSpec
from syncopate.compiler.binding import Footprint
from syncopate.compiler.fusion import Fusion
from syncopate.compiler.module import KernelBinding, bind_kernel, offsets_map
from syncopate.compiler.steps import Steps, range_maps
from syncopate.compiler.target import Target
from syncopate.ir import new_context
from syncopate.mlir import ir
from syncopate.plan import Plan
from syncopate.recent import Recent
from syncopate.strategy import Strategy

__all__ = ["MOST_SCHEDULES", "binding_key", "make_schedule", "schedule_statistics"]

MOST_SCHEDULES: Final = 128
"""How many are kept, those that were asked for last."""


@dataclass
class Statistics:
    """How often a schedule was asked for: made before, or not."""

    hits: int = 0
    misses: int = 0


_kept: Final[Recent[tuple[object, ...], Fusion]] = Recent(MOST_SCHEDULES)
schedule_statistics: Final = Statistics()


def make_schedule(
    plan: Plan,
    binding: KernelBinding,
    strategy: Strategy,
    kernel_key: str,
    captured: Captured,
    spec: KernelSpec,
    target: Target,
    *,
    check_tables: bool,
    profile: bool = False,
) -> Fusion:
    """The schedule of a plan with a kernel, the one that was made before if it is asked for again.

    Args:
        plan: The plan.
        binding: What the kernel is bound to.
        strategy: The choices.
        kernel_key: What the kernel is, and how it is compiled.
        captured: The kernel.
        spec: How it is compiled.
        target: What for.
        check_tables: Whether the tables are checked against the plan.
        profile: Whether the fused kernel leaves records.

    Raises:
        PlanError: The plan, or the kernel's binding to it, breaks a rule.
        SyncopateError: A footprint is malformed, or the target lacks what a realization needs.
    """
    text = plan.text
    key = (text, binding_key(binding), strategy, kernel_key, target, check_tables, profile)
    found = _kept.find(key)
    if found is not None:
        schedule_statistics.hits += 1
        return found
    schedule_statistics.misses += 1
    module = bind_kernel(plan, binding, strategy)
    fusion = Fusion(
        module, captured, spec, target, check_tables=check_tables, written=text, profile=profile
    )
    return _kept.keep(key, fusion)


def binding_key(binding: KernelBinding) -> tuple[object, ...]:
    """All of a binding but the place of the call, which only errors show."""
    needs, dims = binding.needs, len(binding.tiles)
    return (
        binding.name,
        binding.tiles,
        binding.ctas,
        binding.parts,
        tuple((name, buffer.name) for name, buffer in binding.buffers.items()),
        tuple(binding.integers.items()),
        tuple(
            (
                footprint.argument,
                _spell_offsets(footprint, dims),
                tuple(footprint.sizes),
                footprint.access,
            )
            for footprint in binding.footprints
        ),
        None if needs is None else (needs.buffer.name, needs.offsets),
        tuple((_spell_range(steps, dims), steps.rank) for steps in binding.steps),
        None if binding.tile_order is None else binding.tile_order.tobytes(),
    )


def _spell_offsets(footprint: Footprint, dims: int) -> str:
    """What the function gives, since what it refers to may have changed since it was last asked."""
    with _context():
        return str(offsets_map(footprint, dims))


def _spell_range(steps: Steps, dims: int) -> str:
    with _context():
        return " ".join(map(str, range_maps(steps, dims)))


@functools.cache
def _context() -> ir.Context:
    return new_context()
