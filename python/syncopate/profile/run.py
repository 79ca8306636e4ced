"""What a call did when, measured or predicted, in one form for traces, pictures and words. Pure data."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncopate.abi import Realization

__all__ = ["Cause", "CauseKind", "Key", "LinkUse", "Run", "Span", "SpanKind", "TimeSource", "Track"]


class TimeSource(enum.Enum):
    """Where the times of a run are from."""

    MEASURED = "measured"
    """The clocks of the GPUs."""
    SIMULATED = "simulated"
    """The steps of the simulator: an order, and no durations."""
    PREDICTED = "predicted"
    """The cost model."""


class SpanKind(enum.Enum):
    """What a role does."""

    TILE = "tile"
    TRANSFER = "transfer"
    WAIT = "wait"


class CauseKind(enum.Enum):
    """What somebody waits for."""

    DATA = "data from rank {}"
    TILES = "tiles of rank {}"
    INPUT = "the input of rank {}"
    CALL = "the end of a call of rank {}"
    ENGINE = "the side stream of rank {}"
    RING = "the ring between tiles and role"


@dataclass(frozen=True)
class Key:
    """A tile or a transfer of a run.

    Attributes:
        kind: Which of the two.
        rank: The rank that computes it or carries it out.
        number: Of a tile its position in the order, of a transfer its row of the rank's commands.
    """

    kind: SpanKind
    rank: int
    number: int


@dataclass(frozen=True)
class Cause:
    """What ends a wait.

    Attributes:
        kind: What is waited for.
        rank: Whose.
        words: The flag, and what it says.
        makers: What has to be done for that, as far as it is part of the run.
    """

    kind: CauseKind
    rank: int
    words: str
    makers: tuple[Key, ...] = ()

    @property
    def label(self) -> str:
        """What waits with the same one are added up under."""
        return self.kind.value.format(self.rank)


@dataclass(frozen=True)
class Span:
    """A stretch of time. Times are microseconds from the start of the run.

    Attributes:
        kind: What is done.
        begin_us: Its beginning.
        end_us: Its end.
        name: What it is done to.
        key: Of a tile or transfer, which one it is.
        cause: Of a wait, what it is for.
        source: Of a transfer, the rank that it reads from.
    """

    kind: SpanKind
    begin_us: float
    end_us: float
    name: str
    key: Key | None = None
    cause: Cause | None = None
    source: int | None = None

    @property
    def us(self) -> float:
        """How long it takes."""
        return self.end_us - self.begin_us


@dataclass(frozen=True)
class Track:
    """What one role does, of a CTA or of all that share a queue.

    Attributes:
        rank: Its rank.
        role: The realization of a role that moves data; None for computing warps.
        cta: The CTA in the launch; None for a queue as a whole.
        sm: The multiprocessor, where that is known.
        begin_us: When it starts.
        end_us: When it is through.
        spans: By their beginning. A wait may lie within a tile.
        dropped: Records that are missing at its end.
    """

    rank: int
    role: Realization | None
    cta: int | None
    sm: int | None
    begin_us: float
    end_us: float
    spans: tuple[Span, ...]
    dropped: int = 0

    @property
    def role_name(self) -> str:
        """The role in a word."""
        return "compute" if self.role is None else self.role.spelling

    @property
    def name(self) -> str:
        """The track in words."""
        cta = "" if self.cta is None else f", CTA {self.cta}"
        return self.role_name + cta + ("" if self.sm is None else f", SM {self.sm}")

    def of_kind(self, kind: SpanKind) -> Iterator[Span]:
        """Its spans of a kind."""
        return (span for span in self.spans if span.kind is kind)


@dataclass(frozen=True)
class LinkUse:
    """What goes from one rank to another.

    Attributes:
        src: From whom.
        dst: To whom.
        moves: Of each transfer its beginning and its end in microseconds, and its bytes.
    """

    src: int
    dst: int
    moves: tuple[tuple[float, float, int], ...]

    @property
    def nbytes(self) -> int:
        """All bytes."""
        return sum(move[2] for move in self.moves)

    def rates(self, us: float, bins: int) -> list[float]:
        """GB/s in equal parts of the time from 0 to `us`, as if each transfer moved evenly from begin to end."""
        width = us / bins
        moved = [0.0] * bins
        for begin, end, nbytes in self.moves:
            length = max(end - begin, 1e-9)
            last = min(int(end / width), bins - 1)
            for index in range(min(int(begin / width), bins - 1), last + 1):
                inside = min(end, (index + 1) * width) - max(begin, index * width)
                share = 1.0 if last == int(begin / width) else max(inside, 0.0) / length
                moved[index] += nbytes * share
        return [nbytes / (width * 1e3) for nbytes in moved]


@dataclass(frozen=True)
class Run:
    """One call on all ranks. Times are microseconds from its start.

    Attributes:
        name: Of the program.
        source: Where the times are from.
        clock: What is known of the ranks' clocks, or of the machine, in words.
        us: When the last rank is through.
        world_size: Number of ranks.
        num_ctas: CTAs of each rank that compute.
        tracks: Of all ranks, the computing ones first.
        links: Between ranks, those over which something goes.
    """

    name: str
    source: TimeSource
    clock: str
    us: float
    world_size: int
    num_ctas: int
    tracks: tuple[Track, ...]
    links: tuple[LinkUse, ...] = ()

    def of_rank(self, rank: int) -> list[Track]:
        """The tracks of a rank."""
        return [track for track in self.tracks if track.rank == rank]

    @property
    def dropped(self) -> int:
        """Records that are missing."""
        return sum(track.dropped for track in self.tracks)

    @property
    def causes(self) -> list[str]:
        """The labels of all causes of waits, the longest ones first."""
        total: dict[str, float] = {}
        for track in self.tracks:
            for span in track.of_kind(SpanKind.WAIT):
                if span.cause is not None:
                    total[span.cause.label] = total.get(span.cause.label, 0.0) + span.us
        return sorted(total, key=lambda label: -total[label])


def union_us(spans: Sequence[tuple[float, float]]) -> float:
    """How long at least one of some stretches of time lasts."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total
