"""Programs made of a plan alone, so that it can be run for real: their kernel copies what its footprints say.

The kernel is generated, and fused with the plan as any other. What it should find, the plan's interpreter says.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncopate.bridge import define_kernel
from syncopate.compiler.binding import Binding
from syncopate.compiler.fusion import Fusion, Stages, make_spec
from syncopate.compiler.image import capture, kernel_key
from syncopate.compiler.module import find_plan
from syncopate.compiler.target import Target
from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk as ops
from syncopate.plan.interpreter import Contents, interpret_plan
from syncopate.plan.plan_file import schedule_plan
from syncopate.plan.schedule import Access, Schedule
from syncopate.runtime.interface import BufferParam, KernelImage, ProgramData, TensorParam
from syncopate.sim.findings import Finding, Kind
from syncopate.sim.probe_data import name_made, place_made
from syncopate.sim.probe_source import Sampling, write_source
from syncopate.sim.simulate import Result, expect_integer

__all__ = ["Probe", "compare", "make_probe"]

Array = np.ndarray[Any, Any]
Ranges = tuple[Callable[[Sequence[int]], tuple[int, int]], ...]

MOST_ELEMENTS = 1 << 23
"""Elements that the tiles of all ranks copy, if nothing else is asked for: what a simulation holds in 1 GB."""

_NAME = "probe"


@dataclass(frozen=True)
class Probe(ProgramData):
    """A program whose kernel copies the footprints of its tiles; `simulate` takes it as it takes a compiled one.

    Where tiles write, it stores what tensors hold, which `draw_inputs` draws.

    Attributes:
        plan: The module that it was made of.
        tiles: Grid of tiles.
        samplings: What output k holds: for each tile, in row-major order of the grid, elements of a footprint; for one
            that is read at steps, those of each step.
        writes: What tiles write; of access k, where the tensor of that number goes.
        steps: For each rank, what gives the range of a tile's steps; nothing if tiles walk none.
        most_steps: The step behind the last that a tile may have.
        ir: The program at every stage, as text; see `Program.ir`.
    """

    plan: str = field(kw_only=True, repr=False)
    tiles: tuple[int, ...] = field(kw_only=True)
    samplings: tuple[Sampling, ...] = field(kw_only=True, repr=False)
    writes: tuple[Access, ...] = field(kw_only=True, repr=False, default=())
    steps: Ranges = field(kw_only=True, repr=False, default=())
    most_steps: int = field(kw_only=True, default=0)
    ir: Mapping[str, str] = field(kw_only=True, repr=False)


def make_probe(
    text: str,
    options: str = "",
    schedule: Schedule | None = None,
    *,
    most_elements: int | None = None,
    most_ctas: int | None = None,
) -> Probe:
    """Lowers a plan, and fuses it with a kernel that copies what its tiles read, and stores where they write.

    Args:
        text: A module with one plan, whose kernel has footprints; its own code, if it is there, is not used.
        options: Of the pipeline, as `schedule_plan` takes them.
        schedule: The plan's schedule, if `schedule_plan` has made it already.
        most_elements: Elements that the tiles of all ranks may copy. Of larger footprints only some are copied, evenly
            spread. MOST_ELEMENTS if it is left out.
        most_ctas: CTAs that the tiles of a rank may be distributed over; as many as the plan says if it is left out.

    Raises:
        PlanError: The module is malformed, a pass refuses it, or it has no kernel.
        SyncopateError: An option is wrong, or a number is not positive.
    """
    for name, most in (("most_elements", most_elements), ("most_ctas", most_ctas)):
        if most is not None:
            expect_integer(name, most, 1)
    schedule = schedule_plan(text, options) if schedule is None else schedule
    most_steps = _find_most_steps(schedule)
    samplings = _choose_samplings(
        schedule, MOST_ELEMENTS if most_elements is None else most_elements, most_steps
    )
    module = _take_plan(text)
    ctas = schedule.num_ctas if most_ctas is None else min(schedule.num_ctas, most_ctas)
    arguments = _adapt_kernel(find_plan(module), ctas)
    positions = [arguments.index(sampling.access.argument) for sampling in samplings]
    writes = [_whole(schedule, access) for access in schedule.accesses if access.writes]
    targets = [arguments.index(sampling.access.argument) for sampling in writes]
    source = write_source(
        _NAME,
        len(arguments),
        schedule.tiles,
        list(zip(positions, samplings, strict=True)),
        most_steps,
        list(zip(targets, writes, strict=True)),
    )
    kernel = define_kernel(source, _NAME, {})
    binding = _bind(schedule, arguments, samplings, ctas, most_steps)
    target = Target()
    # Nothing is to be loaded ahead of the wait of its tile.
    options_of_triton = {"num_warps": 4, "num_stages": 1}
    spec = make_spec(kernel, f"{_NAME}_fused", binding, options_of_triton, target)
    captured = capture(kernel, spec, kernel_key(kernel, spec))
    fusion = Fusion(module, captured, spec, target, options=options, written=text)
    image = KernelImage(
        name=f"{_NAME}_fused",
        cubin=b"",
        arguments=tuple(spec.signature.items()),
        num_warps=4,
        shared_bytes=0,
    )
    return Probe(
        name=schedule.name,
        world_size=schedule.world_size,
        buffers=tuple(_as_stored(spec) for spec in fusion.schedule.buffers),
        params=binding.params,
        image=image,
        grid=(schedule.comm_ctas + ctas, 1, 1),
        num_ctas=ctas,
        comm_ctas=schedule.comm_ctas,
        signal_layout=fusion.schedule.signal_layout,
        tables=fusion.schedule.tables,
        plan=text,
        tiles=schedule.tiles,
        samplings=samplings,
        writes=tuple(sampling.access for sampling in writes),
        steps=schedule.steps,
        most_steps=most_steps,
        ir=Stages(fusion.stages),
    )


def _take_plan(text: str) -> ir.Module:
    """The plan alone, with footprints written out that follow from a kernel's code beside it."""
    module = parse(text, new_context())
    run_pipeline(module, "chunk-infer-tile-footprints")
    for op in list(module.body.operations):
        if not isinstance(op, ops.PlanOp):
            op.operation.erase()
    return module


def _as_stored(spec: Any) -> Any:
    """A buffer of a type that has no name outside MLIR is one of integers of that size."""
    if spec.dtype in DTYPES:
        return spec
    bits = re.search(r"\d+", spec.dtype)
    assert bits is not None
    return dataclasses.replace(spec, dtype=f"i{bits[0]}")


def _whole(schedule: Schedule, access: Access) -> Sampling:
    shape = schedule.buffers[access.buffer].shape
    return Sampling(access, shape, (1,) * len(shape))


def _find_most_steps(schedule: Schedule) -> int:
    """The step behind the last that a tile of some rank has; 0 if tiles walk none."""
    tables = [schedule.rank_tables(rank)["steps"] for rank in range(schedule.world_size)]
    return (
        1 + max((int(steps.column("step").max(initial=0)) for steps in tables), default=0)
        if (schedule.steps)
        else 0
    )


def _choose_samplings(
    schedule: Schedule, most_elements: int, most_steps: int
) -> tuple[Sampling, ...]:
    reads = [access for access in schedule.accesses if not access.writes]
    if not schedule.accesses:
        raise PlanError(
            f"plan {schedule.name}: tiles of its kernel touch no buffer, so nothing can be looked at; add a footprint: "
            'chunk.footprint read "a" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 512] (see docs/plans.md)'
        )
    regions = sum(most_steps if access.at_step else 1 for access in reads)
    copies = schedule.world_size * math.prod(schedule.tiles) * regions
    budget = max(1, most_elements // max(1, copies))
    samplings = []
    for access in reads:
        shape = schedule.buffers[access.buffer].shape
        sampling = Sampling(access, shape, (1,) * len(shape))
        while math.prod(sampling.counts) > budget and max(sampling.counts) > 2:
            # Chunks are cut along the first dimensions, so the last ones are thinned out first.
            counts, strides = sampling.counts, list(sampling.strides)
            long = [dim for dim, count in enumerate(counts) if count > 8]
            dim = long[-1] if long else int(np.argmax(counts))
            strides[dim] *= 2
            sampling = dataclasses.replace(sampling, strides=tuple(strides))
        samplings.append(sampling)
    return tuple(samplings)


def _adapt_kernel(plan: ir.OpView, ctas: int) -> list[str]:
    """Makes the plan's kernel the generated one; returns the names that its arguments had."""
    (kernel,) = (op for op in plan.regions[0].blocks[0].operations if isinstance(op, ops.KernelOp))
    names = [name.value for name in kernel.attributes["arg_names"]]
    with plan.context:
        new = [ir.StringAttr.get(f"in{number}") for number in range(len(names))]
        kernel.attributes["kernel"] = ir.FlatSymbolRefAttr.get(f"{_NAME}_fused")
        kernel.attributes["ctas"] = ir.IntegerAttr.get(kernel.attributes["ctas"].type, ctas)
        # It copies what a tile reads all at once.
        kernel.attributes["parts"] = ir.IntegerAttr.get(kernel.attributes["ctas"].type, 1)
        kernel.attributes["arg_names"] = ir.ArrayAttr.get(new)
        for footprint in kernel.regions[0].blocks[0].operations:
            if not isinstance(footprint, ops.FootprintOp):
                continue
            footprint.attributes["arg"] = new[names.index(footprint.attributes["arg"].value)]
    return names


def _bind(
    schedule: Schedule,
    arguments: Sequence[str],
    samplings: Sequence[Sampling],
    ctas: int,
    most_steps: int,
) -> Binding:
    buffers = {access.argument: access.buffer for access in schedule.accesses}
    written = {access.argument for access in schedule.accesses if access.writes}
    params: list[BufferParam | TensorParam] = []
    signature: dict[str, str] = {}
    for number, argument in enumerate(arguments):
        spec = _as_stored(schedule.buffers[buffers[argument]])
        params.append(BufferParam(f"in{number}", spec.name, descriptor=False))
        signature[f"in{number}"] = _pointer(spec.dtype, argument in written)
    for number, sampling in enumerate(samplings):
        spec = _as_stored(schedule.buffers[sampling.access.buffer])
        regions = math.prod(schedule.tiles) * (most_steps if sampling.access.at_step else 1)
        shape = (regions, *sampling.counts)
        name = f"out{number}"
        params.append(TensorParam(name, name, shape, spec.dtype, descriptor=False, output=True))
        signature[name] = _pointer(spec.dtype, sampling.access.argument in written)
    for number, access in enumerate(access for access in schedule.accesses if access.writes):
        spec = _as_stored(schedule.buffers[access.buffer])
        name = name_made(number)
        params.append(TensorParam(name, name, spec.shape, spec.dtype, descriptor=False))
        signature[name] = _pointer(spec.dtype, True)
    pointers = dict.fromkeys(signature, 16)
    constexprs = {"CTAS": ctas}
    signature["CTAS"] = "constexpr"
    return Binding(signature, constexprs, tuple(params), {}, pointers)


def _pointer(dtype: str, typed: bool) -> str:
    """Triton's type of a pointer to elements: as they are, or else as integers of their size."""
    known = DTYPES[dtype]
    return f"*{known.triton}" if typed else f"*i{8 * known.nbytes}"


def compare(probe: Probe, result: Result) -> Iterator[Finding]:
    """Says where a simulated call differs from what the plan means: the first element of each footprint and rank.

    What the last call leaves in the buffers is compared too, so that nothing is missing that no tile reads.
    """
    memory: dict[str, list[Contents]] = {}
    for call, (inputs, outputs) in enumerate(
        zip(result.inputs, result.outputs, strict=False), start=1
    ):
        memory = interpret_plan(probe.plan, place_made(probe, inputs))
        for number, sampling in enumerate(probe.samplings):
            name = probe.buffers[sampling.access.buffer].name
            for rank, found in enumerate(outputs[f"out{number}"]):
                contents = memory[name][rank]
                expected = _expect(probe, sampling, contents.data, rank)
                right = _equal(found, expected)
                if not contents.defined.all():
                    # A sum for each rank leaves in other blocks what its algorithm has left there.
                    right |= _expect(probe, sampling, ~contents.defined, rank)
                wrong = np.argwhere(~right)
                if wrong.size:
                    number, *index = map(int, wrong[0])
                    where = (number, *index)
                    tile, step = number, ""
                    if sampling.access.at_step:
                        tile, step = (
                            number // probe.most_steps,
                            f"step {number % probe.most_steps} of ",
                        )
                    yield Finding(
                        Kind.RESULT,
                        f"call {call}: {step}tile {_coordinates(probe.tiles, tile)} of rank {rank} finds "
                        f"{found[where]} at {name}{_position(_place(probe, sampling, number), sampling, index)}, where "
                        f"the plan brings {expected[where]}",
                    )
    if len(result.outputs) != len(result.inputs):
        return
    for name, ranks in memory.items():
        for rank, contents in enumerate(ranks):
            found = result.buffers[name][rank]
            wrong = np.argwhere(contents.defined & ~_equal(found, contents.data))
            if wrong.size:
                at = tuple(map(int, wrong[0]))
                yield Finding(
                    Kind.RESULT,
                    f"in the end, rank {rank} holds {found[at]} at {name}{list(at)}, where the plan brings "
                    f"{contents.data[at]}",
                )


def _equal(found: Array, expected: Array) -> Array:
    same: Array = found == expected
    if found.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(expected)
    return same


def _coordinates(tiles: Sequence[int], tile: int) -> list[int]:
    return [int(coordinate) for coordinate in np.unravel_index(tile, tiles)]


def _place(probe: Probe, sampling: Sampling, number: int) -> list[int]:
    """The coordinates of a tile, and behind them of a step, whose footprint stands at a place of an output."""
    if not sampling.access.at_step:
        return _coordinates(probe.tiles, number)
    tile, step = divmod(number, probe.most_steps)
    return [*_coordinates(probe.tiles, tile), step]


def _indices(place: Sequence[int], sampling: Sampling) -> tuple[list[Array], list[Array]]:
    """By dimension, where the sampled elements of a footprint are, and which of them are inside."""
    places, inside = [], []
    for dim, offset in enumerate(sampling.access.offsets(place)):
        begin = max(offset, 0)
        end = min(offset + sampling.access.sizes[dim], sampling.shape[dim])
        at = begin + np.arange(sampling.counts[dim]) * sampling.strides[dim]
        inside.append((at < end + sampling.strides[dim] - 1) & (begin < end))
        places.append(np.minimum(at, end - 1))
    return places, inside


def _position(place: Sequence[int], sampling: Sampling, index: Sequence[int]) -> list[int]:
    places, _ = _indices(place, sampling)
    return [int(place[i]) for place, i in zip(places, index, strict=True)]


def _expect(probe: Probe, sampling: Sampling, contents: Array, rank: int) -> Array:
    """What a rank's tiles copy of a buffer with these elements."""
    at_step = sampling.access.at_step
    count = math.prod(probe.tiles) * (probe.most_steps if at_step else 1)
    expected = np.zeros((count, *sampling.counts), contents.dtype)
    seen: dict[tuple[int, ...], int] = {}
    for number in range(count):
        place = _place(probe, sampling, number)
        if at_step:
            first, behind = probe.steps[rank](place[:-1])
            if not first <= place[-1] < behind:
                continue
        offsets = tuple(sampling.access.offsets(place))
        if offsets in seen:
            expected[number] = expected[seen[offsets]]
            continue
        seen[offsets] = number
        places, inside = _indices(place, sampling)
        of_tile = np.ix_(*map(np.flatnonzero, inside))
        of_buffer = np.ix_(*(place[kept] for place, kept in zip(places, inside, strict=True)))
        expected[number][of_tile] = contents[of_buffer]
    return expected
