"""Search by the cost model: which candidates are promising, from schedules alone.

A search costs as many simulations as there are points on the axes, not as many as there are candidates: it goes along
one axis after another from the best candidates so far, which differ in who moves the data. What it does depends on its
arguments alone, not on time, so that all ranks find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from syncopate.errors import SyncopateError
from syncopate.tune.space import Axis, Candidate, Space

__all__ = ["MOST_WORK", "Findings", "Prepare", "Prepared", "Unknown", "search"]

GAIN: Final = 0.001
"""By what share a step along an axis has to be faster: less is nothing that a model can tell."""

BEAM: Final = 2
"""From how many candidates, each with another realization, the search goes on."""

MOST_WORK: Final = 120_000
"""Tiles of all ranks that one search simulates at most: a second or two."""

LEAST_LOOKS: Final = 14
"""Simulations that it may make however many tiles each has: all movers, and a few points of other axes."""


class Unknown(SyncopateError):
    """The model cannot say how long something takes, which may all the same be right and fast."""


@dataclass(frozen=True)
class Prepared:
    """A candidate that the checks let pass.

    Attributes:
        fingerprint: Equal for candidates that are the same program, since some choice makes no difference.
        predict: Gives its microseconds; raises `Unknown` if the model cannot.
    """

    fingerprint: str
    predict: Callable[[], float]


Prepare = Callable[[Candidate], Prepared]
"""Makes the schedule of a candidate; raises `Unknown`, or another `SyncopateError` if it is not legal."""


@dataclass
class Findings:
    """What a search has found.

    Attributes:
        predicted: Microseconds of each candidate that the model knows.
        same: Candidates that are the same program as one before, and that one.
        refused: Candidates that the compiler's checks refuse, and why.
        unknown: Candidates that the model cannot say anything of, and why.
    """

    predicted: dict[Candidate, float] = field(default_factory=dict)
    same: dict[Candidate, Candidate] = field(default_factory=dict)
    refused: dict[Candidate, str] = field(default_factory=dict)
    unknown: dict[Candidate, str] = field(default_factory=dict)
    _seen: dict[str, Candidate] = field(default_factory=dict)

    @property
    def considered(self) -> int:
        """How many candidates were looked at."""
        return len(self.predicted) + len(self.same) + len(self.refused) + len(self.unknown)

    def ranked(self) -> list[tuple[float, Candidate]]:
        """Predicted times with their candidates, best first; of equal ones, the one that was looked at first."""
        pairs = ((us, candidate) for candidate, us in self.predicted.items())
        return sorted(pairs, key=lambda pair: pair[0])

    def look(self, candidate: Candidate, prepare: Prepare) -> float | None:
        """What a candidate takes, or None; asks the model once."""
        candidate = self.same.get(candidate, candidate)
        if candidate in self.predicted:
            return self.predicted[candidate]
        if candidate in self.refused or candidate in self.unknown:
            return None
        try:
            prepared = prepare(candidate)
            first = self._seen.setdefault(prepared.fingerprint, candidate)
            if first != candidate:
                self.same[candidate] = first
                return self.predicted.get(first)
            us = prepared.predict()
        except Unknown as error:
            self.unknown[candidate] = str(error)
        except SyncopateError as error:
            self.refused[candidate] = str(error)
        else:
            self.predicted[candidate] = us
            return us
        return None


def search(
    space: Space,
    prepare: Prepare,
    *,
    starts: Iterable[Candidate] = (),
    work: int = 1,
    most_work: int = MOST_WORK,
    findings: Findings | None = None,
) -> Findings:
    """Looks for the fastest candidates.

    Args:
        space: What there is.
        prepare: Makes the schedule of a candidate.
        starts: Where to look, besides the default of the space.
        work: Tiles of all ranks that one prediction simulates.
        most_work: At how many the search ends, if it has made as many simulations as it may in any case.
        findings: Where to note what was looked at.

    Returns:
        All that was looked at, the default in any case.
    """
    findings = Findings() if findings is None else findings
    most = max(most_work // max(work, 1), LEAST_LOOKS)

    def look(candidate: Candidate) -> float | None:
        if len(findings.predicted) >= most:
            return findings.predicted.get(candidate)
        return findings.look(candidate, prepare)

    for candidate in (space.default, *starts):
        findings.look(candidate, prepare)
    if not findings.predicted:
        return findings
    axes = [axis for axis in space.axes if axis.modelled]
    first, rest = axes[:1], axes[1:]
    for axis in first:
        _follow(axis, findings.ranked()[0][1], look)
    for best in _best_by_mover(findings):
        for axis in rest:
            best = _follow(axis, best, look)
    return findings


def _follow(axis: Axis, start: Candidate, look: Callable[[Candidate], float | None]) -> Candidate:
    """The best point of an axis, which is the start unless another one is clearly faster."""
    best, least = start, look(start)
    for candidate in axis.moves(start):
        us = look(candidate)
        if us is not None and (least is None or us < least * (1 - GAIN)):
            best, least = candidate, us
    return best


def _best_by_mover(findings: Findings) -> list[Candidate]:
    """The best candidates of different realizations."""
    chosen: dict[object, Candidate] = {}
    for _, candidate in findings.ranked():
        chosen.setdefault(candidate.strategy.realization, candidate)
    return list(chosen.values())[:BEAM]
