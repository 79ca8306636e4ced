"""`syncopate.compile`: from plan and kernel to program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import device
from syncopate.bridge import Captured, KernelSpec
from syncopate.choices import TileOrder
from syncopate.compiler.arguments import (
    WARP_GROUP,
    check_options,
    check_steps,
    check_strategy,
    check_timeout,
    check_types,
)
from syncopate.compiler.binding import Binding, Footprint
from syncopate.compiler.budgets import check_budgets
from syncopate.compiler.fusion import Stages, make_spec
from syncopate.compiler.image import capture, compile_image, kernel_key
from syncopate.compiler.module import find_realizations
from syncopate.compiler.planning import BoundKernel, bind_arguments
from syncopate.compiler.program import Program
from syncopate.compiler.schedules import make_schedule
from syncopate.compiler.steps import Steps
from syncopate.compiler.target import Target
from syncopate.compiler.tile_order import TileIndices
from syncopate.dtypes import DTYPES
from syncopate.plan import Chunk, Plan
from syncopate.runtime.interface import DEFAULT_TIMEOUT_NS, INPUT_DESCRIPTOR, KernelImage
from syncopate.strategy import Strategy
from syncopate.tables import BufferSpec, Table, first_row

if TYPE_CHECKING:
    from syncopate.tune import Auto

__all__ = ["CapturedKernel", "CompileRequest", "capture_request", "compile", "compile_request"]


def compile(
    kernel: JITFunction[Any],
    plan: Plan,
    *,
    bind: Mapping[str, Any],
    tiles: Sequence[int],
    ctas: int | None = None,
    ctas_per_sm: int = 1,
    strategy: Strategy | Auto | str | None = None,
    target: Target | str = "sm_90",
    footprints: Sequence[Footprint] = (),
    needs: Chunk | None = None,
    steps: Sequence[Steps] = (),
    options: Mapping[str, Any] | None = None,
    timeout: float = DEFAULT_TIMEOUT_NS / 1e9,
    check_tables: bool = True,
    machine_code: bool = True,
    tile_order: Sequence[int] | Sequence[Sequence[int]] | TileIndices | None = None,
    profile: bool = False,
) -> Program:
    """Fuses a local kernel with a plan. Needs no GPU.

    Machine code is made once for each kernel, way of compiling it, and what it depends on of a plan, which is no shape,
    number of transfers or tile order, and is kept on disk. With it at hand, another plan costs its tables alone, which
    are kept too. An integer of the kernel that code should not depend on, such as a number of rows, should be one of
    its `do_not_specialize`: else Triton makes other code where another power of two, up to 16, divides it.

    Args:
        kernel: A `@triton.jit` function that marks its tiles with `syncopate.language.tile`.
        plan: The communication. Tiles wait for those of its transfers that bring what they read.
        bind: What each parameter of the kernel stands for: `Descriptor`, `Pointer`, `Scratch`, a number, `Ctas`,
            `Parts`, or the value of a compile-time parameter.
        tiles: Size of the grid of tiles that the kernel walks, one to three dimensions; the coordinates that the marker
            returns lie in it.
        ctas: CTAs over which the kernel distributes the tiles: by how much its loop over tiles steps. If it is left
            out, `ctas_per_sm` for each streaming multiprocessor of the target, less the `comm_ctas` of the strategy if
            transfers are carried out by CTAs of their own.
        ctas_per_sm: How many of these CTAs share a streaming multiprocessor, its registers and its shared memory. Those
            of roles beside the tiles are counted in.
        strategy: The choices that the plan leaves open; those that its templates have followed if it is left out. With
            "auto", or a `syncopate.tune.Auto`, those that passes make are chosen; with torch.distributed in use by as
            many ranks as the plan has, all compile together.
        target: What to compile for.
        footprints: Which region of an argument a tile reads, or writes, where it cannot be inferred.
        needs: A part of a plan buffer of i32 of one dimension, an input of every rank, with an entry for each first
            coordinate of the tiles: how many of the transfers that bring what the kernel reads its tiles wait for, the
            first ones in the order of the plan. Footprints then say what tiles may read at most. The caller answers
            for it that tiles read nothing that these transfers do not bring. Left out, tiles wait for all.
        steps: Which steps tiles walk, for a kernel that calls `syncopate.language.steps`, where it cannot be inferred:
            one for all ranks, or one for each.
        options: Triton's compile options, such as num_warps and num_stages.
        timeout: Limit of a device wait in seconds; 0 waits for ever.
        check_tables: Whether to check the tables against the plan once more, as `chunk-check-tables` says. This takes
            most of the time that tables take; plans are checked in any case.
        machine_code: Whether to make machine code, which takes most of the time of a first compile. Without, the
            program can be simulated, explained and drawn, but not loaded, and whether it fits on the target is not
            known; its `ir` has no "ptx".
        tile_order: The order of tiles in place of one of the strategy's policies: their numbers, row-major in the grid,
            for all ranks, or one sequence for each rank. CTA c computes those at c, c + `ctas`, and so on. An order in
            which ranks would wait for each other is refused as long as tables are checked.
        profile: Whether the kernel leaves records of what it does when, for `LoadedProgram.profile` and
            `syncopate.profile`; if not, it holds no code for that.

    Returns:
        The program.

    Raises:
        SyncopateError: An argument is wrong.
        PlanError: The plan, or the kernel's binding to it, is.
        BudgetError: The fused kernel does not fit on the target.
    """
    from syncopate.tune.auto import as_auto, choose
    from syncopate.tune.plan_subject import PlanSubject

    target = Target.parse(target)
    auto = as_auto(strategy)
    if auto is not None or strategy is None:
        strategy = getattr(plan, "strategy", None) or Strategy()
    given = cast(Strategy, strategy)
    options = {} if options is None else options
    check_types(kernel, plan, bind, given, footprints, needs, options)
    check_steps(steps)
    check_strategy(plan, given)
    check_timeout(timeout)
    check_options(options, GPUTarget("cuda", target.capability, 32))
    caller = sys._getframe(1)
    request = CompileRequest(
        kernel=kernel,
        plan=plan,
        target=target,
        arguments={
            "bind": bind,
            "tiles": tiles,
            "ctas": ctas,
            "ctas_per_sm": ctas_per_sm,
            "footprints": footprints,
            "needs": needs,
            "steps": steps,
            "tile_order": tile_order,
            "place": (caller.f_code.co_filename, caller.f_lineno),
        },
        options=options,
        timeout=timeout,
        check_tables=check_tables,
        machine_code=machine_code,
        profile=profile,
    )
    if auto is None:
        return compile_request(request, given)
    report = choose(PlanSubject(request, given, auto.cost), auto)
    program = compile_request(request, report.chosen.strategy)
    return dataclasses.replace(program, tuning=report)


@dataclass(frozen=True)
class CompileRequest:
    """What is to be compiled, but for the strategy; all of it is checked.

    Attributes:
        kernel: The kernel.
        plan: The plan.
        target: What to compile for.
        arguments: What `bind_arguments` takes.
        options: Triton's compile options.
        timeout: Limit of a device wait in seconds.
        check_tables: Whether to check the tables against the plan.
        machine_code: Whether to make machine code.
        profile: Whether the kernel leaves records.
    """

    kernel: JITFunction[Any]
    plan: Plan
    target: Target
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    timeout: float
    check_tables: bool
    machine_code: bool
    profile: bool


@dataclass(frozen=True)
class CapturedKernel:
    """A bound kernel, compiled as far as Triton does alone.

    Attributes:
        bound: What it is bound to.
        spec: How it is compiled.
        key: What tells it apart.
        captured: The kernel at both levels.
    """

    bound: BoundKernel
    spec: KernelSpec
    key: str
    captured: Captured


def capture_request(request: CompileRequest, strategy: Strategy) -> CapturedKernel:
    """Binds and captures the kernel of a request, with a strategy."""
    kernel, target = request.kernel, request.target
    bound = bind_arguments(kernel, request.plan, strategy, target, **request.arguments)
    companion = _companion(bound.binding, request.plan)
    options = _share_registers(request, strategy)
    spec = make_spec(kernel, bound.kernel.name, bound.binding, options, target, companion)
    key = kernel_key(kernel, spec)
    return CapturedKernel(bound, spec, key, capture(kernel, spec, key))


def _share_registers(request: CompileRequest, strategy: Strategy) -> Mapping[str, Any]:
    """The options, with a limit of registers if the CTAs of a multiprocessor have roles to share them with.

    Triton gives the warps of such a CTA all registers of a multiprocessor, unless it is told another number of them at
    launch, from which computing warps then get more and roles less.
    """
    per_sm, options = request.arguments["ctas_per_sm"], request.options
    roles = sum(kind.is_colocated for kind in find_realizations(request.plan, strategy))
    if per_sm == 1 or not roles or options.get("maxnreg") is not None:
        return options
    threads = 32 * (options.get("num_warps", WARP_GROUP) + WARP_GROUP * roles)
    # Registers are given to a warp by 8 for each thread.
    limit = request.target.registers // (per_sm * threads) // 8 * 8
    return {**options, "maxnreg": limit}


def compile_request(request: CompileRequest, strategy: Strategy) -> Program:
    """Compiles a request with a strategy that the plan goes with."""
    plan, target, timeout = request.plan, request.target, request.timeout
    if request.arguments["tile_order"] is not None:
        strategy = dataclasses.replace(strategy, order=TileOrder.GIVEN)
    made = capture_request(request, strategy)
    binding, kernel_op = made.bound.binding, made.bound.kernel
    spec, key = made.spec, made.key
    fusion = make_schedule(
        plan,
        kernel_op,
        strategy,
        key,
        made.captured,
        spec,
        target,
        check_tables=request.check_tables,
        profile=request.profile,
    )
    compiled = compile_image(spec, fusion, key, machine_code=request.machine_code)
    fusion.forget_module()
    schedule = fusion.schedule
    if request.machine_code:
        check_budgets(
            compiled.image,
            target,
            stages=spec.options.get("num_stages"),
            ctas=kernel_op.ctas,
            comm_ctas=schedule.comm_ctas,
        )
    return Program(
        name=plan.name,
        world_size=plan.world_size,
        target=target,
        strategy=strategy,
        buffers=schedule.buffers,
        params=binding.params,
        image=compiled.image,
        guard=device.compile_guard(spec.target) if _needs_guard(schedule.tables) else None,
        remap=_compile_remap(schedule.buffers, spec.target),
        num_ctas=kernel_op.ctas,
        comm_ctas=schedule.comm_ctas,
        tiles=kernel_op.tiles,
        localized=fusion.localized(compiled.localized_argument),
        signal_layout=schedule.signal_layout,
        tables=schedule.tables,
        ir=Stages(
            {
                **fusion.stages,
                "fused": compiled.fused.decode,
                "ttgir": compiled.ttgir.decode,
                **({"ptx": compiled.ptx.decode} if request.machine_code else {}),
            }
        ),
        timeout_ns=round(timeout * 1e9),
        profiled=request.profile,
    )


def _needs_guard(tables: Sequence[Mapping[str, Table]]) -> bool:
    """Whether some rank may have to wait before its input is replaced."""
    calls = [rank_tables["calls"].rows()[0] for rank_tables in tables]
    return any(call["guard_begin"] < call["guard_end"] for call in calls)


def _compile_remap(buffers: Sequence[BufferSpec], target: GPUTarget) -> KernelImage | None:
    """The kernel for the one buffer that calls give back of slots, if that does not lie in rows anyway."""
    for buffer in buffers:
        if buffer.slots is not None and any(
            outputs and first_row(buffer, rank) is None
            for rank, outputs in enumerate(buffer.outputs)
        ):
            nbytes = DTYPES[buffer.dtype].nbytes
            return device.compile_remap(target, nbytes, buffer.slots.tile[1], buffer.shape[1])
    return None


def _companion(binding: Binding, plan: Plan) -> dict[str, str]:
    """The first descriptor of a buffer with inputs once more, for the rank's own; `chunk-localize-inputs` uses it."""
    for name, kind in binding.signature.items():
        bound = binding.buffers.get(name)
        if bound is not None and bound.name in plan.inputs and kind.startswith("tensordesc"):
            return {INPUT_DESCRIPTOR + name: kind}
    return {}
