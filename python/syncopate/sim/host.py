"""The host's part on one rank: the operations of a call on its main stream.

They are, call after call: the guard, if an input has to be staged or a signal opens the call; the copies that stage
inputs; the fused kernel. The side stream runs the copy engine's list, each call's behind what the main stream held
when the call was enqueued.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.abi import NO_BUFFER, StateWord
from syncopate.plan.interpreter import place_input
from syncopate.runtime.engine_plan import plan_engine
from syncopate.runtime.interface import TensorParam
from syncopate.runtime.linking import gives_input_back
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Descriptor, Footprint, MemoryRegion
from syncopate.sim.launch import Launch
from syncopate.sim.rank_memory import I32, POISON, RankMemory, Symmetric, row_major
from syncopate.sim.scheduler import Agent
from syncopate.sim.streams import EngineStream, Stream, granules
from syncopate.sim.values import element, wrap
from syncopate.tables import BufferSpec, Region, slot_rows

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["Host"]

Array = np.ndarray[Any, Any]
_EVERYTHING = Footprint(slice(None))


class Host:
    """One rank's host program."""

    def __init__(
        self,
        machine: Machine,
        rank: int,
        symmetric: Symmetric,
        inputs: Sequence[Mapping[str, Sequence[Array]]],
        partial: Collection[str] = (),
    ) -> None:
        """Links the rank's program.

        Args:
            machine: The machine.
            rank: The rank.
            symmetric: Memory of all ranks.
            inputs: Of each call, what all ranks provide.
            partial: Outputs of which a call may leave parts as they were.
        """
        program = machine.program
        self._inputs, self._partial = inputs, partial
        self.machine, self.program, self.rank = machine, program, rank
        self.memory = RankMemory(machine, rank, symmetric)
        self._main = Stream(machine, self.memory, f"the stream of rank {rank}")
        ops = plan_engine(program, rank, symmetric.addresses)
        self.engine = EngineStream(machine, self.memory, ops)
        tables = program.rank_tables(rank)
        self._call = tables["calls"].rows()[0]
        begin, end = self._call["guard_begin"], self._call["guard_end"]
        self._guard_waits = tables["waits"].rows()[begin:end]
        # A program that no plan was lowered to promises nothing for the end of a call.
        self._arrivals = tuple(self._find_arrivals()) if "lowered" in program.ir else ()
        self._opens = self._call["open_begin"] < self._call["open_end"]

    def run(self, outputs: list[dict[str, Array]], *, staged: bool) -> Agent:
        """All calls; fills `outputs`.

        Args:
            outputs: Gets the outputs of each call.
            staged: Whether inputs are copied into the buffers even if they could stay where they are.
        """
        for call, inputs in enumerate(self._inputs, start=1):
            tensors = {name: arrays[self.rank] for name, arrays in inputs.items()}
            yield from self._run_call(call, tensors, staged)
            outputs.append(self._collect(call))

    def _run_call(self, call: int, tensors: Mapping[str, Array], staged: bool) -> Agent:
        memory, main = self.memory, self._main
        source: MemoryRegion | None = None
        offset = 0
        copies: list[tuple[BufferSpec, Array]] = []
        for name, spec in memory.specs.items():
            if not spec.inputs[self.rank]:
                continue
            kept = not self._opens and not staged and not gives_input_back(spec, self.rank)
            if spec is memory.localized and kept:
                source = memory.own_input
                assert source is not None
                encoded = element(spec.dtype).encode(tensors[name]).ravel()
                source.view(encoded.dtype)[: encoded.size] = encoded
                source.check_write(self.machine, _EVERYTHING, main.access(call))
            else:
                copies.append((spec, tensors[name]))
                if spec is memory.localized:
                    source, offset = memory.buffers[name], memory.input_in_buffer(spec)
        for param in self.program.params:
            if isinstance(param, TensorParam):
                self._set_tensor(param, call, tensors)
        if copies or self._opens:
            yield from self._guard()
            for spec, given in copies:
                yield None
                self._stage(call, spec, given)
        self.engine.enqueue(call, main, 0 if source is None else source.base + offset)
        arguments = memory.arguments(source, offset)
        main.tick()
        launch = Launch(self.machine, self.rank, call, arguments, main.vector)
        yield launch.ends()
        main.join(launch.vector)
        main.tick()
        self._check_arrivals(call)

    def _check_arrivals(self, call: int) -> None:
        """What a call brings to a rank is there when it ends, whether a tile has waited for it or not."""
        if self.memory.state.view(I32)[StateWord.ABORTED]:
            return
        for executor, row in self._arrivals:
            region = self.memory.buffers[self.program.buffers[row["dst_buffer"]].name]
            granule = region.granule
            shape = (self._count_rows(call, executor, row), -(-row["row_bytes"] // granule))
            strides = (row["dst_stride"] // granule, 1)
            place = Footprint(slice(None), shape, strides, row["dst_offset"] // granule)
            missing = region.missing(place, self._main.vector, call)
            if missing:
                self.machine.report(
                    Kind.ARRIVAL,
                    f"call {call} of rank {self.rank} ends before transfer {row['transfer']}, carried out by rank "
                    f"{executor}, has brought {missing * granule} bytes to {region.name}",
                )

    def _find_arrivals(self) -> Iterator[tuple[int, Mapping[str, int]]]:
        """The commands that write to this rank, and the ranks that carry them out."""
        for executor in range(self.program.world_size):
            for row in self.program.rank_tables(executor)["commands"].rows():
                if row["dst_rank"] == self.rank and row["transfer"] >= 0:
                    yield executor, row

    def _count_rows(self, call: int, executor: int, row: Mapping[str, int]) -> int:
        """How many rows a command moves in a call, by what its executor was given."""
        if row["count_buffer"] == NO_BUFFER:
            return row["rows"]
        spec = self.program.buffers[row["count_buffer"]]
        words = np.zeros(spec.shape, np.int64)
        boxes = [
            (slice(part.offsets[0], part.offsets[0] + part.sizes[0]),)
            for part in spec.inputs[executor]
        ]
        given = np.asarray(self._inputs[call - 1][spec.name][executor])
        for box, part in zip(boxes, place_input(given, boxes), strict=True):
            words[box] = part
        return int(np.clip(words[row["count_index"]] - row["count_past"], 0, row["rows"]))

    def _set_tensor(self, param: TensorParam, call: int, tensors: Mapping[str, Array]) -> None:
        """What the caller passes, put in place before the call; an output that it does not pass is poisoned."""
        region, view, kind = self.memory.view_tensor(param)
        if param.tensor in tensors:
            view[...] = kind.encode(np.asarray(tensors[param.tensor]))
        else:
            region.data[:] = POISON
            call = 0
        region.check_write(self.machine, _EVERYTHING, self._main.access(call))

    def _guard(self) -> Agent:
        """Waits as the runtime's guard kernel does."""
        epoch = int(self.memory.state.view(I32)[StateWord.EPOCH])
        for wait in self._guard_waits:
            wanted = epoch * wait["count"] if wait["count"] else epoch - 1

            def holds(value: int, wanted: int = wanted) -> bool:
                return wrap(value - wanted, 32) >= 0

            yield from self._main.until(wait["signal"], holds)

    def _stage(self, call: int, spec: BufferSpec, given: Array) -> None:
        kind, region = element(spec.dtype), self.memory.buffers[spec.name]
        whole = Descriptor(region, 0, spec.shape, row_major(spec.shape), kind, nan=False)
        boxes = [
            tuple(slice(o, o + s) for o, s in zip(part.offsets, part.sizes, strict=True))
            for part in spec.inputs[self.rank]
        ]
        for box, part in zip(boxes, place_input(np.asarray(given), boxes), strict=True):
            region.check_write(self.machine, whole.footprint(box), self._main.access(call))
            whole.elements[box] = kind.encode(part)

    def read_buffers(self) -> dict[str, Array]:
        """What the rank's buffers hold, as values."""
        return {
            name: element(spec.dtype).decode(
                np.ndarray(
                    spec.memory_shape, element(spec.dtype).stored, self.memory.buffers[name].data
                )
            )
            for name, spec in self.memory.specs.items()
        }

    def _collect(self, call: int) -> dict[str, Array]:
        """The outputs of a call; each byte must have been written in it."""
        outputs = {}
        for param in self.program.params:
            if not isinstance(param, TensorParam) or not param.output:
                continue
            region, view, kind = self.memory.view_tensor(param)
            missing = np.flatnonzero(region.call != call)
            if missing.size and param.tensor not in self._partial:
                self.machine.report(
                    Kind.OUTPUT,
                    f"call {call} leaves {missing.size * region.granule} bytes of {region.name} unwritten, "
                    f"the first at byte {int(missing[0]) * region.granule}",
                )
            outputs[param.tensor] = kind.decode(view)
        for spec in self.program.buffers:
            if any(spec.outputs or ()):
                # Blocks of few rows leave ranks at the end without any.
                outputs[spec.name] = np.zeros((0, *spec.shape[1:]))
            for output in spec.outputs[self.rank] if spec.outputs else ():
                collect = self._collect_region if spec.slots is None else self._collect_slots
                outputs[spec.name] = collect(call, spec, output)
        return outputs

    def _collect_slots(self, call: int, spec: BufferSpec, output: Region) -> Array:
        """An output of library calls, from its slots."""
        assert spec.slots is not None
        kind, region = element(spec.dtype), self.memory.buffers[spec.name]
        columns = spec.slots.tile[1]
        stored = region.data[: spec.nbytes].view(kind.stored).reshape(-1, columns)
        rows = slot_rows(spec, self.rank)
        nbytes = columns * kind.nbytes
        missing = 0
        # Rows that nobody sends are undefined.
        for row in map(int, rows[rows >= 0]):
            place = granules(region, row * nbytes, nbytes)
            missing += region.missing(place, self._main.vector, call)
            region.check_read(self.machine, place, self._main.access(call))
        self._report_missing(call, region, missing)
        whole = kind.decode(stored[rows].reshape(len(rows), -1)[:, : output.sizes[1]].copy())
        unsent = rows[:, :1] < 0
        return np.where(unsent, np.nan, whole) if unsent.any() else whole

    def _report_missing(self, call: int, region: MemoryRegion, missing: int) -> None:
        if missing:
            self.machine.report(
                Kind.OUTPUT,
                f"call {call} of rank {self.rank} ends with {missing * region.granule} bytes of its output in "
                f"{region.name} unwritten",
            )

    def _collect_region(self, call: int, spec: BufferSpec, output: Region) -> Array:
        kind, region = element(spec.dtype), self.memory.buffers[spec.name]
        whole = Descriptor(region, 0, spec.shape, row_major(spec.shape), kind, nan=False)
        box = tuple(slice(o, o + s) for o, s in zip(output.offsets, output.sizes, strict=True))
        place = whole.footprint(box)
        self._report_missing(call, region, region.missing(place, self._main.vector, call))
        region.check_read(self.machine, place, self._main.access(call))
        return kind.decode(np.array(whole.elements[box]))
