"""How a call is timed, on a GPU and on the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch

from syncopate.errors import InternalError

__all__ = ["HOLD_CYCLES", "Calls", "Candidate", "measure_host_us", "record_call", "time_call_us"]

HOLD_CYCLES: Final = 1_000_000
"""For how long a GPU is held, so that the host can enqueue a call before it starts: about half a millisecond."""


@dataclass
class Candidate:
    """Something to be timed.

    Attributes:
        name: For tables; unique in a comparison.
        call: Makes the call with input set `i`; may return its output.
        prepare: Work for input set `i` that is not part of the time.
        poison: The output to overwrite before a call, if the caller owns it.
    """

    name: str
    call: Callable[[int], Any]
    prepare: Callable[[int], None] | None = None
    poison: torch.Tensor | None = None
    times_us: list[float] = field(default_factory=list)

    @property
    def us(self) -> float:
        """Median of the rounds, after `Session.compare`."""
        return statistics.median(self.times_us)


def record_call(
    call: Callable[[], Any], align: Callable[[], Any], hold_cycles: int = HOLD_CYCLES
) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Enqueues a call, alone on its GPU, between two events.

    Args:
        call: Makes the call.
        align: Makes the current stream wait until those of all ranks are there.
        hold_cycles: For how long the GPU is held meanwhile.
    """
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(hold_cycles)
    align()
    start.record()
    call()
    end.record()
    return start, end


def time_call_us(call: Callable[[], Any], align: Callable[[], Any]) -> float:
    """Microseconds of a call on this rank; its arguments are those of `record_call`."""
    start, end = record_call(call, align)
    torch.cuda.synchronize()
    return 1e3 * float(start.elapsed_time(end))


class Calls(Protocol):
    """What can be called like a loaded program."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """Enqueues a call."""

    def synchronize(self) -> None:
        """Waits for all calls."""


def measure_host_us(loaded: Calls, calls: int, **tensors: Any) -> float:
    """Microseconds of host time that one call takes, the median over `calls` calls that are enqueued without waiting.

    Raises:
        InternalError: `calls` is not positive.
    """
    if calls < 1:
        raise InternalError(f"calls must be positive, but got {calls}")
    times = []
    for _ in range(calls):
        loaded.synchronize()
        start = time.perf_counter_ns()
        loaded(**tensors)
        times.append(time.perf_counter_ns() - start)
    loaded.synchronize()
    return sorted(times)[len(times) // 2] / 1e3
