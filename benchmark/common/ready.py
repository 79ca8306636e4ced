"""When what a rank computes for others is ready, measured: events on the side stream of a program of copy engines.

A copy engine's list waits for the tiles of a transfer before it copies. An event behind each wait says when they were
complete, or when the copy before was through, if that was later: with many small pieces, which are copied in less time
than they take to be computed, it is the former.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from benchmark.common.bench import Trial
from benchmark.common.data import SETS
from benchmark.common.gpu_bench import GpuBench
from benchmark.common.session import HOLD_CYCLES

__all__ = ["Part", "find_unsteadiness", "measure_ready", "watch"]

_WAITS = ("cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2")
_FLAG_BYTES = 4


@dataclass
class Part:
    """A wait of a side stream, and what is copied behind it.

    Attributes:
        nbytes: By the rank to which they go.
        event: Recorded when the wait is over.
    """

    nbytes: dict[int, int]
    event: Any


def watch(engine: Any, ranges: Sequence[tuple[int, int]], own: int, make_event: Any) -> list[Part]:
    """Has an event recorded behind each wait of a side stream that is followed by copies to other ranks.

    Args:
        engine: The rank's `syncopate.runtime.engine.Engine`.
        ranges: Begin and end of each rank's memory, as this process sees it.
        own: The rank.
        make_event: Gives an event, and what records it on the side stream.

    Returns:
        The waits, in the order of the list.
    """
    assert not engine._reading, "places of copies out of an input must not move"
    watched = []
    for bound in (part for leg in engine.legs for part in leg.parts):
        copied: dict[int, int] = {}
        for _, args, name in bound:
            target, nbytes = _find_copy(name, args)
            peer = next((r for r, (begin, end) in enumerate(ranges) if begin <= target < end), own)
            if nbytes > _FLAG_BYTES and peer != own:
                copied[peer] = copied.get(peer, 0) + nbytes
        waits = sum(name in _WAITS for _, _, name in bound[:2])
        if copied and waits:
            event, record = make_event()
            bound.insert(waits, (record, (), "an event"))
            watched.append(Part(copied, event))
    return watched


def _find_copy(name: str, args: Sequence[Any]) -> tuple[int, int]:
    if name == "cuMemcpyAsync":
        return args[0].value, args[2].value
    if name == "cuMemcpy2DAsync_v2":
        copy = args[0]._obj
        return copy.dst_device, copy.width * copy.height
    return 0, 0


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


def measure_ready(bench: GpuBench, trial: Trial, calls: int = 7) -> list[dict[str, Any]] | None:
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
    engine = program._ranks[session.rank].engine
    assert engine is not None and program._memory is not None
    stream = torch.cuda.ExternalStream(engine.stream)

    def make_event() -> tuple[Any, Any]:
        event = torch.cuda.Event(enable_timing=True)

        def record() -> int:
            event.record(stream)
            return 0

        return event, record

    ranges = [(begin, begin + program._nbytes) for begin in program._memory.addresses]
    parts = watch(engine, ranges, session.rank, make_event)
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
