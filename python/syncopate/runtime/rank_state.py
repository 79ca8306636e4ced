"""Everything of a loaded program that belongs to one local rank, and the steps of a call on that rank."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from syncopate import abi
from syncopate.abi import FaultField
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.bound_kernel import BoundKernel
from syncopate.runtime.engine import Engine
from syncopate.runtime.engine_plan import (
    has_exchanges,
    library_ctas,
    plan_engine,
    uses_library,
)
from syncopate.runtime.groups import Group, Library, SymmetricAllocation
from syncopate.runtime.interface import (
    Program,
)
from syncopate.runtime.library import LibraryCalls
from syncopate.runtime.linking import (
    Addresses,
    RankAddresses,
    initial_flags,
    initial_state,
    layout_tables,
    link_rank,
)
from syncopate.runtime.memory_plan import MemoryPlan
from syncopate.runtime.own_input import OwnInput
from syncopate.runtime.records import DEFAULT_RECORDS, RankRecords, read_lanes
from syncopate.runtime.remap import Remap
from syncopate.runtime.rescue import StreamRescue
from syncopate.runtime.tensors import (
    check_tensor,
    input_view,
    region_view,
    whole_view,
)
from syncopate.tables import BufferSpec, first_row

# The fault record, then the engine's mirror of two words.
_PINNED_BYTES = 8 * abi.FAULT_WORDS + 64
# A plain number, since every call of a program looks there.
_FAULT_SET = int(FaultField.SET)


class RankState:
    """Tables, state words, fault record, side stream and launchers of one local rank."""

    def __init__(
        self,
        program: Program,
        group: Group,
        rank: int,
        memory: SymmetricAllocation,
        plan: MemoryPlan,
        addresses: Addresses,
        library: Library | None = None,
        remap: bool = True,
    ) -> None:
        """Binds the program; not collective.

        Args:
            program: The program.
            group: The ranks.
            rank: This one.
            memory: What the program has of the group's symmetric memory.
            plan: Where what lies in it.
            addresses: The same of all ranks.
            library: What `load_library` has given.
            remap: Whether calls bring outputs from slots into rows.
        """
        self.rank = rank
        self.device = group.device(rank)
        self.own_stream = group.stream(rank)
        self._program = program
        tables = program.rank_tables(rank)
        device = torch.device("cuda", self.device)

        self._memory: torch.Tensor | None = (block := memory.tensors[rank])
        flags = torch.from_numpy(initial_flags(program.signal_layout, program.world_size))
        block[plan.flags : plan.flags + 4 * flags.numel()].copy_(flags.view(torch.uint8))
        self._buffers = {
            spec.name: (spec, block[at : at + spec.nbytes])
            for spec, at in zip(program.buffers, plan.buffers, strict=True)
        }
        self.inputs: dict[str, torch.Tensor] = {
            spec.name: input_view(spec, data, rank)
            for spec, data in self._buffers.values()
            if len(spec.inputs[rank]) == 1
        }

        self._pinned = torch.zeros(_PINNED_BYTES, dtype=torch.uint8, pin_memory=True)
        record = self._pinned.data_ptr()
        self._record = (ctypes.c_int64 * abi.FAULT_WORDS).from_address(record)
        where = layout_tables(tables, program.num_ctas)
        self._state = torch.from_numpy(initial_state(where)).to(device)
        self._upload = torch.empty(where.nbytes + abi.ALIGNMENT, dtype=torch.uint8, device=device)
        base = abi.align(self._upload.data_ptr())
        self._lanes = self._make_lanes(device)
        own = RankAddresses(self._state.data_ptr(), record, base)
        if self._lanes is not None:
            own = dataclasses.replace(own, profile=self._lanes.data_ptr(), records=DEFAULT_RECORDS)
        packed = link_rank(program, rank, addresses, own)
        at = base - self._upload.data_ptr()
        self._upload[at : at + where.nbytes].copy_(torch.from_numpy(packed))

        places = zip(program.buffers, addresses.buffers[rank], strict=True)
        own_buffers = {spec.name: (spec, address) for spec, address in places}
        sms = group.sms_per_rank(self.device)
        self._kernel = BoundKernel(program, rank, self.device, base, own_buffers, sms)
        self._tensors = self._kernel.tensors
        ops = plan_engine(program, rank, addresses)
        self.engine: Engine | None = None
        self.library = library
        if ops:
            self.engine = Engine(
                ops,
                state=self._state.data_ptr(),
                mirror=record + 8 * abi.FAULT_WORDS,
                same_device=lambda other: group.shares_device(rank, other),
                library=self._bind_library,
            )
            self._rescue = StreamRescue(
                self.engine.stream,
                self.engine.awaited,
                program.timeout_ns / 1e9,
                None if self.library is None else self.library.abort,
            )
        self._own_input = OwnInput(program, rank, self._kernel.arguments, self.engine)
        self._localized = program.localized
        self._names = frozenset((*self.inputs, *self._tensors))
        call = tables["calls"].rows()[0]
        self._opens = call["open_begin"] < call["open_end"]
        self._staged: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._outputs: list[torch.Tensor] = []
        self._remaps: list[Remap] = []
        self._given_back: list[torch.Tensor] = []
        for spec, data in self._buffers.values():
            if any(spec.outputs) and not spec.outputs[rank]:
                # Blocks of few rows leave ranks at the end without any.
                self._given_back.append(whole_view(spec, data)[:0])
            for region in spec.outputs[rank] if spec.outputs else ():
                row = None if spec.slots is None else first_row(spec, rank)
                whole = whole_view(spec, data)
                if spec.slots is None:
                    self._given_back.append(region_view(whole, region))
                elif not remap:
                    self._given_back.append(whole)
                elif row is not None:
                    self._given_back.append(whole[row : row + region.sizes[0]])
                else:
                    self._remaps.append(Remap(program, spec, rank, data, self.device))
                    self._given_back.append(self._remaps[-1].output)

    def _make_lanes(self, device: torch.device) -> torch.Tensor | None:
        """Where the roles of a profiled kernel leave their records."""
        if not self._program.profiled:
            return None
        words = abi.profile_words(math.prod(self._program.grid), DEFAULT_RECORDS)
        return torch.zeros(words, dtype=torch.int64, device=device)

    def clear_records(self) -> None:
        """Forgets what roles have left of earlier calls; none of them may be under way."""
        if self._lanes is not None:
            self._lanes.zero_()

    def read_records(self) -> RankRecords:
        """What roles have left of all calls since; none of them may be under way."""
        assert self._lanes is not None
        gpu = str(torch.cuda.get_device_properties(self.device).uuid)
        words = self._lanes.cpu().numpy()
        return read_lanes(words, math.prod(self._program.grid), rank=self.rank, gpu=gpu)

    def _bind_library(self, stream: int) -> LibraryCalls | None:
        if self.library is None:
            return None
        return LibraryCalls(self.library, stream, list(self._buffers.values()))

    def warm_up(self) -> None:
        """Makes library calls ready. Collective."""
        if self.library is not None and self.engine is not None:
            self.library.warm_up(self.engine.calls)

    def buffer(self, name: str) -> tuple[BufferSpec, torch.Tensor]:
        """A buffer's description and this rank's whole instance as a tensor."""
        spec, data = self._buffers[name]
        return spec, whole_view(spec, data)

    # Steps of a call, in stream order.

    def prepare(self, tensors: Mapping[str, Any]) -> None:
        """Checks every argument of the call before anything is enqueued."""
        self._staged.clear()
        self._outputs.clear()
        if not self._names.issuperset(tensors):
            for name, given in tensors.items():
                if name not in self._names and not self._lacks_rows(name, given):
                    raise SyncopateError(
                        f"{name}: not an argument; the program takes {self._describe_arguments()}"
                    )
        for name, view in self.inputs.items():
            source = view
            given = tensors.get(name)
            if given is not None and given is not view:
                check_tensor(name, given, view.shape, self._buffers[name][0].dtype, self.device)
                if self._own_input.takes(name, given):
                    source = given
                elif given.data_ptr() != view.data_ptr() or given.stride() != view.stride():
                    self._staged.append((view, given))
            if name == self._localized:
                self._own_input.place(source)
        for name, argument in self._tensors.items():
            tensor = tensors.get(name)
            if tensor is None:
                if not argument.param.output:
                    raise SyncopateError(
                        f"{name}: missing; the program takes {self._describe_arguments()}"
                    )
                tensor = argument.new_output()
            argument.set(tensor)
            if argument.param.output:
                self._outputs.append(tensor)

    def _lacks_rows(self, name: str, given: Any) -> bool:
        """Whether a rank without rows of a buffer is given none, as others are given theirs."""
        spec = self._buffers[name][0] if name in self._buffers else None
        if spec is None or spec.inputs[self.rank] or not any(spec.inputs):
            return False
        return isinstance(given, torch.Tensor) and given.numel() == 0

    def _describe_arguments(self) -> str:
        names = [
            *self.inputs,
            *(n + " (output)" if a.param.output else n for n, a in self._tensors.items()),
        ]
        return ", ".join(names)

    def acquire(self, stream: int) -> None:
        """Holds the stream until no peer reads this rank's input of the previous call."""
        if self._kernel.guard is not None:
            self._kernel.guard(stream)

    def stage(self, stream: int) -> None:
        """Copies the inputs that cannot stay where they are, and lets the side stream start behind that."""
        # What the kernel raises when it opens must not come before streams of other ranks have consumed the last.
        if self._staged or self._opens:
            self.acquire(stream)
            with self._current(stream):
                for view, given in self._staged:
                    view.copy_(given, non_blocking=True)
        if self.engine is not None:
            self.engine.fork(stream)

    def _current(self, stream: int) -> AbstractContextManager[Any]:
        """Makes the stream torch's current one, which it already is for a rank without a stream of its own."""
        if self.own_stream is None:
            return nullcontext()
        context: AbstractContextManager[Any] = torch.cuda.stream(
            torch.cuda.ExternalStream(stream, device=self.device)
        )
        return context

    def enqueue_engine(self) -> None:
        """Puts the engine commands on the side stream; before `launch`, since a copy may turn out to need an SM."""
        if self.engine is not None:
            for leg in self.engine.legs:
                for part in range(len(leg.parts)):
                    self.engine.enqueue(leg, part)

    def launch(self, stream: int) -> None:
        """Launches the fused kernel, and behind it what brings outputs from slots into rows."""
        self._kernel.launch(stream)
        for remap in self._remaps:
            remap.launch(stream)

    def result(self) -> Any:
        """The output of the last call, a tuple if there are several: the kernel's tensors, then parts of buffers."""
        outputs = self._outputs + self._given_back
        # The caller's tensors are not kept alive until the next call.
        self._outputs.clear()
        self._staged.clear()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    # Faults.

    def fault_record(self) -> list[int] | None:
        """The words of the fault record if it is set."""
        return list(self._record) if self._record[_FAULT_SET] else None

    def rescue(self, rescue_stream: int) -> float | None:
        """Lets the side stream go after a fault; see `StreamRescue.step`. Reads host memory only if there is none."""
        record = self.fault_record()
        if self.engine is None or record is None:
            return None
        self.engine.silence(record[FaultField.EPOCH])
        return self._rescue.step(rescue_stream)

    @property
    def device_bytes(self) -> int:
        """Memory of the GPU that this rank alone has for the program: tables, state words, scratch, outputs in rows."""
        own = [self._upload, self._state, *(remap.output for remap in self._remaps)]
        return self._kernel.nbytes + sum(int(tensor.nbytes) for tensor in own)

    def close(self) -> None:
        """Frees what torch does not, and lets go of the memory; only the fault record can be read any more."""
        self._kernel.close()
        for remap in self._remaps:
            remap.close()
        if self.engine is not None:
            self.engine.close()
        self.engine = self.library = self._memory = None
        for held in (self._buffers, self.inputs, self._remaps, self._given_back):
            held.clear()
        self._staged.clear()
        self._outputs.clear()


def load_library(program: Program, group: Group, rank: int) -> Library | None:
    """The library of a local rank, if the program needs one. Collective.

    Raises:
        SyncopateError: There is none, or the kernel leaves it no multiprocessors.
    """
    if not uses_library(program):
        return None
    multiprocessors = cuda.multiprocessors(group.device(rank))
    ctas = library_ctas(multiprocessors, math.prod(program.grid))
    if ctas == 0 and has_exchanges(program):
        raise SyncopateError(
            f"program {program.name} launches {math.prod(program.grid)} CTAs, which leaves none of "
            f"{multiprocessors} multiprocessors to the library, while they wait for what it moves; compile it for "
            "fewer CTAs"
        )
    return group.library(rank, ctas)
