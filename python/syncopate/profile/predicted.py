"""What the cost model says of a call, in the form of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.abi import Realization
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
from syncopate.profile.tables import RunNames

if TYPE_CHECKING:
    from syncopate.model import Timeline

__all__ = ["predicted_run"]

_SHORT_US = 0.05
"""What is shorter is no wait that is worth showing."""


def predicted_run(program: Any, timeline: Timeline) -> Run:
    """A run of a timeline.

    A wait of a tile is put in front of it, or at its beginning where the model has it within the tile. Its cause is
    what comes last of all that the tile waits for.

    Args:
        program: What was simulated: a compiled program, or a schedule.
        timeline: What `syncopate.model.predict` gives of it.
    """
    names = RunNames(program)
    ends = {
        Key(SpanKind.TRANSFER, event.by, event.command): event.end_us
        for event in timeline.transfers
    }
    tracks = [
        _computing_track(program, names, timeline, rank, cta, ends)
        for rank in range(program.world_size)
        for cta in range(min(timeline.num_ctas, len(timeline.tile_begin[rank])))
    ]
    for rank in range(program.world_size):
        tracks += _moving_tracks(program, names, timeline, rank)
    moves: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for event in timeline.transfers:
        if event.src != event.dst:
            move = (event.begin_us, event.end_us, event.nbytes)
            moves.setdefault((event.src, event.dst), []).append(move)
    return Run(
        program.name,
        TimeSource.PREDICTED,
        f"the cost model, for {timeline.machine}",
        timeline.us,
        program.world_size,
        timeline.num_ctas,
        tuple(tracks),
        tuple(LinkUse(*ends, tuple(sorted(its))) for ends, its in sorted(moves.items())),
    )


def _computing_track(
    program: Any,
    names: RunNames,
    timeline: Timeline,
    rank: int,
    cta: int,
    ends: dict[Key, float],
) -> Track:
    spans: list[Span] = []
    through = 0.0
    begins, stops = timeline.tile_begin[rank].tolist(), timeline.tile_end[rank].tolist()
    stalls = timeline.tile_stall[rank].tolist()
    for position in range(cta, len(begins), timeline.num_ctas):
        begin, end = begins[position], stops[position]
        before = min(max(begin - through, 0.0), stalls[position])
        within = min(stalls[position] - before, end - begin)
        cause = _cause(program, names, rank, position, ends)
        if before > _SHORT_US:
            spans.append(Span(SpanKind.WAIT, begin - before, begin, cause.words, cause=cause))
        key = Key(SpanKind.TILE, rank, position)
        name = names.ranks[rank].name_tile(position)
        spans.append(Span(SpanKind.TILE, begin, end, name, key))
        if within > _SHORT_US:
            spans.append(Span(SpanKind.WAIT, begin, begin + within, cause.words, cause=cause))
        through = end
    first = spans[0].begin_us if spans else 0.0
    return Track(rank, None, program.comm_ctas + cta, None, first, through, tuple(spans))


def _cause(
    program: Any, names: RunNames, rank: int, position: int, ends: dict[Key, float]
) -> Cause:
    own, tables = names.ranks[rank], program.rank_tables(rank)
    rows = [own.tiles[position]]
    if "tile_steps" in tables and len(tables["tile_steps"].values):
        steps = tables["tile_steps"].rows()[position]
        rows += tables["steps"].rows()[steps["begin"] : steps["end"]]
    causes = [
        names.cause_of_wait(rank, wait)
        for row in rows
        for wait in range(row["wait_begin"], row["wait_end"])
    ]
    if not causes:
        return Cause(CauseKind.RING, rank, "room in the ring, or what a tile adds to")
    return max(causes, key=lambda cause: max((ends.get(m, 0.0) for m in cause.makers), default=0.0))


def _moving_tracks(program: Any, names: RunNames, timeline: Timeline, rank: int) -> list[Track]:
    lanes: dict[tuple[Realization, int], list[Span]] = {}
    for event in timeline.transfers:
        if event.by == rank:
            key = Key(SpanKind.TRANSFER, rank, event.command)
            name = names.name_transfer(key)
            span = Span(
                SpanKind.TRANSFER, event.begin_us, event.end_us, name, key, source=event.src
            )
            lanes.setdefault((event.realization, event.cta), []).append(span)
    tracks = []
    for (role, cta), spans in sorted(lanes.items()):
        spans.sort(key=lambda span: span.begin_us)
        last = max(span.end_us for span in spans)
        where = None if cta < 0 else program.comm_ctas + cta
        tracks.append(Track(rank, role, where, None, spans[0].begin_us, last, tuple(spans)))
    return tracks
