"""The library of collectives: a call of which all ranks are a part, each on its side stream.

A rank's memory is read from when its stream comes to the call until the call ends, and nobody's call ends before all
streams have come to it. Then every stream has seen what all of them had, and every rank's memory is written.

An exchange is over at a rank when what it receives has been sent, whoever else is late. What it sends is read from when
its stream comes to it until then, and whoever receives it has seen what the sender had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.abi import CommandReduction, LibraryCall
from syncopate.runtime.engine_plan import Call, Exchange
from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind
from syncopate.sim.scheduler import Agent, Wait
from syncopate.sim.streams import granules
from syncopate.sim.values import Element, element
from syncopate.tables import BufferSpec

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine
    from syncopate.sim.streams import EngineStream

__all__ = ["Library"]

Array = np.ndarray[Any, Any]


@dataclass
class _Meeting:
    """One call of all ranks: what they have come with, what they had seen, and what they get."""

    given: dict[int, tuple[Call, Array]] = field(default_factory=dict)
    seen: list[Vector] = field(default_factory=list)
    results: list[Array] = field(default_factory=list)


class Library:
    """The calls of a simulation, in the order in which each rank makes them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._made: dict[int, int] = {}
        self._meetings: list[_Meeting] = []
        self._sent: dict[tuple[int, ...], tuple[list[Array], Vector]] = {}

    def call(self, stream: EngineStream, op: Call, call: int) -> Agent:
        """A stream's part of its next call."""
        machine, memory = self._machine, stream.memory
        rank = memory.rank
        number = self._made.get(rank, 0)
        self._made[rank] = number + 1
        if number == len(self._meetings):
            self._meetings.append(_Meeting())
        meeting = self._meetings[number]
        spec = machine.program.buffers[op.src]
        kind = element(spec.dtype)
        source = memory.buffers[spec.name]
        target = memory.buffers[machine.program.buffers[op.dst].name]
        for offset, size in _stored(spec, op):
            source.check_read(machine, granules(source, offset, size), stream.access(call))
        stored = source.data[op.src_offset : op.src_offset + op.read_bytes]
        machine.event(stream.name, "joins", f"{op.kind.name.lower()} of {op.read_bytes} bytes")
        meeting.given[rank] = (op, stored)
        meeting.seen.append(stream.vector.copy())
        machine.scheduler.wake((self, number))
        world = machine.program.world_size
        yield Wait(
            (self, number),
            lambda: len(meeting.given) == world,
            lambda: (
                f"all ranks to make library call {number} ({len(meeting.given)} of {world} have)"
            ),
        )
        # What is written to the memory of others was read before: a result is made when the first one goes on.
        if not meeting.results:
            meeting.results = self._combine(meeting, kind)
        yield None
        for vector in meeting.seen:
            stream.join(vector)
        stream.tick()
        parts = meeting.results[rank].reshape(len(op.targets), op.nbytes)
        for offset, part in zip(op.targets, parts, strict=True):
            place = granules(target, offset, op.nbytes)
            target.check_write(machine, place, stream.access(call))
            target.data[offset : offset + op.nbytes] = part
        stream.tick()

    def exchange(self, stream: EngineStream, op: Exchange, call: int, input_address: int) -> Agent:
        """A stream's part of an exchange.

        Args:
            stream: The stream.
            op: The exchange.
            call: Number of the program's call.
            input_address: Where the rank's own input is.
        """
        machine, rank = self._machine, stream.memory.rank
        given: dict[int, list[Array]] = {}

        def read() -> None:
            given.clear()
            for piece in op.sends:
                address = piece.address
                if piece.input_offset is not None:
                    address = input_address + piece.input_offset
                source, offset = machine.memory.find_bytes(address, piece.nbytes)
                place = granules(source, offset, piece.nbytes)
                source.check_read(machine, place, stream.access(call))
                part = source.data[offset : offset + piece.nbytes].copy()
                given.setdefault(piece.peer, []).append(part)

        nbytes = [sum(piece.nbytes for piece in side) for side in (op.sends, op.receives)]
        machine.event(stream.name, "exchanges", f"sends {nbytes[0]} bytes, receives {nbytes[1]}")
        read()
        for peer, parts in given.items():
            self._sent[call, op.meeting, rank, peer] = (parts, stream.vector.copy())
        machine.scheduler.wake((self, call, op.meeting))
        keys = [
            (call, op.meeting, peer, rank) for peer in dict.fromkeys(p.peer for p in op.receives)
        ]
        yield Wait(
            (self, call, op.meeting),
            lambda: all(key in self._sent for key in keys),
            lambda: (
                f"rank {next(key[2] for key in keys if key not in self._sent)} to send, in exchange {op.meeting}"
            ),
        )
        yield None
        # Until here the library may read what it sends.
        read()
        stream.tick()
        arrived = {key[2]: self._sent.pop(key) for key in keys}
        for _, vector in arrived.values():
            stream.join(vector)
        queues = {peer: iter(parts) for peer, (parts, _) in arrived.items()}
        for piece in op.receives:
            target, offset = machine.memory.find_bytes(piece.address, piece.nbytes)
            part = next(queues[piece.peer], None)
            if part is None or part.size != piece.nbytes:
                machine.report(
                    Kind.ARRIVAL,
                    f"{stream.name} receives {piece.nbytes} bytes from rank {piece.peer}, which sends "
                    f"{0 if part is None else part.size}",
                )
                continue
            place = granules(target, offset, piece.nbytes)
            target.check_write(machine, place, stream.access(call))
            target.data[offset : offset + piece.nbytes] = part
        stream.tick()

    def _combine(self, meeting: _Meeting, kind: Element) -> list[Array]:
        """What each rank gets, as stored bytes."""
        calls = [meeting.given[rank][0] for rank in sorted(meeting.given)]
        parts = [meeting.given[rank][1].copy() for rank in sorted(meeting.given)]
        op = calls[0]
        alike = {(c.kind, c.reduction, c.nbytes, c.parts) for c in calls}
        if len(alike) > 1:
            self._machine.report(
                Kind.ARRIVAL,
                f"ranks make different library calls at the same time: {sorted(alike)}",
            )
            return [np.zeros(c.nbytes * len(c.targets), np.uint8) for c in calls]
        if op.kind is LibraryCall.ALL_TO_ALL:
            cut = [part.reshape(len(calls), op.nbytes) for part in parts]
            return [np.concatenate([part[rank] for part in cut]) for rank in range(len(calls))]
        step = {
            CommandReduction.SUM: np.add,
            CommandReduction.MAX: np.maximum,
            CommandReduction.MIN: np.minimum,
        }[op.reduction]
        with np.errstate(invalid="ignore", over="ignore"):
            values = [kind.decode(part.view(kind.stored)) for part in parts]
            total = kind.encode(reduce(step, values)).view(np.uint8).ravel()
        if op.kind is LibraryCall.ALL_REDUCE:
            return [total] * len(calls)
        return list(total.reshape(len(calls), op.nbytes))


def _stored(spec: BufferSpec, op: Call) -> Iterator[tuple[int, int]]:
    """Where a rank has stored what a call reads, and how many bytes: slots without a tile hold what nobody uses."""
    assert spec.slots is not None
    size = spec.nbytes // spec.slots.count
    for slot in spec.slots.stored:
        if op.src_offset <= slot * size < op.src_offset + op.read_bytes:
            yield slot * size, size
