"""Records and runs made by hand, for tests of what is made of them."""

from __future__ import annotations

import numpy as np

from syncopate import abi
from syncopate.abi import ProfileEvent, ProfileLane
from syncopate.profile import Cause, CauseKind, Key, LinkUse, Run, Span, SpanKind, TimeSource, Track

TILE, TRANSFER, WAIT = SpanKind.TILE, SpanKind.TRANSFER, SpanKind.WAIT


def write_lanes(ctas, records, lanes):
    """The words of a rank's buffer, by CTA and role what a kernel would write, in order; what does not fit is lost."""
    words = np.zeros(abi.profile_words(ctas, records), np.int64)
    rows = words.reshape(ctas * abi.PROFILE_LANES, -1)
    for (cta, role), entries in lanes.items():
        row = rows[cta * abi.PROFILE_LANES + role]
        row[ProfileLane.COUNT], row[ProfileLane.SM] = len(entries), 100 + cta
        for at, (event, subject, ns) in enumerate(entries[:records]):
            begin = len(ProfileLane) + 2 * at
            row[begin : begin + 2] = ns, int(event) | subject << 32
    return words


def role(call, begin, end, *entries):
    """What a role leaves of a call."""
    return [(ProfileEvent.ROLE_BEGIN, call, begin), *entries, (ProfileEvent.ROLE_END, call, end)]


def tile(rank, number, begin, end):
    return Span(TILE, begin, end, f"tile {number}", Key(TILE, rank, number))


def transfer(rank, number, begin, end):
    return Span(TRANSFER, begin, end, f"chunk {number}", Key(TRANSFER, rank, number), source=rank)


def wait(begin, end, kind=CauseKind.DATA, rank=1, makers=()):
    cause = Cause(kind, rank, "a flag", tuple(makers))
    return Span(WAIT, begin, end, "a flag", cause=cause)


def two_ranks(us=100.0):
    """Rank 1 computes a tile and sends it; rank 0 waits for it within its second tile."""
    maker = Key(TRANSFER, 1, 0)
    tracks = (
        Track(0, None, 0, 7, 0, 100, (tile(0, 0, 0, 30), tile(0, 1, 30, 100), wait(32, 62, makers=[maker]))),
        Track(1, None, 0, 8, 0, 80, (tile(1, 0, 0, 40), tile(1, 1, 40, 80))),
        Track(
            1, abi.Realization.LDST_COLOCATED, 0, 8, 0, 60,
            (wait(0, 41, CauseKind.TILES, 1, [Key(TILE, 1, 0)]), transfer(1, 0, 42, 60)),
        ),
    )  # fmt: skip
    links = (LinkUse(1, 0, ((42.0, 60.0, 18_000),)),)
    return Run("two", TimeSource.MEASURED, "one clock", us, 2, 1, tracks, links)
