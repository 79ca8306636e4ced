"""A run in the format of Chrome's trace viewer, which Perfetto reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from syncopate.profile.critical import find_critical_path
from syncopate.profile.run import Run, SpanKind

__all__ = ["to_chrome_trace"]

_BINS = 200
"""Points in time at which the use of a link is given."""


def to_chrome_trace(runs: Sequence[Run]) -> str:
    """JSON: a process for each rank of each run, a thread for each track, arrows along the critical path.

    Times are microseconds. Categories are the kinds of spans; `args` holds of a wait what it is for.
    """
    events: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        first = number * 1000
        events += _names(run, first)
        events += _spans(run, first)
        events += _links(run, first)
        events += _path(run, first)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False)


def _names(run: Run, first: int) -> Iterator[dict[str, Any]]:
    for rank in range(run.world_size):
        words = f"rank {rank}, {run.source.value}"
        yield {"ph": "M", "pid": first + rank, "name": "process_name", "args": {"name": words}}
        yield {
            "ph": "M",
            "pid": first + rank,
            "name": "process_sort_index",
            "args": {"sort_index": first + rank},
        }
    for tid, track in enumerate(run.tracks):
        pid = first + track.rank
        yield {
            "ph": "M",
            "pid": pid,
            "tid": tid,
            "name": "thread_name",
            "args": {"name": track.name},
        }
        yield {
            "ph": "M",
            "pid": pid,
            "tid": tid,
            "name": "thread_sort_index",
            "args": {"sort_index": tid},
        }


def _spans(run: Run, first: int) -> Iterator[dict[str, Any]]:
    for tid, track in enumerate(run.tracks):
        place = {"pid": first + track.rank, "tid": tid}
        for begin, end, span in _nested(track.spans):
            event = {
                "ph": "X",
                **place,
                "ts": begin,
                "dur": end - begin,
                "cat": span.kind.value,
                "name": span.name,
            }
            if span.cause is not None:
                event["name"] = f"wait for {span.cause.label}"
                event["args"] = {"for": span.cause.words}
            yield event


def _nested(spans: Sequence[Any]) -> Iterator[tuple[float, float, Any]]:
    """Spans so that each lies within another or apart from it, as the format wants those of a thread.

    A tile may be looked up before the one before it is stored; it then begins where that ends.
    """
    tile_end = float("-inf")
    for span in spans:
        begin = span.begin_us
        if span.kind is SpanKind.TILE:
            begin = min(max(begin, tile_end), span.end_us)
            tile_end = max(tile_end, span.end_us)
        yield begin, span.end_us, span


def _links(run: Run, first: int) -> Iterator[dict[str, Any]]:
    for link in run.links:
        for index, rate in enumerate([*link.rates(run.us, _BINS), 0.0]):
            yield {
                "ph": "C",
                "pid": first + link.src,
                "ts": index * run.us / _BINS,
                "name": f"GB/s to rank {link.dst}",
                "args": {"GB/s": round(rate, 3)},
            }


def _path(run: Run, first: int) -> Iterator[dict[str, Any]]:
    path = find_critical_path(run)
    for number, (here, behind) in enumerate(itertools.pairwise(path)):
        if here.waited_for is None:
            continue
        for phase, link, ts in (("s", here, here.end_us), ("f", behind, behind.begin_us)):
            event = {
                "ph": phase,
                "pid": first + run.tracks[link.track].rank,
                "tid": link.track,
                "ts": ts,
                "id": first * 1000 + number,
                "cat": "critical path",
                "name": "critical path",
            }
            if phase == "f":
                event["bp"] = "e"
            yield event
