"""The one module that the passes work on: the plan, the kernel at two levels, and the device library."""

from __future__ import annotations

import dataclasses
import inspect
import io
from collections.abc import Mapping
from dataclasses import dataclass

from syncopate import abi
from syncopate.choices import Realization, TileOrder
from syncopate.compiler.binding import Footprint
from syncopate.compiler.steps import Steps, range_maps
from syncopate.compiler.tile_order import TileIndices, order_table
from syncopate.errors import InternalError, SyncopateError
from syncopate.ir import translate_errors
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan import Buffer, Chunk, Plan
from syncopate.plan.body import PlanBody
from syncopate.strategy import Strategy

__all__ = [
    "KernelBinding",
    "add_fused_code",
    "add_kernel_code",
    "bind_kernel",
    "count_comm_ctas",
    "find_plan",
    "find_realizations",
    "localized_argument",
    "take_kernel",
    "to_bytecode",
    "to_text",
]


@dataclass(frozen=True)
class KernelBinding:
    """What a `chunk.kernel` operation says.

    Attributes:
        name: Name of the kernel's function.
        tiles: Size of its grid of tiles.
        ctas: Number of persistent CTAs.
        parts: Among how many of them each tile of the last round is split.
        buffers: Plan buffers by the parameter that they are bound to.
        integers: Values of the integer parameters.
        footprints: Footprints that are not to be inferred.
        needs: The part of a buffer that says how many transfers tiles wait for; None if they wait for all.
        place: File and line where the kernel was bound.
        steps: Which steps tiles walk, if that is not to be inferred.
        tile_order: Numbers of the tiles of each rank in a given order, [ranks, tiles]; None if passes order them.
    """

    name: str
    tiles: tuple[int, ...]
    ctas: int
    parts: int
    buffers: Mapping[str, Buffer]
    integers: Mapping[str, int]
    footprints: tuple[Footprint, ...]
    needs: Chunk | None
    place: tuple[str, int]
    steps: tuple[Steps, ...] = ()
    tile_order: TileIndices | None = None


def bind_kernel(plan: Plan, kernel: KernelBinding, strategy: Strategy) -> ir.Module:
    """A copy of the plan's module, with a kernel and a strategy in it.

    The plan itself is not changed.

    Raises:
        PlanError: The binding breaks a rule of `chunk.kernel`.
        SyncopateError: A footprint is malformed.
    """
    module = plan.copy_module()
    with module.context, ir.Location.unknown():
        plan_op = find_plan(module)
        if kernel.tile_order is not None:
            strategy = dataclasses.replace(strategy, order=TileOrder.GIVEN)
        dedicated = strategy.count_dedicated(_realizations(plan, strategy))
        if dedicated:
            strategy = dataclasses.replace(strategy, comm_ctas=dedicated)
        plan_op.attributes["strategy"] = ir.Attribute.parse(strategy.attribute)
        with translate_errors(), ir.Location.file(*kernel.place, 1):
            _add_kernel(plan_op, kernel)
            if kernel.tile_order is not None:
                _add_order(plan_op, kernel, kernel.tile_order)
            module.operation.verify()
    return module


def add_kernel_code(module: ir.Module, ttir: str) -> None:
    """Adds what a schedule is made of besides.

    Args:
        module: A module with a plan that has the kernel's binding in it.
        ttir: The kernel before TritonGPU's passes, in generic form.
    """
    with module.context, ir.Location.unknown():
        _add_module(module.body, "ttir", ttir)


def add_fused_code(module: ir.Module, *, ttgir: str, device: Mapping[str, str]) -> None:
    """Adds what the fused kernel is made of.

    Args:
        module: The same, with that code.
        ttgir: The kernel after TritonGPU's passes, in generic form.
        device: Device functions in generic form, by name.
    """
    with module.context, ir.Location.unknown():
        _add_module(module.body, "ttgir", ttgir)
        with ir.InsertionPoint(module.body):
            library = ir.Module.create().operation.clone()
        library.attributes["sym_name"] = ir.StringAttr.get("device")
        for name, text in device.items():
            _add_module(library.regions[0].blocks[0], name, text)


def _add_kernel(plan_op: ir.OpView, kernel: KernelBinding) -> None:
    body = plan_op.regions[0].blocks[0]
    values = {
        op.attributes["name"].value: op.results[0]
        for op in body.operations
        if isinstance(op, ops.BufferOp)
    }
    tokens = [
        op.results[0]
        for op in body.operations
        if len(op.results) == 1
        and isinstance(op.results[0].type, ops.TokenType)
        and not isinstance(op, ops.ProduceOp)
    ]
    with ir.InsertionPoint(body):
        op = ops.KernelOp(
            kernel.name,
            list(kernel.tiles),
            kernel.ctas,
            [values[buffer.name] for buffer in kernel.buffers.values()],
            list(kernel.buffers),
            tokens,
            parts=kernel.parts if kernel.parts > 1 else None,
            needs=None if kernel.needs is None else values[kernel.needs.buffer.name],
            needs_at=None if kernel.needs is None else kernel.needs.offsets[0],
            integers=ir.DictAttr.get(
                {
                    name: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
                    for name, value in kernel.integers.items()
                }
            ),
        )
        block = op.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        for steps in kernel.steps:
            ops.StepsOp(*range_maps(steps, len(kernel.tiles)), rank=steps.rank)
        for footprint in kernel.footprints:
            ops.FootprintOp(
                ir.Attribute.parse(f"#chunk<access {footprint.access}>"),
                footprint.argument,
                offsets_map(footprint, len(kernel.tiles)),
                list(footprint.sizes),
            )


def _add_order(plan_op: ir.OpView, kernel: KernelBinding, tile_order: TileIndices) -> None:
    columns = ["c0", "c1", "c2"]
    with ir.InsertionPoint(plan_op.regions[0].blocks[0]):
        for rank, order in enumerate(tile_order):
            table = order_table(order, kernel.tiles, kernel.ctas, kernel.parts)
            ops.ScheduleOp(kernel.name, rank, tiles=ops.TableAttr.get(columns, table.ravel()))


def offsets_map(footprint: Footprint, dims: int) -> ir.Attribute:
    """The offsets of a footprint as a map of so many tile coordinates, in the current context.

    A function of one argument more takes the step behind them.

    Raises:
        SyncopateError: They are no function of these that is affine.
    """
    if takes_step(footprint, dims):
        dims += 1
    coordinates = [ir.AffineDimExpr.get(dim) for dim in range(dims)]
    try:
        offsets = footprint.offsets(*coordinates)
        exprs = [
            offset if isinstance(offset, ir.AffineExpr) else ir.AffineConstantExpr.get(offset)
            for offset in offsets
        ]
    except TypeError as error:
        raise SyncopateError(
            f"footprint of {footprint.argument!r}: expects offsets to be a function of {dims} tile coordinates that is "
            f"affine in them: {error}"
        ) from None
    return ir.AffineMapAttr.get(ir.AffineMap.get(dims, 0, exprs))


def takes_step(footprint: Footprint, dims: int) -> bool:
    """Whether offsets are a function of one argument more than tiles have coordinates."""
    try:
        inspect.signature(footprint.offsets).bind(*range(dims + 1))
    except (TypeError, ValueError):
        return False
    try:
        inspect.signature(footprint.offsets).bind(*range(dims))
    except TypeError:
        return True
    return False


def _add_module(block: ir.Block, name: str, text: str) -> None:
    nested = ir.Module.parse(text)
    with ir.InsertionPoint(block):
        nested.operation.clone().attributes["sym_name"] = ir.StringAttr.get(name)


def count_comm_ctas(plan: Plan, strategy: Strategy, ctas_per_sm: int = 1) -> int:
    """CTAs that do not compute: those of dedicated realizations, and all of the multiprocessors left to a library."""
    named = _realizations(plan, strategy)
    return strategy.count_dedicated(named) + strategy.count_library(named) * ctas_per_sm


def find_realizations(plan: PlanBody, strategy: Strategy) -> set[abi.Realization]:
    """Those that transfers may have; of a single rank, which has no transfers, none."""
    if plan.world_size == 1:
        return set()
    return {abi.Realization.spelled(strategy.realization)} | {
        abi.Realization.spelled(name) for name in _realizations(plan, strategy)
    }


def _realizations(plan: PlanBody, strategy: Strategy) -> set[str]:
    """Those that transfers may have besides that of the strategy."""
    named = set(plan.realizations)
    if strategy.between is not None and len(plan.mesh) > 1:
        named.add(Realization(strategy.between).value)
    if plan.adds_parts and strategy.realization is Realization.TMA_DEDICATED:
        # TMA cannot add several parts at once, so loads and stores do, on CTAs of the same kind.
        named.add(Realization.LDST_DEDICATED.value)
    return named


def find_plan(module: ir.Module) -> ir.OpView:
    """The plan of an assembled module.

    Raises:
        InternalError: There is none.
    """
    for op in module.body.operations:
        if isinstance(op, ops.PlanOp):
            return op
    raise InternalError("an assembled module holds no plan")


def localized_argument(plan: ir.OpView) -> str | None:
    """The argument in whose place a lowered plan's kernel reads the rank's own input where the caller keeps it."""
    for op in plan.regions[0].blocks[0].operations:
        if isinstance(op, ops.KernelOp) and op.localized is not None:
            names = [name.value for name in op.attributes["arg_names"]]
            for name, buffer in zip(names, op.operands, strict=False):
                if buffer.owner.attributes["name"] == op.localized:
                    return str(name)
    return None


def take_kernel(module: ir.Module) -> str:
    """The fused kernel of a lowered module, in the generic form that Triton takes.

    Raises:
        InternalError: There is none.
    """
    for op in module.body.operations:
        if "sym_name" in op.attributes and op.attributes["sym_name"].value == "ttgir":
            kernel = op.operation.clone(ip=False)
            del kernel.attributes["sym_name"]
            return str(kernel.get_asm(enable_debug_info=True, print_generic_op_form=True))
    raise InternalError("a lowered module holds no kernel")


def to_text(module: ir.Module) -> str:
    """The module with locations, as `syncopate-opt --mlir-print-debuginfo` prints it."""
    return str(module.operation.get_asm(enable_debug_info=True))


def to_bytecode(module: ir.Module) -> bytes:
    """The module in MLIR's binary form, which takes a tenth of the time and of the room."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()
