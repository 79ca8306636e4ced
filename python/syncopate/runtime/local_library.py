"""Library calls among the ranks of one process on one GPU: torch's operations, on the multiprocessors that are free.

All that a call needs is there before any call is made. While a kernel spins, or a stream waits for a word, the driver
may not load code or allocate memory: both may wait for everything that runs, which waits for this very call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from syncopate.abi import CommandReduction

__all__ = ["LocalLibrary", "Meeting"]


@dataclass(frozen=True)
class _Given:
    """What a rank comes to a call with."""

    sources: tuple[torch.Tensor, ...]
    targets: tuple[torch.Tensor, ...]


Work = Callable[[Sequence[_Given]], None]
"""What the last rank to come enqueues, for all."""


@dataclass
class _Round:
    """One call of all ranks."""

    given: dict[int, _Given] = field(default_factory=dict)
    arrived: list[torch.cuda.Event] = field(default_factory=list)
    done: torch.cuda.Event | None = None


class Meeting:
    """Where the ranks of a process come together for calls of one program."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._made = [0] * world_size
        self._rounds: dict[int, _Round] = {}

    def join(self, rank: int, given: _Given, work: Work) -> None:
        """Enqueues what the last rank to come does behind what the streams of all have come to."""
        stream = torch.cuda.current_stream()
        number = self._made[rank]
        self._made[rank] = number + 1
        this = self._rounds.setdefault(number, _Round())
        self._rounds.pop(number - 2, None)
        this.given[rank] = given
        arrived = torch.cuda.Event()
        arrived.record(stream)
        this.arrived.append(arrived)
        if len(this.given) < self.world_size:
            return
        for event in this.arrived:
            stream.wait_event(event)
        work([this.given[rank] for rank in range(self.world_size)])
        this.done = torch.cuda.Event()
        this.done.record(stream)

    def finish(self, rank: int) -> None:
        """Makes the current stream wait for the rank's last call."""
        done = self._rounds[self._made[rank] - 1].done
        assert done is not None, "a call that not all ranks have made"
        torch.cuda.current_stream().wait_event(done)


class LocalLibrary:
    """The `Library` of one of several ranks of a process: the last one to make a call carries it out, for all.

    Sums are in float32, in the order of the ranks.
    """

    def __init__(self, rank: int, device: int, meeting: Meeting) -> None:
        self._rank, self._device, self._meeting = rank, device, meeting

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

    def finish(self, stream: int) -> Callable[[], int] | None:
        """Waits for the last call."""
        return self._on_stream(stream, lambda: self._meeting.finish(self._rank))

    def warm_up(self, calls: Sequence[Callable[[], int]]) -> None:
        """Nothing: each call was carried out when it was bound."""

    def abort(self) -> None:
        """Nothing: no rank waits inside of a call."""

    def _bind(self, given: _Given, work: Work, stream: int) -> Callable[[], int]:
        # Alone with itself, so that the code of all operations is loaded.
        self._on_stream(stream, lambda: work([given] * self._meeting.world_size))()
        torch.cuda.synchronize(self._device)
        return self._on_stream(stream, lambda: self._meeting.join(self._rank, given, work))

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
