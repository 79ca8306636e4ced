"""The ranks of a benchmark run, and the one way in which anything is timed.

Each measurement is one call, alone: poison the output, hold the GPU long enough for the host to enqueue everything
behind it, line the ranks up with a small all-reduce, then event, call, event. The time of a call is that of the slowest
rank. Candidates take turns, so that drifting clocks meet all of them alike; what is reported is the median over the
rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from syncopate.runtime.session import Session as Ranks

HOLD_CYCLES = 1_000_000  # about half a millisecond, more than any candidate needs to enqueue a call


@dataclass
class Candidate:
    """Something to be timed.

    Attributes:
        name: For tables; unique in a comparison.
        call: Makes the call with input set `i` and returns its output.
        prepare: Work for input set `i` that is not part of the time.
        poison: The output to overwrite before a call, if the caller owns it.
    """

    name: str
    call: Callable[[int], torch.Tensor]
    prepare: Callable[[int], None] | None = None
    poison: torch.Tensor | None = None
    times_us: list[float] = field(default_factory=list)

    @property
    def us(self) -> float:
        """Median of the rounds, after `Session.compare`."""
        return statistics.median(self.times_us)


class Session(Ranks):
    """This rank's GPU and the others, with collective timing."""

    def compare(
        self,
        candidates: Sequence[Candidate],
        rounds: int,
        sets: int,
        hold_cycles: int = HOLD_CYCLES,
    ) -> None:
        """Times the candidates in turns and fills in `times_us`; two rounds more warm up.

        Args:
            candidates: What to time.
            rounds: Calls of each that count.
            sets: Sets of inputs, which take turns.
            hold_cycles: For how long the GPU is held while a call is enqueued.
        """
        for round_ in range(-2, rounds):
            events = []
            for candidate in candidates:
                events.append(self._time(candidate, round_ % sets, hold_cycles))
            torch.cuda.synchronize()
            times = self.maximum([1e3 * start.elapsed_time(end) for start, end in events])
            if round_ >= 0:
                for candidate, time_us in zip(candidates, times, strict=True):
                    candidate.times_us.append(time_us)

    def _time(
        self, candidate: Candidate, index: int, hold_cycles: int
    ) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if candidate.prepare is not None:
            candidate.prepare(index)
        if candidate.poison is not None:
            candidate.poison.fill_(float("nan"))
        torch.cuda._sleep(hold_cycles)
        self.align()
        start.record()
        candidate.call(index)
        end.record()
        return start, end
