"""Memory of the ranks, laid out and linked by the runtime's own code, and the arguments of a launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate import abi
from syncopate.abi import FaultField, StateWord
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.commands import role_parts
from syncopate.runtime.interface import (
    INPUT_DESCRIPTOR,
    INPUT_POINTER,
    BufferParam,
    ScalarParam,
    ScratchParam,
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
from syncopate.runtime.records import DEFAULT_RECORDS
from syncopate.sim.global_memory import Descriptor, MemoryRegion, RegionKind
from syncopate.sim.values import Element, element, wrap
from syncopate.tables import BufferSpec

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["I32", "RankMemory", "Symmetric", "row_major"]

Array = np.ndarray[Any, Any]
I32 = np.dtype(np.int32)
POISON = 0xFF  # a NaN in every float format


@dataclass(frozen=True)
class Symmetric:
    """Buffers and flags of all ranks.

    Attributes:
        buffers: By rank, then by index in the plan.
        flags: By rank.
    """

    buffers: tuple[tuple[MemoryRegion, ...], ...]
    flags: tuple[MemoryRegion, ...]

    @staticmethod
    def allocate(machine: Machine) -> Symmetric:
        """Makes them, each in a region of its own, and names the flags."""
        program = machine.program
        ranks = range(program.world_size)
        buffers = []
        for rank in ranks:
            regions = []
            for index, spec in enumerate(program.buffers):
                name = f"buffer {spec.name} of rank {rank}"
                granule = _granule(program, index, spec)
                region = machine.memory.add(name, spec.nbytes, RegionKind.DATA, rank, granule)
                region.data[:] = POISON
                region.checks_call = True
                regions.append(region)
            buffers.append(tuple(regions))
        values = initial_flags(program.signal_layout, program.world_size)
        decode = program.signal_layout.decode
        counts = _additions(program)
        # Also a flag that nobody adds to holds the number of calls.
        np.maximum(counts, 1, out=counts)
        flags = []
        for rank in ranks:
            region = machine.memory.add(
                f"flags of rank {rank}", 4 * len(values), RegionKind.WORDS, rank
            )
            before = [
                value if decode(signal)[2] else wrap((machine.first_epoch - 1) * count, 32)
                for signal, (value, count) in enumerate(
                    zip(values.tolist(), counts[rank].tolist(), strict=True)
                )
            ]
            region.view(I32)[: len(values)] = before
            machine.flag_words[region] = rank
            flags.append(region)
        return Symmetric(tuple(buffers), tuple(flags))

    @property
    def addresses(self) -> Addresses:
        """As the linker wants them."""
        return Addresses(
            tuple(tuple(region.base for region in regions) for regions in self.buffers),
            tuple(region.base for region in self.flags),
        )


def _additions(program: Any) -> Array:
    """By rank and flag, how often a call adds to it."""
    counts = np.zeros((program.world_size, program.signal_layout.total), np.int64)
    for rank in range(program.world_size):
        signals = program.rank_tables(rank)["signals"]
        adding = signals.column("kind") == abi.SignalKind.ADD
        where = (signals.column("rank")[adding], signals.column("signal")[adding])
        np.add.at(counts, where, 1)
    return counts


def _granule(program: Any, index: int, spec: BufferSpec) -> int:
    """The largest power of two up to 16 that divides all that may be accessed of a buffer."""
    size = math.gcd(16, spec.nbytes // math.prod(spec.memory_shape[:-1]))
    for rank in range(program.world_size):
        commands = program.rank_tables(rank)["commands"]
        for side in ("src", "dst"):
            mine = commands.column(f"{side}_buffer") == index
            for column in (f"{side}_offset", f"{side}_stride", "row_bytes"):
                size = math.gcd(size, *map(int, commands.column(column)[mine]))
    pointers = any(
        isinstance(p, BufferParam) and p.buffer == spec.name and not p.descriptor
        for p in program.params
    )
    return math.gcd(size, element(spec.dtype).nbytes) if pointers else size


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class RankMemory:
    """One rank's memory, its part of the symmetric memory included."""

    def __init__(self, machine: Machine, rank: int, symmetric: Symmetric) -> None:
        program, memory = machine.program, machine.memory
        self.machine, self.program, self.rank = machine, program, rank
        self.specs: dict[str, BufferSpec] = {spec.name: spec for spec in program.buffers}
        self.buffers = dict(zip(self.specs, symmetric.buffers[rank], strict=True))
        self.flags = symmetric.flags[rank]
        where = layout_tables(program.rank_tables(rank), program.num_ctas)
        initial = initial_state(where)
        self.state = memory.add(f"state of rank {rank}", 4 * len(initial), RegionKind.WORDS, rank)
        machine.state_words[rank] = self.state
        skipped = machine.first_epoch - abi.FIRST_EPOCH
        for word in (StateWord.EPOCH, StateWord.ENGINE_EPOCH):
            initial[word] = wrap(machine.first_epoch, 32)
        ctas = program.comm_ctas + program.num_ctas
        initial[StateWord.FINISHED] = wrap(skipped * ctas, 32)
        commands = program.rank_tables(rank)["commands"]
        for part in role_parts(commands, program.comm_ctas, program.num_ctas).values():
            first = StateWord.COMMANDS + part.commands.start
            initial[first : first + len(part.commands)] = wrap(skipped * len(part.ctas), 32)
        tiles = program.rank_tables(rank)["groups"].column("count")
        initial[abi.state_words(where.num_commands, 0) :] = wrap(skipped * tiles, 32)
        self.state.view(I32)[: len(initial)] = initial
        self._record = memory.add(
            f"fault record of rank {rank}", 8 * abi.FAULT_WORDS, RegionKind.WORDS, rank
        )
        upload = memory.add(f"tables of rank {rank}", where.nbytes, RegionKind.TABLE, rank)
        lanes, records = 0, 0
        self._lanes: MemoryRegion | None = None
        if program.profiled:
            records = DEFAULT_RECORDS
            words = abi.profile_words(ctas, records)
            name = f"profile of rank {rank}"
            self._lanes = memory.add(name, 8 * words, RegionKind.WORDS, rank)
            lanes = self._lanes.base
        own = RankAddresses(self.state.base, self._record.base, upload.base, lanes, records)
        upload.data[: where.nbytes] = link_rank(program, rank, symmetric.addresses, own)
        self._context = upload.base
        self.tensors: dict[str, MemoryRegion] = {
            param.name: self._make_tensor(param)
            for param in program.params
            if isinstance(param, TensorParam)
        }
        self.scratch = {
            param.name: self._make_scratch(param)
            for param in program.params
            if isinstance(param, ScratchParam)
        }
        self.localized: BufferSpec | None = None
        self.own_input: MemoryRegion | None = None
        for spec in program.buffers:
            if spec.name == program.localized and input_rows(spec, rank) is not None:
                self.localized, self.own_input = spec, self._make_input(spec)

    def _make_tensor(self, param: TensorParam) -> MemoryRegion:
        kind, strides = element(param.dtype), param.strides or row_major(param.shape)
        last = sum((n - 1) * s for n, s in zip(param.shape, strides, strict=True))
        granule = kind.nbytes
        if param.descriptor:
            granule = math.gcd(16, *(kind.nbytes * s for s in strides if s != 1))
        what = "output" if param.output else "tensor"
        name = f"{what} {param.tensor} of rank {self.rank}"
        nbytes = kind.nbytes * (1 + last)
        region = self.machine.memory.add(name, nbytes, RegionKind.DATA, self.rank, granule)
        region.checks_call = True
        return region

    def _make_scratch(self, param: ScratchParam) -> MemoryRegion:
        """Memory of the program's own. Integers are words by which CTAs meet, all else is data of one call."""
        kind = element(param.dtype)
        name = f"scratch {param.name} of rank {self.rank}"
        nbytes = math.prod(param.shape) * kind.nbytes
        if not kind.is_float:
            return self.machine.memory.add(name, nbytes, RegionKind.WORDS, self.rank)
        region = self.machine.memory.add(name, nbytes, RegionKind.DATA, self.rank, kind.nbytes)
        region.checks_call = True
        return region

    def _make_input(self, spec: BufferSpec) -> MemoryRegion:
        """Where the caller keeps the rank's own input."""
        first, last = self._rows(spec)
        row_bytes = spec.nbytes // spec.shape[0]
        name = f"input {spec.name} of rank {self.rank}"
        granule = self.buffers[spec.name].granule
        nbytes = (last - first) * row_bytes
        region = self.machine.memory.add(name, nbytes, RegionKind.DATA, self.rank, granule)
        region.checks_call = True
        return region

    def _rows(self, spec: BufferSpec) -> tuple[int, int]:
        rows = input_rows(spec, self.rank)
        assert rows is not None
        return rows

    def input_in_buffer(self, spec: BufferSpec) -> int:
        """Byte of the buffer where the rank's own input begins."""
        return self._rows(spec)[0] * spec.nbytes // spec.shape[0]

    def view_tensor(self, param: TensorParam) -> tuple[MemoryRegion, Array, Element]:
        """A tensor's region, its elements as stored, and their type."""
        region, kind = self.tensors[param.name], element(param.dtype)
        strides = [kind.nbytes * s for s in param.strides or row_major(param.shape)]
        view = np.ndarray(param.shape, kind.stored, region.data, 0, tuple(strides))
        return region, view, kind

    def fault(self) -> list[int] | None:
        """The fault record if it is set."""
        words = self._record.view(np.dtype(np.int64))[: abi.FAULT_WORDS]
        return [int(word) for word in words] if words[FaultField.SET] else None

    def lanes(self) -> Array | None:
        """The words of the lanes in which roles have left records, if the program does that."""
        if self._lanes is None:
            return None
        words: Array = self._lanes.view(np.dtype(np.int64)).copy()
        return words

    # Arguments of a launch.

    def arguments(self, source: MemoryRegion | None, offset: int) -> list[Any]:
        """What the kernel takes, its own input being at an offset of a region."""
        named = {param.name: param for param in self.program.params}
        arguments: list[Any] = [self._context]
        for name, kind in self.program.image.arguments[1:]:
            if kind == "constexpr":
                continue
            if name == INPUT_POINTER:
                arguments.append(0 if source is None else source.base + offset)
            elif name.startswith(INPUT_DESCRIPTOR) and name not in named:
                bound = named[name.removeprefix(INPUT_DESCRIPTOR)]
                arguments += self._companion(bound, source, offset)
            else:
                arguments += self._parameter(named[name])
        expected = self.machine.kernel.argument_types
        if len(arguments) != len(expected):
            raise InternalError(
                f"kernel {self.program.image.name} takes {len(expected)} arguments, but {len(arguments)} were bound; "
                f"their types are {', '.join(expected)}"
            )
        return arguments

    def _parameter(self, param: Any) -> list[Any]:
        if isinstance(param, ScalarParam):
            return [param.value]
        if isinstance(param, ScratchParam):
            return [self.scratch[param.name].base]
        if isinstance(param, BufferParam):
            spec, region = self.specs[param.buffer], self.buffers[param.buffer]
            shape, dtype = spec.memory_shape, spec.dtype
            strides = row_major(shape)
        else:
            region, shape, dtype = self.tensors[param.name], param.shape, param.dtype
            strides = param.strides or row_major(shape)
        if not param.descriptor:
            return [region.base]
        return self._describe(region, 0, shape, strides, dtype, param.padding)

    def _companion(self, param: BufferParam, region: MemoryRegion | None, offset: int) -> list[Any]:
        """The descriptor of the rank's own input; one that nobody uses if it has none."""
        spec = self.specs[param.buffer]
        if region is None or self.localized is not spec:
            return [None, *[0] * (2 * len(spec.shape))]
        first, last = self._rows(spec)
        shape = (last - first, *spec.shape[1:])
        return self._describe(region, offset, shape, row_major(shape), spec.dtype, "zero")

    def _describe(
        self, region: MemoryRegion, offset: int, shape: Any, strides: Any, dtype: str, padding: str
    ) -> list[Any]:
        if not self.machine.kernel.has_tma:
            raise SyncopateError(
                f"kernel {self.program.image.name}: Triton passes its descriptors without TMA; compile for sm_90 or "
                f"later, or load through pointers"
            )
        nan = padding == "nan"
        descriptor = Descriptor(region, offset, shape, strides, element(dtype), nan=nan)
        return [descriptor, *shape, *strides]
