"""From a plan with a kernel bound to it, and the kernel's Triton function, to the fused kernel and the schedule.

This is as far as a program goes without machine code: what `compile` makes a cubin of, and what the simulator executes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import bridge, device
from syncopate.compiler.arguments import check_roles, check_sums
from syncopate.compiler.binding import Binding
from syncopate.compiler.image import capture
from syncopate.compiler.module import assemble, find_plan, localized_buffer, take_kernel, to_text
from syncopate.compiler.target import Target
from syncopate.compiler.tma_rules import check_tma
from syncopate.ir import run_pipeline
from syncopate.plan import Schedule, read_schedule
from syncopate.runtime.commands import (
    adds_unordered,
    copy_unit,
    is_counted,
    loads_remotely,
    reduced_type,
    roles_of,
)
from syncopate.runtime.handover import common_ring
from syncopate.runtime.interface import INPUT_POINTER

__all__ = ["Fusion", "fuse", "make_spec"]


@dataclass(frozen=True)
class Fusion:
    """A fused kernel without machine code.

    Attributes:
        schedule: The schedule of all ranks.
        localized: The buffer whose input a rank reads where the caller keeps it, if there is one.
        stages: The program at every stage, as text: `ttir`, `input`, `lowered`, `fused`; see `Program.ir`.
    """

    schedule: Schedule
    localized: str | None
    stages: Mapping[str, str]


def make_spec(
    kernel: JITFunction[Any],
    name: str,
    binding: Binding,
    options: Mapping[str, Any],
    target: Target,
    companion: Mapping[str, str] | None = None,
) -> bridge.KernelSpec:
    """How the local kernel is compiled, with the arguments that fusion adds in front of its own.

    Args:
        kernel: The local kernel.
        name: Name of the fused one.
        binding: Its parameters.
        options: Triton's compile options.
        target: What to compile for.
        companion: Types of further arguments, by name, that are for passes alone.
    """
    extra = {INPUT_POINTER: "*i64", **(companion or {})}
    signature = {bridge.CONTEXT_ARGUMENT: "*i64", **extra, **binding.signature}
    # Allocations are aligned to 16 bytes, and to more.
    pointers = {name: 16 for name, kind in signature.items() if kind.startswith("*")}
    return bridge.KernelSpec(
        bridge.make_wrapper(kernel, name, tuple(extra)),
        signature,
        binding.constexprs,
        bridge.divisible(list(signature), {**pointers, **binding.integers}),
        GPUTarget("cuda", target.capability, 32),
        dict(options),
    )


def fuse(
    plan: str,
    kernel: JITFunction[Any],
    spec: bridge.KernelSpec,
    target: Target,
    *,
    options: str = "",
) -> Fusion:
    """Runs Triton and the passes up to the fused kernel.

    Args:
        plan: A module with one plan that has the kernel's binding in it.
        kernel: The local kernel.
        spec: How it is compiled, from `make_spec`.
        target: What to compile for.
        options: Of the pipeline: choices that go before the plan's strategy.

    Raises:
        SyncopateError: Triton refuses the kernel, or the target lacks what a realization needs.
        PlanError: A pass refuses the plan, or the kernel's binding to it.
    """
    captured = capture(kernel, spec)
    scheduled = assemble(plan, ttir=captured.ttir)
    run_pipeline(scheduled, f"syncopate-plan-pipeline{{{options}}}")
    schedule = read_schedule(find_plan(scheduled))
    tables = schedule.tables
    check_tma(tables, schedule.buffers, target)
    check_roles(tables, target)
    check_sums(tables, schedule.buffers, target)
    num_warps = int(spec.options.get("num_warps", 4))
    library = device.library(
        spec.target,
        num_warps,
        copy_unit(tables),
        roles=roles_of(tables),
        remote_loads=loads_remotely(tables),
        reduced=reduced_type(tables, schedule.buffers),
        ring=common_ring(tables),
        unordered=adds_unordered(tables),
        counted=is_counted(tables),
    )
    module = assemble(plan, ttir=captured.ttir, ttgir=captured.ttgir, device=library)
    stages = {"ttir": captured.ttir, "input": to_text(module)}
    run_pipeline(module, f"syncopate-pipeline{{{options}}}")
    stages |= {"lowered": to_text(module), "fused": take_kernel(module)}
    lowered = find_plan(module)
    return Fusion(read_schedule(lowered), localized_buffer(lowered), stages)
