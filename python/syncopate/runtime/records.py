"""What roles leave in a rank's buffer, as the host reads it: numbers and times, lane by lane. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syncopate.abi import PROFILE_LANES, ProfileEvent, ProfileLane, ProfileRecord, profile_words
from syncopate.errors import InternalError
from syncopate.tables import Int64Array

__all__ = ["DEFAULT_RECORDS", "LaneRecords", "RankRecords", "Record", "read_lanes"]

DEFAULT_RECORDS = 2048
"""Records of a lane: 32 KiB, so that 132 CTAs take 21 MiB of a GPU."""


@dataclass(frozen=True)
class Record:
    """One stamp.

    Attributes:
        event: What happened.
        subject: To which tile, command or wait; see `ProfileEvent`.
        ns: When, by the clock of the rank's GPU.
    """

    event: ProfileEvent
    subject: int
    ns: int


@dataclass(frozen=True)
class LaneRecords:
    """What one role of one CTA has left, over all calls since the buffer was cleared.

    Attributes:
        cta: The CTA.
        role: Number of the realization of the role; 0 for computing warps and the end of a call.
        sm: The multiprocessor; that of the last call.
        records: In order.
        dropped: How many more there would have been.
    """

    cta: int
    role: int
    sm: int
    records: tuple[Record, ...]
    dropped: int


@dataclass(frozen=True)
class RankRecords:
    """What a rank has left. Can be pickled, so that ranks can be gathered.

    Attributes:
        rank: The rank.
        gpu: Whose clock it is: ranks with equal texts have one clock.
        lanes: Of all roles that have left something.
    """

    rank: int
    gpu: str
    lanes: tuple[LaneRecords, ...]


def read_lanes(words: Int64Array, ctas: int, *, rank: int, gpu: str) -> RankRecords:
    """Reads a rank's buffer.

    Args:
        words: The buffer, i64.
        ctas: CTAs of a launch.
        rank: The rank.
        gpu: What tells its clock from others.

    Raises:
        InternalError: The buffer is no whole number of records long.
    """
    lanes, width = ctas * PROFILE_LANES, len(ProfileRecord)
    records = (len(words) // lanes - len(ProfileLane)) // width
    if records < 0 or len(words) != profile_words(ctas, records):
        raise InternalError(f"a profile of {ctas} CTAs cannot have {len(words)} words")
    rows = words.reshape(lanes, -1)
    found = []
    for lane in np.flatnonzero(rows[:, ProfileLane.COUNT]).tolist():
        count = int(rows[lane, ProfileLane.COUNT])
        kept = min(count, records)
        body = rows[lane, len(ProfileLane) :].reshape(-1, width)[:kept]
        codes = body[:, ProfileRecord.EVENT]
        times = body[:, ProfileRecord.TIME].tolist()
        events, subjects = (codes & 0xFFFFFFFF).tolist(), (codes >> 32).tolist()
        entries = tuple(
            Record(ProfileEvent(event), subject, ns)
            for event, subject, ns in zip(events, subjects, times, strict=True)
        )
        cta, role = divmod(lane, PROFILE_LANES)
        found.append(LaneRecords(cta, role, int(rows[lane, ProfileLane.SM]), entries, count - kept))
    return RankRecords(rank, gpu, tuple(found))
