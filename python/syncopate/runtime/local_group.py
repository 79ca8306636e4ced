"""Several ranks on one GPU in one process: for correctness, not for speed.

Every rank has a stream of its own and an equal share of the SMs. All CTAs of all ranks must be resident at once, since
they wait for each other, and some SMs stay free, since a copy within one GPU may run as a kernel on SMs instead of on a
copy engine.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from syncopate.abi import CommandReduction
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.groups import Library, SymmetricAllocation

_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class LocalLibrary:
    """The `Library` of one of several ranks of a process: the last one to make a call carries it out, for all.

    Sums are in float32, in the order of the ranks.
    """

    connects_late = False

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self._rank, self._meeting = rank, meeting

    def all_reduce(self, tensor: torch.Tensor, reduction: CommandReduction) -> None:
        """In place."""

        def carry_out(parts: Sequence[_Given]) -> None:
            total = _combine([part.sources[0] for part in parts], reduction)
            for part in parts:
                part.targets[0].copy_(total)

        self._meeting.join(self._rank, _Given((tensor,), (tensor,)), carry_out)

    def reduce_scatter(
        self, output: torch.Tensor, tensor: torch.Tensor, reduction: CommandReduction
    ) -> None:
        """In place if `output` is the rank's part of `tensor`."""

        def carry_out(parts: Sequence[_Given]) -> None:
            totals = _combine([part.sources[0] for part in parts], reduction).chunk(len(parts))
            for part, total in zip(parts, totals, strict=True):
                part.targets[0].copy_(total)

        self._meeting.join(self._rank, _Given((tensor,), (output,)), carry_out)

    def all_to_all(self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        """Copies."""

        def carry_out(parts: Sequence[_Given]) -> None:
            for rank, part in enumerate(parts):
                for target, other in zip(part.targets, parts, strict=True):
                    target.copy_(other.sources[rank])

        self._meeting.join(self._rank, _Given(tuple(tensors), tuple(outputs)), carry_out)

    def finish(self) -> None:
        """Waits for the last one."""
        self._meeting.finish()


@dataclass(frozen=True)
class _Given:
    sources: tuple[torch.Tensor, ...]
    targets: tuple[torch.Tensor, ...]


def _combine(sources: Sequence[torch.Tensor], reduction: CommandReduction) -> torch.Tensor:
    wide = sources[0].dtype
    if wide.is_floating_point and wide.itemsize < 4:
        wide = torch.float32
    step = {
        CommandReduction.SUM: torch.add,
        CommandReduction.MAX: torch.maximum,
        CommandReduction.MIN: torch.minimum,
    }[reduction]
    total = functools.reduce(step, [source.to(wide) for source in sources])
    return total.to(sources[0].dtype)


class Meeting:
    """Where the ranks of a process come together for a call."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._given: dict[int, _Given] = {}
        self._arrived: list[torch.cuda.Event] = []
        self._done: torch.cuda.Event | None = None

    def join(self, rank: int, given: _Given, carry_out: Callable[[Sequence[_Given]], None]) -> None:
        """Enqueues what the last rank to come does behind what the streams of all have come to."""
        stream = torch.cuda.current_stream()
        if not self._given:
            self._arrived = []
        self._given[rank] = given
        arrived = torch.cuda.Event()
        arrived.record(stream)
        self._arrived.append(arrived)
        if len(self._given) < self._world_size:
            return
        for event in self._arrived:
            stream.wait_event(event)
        carry_out([self._given[rank] for rank in range(self._world_size)])
        self._given = {}
        self._done = torch.cuda.Event()
        self._done.record(stream)

    def finish(self) -> None:
        """Makes the current stream wait for that."""
        assert self._done is not None, "a call that not all ranks have made"
        torch.cuda.current_stream().wait_event(self._done)


class LocalGroup:
    """`world_size` ranks on one GPU."""

    def __init__(self, world_size: int, device: int | None = None, *, free_sms: int = 8) -> None:
        """Makes the streams.

        Args:
            world_size: Number of ranks, at least 1.
            device: CUDA ordinal; by default the current one.
            free_sms: SMs that no rank's kernel uses.

        Raises:
            SyncopateError: There is no GPU, or too few SMs.
        """
        if not torch.cuda.is_available():
            raise SyncopateError("torch sees no GPU; a LocalGroup needs one")
        if not torch.cuda.is_initialized():
            # Streams share the hardware queues; with too few of them a stream that waits for a value holds up others.
            os.environ.setdefault(_CONNECTIONS, "32")
        self._world_size = world_size
        self._device = torch.cuda.current_device() if device is None else device
        torch.cuda.init()
        with torch.cuda.device(self._device):
            torch.zeros(1, device="cuda")
            self._streams = [cuda.create_stream() for _ in range(world_size)]
        self._free_sms = free_sms
        self._meeting = Meeting(world_size)
        if self.ctas_per_rank(self._device) < 1:
            raise SyncopateError(
                f"world_size={world_size} ranks do not fit on GPU {self._device}, which has too few SMs; use fewer"
            )

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._world_size

    @property
    def local_ranks(self) -> Sequence[int]:
        """All ranks."""
        return range(self._world_size)

    def device(self, rank: int) -> int:
        """The one GPU."""
        return self._device

    def shares_device(self, rank: int, other: int) -> bool:
        """Always."""
        return True

    def ctas_per_rank(self, device: int) -> int:
        """An equal share of the SMs that are not kept free."""
        return (cuda.multiprocessors(device) - self._free_sms) // self._world_size

    def stream(self, rank: int) -> int | None:
        """The rank's own stream."""
        return self._streams[rank]

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Plain device buffers, one for each rank."""
        tensors = {
            rank: torch.zeros(
                nbytes + 1024, dtype=torch.uint8, device=torch.device("cuda", self._device)
            )
            for rank in self.local_ranks
        }
        # torch aligns to 512 bytes; a symmetric allocation starts on a page.
        addresses = tuple(-(-tensors[rank].data_ptr() // 1024) * 1024 for rank in self.local_ranks)
        views = {r: t[addresses[r] - t.data_ptr() :][:nbytes] for r, t in tensors.items()}
        return SymmetricAllocation(addresses, views)

    def library(self, rank: int, ctas: int) -> Library:
        """Kernels of torch's, on the SMs that are kept free."""
        return LocalLibrary(rank, self._meeting)

    def barrier(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(self._device)
