"""When what a rank computes for others is ready, measured: events on the side stream of a program of copy engines.

A copy engine's list waits for the tiles of a transfer before it copies. An event behind each wait says when they were
complete, or when the copy before was through, if that was later: with many small pieces, which are copied in less time
than they take to be computed, it is the former.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from benchmark.common.data import SETS
from benchmark.common.gpu_bench import GpuBench

from syncopate import tune
from syncopate.runtime.timing import HOLD_CYCLES

__all__ = ["find_unsteadiness", "measure_ready"]


def find_unsteadiness(times: Sequence[float], nbytes: Sequence[int], end: float) -> float:
    """How far the share of bytes that are ready is from the share of time that has passed, at most.

    Args:
        times: When some become ready, from the start.
        nbytes: How many.
        end: Of the time.
    """
    order = np.argsort(times, kind="stable")
    ready = np.cumsum(np.asarray(nbytes, float)[order])
    shares, passed = ready / ready[-1], np.asarray(times, float)[order] / end
    before = np.concatenate([[0.0], shares[:-1]])
    return float(np.maximum(np.abs(shares - passed), np.abs(before - passed)).max())


def measure_ready(
    bench: GpuBench, trial: tune.Candidate, calls: int = 7
) -> list[dict[str, Any]] | None:
    """For each rank: when bytes are ready for the others, from the start of a call, medians over some calls.

    Collective.

    Args:
        bench: The workload.
        trial: With realization copy_engine.
        calls: How many; the first two do not count.

    Returns:
        `us` of the call, `times_us`, `peers` and `nbytes` of each transfer, and `unsteadiness`; None if it does not
        run.
    """
    loaded = bench.load([trial], calls)
    if not loaded:
        return None
    session, program = bench.session, loaded[0].program.loaded

    def make_event(stream: int) -> tuple[Any, Any]:
        event, side = torch.cuda.Event(enable_timing=True), torch.cuda.ExternalStream(stream)

        def record() -> int:
            event.record(side)
            return 0

        return event, record

    parts = program.watch_copies(make_event)
    taken = []
    for i in range(calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(HOLD_CYCLES)
        session.align()
        start.record()
        loaded[0].candidate.call(i % SETS)
        end.record()
        torch.cuda.synchronize()
        taken.append(
            [1e3 * start.elapsed_time(event) for event in (*(p.event for p in parts), end)]
        )
    loaded[0].program.close()
    *times, us = np.median(taken[2:], axis=0).tolist()
    sizes = [(peer, nbytes) for part in parts for peer, nbytes in part.nbytes.items()]
    at = [time for part, time in zip(parts, times, strict=True) for _ in part.nbytes]
    mine = {
        "rank": session.rank,
        "us": us,
        "times_us": at,
        "peers": [peer for peer, _ in sizes],
        "nbytes": [nbytes for _, nbytes in sizes],
        "unsteadiness": find_unsteadiness(at, [nbytes for _, nbytes in sizes], us) if at else None,
    }
    every: list[Any] = [None] * session.world_size
    dist.all_gather_object(every, mine)
    return every
