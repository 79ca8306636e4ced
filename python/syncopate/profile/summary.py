"""Where the time of a run went, in numbers and in words, and what to try."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.profile.critical import find_critical_path
from syncopate.profile.run import CauseKind, LinkUse, Run, Source, Span, SpanKind, Track, union_us
from syncopate.show.flags import join

__all__ = ["RankShares", "describe_run", "find_shares"]

_NOTABLE = 0.05
"""Share of the time from which something is worth a hint."""
_BUSY = 0.8
"""Share of the time from which a link decides, whatever the schedule."""


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
    through = _last_tile_us(run)
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
        pieces = _without(tiles, stalls)
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


def _last_tile_us(run: Run) -> float:
    """When the last tile of all ranks is done."""
    ends = (tile.end_us for track in run.tracks for tile in track.of_kind(SpanKind.TILE))
    return max(ends, default=0.0)


def _computes(track: Track) -> bool:
    return track.role is None and any(True for _ in track.of_kind(SpanKind.TILE))


def _without(tiles: Sequence[Span], waits: Sequence[Span]) -> list[tuple[float, float]]:
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


def describe_run(run: Run, other: Run | None = None) -> str:
    """A run in words: efficiency, where the time went, what to try.

    Args:
        run: The run.
        other: What to compare it with: a prediction beside a measurement, or the other way round.
    """
    shares = find_shares(run)
    efficiency = statistics.fmean(each.compute for each in shares)
    lines = [f"{run.name}: {run.us:.1f} µs, {run.source.value}; {run.clock}"]
    if run.source is Source.SIMULATED:
        lines.append("shares below are of the simulator's steps, which say nothing of a GPU")
    lines.append(
        f"efficiency: CTAs that compute are in tiles for {_percent(efficiency)} of the time, and wait for the rest"
    )
    for each in shares:
        lines += ["", *_describe_rank(each)]
    if run.links:
        lines += ["", *_describe_links(run)]
    lines += ["", *_describe_path(run)]
    if other is not None:
        lines += ["", *_compare(run, other)]
    if run.dropped:
        lines += ["", f"{run.dropped} records did not fit: what is late in a lane is missing"]
    hints = _hints(run, shares, efficiency)
    if run.source is Source.SIMULATED:
        hints = [
            "a profile on GPUs, or the cost model: what the simulator takes says nothing of them"
        ]
    lines += ["", "what to try:", *(f"  {hint}" for hint in hints)]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _describe_rank(each: RankShares) -> list[str]:
    lines = [f"rank {each.rank}:", f"  {_percent(each.compute):>8}  in tiles"]
    lines += [f"  {_percent(share):>8}  waiting for {label}" for label, share in each.waits.items()]
    for share, words in (
        (each.start, "before the first tile"),
        (each.other, "between tiles"),
        (each.tail, "behind the last tile of a CTA, while others compute: its tail"),
        (each.end, "behind the last tile of all"),
    ):
        if share >= 0.0005:
            lines.append(f"  {_percent(share):>8}  {words}")
    hidden = 1 - each.uncovered / each.moving if each.moving else 1.0
    lines.append(
        f"  data move for {_percent(each.moving)} of the time; {_percent(hidden)} of that is beside tiles"
    )
    return lines


def _describe_links(run: Run) -> list[str]:
    lines = ["links:"]
    for rank in range(run.world_size):
        sent = [link for link in run.links if link.src == rank]
        if sent:
            others = join([str(link.dst) for link in sent])
            nbytes, busy = sum(link.nbytes for link in sent), _busy_us(sent)
            # A clock that goes on in steps may see no time pass.
            rate = f", {nbytes / (busy * 1e3):.1f} GB/s then" if busy else ""
            lines.append(
                f"  rank {rank} sends {nbytes / 2**20:.2f} MiB to rank{'s' if len(sent) > 1 else ''} {others}: for "
                f"{_percent(busy / run.us)} of the time{rate}"
            )
    return lines


def _busy_us(links: Sequence[LinkUse]) -> float:
    """For how long something goes over one of some links."""
    return union_us([(begin, end) for link in links for begin, end, _ in link.moves])


def _describe_path(run: Run) -> list[str]:
    path = find_critical_path(run)
    if not path:
        return ["critical path: nothing was recorded"]
    total: dict[str, float] = {}
    for link in path:
        track = run.tracks[link.track]
        what = f"{link.span.kind.value}s of rank {track.rank}"
        if link.span.kind is SpanKind.TRANSFER:
            what += f" by {track.role_name}"
        total[what] = total.get(what, 0.0) + link.end_us - link.begin_us
    crossings = sum(link.waited_for is not None for link in path)
    lines = [f"critical path: {len(path)} pieces, {crossings} of them ended by another's wait"]
    for what, us in sorted(total.items(), key=lambda item: -item[1]):
        lines.append(f"  {us:>8.1f} µs  {what}")
    rest = run.us - sum(total.values())
    if rest > 0.0005 * run.us:
        lines.append(f"  {rest:>8.1f} µs  flags on their way, starts and ends")
    return lines


def _compare(run: Run, other: Run) -> list[str]:
    lines = [
        f"beside it, {other.source.value}: {other.us:.1f} µs, {100 * (run.us / other.us - 1):+.1f} %"
    ]
    for kind in (SpanKind.TILE, SpanKind.TRANSFER):
        times = [_median(each, kind) for each in (run, other)]
        if all(times):
            lines.append(
                f"  median {kind.value}: {times[0]:.1f} µs here, {times[1]:.1f} µs {other.source.value}"
            )
    return lines


def _median(run: Run, kind: SpanKind) -> float:
    """Of the tiles without waits; of the transfers from the first CTA to the last."""
    if kind is SpanKind.TILE:
        found = [
            end - begin
            for track in run.tracks
            for begin, end in _without(
                list(track.of_kind(SpanKind.TILE)), list(track.of_kind(SpanKind.WAIT))
            )
        ]
        return statistics.median(found) if found else 0.0
    found = [end - begin for link in run.links for begin, end, _ in link.moves]
    return statistics.median(found) if found else 0.0


def _hints(run: Run, shares: Sequence[RankShares], efficiency: float) -> list[str]:
    def mean(of: str) -> float:
        return statistics.fmean(
            sum(share for label, share in each.waits.items() if label.startswith(of))
            for each in shares
        )

    hints = []
    data = mean(CauseKind.DATA.value.partition("{")[0])
    busiest = max(
        _busy_us([link for link in run.links if by(link) == rank]) / run.us
        for rank in range(run.world_size)
        for by in (operator.attrgetter("src"), operator.attrgetter("dst"))
    )
    if run.dropped:
        hints.append("a longer lane, or fewer calls in one profile: records are missing")
    if data > _NOTABLE and busiest > _BUSY:
        hints.append(
            f"fewer bytes: tiles wait {_percent(data)} of the time for data, and a link is in use for "
            f"{_percent(busiest)}, so no order of tiles or transfers helps much; bring less, or overlap with more work"
        )
    elif data > _NOTABLE:
        hints.append(
            f"more splits, or the tile order `arrival`: tiles wait {_percent(data)} of the time for data while links "
            f"are in use for at most {_percent(busiest)}; smaller pieces come earlier"
        )
        hints.append("another realization: strategy='auto' tries them all by the cost model")
    produced = mean(CauseKind.TILES.value.partition("{")[0])
    if produced > _NOTABLE:
        hints.append(
            f"smaller pieces, so that groups of tiles are full earlier: {_percent(produced)} of the time is spent "
            "waiting for others' tiles"
        )
    drift = mean(CauseKind.CALL.value.partition("{")[0]) + mean(
        CauseKind.INPUT.value.partition("{")[0]
    )
    if drift > _NOTABLE:
        hints.append(
            f"the same work on every rank, and less between calls: {_percent(drift)} of the time is spent waiting for "
            "ranks that are late"
        )
    ring = mean(CauseKind.RING.value)
    if ring > _NOTABLE:
        hints.append(
            f"more CTAs for communication (`comm_ctas`), or TMA: tiles wait {_percent(ring)} of the time for the role "
            "beside them"
        )
    tail = statistics.fmean(each.tail for each in shares)
    if tail > _NOTABLE:
        hints.append(_tail_hint(run, tail))
    through = _last_tile_us(run)
    late = union_us(
        [
            (max(begin, through), end)
            for link in run.links
            for begin, end, _ in link.moves
            if end > through
        ]
    )
    if late > _NOTABLE * run.us:
        hints.append(
            f"transfers that end earlier (order `paced`, smaller last pieces): for {_percent(late / run.us)} of the "
            "time data move behind the last tile"
        )
    bare = statistics.fmean(each.start + each.end for each in shares) - late / run.us
    if bare > 2 * _NOTABLE:
        hints.append(
            f"more work in a call: for {_percent(bare)} of the time it starts or ends, and neither computes nor moves"
        )
    if not hints:
        hints.append(
            f"nothing stands out: tiles take {_percent(efficiency)} of the time; what is left is the kernel itself"
        )
    return hints


def _tail_hint(run: Run, tail: float) -> str:
    tiles = {span.key for track in run.of_rank(0) for span in track.of_kind(SpanKind.TILE)}
    rounds = len(tiles) / run.num_ctas
    empty = math.ceil(rounds) - rounds
    words = f"CTAs are through before others for {_percent(tail)} of the time"
    if empty > _NOTABLE:
        return (
            f"another size of tiles, or `parts` of the last round: {words}, and {len(tiles)} tiles on {run.num_ctas} "
            f"CTAs leave {_percent(empty)} of the last round without work"
        )
    return f"tiles that take alike, or ranks that start together: {words}"
