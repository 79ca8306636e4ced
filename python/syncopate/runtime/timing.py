"""How a call on a GPU is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

__all__ = ["time_call_us"]

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
