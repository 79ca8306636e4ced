"""Where the time of a run went, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.profile.run import LinkUse, Run, Span, SpanKind, Track, union_us

__all__ = ["RankShares", "busy_us", "find_shares", "last_tile_us", "percent", "without_waits"]


@dataclass(frozen=True)
class RankShares:
    """What the CTAs of a rank that compute have done, as shares of the run's time; they add up to 1.

    Attributes:
        rank: The rank.
        compute: In tiles, without their waits.
        waits: By cause, longest first.
        start: Before the first tile of each CTA, but for waits.
        tail: Behind the last one, while other CTAs, or other ranks, still compute.
        end: Behind the last tile of all ranks: transfers go on, and the call is closed.
        other: Between tiles.
        moving: For what share of the time the rank carries out transfers, or another one brings it something.
        uncovered: For what share it does so while none of its tiles is computed.
    """

    rank: int
    compute: float
    waits: dict[str, float]
    start: float
    tail: float
    end: float
    other: float
    moving: float
    uncovered: float


def find_shares(run: Run) -> list[RankShares]:
    """The shares of every rank."""
    return [_find_shares(run, rank) for rank in range(run.world_size)]


def _find_shares(run: Run, rank: int) -> RankShares:
    tracks = [track for track in run.of_rank(rank) if _computes(track)]
    whole = run.num_ctas * run.us
    through = last_tile_us(run)
    # Who has no tile is through when the call starts.
    tail = (run.num_ctas - len(tracks)) * through
    compute = start = 0.0
    waits: dict[str, float] = {}
    at_work: list[tuple[float, float]] = []
    for track in tracks:
        tiles = list(track.of_kind(SpanKind.TILE))
        first, last = tiles[0].begin_us, max(tile.end_us for tile in tiles)
        stalls = [wait for wait in track.of_kind(SpanKind.WAIT) if wait.begin_us < last]
        for wait in stalls:
            label = wait.cause.label if wait.cause is not None else "something else"
            waits[label] = waits.get(label, 0.0) + wait.us
        pieces = without_waits(tiles, stalls)
        compute += union_us(pieces)
        at_work += pieces
        start += first - union_us(
            [(w.begin_us, min(w.end_us, first)) for w in stalls if w.begin_us < first]
        )
        tail += through - last
    moves = [
        (span.begin_us, span.end_us)
        for track in run.tracks
        for span in track.of_kind(SpanKind.TRANSFER)
        if track.rank == rank
    ]
    moves += [
        (begin, end) for link in run.links if link.dst == rank for begin, end, _ in link.moves
    ]
    moving = union_us(moves)
    covered = union_us(at_work)
    uncovered = union_us([*moves, *at_work]) - covered
    shares = {label: us / whole for label, us in sorted(waits.items(), key=lambda item: -item[1])}
    end = (run.us - through) / run.us if tracks else 0.0
    known = (compute + start + tail) / whole + end + sum(shares.values())
    return RankShares(
        rank,
        compute / whole,
        shares,
        start / whole,
        tail / whole,
        end,
        max(1 - known, 0.0),
        moving / run.us,
        uncovered / run.us,
    )


def last_tile_us(run: Run) -> float:
    """When the last tile of all ranks is done."""
    ends = (tile.end_us for track in run.tracks for tile in track.of_kind(SpanKind.TILE))
    return max(ends, default=0.0)


def _computes(track: Track) -> bool:
    return track.role is None and any(True for _ in track.of_kind(SpanKind.TILE))


def without_waits(tiles: Sequence[Span], waits: Sequence[Span]) -> list[tuple[float, float]]:
    """The stretches of tiles that are no waits."""
    pieces: list[tuple[float, float]] = []
    for tile in tiles:
        begin = tile.begin_us
        for wait in waits:
            if wait.end_us > begin and wait.begin_us < tile.end_us:
                if wait.begin_us > begin:
                    pieces.append((begin, wait.begin_us))
                begin = max(begin, wait.end_us)
        if tile.end_us > begin:
            pieces.append((begin, tile.end_us))
    return pieces


def busy_us(links: Sequence[LinkUse]) -> float:
    """For how long something goes over one of some links."""
    return union_us([(begin, end) for link in links for begin, end, _ in link.moves])


def percent(share: float) -> str:
    """A share as words have it."""
    return f"{100 * share:.1f} %"
