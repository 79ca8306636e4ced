"""Where the time of a run went, in words, and what to try."""

from __future__ import annotations

import statistics

from syncopate.profile.critical import find_critical_path
from syncopate.profile.hints import find_hints
from syncopate.profile.run import Run, SpanKind, TimeSource
from syncopate.profile.shares import (
    RankShares,
    busy_us,
    find_shares,
    percent,
    without_waits,
)
from syncopate.runtime.flag_names import join

__all__ = ["describe_run"]


def describe_run(run: Run, other: Run | None = None) -> str:
    """A run in words: efficiency, where the time went, what to try.

    Args:
        run: The run.
        other: What to compare it with: a prediction beside a measurement, or the other way round.
    """
    shares = find_shares(run)
    efficiency = statistics.fmean(each.compute for each in shares)
    lines = [f"{run.name}: {run.us:.1f} µs, {run.source.value}; {run.clock}"]
    if run.source is TimeSource.SIMULATED:
        lines.append("shares below are of the simulator's steps, which say nothing of a GPU")
    lines.append(
        f"efficiency: CTAs that compute are in tiles for {percent(efficiency)} of the time, and wait for the rest"
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
    hints = find_hints(run, shares, efficiency)
    if run.source is TimeSource.SIMULATED:
        hints = [
            "a profile on GPUs, or the cost model: what the simulator takes says nothing of them"
        ]
    lines += ["", "what to try:", *(f"  {hint}" for hint in hints)]
    return "\n".join(lines)


def _describe_rank(each: RankShares) -> list[str]:
    lines = [f"rank {each.rank}:", f"  {percent(each.compute):>8}  in tiles"]
    lines += [f"  {percent(share):>8}  waiting for {label}" for label, share in each.waits.items()]
    for share, words in (
        (each.start, "before the first tile"),
        (each.other, "between tiles"),
        (each.tail, "behind the last tile of a CTA, while others compute: its tail"),
        (each.end, "behind the last tile of all"),
    ):
        if share >= 0.0005:
            lines.append(f"  {percent(share):>8}  {words}")
    hidden = 1 - each.uncovered / each.moving if each.moving else 1.0
    lines.append(
        f"  data move for {percent(each.moving)} of the time; {percent(hidden)} of that is beside tiles"
    )
    return lines


def _describe_links(run: Run) -> list[str]:
    lines = ["links:"]
    for rank in range(run.world_size):
        sent = [link for link in run.links if link.src == rank]
        if sent:
            others = join([str(link.dst) for link in sent])
            nbytes, busy = sum(link.nbytes for link in sent), busy_us(sent)
            # A clock that goes on in steps may see no time pass.
            rate = f", {nbytes / (busy * 1e3):.1f} GB/s then" if busy else ""
            lines.append(
                f"  rank {rank} sends {nbytes / 2**20:.2f} MiB to rank{'s' if len(sent) > 1 else ''} {others}: for "
                f"{percent(busy / run.us)} of the time{rate}"
            )
    return lines


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
            for begin, end in without_waits(
                list(track.of_kind(SpanKind.TILE)), list(track.of_kind(SpanKind.WAIT))
            )
        ]
        return statistics.median(found) if found else 0.0
    found = [end - begin for link in run.links for begin, end, _ in link.moves]
    return statistics.median(found) if found else 0.0
