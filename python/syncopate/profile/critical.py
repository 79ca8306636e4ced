"""The critical path of a run: what the end has waited for, and what that has waited for, back to the start."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from syncopate.profile.run import Key, Run, Span, SpanKind, Track

__all__ = ["PathPiece", "find_critical_path"]

_MOST = 10_000


@dataclass(frozen=True)
class PathPiece:
    """A piece of the path. Times are microseconds.

    Attributes:
        track: Index of the track in the run.
        begin_us: From when it decides.
        end_us: Until when.
        span: The tile or transfer.
        waited_for: The wait that it ends, by which the path comes to the next piece; None if that is of the same track.
    """

    track: int
    begin_us: float
    end_us: float
    span: Span
    waited_for: Span | None = None


def find_critical_path(run: Run) -> list[PathPiece]:
    """The pieces in order of time; together they last as long as the run, but for gaps that nothing explains.

    It goes back from what ends last. Where a tile or transfer follows a wait of its track, the path goes on with what
    ended the wait, the last of its makers, and else with what the track did before.
    """
    tracks = [_Work(track) for track in run.tracks]
    makers: dict[Key, list[tuple[float, int, int]]] = {}
    for index, work in enumerate(tracks):
        for place, span in enumerate(work.spans):
            if span.key is not None:
                makers.setdefault(span.key, []).append((span.end_us, index, place))
    ends = [(work.end_us, index, work.last) for index, work in enumerate(tracks) if work.spans]
    if not ends:
        return []
    end, index, place = max(ends)
    until, came_by = end, None
    # The end of a call may wait for more than its rank has done.
    closing = max(
        (wait for work in tracks for wait in work.waits), key=lambda wait: wait.end_us, default=None
    )
    if closing is not None and closing.end_us > end:
        made = _last_maker(makers, closing, closing.end_us)
        if made is not None:
            until, index, place = made
            came_by = closing
    path: list[PathPiece] = []
    seen: set[tuple[int, int]] = set()
    while len(path) < _MOST and (index, place) not in seen:
        seen.add((index, place))
        work = tracks[index]
        span = work.spans[place]
        wait = work.wait_of(place)
        made = _last_maker(makers, wait, until) if wait is not None else None
        begin = span.begin_us if made is None or wait is None else max(wait.end_us, span.begin_us)
        path.append(PathPiece(index, min(begin, until), until, span, came_by))
        if made is not None and wait is not None:
            end, index, place = made
            until, came_by = min(end, begin), wait
        elif place > 0:
            place, came_by = place - 1, None
            until = min(work.spans[place].end_us, begin)
        else:
            break
    return path[::-1]


def _last_maker(
    makers: dict[Key, list[tuple[float, int, int]]], wait: Span, until: float
) -> tuple[float, int, int] | None:
    if wait.cause is None:
        return None
    found = [entry for key in wait.cause.makers for entry in makers.get(key, ())]
    return max((entry for entry in found if entry[0] < until), default=None)


class _Work:
    """The tiles and transfers of a track, and the waits between."""

    def __init__(self, track: Track) -> None:
        self.spans = [span for span in track.spans if span.kind is not SpanKind.WAIT]
        self.waits = sorted(track.of_kind(SpanKind.WAIT), key=lambda wait: wait.end_us)
        self._ends = [wait.end_us for wait in self.waits]
        ends = [span.end_us for span in self.spans]
        self.end_us = max(ends, default=0.0)
        self.last = ends.index(self.end_us) if ends else -1

    def wait_of(self, place: int) -> Span | None:
        """The last wait within a span, or between it and the one before.

        A tile may be looked up before the one before it is stored, and so may what it waits for.
        """
        span = self.spans[place]
        least = min(self.spans[place - 1].end_us, span.begin_us) if place else float("-inf")
        behind = self.spans[place + 1 : place + 2]
        most = min([span.end_us, *(each.begin_us for each in behind)])
        found = bisect.bisect_right(self._ends, most) - 1
        return self.waits[found] if found >= 0 and self._ends[found] > least else None
