"""What to try, by where the time of a run went."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Sequence

from syncopate.profile.run import CauseKind, Run, SpanKind, union_us
from syncopate.profile.shares import RankShares, busy_us, last_tile_us, percent

__all__ = ["find_hints"]

_NOTABLE = 0.05
"""Share of the time from which something is worth a hint."""
_BUSY = 0.8
"""Share of the time from which a link decides, whatever the schedule."""


def find_hints(run: Run, shares: Sequence[RankShares], efficiency: float) -> list[str]:
    """A line for each thing to try.

    Args:
        run: The run.
        shares: Its shares, by rank.
        efficiency: The share of the time that CTAs which compute are in tiles.
    """

    def mean(of: str) -> float:
        return statistics.fmean(
            sum(share for label, share in each.waits.items() if label.startswith(of))
            for each in shares
        )

    hints = []
    data = mean(CauseKind.DATA.value.partition("{")[0])
    busiest = max(
        busy_us([link for link in run.links if by(link) == rank]) / run.us
        for rank in range(run.world_size)
        for by in (operator.attrgetter("src"), operator.attrgetter("dst"))
    )
    if run.dropped:
        hints.append("a longer lane, or fewer calls in one profile: records are missing")
    if data > _NOTABLE and busiest > _BUSY:
        hints.append(
            f"fewer bytes: tiles wait {percent(data)} of the time for data, and a link is in use for "
            f"{percent(busiest)}, so no order of tiles or transfers helps much; bring less, or overlap with more work"
        )
    elif data > _NOTABLE:
        hints.append(
            f"more splits, or the tile order `arrival`: tiles wait {percent(data)} of the time for data while links "
            f"are in use for at most {percent(busiest)}; smaller pieces come earlier"
        )
        hints.append("another realization: strategy='auto' tries them all by the cost model")
    produced = mean(CauseKind.TILES.value.partition("{")[0])
    if produced > _NOTABLE:
        hints.append(
            f"smaller pieces, so that groups of tiles are full earlier: {percent(produced)} of the time is spent "
            "waiting for others' tiles"
        )
    drift = mean(CauseKind.CALL.value.partition("{")[0]) + mean(
        CauseKind.INPUT.value.partition("{")[0]
    )
    if drift > _NOTABLE:
        hints.append(
            f"the same work on every rank, and less between calls: {percent(drift)} of the time is spent waiting for "
            "ranks that are late"
        )
    ring = mean(CauseKind.RING.value)
    if ring > _NOTABLE:
        hints.append(
            f"more CTAs for communication (`comm_ctas`), or TMA: tiles wait {percent(ring)} of the time for the role "
            "beside them"
        )
    tail = statistics.fmean(each.tail for each in shares)
    if tail > _NOTABLE:
        hints.append(_tail_hint(run, tail))
    through = last_tile_us(run)
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
            f"transfers that end earlier (order `paced`, smaller last pieces): for {percent(late / run.us)} of the "
            "time data move behind the last tile"
        )
    bare = statistics.fmean(each.start + each.end for each in shares) - late / run.us
    if bare > 2 * _NOTABLE:
        hints.append(
            f"more work in a call: for {percent(bare)} of the time it starts or ends, and neither computes nor moves"
        )
    if not hints:
        hints.append(
            f"nothing stands out: tiles take {percent(efficiency)} of the time; what is left is the kernel itself"
        )
    return hints


def _tail_hint(run: Run, tail: float) -> str:
    tiles = {span.key for track in run.of_rank(0) for span in track.of_kind(SpanKind.TILE)}
    rounds = len(tiles) / run.num_ctas
    empty = math.ceil(rounds) - rounds
    words = f"CTAs are through before others for {percent(tail)} of the time"
    if empty > _NOTABLE:
        return (
            f"another size of tiles, or `parts` of the last round: {words}, and {len(tiles)} tiles on {run.num_ctas} "
            f"CTAs leave {percent(empty)} of the last round without work"
        )
    return f"tiles that take alike, or ranks that start together: {words}"
