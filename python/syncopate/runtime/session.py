"""The ranks of a measurement that torchrun has started: one GPU each, and what they do together.

Whatever compares calls does it here. Each measurement is one call, alone: poison the output, hold the GPU long enough
for the host to enqueue everything behind it, line the ranks up with a small all-reduce, then event, call, event. The
time of a call is that of the slowest rank. Candidates take turns, so that drifting clocks meet all of them alike; what
is reported is the median over the rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import torch
import torch.distributed as dist

from syncopate.agreement import agree, attempt, maximum, processes
from syncopate.runtime.timing import HOLD_CYCLES, Candidate, record_call

__all__ = ["Session"]

PATIENCE_S: Final = 1800.0
"""For how long ranks wait for one that compiles for all."""

_WARMUPS: Final = 2

_Made = TypeVar("_Made")


class Session:
    """torch.distributed, this rank's GPU, and the other ranks.

    Attributes:
        device: This rank's GPU.
        rank: This one.
        world_size: Number of ranks.
        agreement: How they come to do the same.
    """

    def __init__(self) -> None:
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device)
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self.agreement = processes()
        self.agreement.seconds = PATIENCE_S
        self._line = torch.zeros(1, device="cuda")

    def align(self) -> None:
        """Makes the current stream wait until every rank's stream is here."""
        dist.all_reduce(self._line)

    def compare(
        self,
        candidates: Sequence[Candidate],
        rounds: int,
        sets: int = 1,
        hold_cycles: int = HOLD_CYCLES,
    ) -> None:
        """Times the candidates in turns and fills in `times_us`; two rounds more warm up.

        Args:
            candidates: What to time.
            rounds: Calls of each that count.
            sets: Sets of inputs, which take turns.
            hold_cycles: For how long the GPU is held while a call is enqueued.
        """
        for round_ in range(-_WARMUPS, rounds):
            events = [self._record(each, round_ % sets, hold_cycles) for each in candidates]
            torch.cuda.synchronize()
            times = self.maximum([1e3 * start.elapsed_time(end) for start, end in events])
            if round_ >= 0:
                for candidate, time_us in zip(candidates, times, strict=True):
                    candidate.times_us.append(time_us)

    def _record(
        self, candidate: Candidate, index: int, hold_cycles: int
    ) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        if candidate.prepare is not None:
            candidate.prepare(index)
        if candidate.poison is not None:
            candidate.poison.fill_(float("nan"))
        return record_call(lambda: candidate.call(index), self.align, hold_cycles)

    def maximum(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over the ranks, on every rank."""
        return maximum(self.agreement, values)

    def agree(self, good: bool) -> bool:
        """Whether it is good on every rank."""
        return agree(self.agreement, good)

    def attempt(self, what: str, make: Callable[[], _Made]) -> _Made | None:
        """What `make` returns, or None on every rank if it fails on any, which rank 0 then says."""
        made, why, _ = attempt(self.agreement, make)
        if why:
            self.say(f"{what} on {why}")
        return made

    def say(self, text: str) -> None:
        """Prints on rank 0."""
        if self.rank == 0:
            print(text, flush=True)

    def close(self) -> None:
        """Leaves the group."""
        dist.destroy_process_group()
