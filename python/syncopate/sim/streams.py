"""Streams, threads of the memory model whose operations follow each other; a rank's list of commands on one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from syncopate.abi import SignalKind, StateWord
from syncopate.runtime.engine_plan import AwaitWord, Call, Copy, EngineOp, Exchange
from syncopate.sim.clocks import Scope, Vector
from syncopate.sim.findings import Kind
from syncopate.sim.global_memory import Access, Actor, Footprint, MemoryRegion
from syncopate.sim.rank_memory import I32, RankMemory
from syncopate.sim.scheduler import Agent, Wait

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["EngineStream", "Stream", "granules"]

_PIECES = 4
_OUTSIDE = (-1, -1)
"""Rank and CTA of a stream: no scope narrower than the system's reaches it."""
_ENGINE_WORDS = {
    SignalKind.EPOCH: StateWord.ENGINE_EPOCH,
    SignalKind.ONE: StateWord.ENGINE_ONE,
}


class Stream:
    """A stream of a rank. Each of its operations sees all that was before it."""

    def __init__(self, machine: Machine, memory: RankMemory, name: str) -> None:
        self.machine, self.memory, self.name = machine, memory, name
        self.thread = machine.clocks.thread(name)
        self.vector = machine.clocks.vector()
        self._clock = 0
        self.tick()

    def tick(self) -> None:
        """What comes next is not covered by what was released so far."""
        self._clock += 1
        self.vector[self.thread] = self._clock

    def join(self, vector: Vector) -> None:
        """Comes after what a vector has seen."""
        np.maximum(self.vector, vector, out=self.vector)

    def access(self, call: int) -> Access:
        """An access by the stream."""
        return Access(self.vector, self.thread, self._clock, call, 0)

    def until(self, signal: int, holds: Callable[[int], bool]) -> Agent:
        """Waits for a flag of the rank, and acquires it."""
        flags, rank = self.memory.flags, self.memory.rank
        view = flags.view(I32)
        yield Wait(
            flags.base + 4 * signal,
            lambda: holds(int(view[signal])),
            lambda: (
                f"{self.machine.describe_flag(rank, signal)} (flag {signal} of rank {rank} is {view[signal]})"
            ),
        )
        flags.word(4 * signal).sync.acquire(self.vector, Scope.SYS, *_OUTSIDE)

    def write_word(self, address: int, value: int) -> None:
        """Writes four bytes: ordered behind what the stream did, and seen by whoever acquires the word."""
        machine = self.machine
        region, offset = machine.memory.find(address, 4)
        word, view = region.word(offset), region.view(I32)
        old = int(view[offset // 4])
        machine.check_flag(self.name, region, offset, old, value, self.vector)
        if value == 0:
            word.consumed = (self.thread, self._clock)
        view[offset // 4] = value
        word.sync.release(self.vector, Scope.SYS, *_OUTSIDE)
        word.note_atomic(Actor(self.thread, self._clock, Scope.SYS, *_OUTSIDE))
        self.tick()
        if machine.trace is not None:
            name = machine.name_word(region, offset)
            machine.event(self.name, "raises", f"{name}: {old} -> {value}")
        machine.scheduler.wake(address)


class EngineStream(Stream):
    """The side stream with the list of `plan_engine`, once for each call."""

    def __init__(self, machine: Machine, memory: RankMemory, ops: Sequence[EngineOp]) -> None:
        super().__init__(machine, memory, f"the copy engine of rank {memory.rank}")
        self._ops = ops
        self._enqueued: list[tuple[int, Vector, int]] = []

    def enqueue(self, call: int, main: Stream, input_address: int) -> None:
        """Puts the list of a call behind what is on the main stream now."""
        if self._ops:
            main.tick()
            self._enqueued.append((call, main.vector.copy(), input_address))
            self.machine.scheduler.wake(self)

    def run(self, calls: int) -> Agent:
        """The lists of all calls."""
        for _ in range(calls if self._ops else 0):
            yield Wait(
                self,
                lambda: bool(self._enqueued),
                lambda: f"rank {self.memory.rank} to enqueue its call",
            )
            call, vector, input_address = self._enqueued.pop(0)
            self.join(vector)
            # Flags on the same GPU get their values from a mirror in host memory, which the list fills first.
            mirror = {kind: self._read_state(word) for kind, word in _ENGINE_WORDS.items()}
            for op in self._ops:
                yield None
                yield from self._perform(op, call, input_address, mirror)

    def _perform(
        self, op: EngineOp, call: int, input_address: int, mirror: Mapping[SignalKind, int]
    ) -> Agent:
        if isinstance(op, AwaitWord):
            yield from self.until(
                (op.address - self.memory.flags.base) // 4, lambda value: value == 1
            )
            self.write_word(op.address, 0)
        elif isinstance(op, Call):
            yield from self.machine.library.call(self, op, call)
        elif isinstance(op, Exchange):
            yield from self.machine.library.exchange(self, op, call, input_address)
        elif isinstance(op, Copy):
            yield from self._copy(op, call, op.src + (input_address if op.from_input else 0))
        else:
            local = op.rank == self.memory.rank
            value = mirror[op.kind] if local else self._read_state(_ENGINE_WORDS[op.kind])
            self.write_word(op.address, value)

    def _read_state(self, index: StateWord) -> int:
        """A word that the kernel of this rank keeps for the engine."""
        state = self.memory.state
        word = state.word(4 * index)
        thread, clock = word.write
        if clock > self.vector[thread]:
            self.machine.report(
                Kind.RACE,
                f"{self.name} reads {self.machine.name_word(state, 4 * index)}, written by "
                f"{self.machine.name_thread(thread)}, and nothing orders the two",
            )
        word.reads[self.thread] = self._clock
        return int(state.view(I32)[index])

    def _copy(self, op: Copy, call: int, src: int) -> Agent:
        """A copy, in pieces and in any order."""
        self.machine.event(self.name, "copies", f"{op.rows} rows of {op.row_bytes} bytes")
        if op.rows == 1:
            step = max(16, -(-op.row_bytes // _PIECES // 16) * 16)
            starts = range(0, op.row_bytes, step)
            pieces = [(at, at, min(step, op.row_bytes - at)) for at in starts]
        else:
            pieces = [(r * op.src_stride, r * op.dst_stride, op.row_bytes) for r in range(op.rows)]
        self.machine.scheduler.random.shuffle(pieces)
        for from_offset, to_offset, size in pieces:
            self._copy_piece(src + from_offset, op.dst + to_offset, size, call)
            yield None

    def _copy_piece(self, src: int, dst: int, size: int, call: int) -> None:
        machine = self.machine
        source, at = machine.memory.find_bytes(src, size)
        target, to = machine.memory.find_bytes(dst, size)
        source.check_read(machine, granules(source, at, size), self.access(call))
        target.check_write(machine, granules(target, to, size), self.access(call))
        target.data[to : to + size] = source.data[at : at + size]


def granules(region: MemoryRegion, offset: int, size: int) -> Footprint:
    """Bytes of a region."""
    granule = region.granule
    return Footprint(slice(offset // granule, -(-(offset + size) // granule)))
