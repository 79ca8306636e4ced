"""The host's part on one rank: memory, linking, and the operations of a call on its two streams.

The main stream of a rank runs, call after call: the guard, if the input has to be staged or a signal opens the call; the
copies that stage the input; the fused kernel. The side stream runs the list of `plan_engine`, call after call, each behind
what the main stream held when the call was enqueued. A stream performs one operation after the other, and each sees all
that was before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate import abi
from syncopate.abi import FaultField, SignalKind, StateWord
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.engine_plan import AwaitWord, Copy, EngineOp, Raise, plan_engine
from syncopate.runtime.interface import (
    INPUT_DESCRIPTOR,
    INPUT_POINTER,
    BufferParam,
    BufferSpec,
    ScalarParam,
    TensorParam,
)
from syncopate.runtime.linking import (
    Addresses,
    RankAddresses,
    initial_flags,
    initial_state,
    input_rows,
    layout_tables,
    link_rank,
)
from syncopate.sim.clocks import Scope, Vector
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Access, Descriptor, Region, RegionKind
from syncopate.sim.launch import Launch
from syncopate.sim.scheduler import Agent, Wait
from syncopate.sim.values import element

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["Host", "allocate"]

Array = np.ndarray[Any, Any]
_I32 = np.dtype(np.int32)
_PIECES = 4
_OUTSIDE = (-1, -1)
"""Rank and CTA of a stream: no scope narrower than the system's reaches it."""


class _Stream:
    """A stream as a thread of the memory model."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.name = name
        self.thread = machine.clocks.thread(name)
        self.vector = machine.clocks.vector()
        self.clock = 0
        self.tick()

    def tick(self) -> None:
        self.clock += 1
        self.vector[self.thread] = self.clock


def allocate(machine: Machine, program: Any) -> tuple[Addresses, list[list[Region]], list[Region]]:
    """Makes the buffers and flags of all ranks."""
    buffers: list[list[Region]] = []
    flags: list[Region] = []
    for rank in range(program.world_size):
        buffers.append([])
        for index, spec in enumerate(program.buffers):
            name = f"buffer {spec.name} of rank {rank}"
            granule = _granule(program, index, spec)
            region = machine.memory.add(name, spec.nbytes, RegionKind.DATA, rank, granule)
            region.data[:] = 0xFF
            region.checks_call = True
            buffers[-1].append(region)
        size = 4 * program.signal_layout.total
        region = machine.memory.add(f"flags of rank {rank}", size, RegionKind.WORDS, rank)
        values = initial_flags(program.signal_layout, program.world_size)
        region.view(_I32)[: len(values)] = values
        machine.flag_words[region] = rank
        flags.append(region)
    addresses = Addresses(
        tuple(tuple(region.base for region in regions) for regions in buffers),
        tuple(region.base for region in flags),
    )
    return addresses, buffers, flags


def _granule(program: Any, index: int, spec: BufferSpec) -> int:
    """The largest power of two up to 16 that divides all that may be accessed of a buffer."""
    size = math.gcd(16, spec.nbytes // math.prod(spec.shape[:-1]))
    for rank in range(program.world_size):
        commands = program.rank_tables(rank)["commands"]
        for side in ("src", "dst"):
            mine = commands.column(f"{side}_buffer") == index
            for column in (f"{side}_offset", f"{side}_stride", "row_bytes"):
                for value in commands.column(column)[mine]:
                    size = math.gcd(size, int(value))
    pointers = any(
        isinstance(p, BufferParam) and p.buffer == spec.name and not p.descriptor
        for p in program.params
    )
    return element(spec.dtype).nbytes if pointers else size


class Host:
    """One rank."""

    def __init__(
        self,
        machine: Machine,
        rank: int,
        addresses: Addresses,
        buffers: Sequence[Region],
        flags: Sequence[Region],
    ) -> None:
        program = machine.program
        self.machine, self.program, self.rank = machine, program, rank
        self._buffers = dict(zip((spec.name for spec in program.buffers), buffers, strict=True))
        self._specs = {spec.name: spec for spec in program.buffers}
        self._flags = flags[rank]
        tables = program.rank_tables(rank)
        self._waits = tables["waits"].rows()
        self._call = tables["calls"].rows()[0]
        where = layout_tables(tables)
        memory = machine.memory
        initial = initial_state(where.num_commands)
        self._state = memory.add(f"state of rank {rank}", 4 * len(initial), RegionKind.WORDS, rank)
        self._state.view(_I32)[: len(initial)] = initial
        self.record = memory.add(
            f"fault record of rank {rank}", 8 * abi.FAULT_WORDS, RegionKind.WORDS, rank
        )
        upload = memory.add(f"tables of rank {rank}", where.nbytes, RegionKind.TABLE, rank)
        upload.data[: where.nbytes] = link_rank(
            program, rank, addresses, RankAddresses(self._state.base, self.record.base, upload.base)
        )
        self._context = upload.base
        self._ops = plan_engine(program, rank, addresses)
        self._main = _Stream(machine, f"the stream of rank {rank}")
        self._side = _Stream(machine, f"the copy engine of rank {rank}")
        self._tensors: dict[str, Region] = {}
        for param in program.params:
            if isinstance(param, TensorParam):
                self._tensors[param.name] = self._tensor(param)
        self._own: Region | None = None
        self._localized: BufferSpec | None = None
        for spec in program.buffers:
            if spec.name == program.localized and input_rows(spec, rank) is not None:
                self._localized = spec
                rows = input_rows(spec, rank)
                assert rows is not None
                size = (rows[1] - rows[0]) * spec.nbytes // spec.shape[0]
                self._own = memory.add(
                    f"input {spec.name} of rank {rank}",
                    size,
                    RegionKind.DATA,
                    rank,
                    _own_granule(spec),
                )
                self._own.checks_call = True
        self._opens = self._call["open_begin"] < self._call["open_end"]
        self._engine_calls: list[tuple[int, Vector, int]] = []

    def _tensor(self, param: TensorParam) -> Region:
        kind = element(param.dtype)
        strides = param.strides or _row_major(param.shape)
        size = kind.nbytes * (
            1 + sum((n - 1) * s for n, s in zip(param.shape, strides, strict=True))
        )
        granule = kind.nbytes
        if param.descriptor:
            granule = math.gcd(16, *(kind.nbytes * s for s in strides if s != 1))
        role = "output" if param.output else "tensor"
        region = self.machine.memory.add(
            f"{role} {param.tensor} of rank {self.rank}", size, RegionKind.DATA, self.rank, granule
        )
        region.checks_call = True
        return region

    # Arguments of a launch.

    def _arguments(self, input_region: Region, input_offset: int) -> list[Any]:
        program = self.program
        named = {param.name: param for param in program.params}
        first, *rest = program.image.arguments
        arguments: list[Any] = [self._context]
        for name, kind in rest:
            if kind == "constexpr":
                continue
            if name == INPUT_POINTER:
                arguments.append(input_region.base + input_offset if input_region else 0)
            elif name.startswith(INPUT_DESCRIPTOR) and name not in named:
                arguments += self._companion(name, named, input_region, input_offset)
            else:
                arguments += self._param(named[name], kind)
        expected = len(self.machine.kernel.argument_types)
        if len(arguments) != expected:
            raise InternalError(
                f"kernel {program.image.name} takes {expected} arguments, but {len(arguments)} were bound; "
                f"its types are {', '.join(self.machine.kernel.argument_types)}"
            )
        return arguments

    def _param(self, param: Any, kind: str) -> list[Any]:
        if isinstance(param, ScalarParam):
            return [param.value]
        if isinstance(param, BufferParam):
            spec, region = self._specs[param.buffer], self._buffers[param.buffer]
            shape, strides, dtype = spec.shape, _row_major(spec.shape), spec.dtype
        else:
            region, shape, dtype = self._tensors[param.name], param.shape, param.dtype
            strides = param.strides or _row_major(shape)
        if not param.descriptor:
            return [region.base]
        return self._describe(region, 0, shape, strides, dtype, param.padding)

    def _companion(
        self, name: str, named: Mapping[str, Any], region: Region | None, offset: int
    ) -> list[Any]:
        param = named[name.removeprefix(INPUT_DESCRIPTOR)]
        spec = self._specs[param.buffer] if isinstance(param, BufferParam) else None
        if spec is None or region is None or self._localized is None:
            rank = len(param.shape if spec is None else spec.shape)
            return [None, *[0] * (2 * rank)]
        rows = input_rows(spec, self.rank)
        assert rows is not None
        shape = (rows[1] - rows[0], *spec.shape[1:])
        return self._describe(region, offset, shape, _row_major(shape), spec.dtype, "zero")

    def _describe(
        self, region: Region, offset: int, shape: Any, strides: Any, dtype: str, padding: str
    ) -> list[Any]:
        kind = element(dtype)
        descriptor = Descriptor(region, offset, shape, strides, kind, nan=padding == "nan")
        if self.machine.kernel.has_tma:
            return [descriptor, *shape, *strides]
        raise SyncopateError(
            f"kernel {self.program.image.name} takes its descriptors apart, as Triton does without TMA; simulate it for sm_90"
        )

    # A call.

    def run(
        self, calls: Sequence[Mapping[str, Array]], outputs: list[dict[str, Array]], *, staged: bool
    ) -> Agent:
        """All calls on the main stream; `outputs` is filled."""
        for call, tensors in enumerate(calls, start=1):
            yield from self._one(call, tensors, staged)
            outputs.append(self._collect(call))

    def _one(self, call: int, tensors: Mapping[str, Array], copied: bool) -> Agent:
        staged: list[tuple[BufferSpec, Array]] = []
        source, offset = self._own, 0
        for name, spec in self._specs.items():
            regions = spec.inputs[self.rank]
            if not regions:
                continue
            given = tensors[name]
            in_place = self._localized is spec and not self._opens and not copied
            if in_place:
                assert self._own is not None
                self._write(self._own, call, element(spec.dtype).encode(given).ravel())
            else:
                staged.append((spec, given))
                if self._localized is spec:
                    source = self._buffers[name]
                    offset = regions[0].offsets[0] * spec.nbytes // spec.shape[0]
        for param in self.program.params:
            if isinstance(param, TensorParam):
                self._set(param, call, tensors)
        if staged or self._opens:
            yield from self._guard()
            for spec, given in staged:
                yield from self._stage(call, spec, given)
        if self._ops:
            self._fork(call, 0 if source is None else source.base + offset)
        arguments = self._arguments(source, offset)  # type: ignore[arg-type]
        self._main.tick()
        launch = Launch(self.machine, self.rank, call, arguments, self._main.vector)
        yield launch.ends()
        np.maximum(self._main.vector, launch.vector, out=self._main.vector)
        self._main.tick()

    def _write(self, region: Region, call: int, encoded: Array, index: Any = None) -> None:
        """The caller puts an input where the kernel finds it, on the main stream."""
        view = region.view(encoded.dtype)
        view[: encoded.size] = encoded
        self._mark(region, call, slice(None))

    def _mark(self, region: Region, call: int, place: Any) -> None:
        from syncopate.sim.global_memory import Footprint

        access = Access(self._main.vector, self._main.thread, self._main.clock, call, 0)
        region.check_write(self.machine, Footprint(place), access)

    def _set(self, param: TensorParam, call: int, tensors: Mapping[str, Array]) -> None:
        region, kind = self._tensors[param.name], element(param.dtype)
        if param.output and param.tensor not in tensors:
            region.data[:] = 0xFF
            self._mark(region, 0, slice(None))
            return
        strides = [kind.nbytes * s for s in param.strides or _row_major(param.shape)]
        view = np.ndarray(param.shape, kind.stored, region.data, 0, tuple(strides))
        view[...] = kind.encode(np.asarray(tensors[param.tensor]))
        self._mark(region, call, slice(None))

    def _guard(self) -> Agent:
        begin, end = self._call["guard_begin"], self._call["guard_end"]
        for wait in self._waits[begin:end]:
            signal = wait["signal"]
            epoch = int(self._state.view(_I32)[StateWord.EPOCH])
            wanted = epoch - 1 if wait["count"] == 0 else epoch * wait["count"]
            yield self._until(signal, lambda value, w=wanted: _behind(value, w) >= 0)
            self._acquire(self._main, signal)

    def _until(self, signal: int, holds: Any) -> Wait:
        view = self._flags.view(_I32)
        address = self._flags.base + 4 * signal
        return Wait(
            address,
            lambda: holds(int(view[signal])),
            lambda: (
                f"{self.machine.describe_flag(self.rank, signal)} (flag {signal} of rank {self.rank} "
                f"is {view[signal]})"
            ),
        )

    def _acquire(self, stream: _Stream, signal: int) -> None:
        self._flags.word(4 * signal).sync.acquire(stream.vector, Scope.SYS, *_OUTSIDE)

    def _stage(self, call: int, spec: BufferSpec, given: Array) -> Agent:
        kind, region = element(spec.dtype), self._buffers[spec.name]
        descriptor = Descriptor(region, 0, spec.shape, _row_major(spec.shape), kind, nan=False)
        encoded = kind.encode(np.asarray(given))
        (part,) = spec.inputs[self.rank]
        box = tuple(slice(o, o + s) for o, s in zip(part.offsets, part.sizes, strict=True))
        yield None
        access = Access(self._main.vector, self._main.thread, self._main.clock, call, 0)
        region.check_write(self.machine, descriptor.footprint(box), access)
        descriptor.elements[box] = encoded

    def _collect(self, call: int) -> dict[str, Array]:
        """The outputs of a call; each byte must have been written in it."""
        found = {}
        for param in self.program.params:
            if not isinstance(param, TensorParam) or not param.output:
                continue
            region, kind = self._tensors[param.name], element(param.dtype)
            missing = np.flatnonzero(region.call != call)
            if missing.size:
                self.machine.report(
                    Kind.OUTPUT,
                    f"call {call} leaves {missing.size * region.granule} bytes of {region.name} unwritten, "
                    f"the first at byte {int(missing[0]) * region.granule}",
                )
            strides = [kind.nbytes * s for s in param.strides or _row_major(param.shape)]
            view = np.ndarray(param.shape, kind.stored, region.data, 0, tuple(strides))
            found[param.tensor] = kind.decode(view)
        return found

    # The side stream.

    def _fork(self, call: int, input_address: int) -> None:
        self._main.tick()
        self._engine_calls.append((call, self._main.vector.copy(), input_address))
        self.machine.scheduler.wake(("fork", self))

    def engine(self, calls: int) -> Agent:
        """The list of every call on the side stream."""
        if not self._ops:
            return
        for _ in range(calls):
            yield Wait(
                ("fork", self),
                lambda: bool(self._engine_calls),
                lambda: f"rank {self.rank} to enqueue its call",
            )
            call, vector, input_address = self._engine_calls.pop(0)
            np.maximum(self._side.vector, vector, out=self._side.vector)
            state = self._state.view(_I32)
            mirror = {k: int(state[w]) for k, w in _ENGINE_WORDS.items()}
            for op in self._ops:
                yield None
                yield from self._perform(op, call, input_address, mirror)

    def _perform(
        self, op: EngineOp, call: int, input_address: int, mirror: Mapping[SignalKind, int]
    ) -> Agent:
        if isinstance(op, AwaitWord):
            signal = (op.address - self._flags.base) // 4
            yield self._until(signal, lambda value: value == 1)
            self._acquire(self._side, signal)
            self._write_word(op.address, 0)
        elif isinstance(op, Copy):
            yield from self._copy(op, call, input_address)
        else:
            word = _ENGINE_WORDS[op.kind]
            local = op.rank == self.rank
            value = mirror[op.kind] if local else int(self._state.view(_I32)[word])
            self._write_word(op.address, value)

    def _write_word(self, address: int, value: int) -> None:
        """A four-byte copy: ordered behind what the stream did, and seen by whoever acquires the word."""
        machine, side = self.machine, self._side
        region, offset = machine.memory.find(address, 4)
        word = region.word(offset)
        view = region.view(_I32)
        old = int(view[offset // 4])
        if value == 1 and old == 1:
            machine.report(
                Kind.OVERFLOW,
                f"{side.name} raises {machine.name_word(region, offset)} again before it was consumed",
            )
        view[offset // 4] = value
        word.sync.release(side.vector, Scope.SYS, *_OUTSIDE)
        word.atomics[side.thread] = side.clock
        word.version += 1
        side.tick()
        machine.event(side.name, "raises", f"{machine.name_word(region, offset)}: {old} -> {value}")
        machine.scheduler.wake(address)

    def _copy(self, op: Copy, call: int, input_address: int) -> Agent:
        machine, side = self.machine, self._side
        src = op.src + (input_address if op.from_input else 0)
        machine.event(side.name, "copies", f"{op.rows} rows of {op.row_bytes} bytes")
        rows = np.arange(op.rows)
        pieces: list[tuple[int, int, int]] = []
        if op.rows == 1:
            step = max(16, -(-op.row_bytes // _PIECES // 16) * 16)
            pieces = [(at, at, min(step, op.row_bytes - at)) for at in range(0, op.row_bytes, step)]
        else:
            pieces = [(int(r) * op.src_stride, int(r) * op.dst_stride, op.row_bytes) for r in rows]
        machine.scheduler.random.shuffle(pieces)
        for from_offset, to_offset, size in pieces:
            self._copy_piece(src + from_offset, op.dst + to_offset, size, call)
            yield None

    def _copy_piece(self, src: int, dst: int, size: int, call: int) -> None:
        from syncopate.sim.global_memory import Footprint

        machine, side = self.machine, self._side
        source, at = machine.memory.find(src, max(size, 9))
        target, to = machine.memory.find(dst, max(size, 9))
        access = Access(side.vector, side.thread, side.clock, call, 0)
        g = source.granule
        source.check_read(machine, Footprint(slice(at // g, -(-(at + size) // g))), access)
        g = target.granule
        target.check_write(machine, Footprint(slice(to // g, -(-(to + size) // g))), access)
        target.data[to : to + size] = source.data[at : at + size]

    def fault(self) -> list[int] | None:
        """The fault record if it is set."""
        words = self.record.view(np.dtype(np.int64))[: abi.FAULT_WORDS]
        return [int(word) for word in words] if words[FaultField.SET] else None


_ENGINE_WORDS = {
    SignalKind.EPOCH: StateWord.ENGINE_EPOCH,
    SignalKind.ONE: StateWord.ENGINE_ONE,
}
_ = Raise


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _own_granule(spec: BufferSpec) -> int:
    return math.gcd(16, spec.nbytes // math.prod(spec.shape[:-1]))


def _behind(value: int, wanted: int) -> int:
    return (value - wanted + 2**31) % 2**32 - 2**31
