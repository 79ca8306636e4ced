"""`syncopate.compile`: from plan and kernel to program."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import bridge, device
from syncopate.compiler.arguments import (
    check_binding,
    check_numbers,
    check_options,
    check_roles,
    check_types,
)
from syncopate.compiler.binding import Binding, Footprint, bind_parameters
from syncopate.compiler.budgets import check_budgets
from syncopate.compiler.image import capture, compile_image
from syncopate.compiler.module import KernelBinding, assemble, find_plan, take_kernel, to_text
from syncopate.compiler.program import Program
from syncopate.compiler.strategy import Strategy
from syncopate.compiler.target import Target
from syncopate.ir import run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan import Plan, read_schedule
from syncopate.runtime.commands import copy_unit, loads_remotely
from syncopate.runtime.interface import (
    DEFAULT_TIMEOUT_NS,
    INPUT_DESCRIPTOR,
    INPUT_POINTER,
    Table,
)

__all__ = ["compile"]


def compile(
    kernel: JITFunction[Any],
    plan: Plan,
    *,
    bind: Mapping[str, Any],
    tiles: Sequence[int],
    ctas: int | None = None,
    strategy: Strategy | None = None,
    target: Target | str = "sm_90",
    footprints: Sequence[Footprint] = (),
    options: Mapping[str, Any] | None = None,
    timeout: float = DEFAULT_TIMEOUT_NS / 1e9,
) -> Program:
    """Fuses a local kernel with a plan. Needs no GPU.

    Args:
        kernel: A `@triton.jit` function that marks its tiles with `syncopate.language.tile`.
        plan: The communication. Tiles wait for those of its transfers that bring what they read.
        bind: What each parameter of the kernel stands for: `Descriptor`, `Pointer`, a number, or the value of a
            compile-time parameter.
        tiles: Size of the grid of tiles that the kernel walks, one to three dimensions; the coordinates that the marker
            returns lie in it.
        ctas: CTAs of a launch, over which the kernel distributes the tiles: by how much its loop over tiles steps. As
            many as the target has streaming multiprocessors if it is left out.
        strategy: The choices that the plan leaves open.
        target: What to compile for.
        footprints: Which region of an argument a tile reads, for arguments for which it cannot be inferred.
        options: Triton's compile options, such as num_warps and num_stages.
        timeout: Limit of a device wait in seconds; 0 waits for ever.

    Returns:
        The program.

    Raises:
        SyncopateError: An argument is wrong.
        PlanError: The plan, or the kernel's binding to it, is.
        BudgetError: The fused kernel does not fit on the target.
    """
    target = Target.parse(target)
    strategy = Strategy() if strategy is None else strategy
    ctas = target.num_sms if ctas is None else ctas
    gpu = GPUTarget("cuda", target.capability, 32)
    options = {} if options is None else options
    check_types(kernel, plan, bind, strategy, footprints, options)
    check_numbers(tiles, ctas, timeout)
    check_options(options, gpu)
    binding = bind_parameters(kernel, bind)
    check_binding(binding, plan, target)
    name = f"{kernel.__name__}_fused"
    companion = _companion(binding)
    spec = _make_spec(kernel, name, binding, companion, gpu, options)
    captured = capture(kernel, spec)
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    kernel_op = KernelBinding(name, tuple(tiles), ctas, binding.buffers, tuple(footprints), place)

    scheduled = assemble(plan, kernel_op, strategy, ttir=captured.ttir)
    run_pipeline(scheduled, "syncopate-plan-pipeline")
    tables = read_schedule(find_plan(scheduled)).tables
    check_roles(tables, target)
    num_warps = int(spec.options.get("num_warps", 4))
    module = assemble(
        plan,
        kernel_op,
        strategy,
        ttir=captured.ttir,
        ttgir=captured.ttgir,
        device=device.library(
            spec.target, num_warps, copy_unit(tables), remote_loads=loads_remotely(tables)
        ),
    )
    stages = {"plan": plan.text, "ttir": captured.ttir, "input": to_text(module)}
    run_pipeline(module, "syncopate-pipeline")
    stages["lowered"] = to_text(module)
    stages["fused"] = take_kernel(module)
    image, texts = compile_image(spec, stages["fused"])
    check_budgets(image, target, stages=spec.options.get("num_stages"))
    lowered = find_plan(module)
    schedule = read_schedule(lowered)
    return Program(
        name=plan.name,
        world_size=plan.world_size,
        target=target,
        strategy=strategy,
        buffers=schedule.buffers,
        params=binding.params,
        image=image,
        guard=device.compile_guard(spec.target) if _needs_guard(schedule.tables) else None,
        num_ctas=ctas,
        tiles=tuple(tiles),
        localized=_localized_buffer(lowered, binding, companion),
        signal_layout=schedule.signal_layout,
        tables=schedule.tables,
        ir=stages | texts,
        timeout_ns=round(timeout * 1e9),
    )


def _needs_guard(tables: Sequence[Mapping[str, Table]]) -> bool:
    """Whether some rank may have to wait before its input is replaced."""
    calls = [rank_tables["calls"].rows()[0] for rank_tables in tables]
    return any(call["guard_begin"] < call["guard_end"] for call in calls)


def _make_spec(
    kernel: JITFunction[Any],
    name: str,
    binding: Binding,
    companion: Mapping[str, str],
    gpu: GPUTarget,
    options: Mapping[str, Any],
) -> bridge.KernelSpec:
    extra = {INPUT_POINTER: "*i64", **companion}
    signature = {bridge.CONTEXT_ARGUMENT: "*i64", **extra, **binding.signature}
    integers = {bridge.CONTEXT_ARGUMENT: 16, INPUT_POINTER: 16, **binding.integers}
    return bridge.KernelSpec(
        bridge.make_wrapper(kernel, name, tuple(extra)),
        signature,
        binding.constexprs,
        bridge.divisible(list(signature), integers),
        gpu,
        dict(options),
    )


def _companion(binding: Binding) -> dict[str, str]:
    """The first descriptor of a plan buffer once more, for the rank's own input; `chunk-localize-inputs` uses it."""
    for name, kind in binding.signature.items():
        if name in binding.buffers and kind.startswith("tensordesc"):
            return {INPUT_DESCRIPTOR + name: kind}
    return {}


def _localized_buffer(
    plan: ir.OpView, binding: Binding, companion: Mapping[str, str]
) -> str | None:
    """The buffer whose companion the lowered kernel uses."""
    for op in plan.regions[0].blocks[0].operations:
        if isinstance(op, ops.KernelOp) and "localized" in op.attributes:
            (name,) = companion
            return binding.buffers[name.removeprefix(INPUT_DESCRIPTOR)].name
    return None
