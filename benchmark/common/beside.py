"""Calls one after another: how steady they are, and how much slower beside other work on the same GPU."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from benchmark.common.energy import EnergyCounter

from syncopate.runtime.session import Session
from syncopate.runtime.timing import HOLD_CYCLES

__all__ = ["Work", "make_others", "measure_beside", "measure_steadiness"]

QUEUE = 900
"""Launches that a stream takes before the host has to wait."""

LONGER = 3
"""By what the work beside lasts longer than what is measured would alone."""

COPIED_BYTES = 256 << 20
PRODUCT = 2048


@dataclass
class Work:
    """Something that is enqueued over and over.

    Attributes:
        name: For tables.
        call: Enqueues it on the current stream, for the i-th time.
        us: Median time of one alone, back to back.
    """

    name: str
    call: Callable[[int], Any]
    us: float = 0.0


def measure_steadiness(
    session: Session, work: Work, calls: int, energy: EnergyCounter | None
) -> dict[str, float | None]:
    """Times of calls back to back, of the slowest rank each, and the energy of a call; fills in `work.us`.

    The time of a call is from the end of the one before to its own end, so it has what the host holds up.

    Returns:
        `p50_us`, `p99_us`, `mean_us` and `max_us` in microseconds, and `joules` of one GPU for one call, the mean over
        the GPUs, which is None without a counter.
    """
    for i in range(50):
        work.call(i)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]
    before = energy.joules() if energy else 0.0
    events[0].record()
    for i in range(calls):
        work.call(i)
        events[i + 1].record()
    torch.cuda.synchronize()
    joules = energy.joules() - before if energy else None
    times = torch.tensor(_intervals_us(events), device="cuda")
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    every = times.cpu().numpy()
    work.us = float(np.median(every))
    found: dict[str, float | None] = {
        "p50_us": work.us,
        "p99_us": float(np.percentile(every, 99)),
        "mean_us": float(every.mean()),
        "max_us": float(every.max()),
    }
    total = torch.tensor([joules or 0.0], device="cuda", dtype=torch.float64)
    dist.all_reduce(total)
    counted = session.agree(joules is not None)
    found["joules"] = float(total) / session.world_size / calls if counted else None
    return found


def make_others(session: Session) -> list[Work]:
    """Work that has nothing to do with the calls: a copy that memory limits, and a small product."""
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn(PRODUCT, PRODUCT, device="cuda").bfloat16() for _ in range(2))
    c = torch.empty_like(a)
    others = [
        Work("copy", lambda i: target.copy_(source)),
        Work("product", lambda i: torch.mm(a, b, out=c)),
    ]
    for work in others:
        measure_steadiness(session, work, 200, None)
    return others


def measure_beside(session: Session, measured: Work, beside: Work, most: int = 100) -> float | None:
    """By what a call takes longer while the other work runs on another stream; None if that ended before.

    Args:
        session: The ranks; each does both.
        measured: What is timed, with its time alone.
        beside: What runs beside it, likewise.
        most: Calls that are timed at most.
    """
    ratio = LONGER * measured.us / beside.us
    count = max(3, min(most, int(QUEUE / max(ratio, 1e-9))))
    others = min(QUEUE, math.ceil(count * ratio) + 2)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    for stream, work in zip(streams, (measured, beside), strict=True):
        # Libraries allocate for each stream.
        with torch.cuda.stream(stream):
            work.call(0)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    last = torch.cuda.Event(enable_timing=True)
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(HOLD_CYCLES)
    begun = 0
    for i in range(count):
        with torch.cuda.stream(streams[1]):
            # Some are there before the first call that is timed, the others evenly from then on.
            while begun < min(others, 2 + math.ceil(others * (i + 1) / count)):
                beside.call(begun)
                begun += 1
        with torch.cuda.stream(streams[0]):
            if i == 0:
                events[0].record()
            measured.call(i)
            events[i + 1].record()
    with torch.cuda.stream(streams[1]):
        last.record()
    torch.cuda.synchronize()
    covered = session.agree(events[-1].elapsed_time(last) >= 0)
    # The first one waits for the other stream to begin.
    us = session.maximum([statistics.median(_intervals_us(events[1:]))])[0]
    return us / measured.us if covered else None


def _intervals_us(events: Sequence[torch.cuda.Event]) -> list[float]:
    return [1e3 * before.elapsed_time(after) for before, after in itertools.pairwise(events)]
