"""How a call is timed, on a GPU and on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import torch

from syncopate.errors import InternalError

__all__ = ["Calls", "measure_host_us", "time_call_us"]

HOLD_CYCLES: Final = 1_000_000
"""For how long a GPU is held, so that the host can enqueue a call before it starts: about half a millisecond."""


def time_call_us(call: Callable[[], Any], align: Callable[[], Any]) -> float:
    """Microseconds of a call on this rank, alone on its GPU.

    Args:
        call: Makes the call.
        align: Makes the current stream wait until those of all ranks are there.
    """
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(HOLD_CYCLES)
    align()
    start.record()
    call()
    end.record()
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
