"""From records to a run: begins and ends are paired, and numbers get their meaning."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from syncopate.abi import ProfileEvent, Realization
from syncopate.errors import SyncopateError
from syncopate.profile.clocks import Clocks
from syncopate.profile.run import (
    Cause,
    CauseKind,
    Key,
    LinkUse,
    Run,
    Span,
    SpanKind,
    TimeSource,
    Track,
)
from syncopate.profile.tables import RankNames, RunNames
from syncopate.runtime.records import LaneRecords, RankRecords, Record

__all__ = ["link_uses", "make_run", "split_calls"]

_PAIRS = {
    ProfileEvent.COMMAND_END: ProfileEvent.COMMAND_BEGIN,
    ProfileEvent.WAIT_END: ProfileEvent.WAIT_BEGIN,
    ProfileEvent.RING_END: ProfileEvent.RING_BEGIN,
}


def split_calls(ranks: Sequence[RankRecords]) -> list[tuple[RankRecords, ...]]:
    """The calls that are in some records, each with that of every rank, in order."""
    calls: dict[int, dict[int, list[LaneRecords]]] = {}
    for own in ranks:
        for lane in own.lanes:
            begins = [
                at
                for at, record in enumerate(lane.records)
                if record.event is ProfileEvent.ROLE_BEGIN
            ]
            ends = [*begins[1:], len(lane.records)]
            for begin, end in zip(begins, ends, strict=True):
                dropped = lane.dropped if end == len(lane.records) else 0
                part = LaneRecords(lane.cta, lane.role, lane.sm, lane.records[begin:end], dropped)
                of_call = calls.setdefault(lane.records[begin].subject, {})
                of_call.setdefault(own.rank, []).append(part)
    return [
        tuple(RankRecords(own.rank, own.gpu, tuple(call.get(own.rank, ()))) for own in ranks)
        for _, call in sorted(calls.items())
    ]


def make_run(program: Any, ranks: Sequence[RankRecords], clocks: Clocks, source: TimeSource) -> Run:
    """One call of `split_calls` as a run.

    Args:
        program: What has run.
        ranks: What each rank has left.
        clocks: How their clocks go together.
        source: What ran it.

    Raises:
        SyncopateError: A rank has left nothing.
    """
    for own in ranks:
        if not own.lanes:
            raise SyncopateError(f"rank {own.rank} has left no records of this call")
    names = RunNames(program)
    start = min(clocks.align(own.rank, lane.records[0].ns) for own in ranks for lane in own.lanes)
    tracks = [
        _make_track(program, names, own.rank, lane, clocks, start)
        for own in ranks
        for lane in sorted(own.lanes, key=lambda lane: (lane.role, lane.cta))
    ]
    us = max(track.end_us for track in tracks)
    return Run(
        program.name,
        source,
        str(clocks)
        if source is TimeSource.MEASURED
        else "steps of the simulator: an order, and no durations",
        us,
        program.world_size,
        program.num_ctas,
        tuple(track for track in tracks if track.spans or _computes(program, track)),
        link_uses(names, tracks),
    )


def _computes(program: Any, track: Track) -> bool:
    """Whether it is what a CTA computes. Dedicated ones do not, and have no part in some roles."""
    return track.role is None and track.cta is not None and track.cta >= program.comm_ctas


def _make_track(
    program: Any, names: RunNames, rank: int, lane: LaneRecords, clocks: Clocks, start: float
) -> Track:
    def us(record: Record) -> float:
        return (clocks.align(rank, record.ns) - start) / 1e3

    own = names.ranks[rank]
    spans: list[Span] = []
    tiles: list[tuple[int, float]] = []
    stored: dict[int, float] = {}
    through: float | None = None
    opened: dict[ProfileEvent, Record] = {}
    last = us(lane.records[-1])
    for record in lane.records:
        event = record.event
        if event is ProfileEvent.TILE_BEGIN:
            tiles.append((record.subject, us(record)))
        elif event is ProfileEvent.TILE_END:
            stored.update(_last_begun(own, tiles, record.subject, us(record)))
        elif event is ProfileEvent.ROLE_END:
            through = us(record)
        elif event in _PAIRS:
            first = opened.pop(_PAIRS[event], None)
            if first is not None:
                spans.append(_make_span(program, names, own, lane, record, us(first), us(record)))
        else:
            opened[event] = record
    done = last if through is None else through
    for (position, begin), (_, following) in itertools.pairwise([*tiles, (-1, done)]):
        end = max(stored.get(position, following), begin)
        key = Key(SpanKind.TILE, rank, position)
        spans.append(Span(SpanKind.TILE, begin, end, own.name_tile(position), key))
    role = Realization(lane.role) if lane.role else None
    spans.sort(key=lambda span: (span.begin_us, -span.end_us))
    start_us = us(lane.records[0])
    return Track(rank, role, lane.cta, lane.sm, start_us, last, tuple(spans), lane.dropped)


def _last_begun(
    own: RankNames, tiles: Sequence[tuple[int, float]], number: int, us: float
) -> Mapping[int, float]:
    """The position of the tile that is stored, with the time: the last one with its number that the CTA has begun."""
    found = (position for position, _ in reversed(tiles) if own.numbers[position] == number)
    return dict.fromkeys(itertools.islice(found, 1), us)


def _make_span(
    program: Any,
    names: RunNames,
    own: RankNames,
    lane: LaneRecords,
    record: Record,
    begin: float,
    end: float,
) -> Span:
    if record.event is ProfileEvent.COMMAND_END:
        key = Key(SpanKind.TRANSFER, own.rank, own.device_rows[record.subject])
        name, source = names.name_transfer(key), names.source(key)
        return Span(SpanKind.TRANSFER, begin, end, name, key, source=source)
    if record.event is ProfileEvent.WAIT_END:
        cause = names.cause_of_wait(own.rank, record.subject)
        return Span(SpanKind.WAIT, begin, end, cause.words, cause=cause)
    makers: tuple[Key, ...] = ()
    words = f"room in the ring for record {record.subject}"
    if lane.role:
        position = own.records.get((lane.cta - program.comm_ctas, record.subject))
        if position is not None:
            makers = (Key(SpanKind.TILE, own.rank, position),)
            words = f"{own.name_tile(position)}, which hands transfers over"
    cause = Cause(CauseKind.RING, own.rank, words, makers)
    return Span(SpanKind.WAIT, begin, end, words, cause=cause)


def link_uses(names: RunNames, tracks: Sequence[Track]) -> tuple[LinkUse, ...]:
    """What the transfers of some tracks move between ranks; CTAs share the bytes of a transfer."""
    spans: dict[Key, list[Span]] = {}
    for track in tracks:
        for span in track.of_kind(SpanKind.TRANSFER):
            if span.key is not None:
                spans.setdefault(span.key, []).append(span)
    moves: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for key, some in spans.items():
        route = names.route(key)
        if route is not None:
            begin, end = min(s.begin_us for s in some), max(s.end_us for s in some)
            moves.setdefault(route, []).append((begin, end, names.nbytes(key)))
    return tuple(LinkUse(*route, tuple(sorted(its))) for route, its in sorted(moves.items()))
