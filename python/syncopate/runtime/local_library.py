"""Library calls among the ranks of one process on one GPU: torch's operations, on the multiprocessors that are free.

All that a call needs is there before any call is made. While a kernel spins, or a stream waits for a word, the driver
may not load code or allocate memory: both may wait for everything that runs, which waits for this very call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from syncopate.abi import CommandReduction
from syncopate.runtime import cuda
from syncopate.runtime.engine_plan import Exchange

__all__ = ["LocalLibrary", "Meeting"]


@dataclass(frozen=True)
class _Given:
    """What a rank comes to a call with."""

    sources: tuple[torch.Tensor, ...]
    targets: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class _Parcels:
    """What a rank comes to an exchange with: of each piece the other rank, the address and the number of bytes."""

    sends: Sequence[tuple[int, int, int]]
    receives: Sequence[tuple[int, int, int]]


@dataclass
class _Round:
    """One call of all that have a part in it."""

    given: dict[int, Any] = field(default_factory=dict)
    arrived: list[torch.cuda.Event] = field(default_factory=list)
    done: torch.cuda.Event | None = None


class Meeting:
    """Where the ranks of a process come together for calls of one program."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._open: dict[int, _Round] = {}
        self._last: dict[int, _Round] = {}

    def join(
        self,
        number: int,
        rank: int,
        members: Sequence[int],
        given: Any,
        work: Callable[[Mapping[int, Any]], None],
    ) -> None:
        """Enqueues what the last rank to come does behind what the streams of all have come to.

        Args:
            number: Of the call or exchange, among those of the program; it is over before it comes again.
            rank: Who comes.
            members: Who has a part in it.
            given: What the rank comes with.
            work: What the last one enqueues, for all: a function of what each has come with.
        """
        stream = torch.cuda.current_stream()
        this = self._last[rank] = self._open.setdefault(number, _Round())
        this.given[rank] = given
        arrived = torch.cuda.Event()
        arrived.record(stream)
        this.arrived.append(arrived)
        if len(this.given) < len(members):
            return
        del self._open[number]
        for event in this.arrived:
            stream.wait_event(event)
        work({member: this.given[member] for member in members})
        this.done = torch.cuda.Event()
        this.done.record(stream)

    def finish(self, rank: int) -> None:
        """Makes the current stream wait for the rank's last call."""
        done = self._last[rank].done
        assert done is not None, "a call that not all ranks have made"
        torch.cuda.current_stream().wait_event(done)


class LocalLibrary:
    """The `Library` of one of several ranks of a process: the last one to make a call carries it out, for all.

    Sums are in float32, in the order of the ranks.
    """

    def __init__(self, rank: int, device: int, meeting: Meeting) -> None:
        self._rank, self._device, self._meeting = rank, device, meeting
        self._calls = 0

    def all_reduce(
        self, tensor: torch.Tensor, reduction: CommandReduction, stream: int
    ) -> Callable[[], int]:
        """In place."""
        total, step = _scratch(tensor), _STEPS[reduction]

        def work(parts: Sequence[_Given]) -> None:
            _combine(total, [part.sources[0] for part in parts], step)
            for part in parts:
                part.targets[0].copy_(total)

        return self._bind(_Given((tensor,), (tensor,)), work, stream)

    def reduce_scatter(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        reduction: CommandReduction,
        stream: int,
    ) -> Callable[[], int]:
        """In place if `output` is the rank's part of `tensor`."""
        total, step = _scratch(tensor), _STEPS[reduction]

        def work(parts: Sequence[_Given]) -> None:
            _combine(total, [part.sources[0] for part in parts], step)
            for part, mine in zip(parts, total.chunk(len(parts)), strict=True):
                part.targets[0].copy_(mine)

        return self._bind(_Given((tensor,), (output,)), work, stream)

    def all_gather(
        self, output: torch.Tensor, tensor: torch.Tensor, stream: int
    ) -> Callable[[], int]:
        """In place if `tensor` is the rank's part of `output`."""

        def work(parts: Sequence[_Given]) -> None:
            for part in parts:
                for target, other in zip(part.targets, parts, strict=True):
                    if target.data_ptr() != other.sources[0].data_ptr():
                        target.copy_(other.sources[0])

        targets = output.chunk(self._meeting.world_size)
        return self._bind(_Given((tensor,), tuple(targets)), work, stream)

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], stream: int
    ) -> Callable[[], int]:
        """Copies."""

        def work(parts: Sequence[_Given]) -> None:
            for rank, part in enumerate(parts):
                for target, other in zip(part.targets, parts, strict=True):
                    target.copy_(other.sources[rank])

        return self._bind(_Given(tuple(tensors), tuple(outputs)), work, stream)

    def exchange(
        self,
        op: Exchange,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        stream: int,
    ) -> Callable[[], int]:
        """By copies; those of the driver have no code to load."""

        def work(parts: Mapping[int, _Parcels]) -> None:
            on = torch.cuda.current_stream().cuda_stream
            for rank, part in parts.items():
                # What goes from one rank to another arrives in the order in which it was sent.
                taken = {other: iter(of(parts[other].sends, rank)) for other in parts}
                for peer, address, nbytes in part.receives:
                    _, source, sent = next(taken[peer])
                    assert sent == nbytes, "ranks that cut what they exchange in different ways"
                    cuda.call("cuMemcpyAsync", address, source, nbytes, on)

        def of(pieces: Sequence[tuple[int, int, int]], rank: int) -> list[tuple[int, int, int]]:
            return [piece for piece in pieces if piece[0] == rank]

        parcels = _Parcels(tuple(sends), tuple(receives))
        return self._on_stream(
            stream,
            lambda: self._meeting.join(op.meeting, self._rank, op.members, parcels, work),
        )

    def finish(self, stream: int) -> Callable[[], int] | None:
        """Waits for the last call."""
        return self._on_stream(stream, lambda: self._meeting.finish(self._rank))

    def warm_up(self, calls: Sequence[Callable[[], int]]) -> None:
        """Nothing: each call was carried out when it was bound."""

    def abort(self) -> None:
        """Nothing: no rank waits inside of a call."""

    def _bind(
        self, given: _Given, work: Callable[[Sequence[_Given]], None], stream: int
    ) -> Callable[[], int]:
        # Alone with itself, so that the code of all operations is loaded.
        world = self._meeting.world_size
        self._on_stream(stream, lambda: work([given] * world))()
        torch.cuda.synchronize(self._device)
        # Exchanges have numbers of their own, from 0 on.
        self._calls -= 1
        number = self._calls

        def carry_out(parts: Mapping[int, _Given]) -> None:
            work([parts[rank] for rank in range(world)])

        def join() -> None:
            self._meeting.join(number, self._rank, range(world), given, carry_out)

        return self._on_stream(stream, join)

    def _on_stream(self, stream: int, enqueue: Callable[[], None]) -> Callable[[], int]:
        external = torch.cuda.ExternalStream(stream, device=self._device)

        def run() -> int:
            with torch.cuda.stream(external):
                enqueue()
            return 0

        return run


_STEPS = {
    CommandReduction.SUM: torch.add,
    CommandReduction.MAX: torch.maximum,
    CommandReduction.MIN: torch.minimum,
}


def _scratch(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.dtype
    if wide.is_floating_point and wide.itemsize < 4:
        wide = torch.float32
    return torch.empty_like(tensor, dtype=wide)


def _combine(
    total: torch.Tensor, sources: Sequence[torch.Tensor], step: Callable[..., torch.Tensor]
) -> None:
    first, *others = sources
    total.copy_(first)
    for source in others:
        step(total, source, out=total)
