"""Measurement of candidates on all ranks.

Rank 0 says what comes next, and all follow. What was measured is the maximum over the ranks, so all know the same, and
what fails on one rank is dropped by all. Each candidate's calls are in turn with the default's, as many for every
candidate, and it is known by its share of the default's time: clocks that drift meet both alike. The best few, and the
default, run against each other once more in the end, and only then one is chosen.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncopate.agreement import Agreement, attempt, from_first, maximum, settle
from syncopate.errors import SyncopateError
from syncopate.tune.bench import Bench, Runner
from syncopate.tune.cache import Measured
from syncopate.tune.journal import Journal
from syncopate.tune.progress import Progress
from syncopate.tune.search import Findings, Prepare
from syncopate.tune.space import Candidate, Space, choose_diverse

__all__ = ["Effort", "Outcome", "Tuner"]

WARM_UP: Final = 2
"""Rounds that do not count."""

GAIN: Final = 0.005
"""By what share a refinement has to be faster to go on from there: less is noise."""

UNSURE: Final = 0.03
"""How far off predictions are that differ in one choice (docs/model.md)."""

MOST_UNKNOWN: Final = 3
"""Candidates that are measured though the model cannot say anything of them."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        budget: Seconds after which nothing new is begun.
        top: Candidates that the model prefers to be measured.
        rounds: Calls of each candidate that count, and of the default beside it.
        final_rounds: Calls of each in the last comparison.
        finalists: How many are in that, besides the default.
    """

    budget: float = 120.0
    top: int = 8
    rounds: int = 9
    final_rounds: int = 25
    finalists: int = 3

    def __post_init__(self) -> None:
        for name in ("top", "rounds", "final_rounds", "finalists"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SyncopateError(f"{name}: expects a positive integer, but got {value!r}")
        if not isinstance(self.budget, (int, float)) or not self.budget > 0:
            raise SyncopateError(f"budget: expects seconds, but got {self.budget!r}")


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        chosen: The best, or the default, if nothing is better.
        measured: All that was measured, best first.
        failed: What was dropped, by candidate: why.
        final_us: Microseconds of those in the last comparison, by name.
        compiled: How many candidates were compiled.
        compile_seconds: What that took.
        resumed: How many were measured before.
    """

    chosen: Candidate
    measured: tuple[Measured, ...]
    failed: dict[Candidate, str]
    final_us: dict[str, float]
    compiled: int
    compile_seconds: float
    resumed: int


def _close(runner: Runner) -> None:
    """Gives a runner up, however broken it is."""
    with contextlib.suppress(Exception):
        runner.close()


class Tuner:
    """Measures candidates of one space."""

    def __init__(
        self,
        space: Space,
        bench: Bench,
        agreement: Agreement,
        journal: Journal,
        effort: Effort,
        progress: Progress,
        findings: Findings,
        prepare: Prepare,
        starts: Sequence[Candidate] = (),
    ) -> None:
        """Measures nothing yet.

        Args:
            space: What there is.
            bench: What runs candidates.
            agreement: The ranks.
            journal: What was measured before, the same on all ranks; that of rank 0 writes.
            effort: How much to measure.
            progress: Where to say so.
            findings: What the model has found; on other ranks than 0 nothing.
            prepare: Makes schedules, for the model; on rank 0.
            starts: What to measure whatever the model says of it; on rank 0.
        """
        self._space, self._bench, self._agreement = space, bench, agreement
        self._journal, self._effort, self._progress = journal, effort, progress
        self._findings = findings
        self._prepare, self._starts = prepare, tuple(starts)
        self._resumed = len(journal.measured)
        self._begin = time.monotonic()
        self._compiled, self._compile_seconds = 0, 0.0

    def run(self) -> Outcome:
        """Measures and chooses.

        Raises:
            SyncopateError: The default itself cannot run, or rank 0 has failed.
        """
        default, why = self._start(self._space.default)
        if default is None:
            raise SyncopateError(f"the default, {self._space.default.name}, cannot run: {why}")
        try:
            if self._space.default not in self._journal.measured:
                self._measure_default(default)
            proposals = self._propose()
            while (candidate := self._next(proposals)) is not None:
                self._measure(candidate, default)
            return self._finish(default)
        finally:
            _close(default)

    # What comes next; on rank 0.

    def _propose(self) -> Iterator[Candidate]:
        ranked = [pair for pair in self._findings.ranked() if pair[1] != self._space.default]
        unknown = list(self._findings.unknown)[:MOST_UNKNOWN]
        planned = [*self._starts, *choose_diverse(ranked, self._effort.top), *unknown]
        for number, candidate in enumerate(planned):
            self._show(number, len(planned), candidate)
            yield candidate
        yield from self._refine(len(planned))

    def _refine(self, before: int) -> Iterator[Candidate]:
        """Goes from the best so far along all axes, to what the model cannot rank, or finds hardly slower."""
        best, done = self._best(), before
        for axis in self._space.axes:
            for candidate in list(axis.moves(best)):
                us = self._findings.look(candidate, self._prepare)
                if candidate in self._findings.refused or self._is_double(candidate):
                    continue
                if us is not None and axis.modelled and us > self._near(best):
                    continue
                done += 1
                self._show(done, done + 1, candidate)
                yield candidate
                if self._share(candidate) < self._share(best) * (1 - GAIN):
                    best = candidate

    def _near(self, best: Candidate) -> float:
        """Up to which prediction a neighbour of the best may be better, for all that the model knows."""
        return self._findings.predicted.get(best, math.inf) * (1 + UNSURE)

    def _is_double(self, candidate: Candidate) -> bool:
        """Whether it is a program that was measured as another candidate."""
        return self._findings.same.get(candidate) in self._journal.measured

    def _share(self, candidate: Candidate) -> float:
        measured = self._journal.measured.get(candidate)
        return math.inf if measured is None else measured.share

    def _best(self) -> Candidate:
        return min(self._journal.measured, key=self._share)

    def _show(self, done: int, total: int, candidate: Candidate) -> None:
        best = self._best()
        us = self._journal.measured[best].us
        self._progress.update(done, total, candidate.name, best.name, us)

    def _next(self, proposals: Iterator[Candidate]) -> Candidate | None:
        """The next candidate that nobody has measured; None at the end."""

        def choose() -> dict[str, Any]:
            for candidate in proposals:
                if time.monotonic() - self._begin > self._effort.budget:
                    return {}
                if self._is_new(candidate):
                    return candidate.to_json()
            return {}

        data = from_first(self._agreement, choose)
        return Candidate.from_json(data) if data else None

    def _is_new(self, candidate: Candidate) -> bool:
        return candidate not in self._journal.measured and candidate not in self._journal.failed

    # Measuring; on all ranks.

    def _start(self, candidate: Candidate) -> tuple[Runner | None, str]:
        """Compiles on all ranks before any of them loads, since those would wait for it."""
        begin = time.monotonic()
        program, why, _ = attempt(self._agreement, lambda: self._bench.compile(candidate))
        self._compiled += 1
        self._compile_seconds += time.monotonic() - begin
        if why:
            return None, why
        started: list[Runner] = []
        _, why, _ = attempt(self._agreement, lambda: started.append(self._bench.start(program)))
        if not why:
            _, why, _ = attempt(self._agreement, lambda: started[0].check())
        if why:
            for runner in started:
                _close(runner)
            return None, why
        return started[0], ""

    def _measure_default(self, default: Runner) -> None:
        (us,), why = self._compare([default], self._effort.rounds)
        if why:
            raise self._default_fails(why[0])
        self._journal.add(
            Measured(self._space.default, us, us, self._predicted(self._space.default))
        )

    def _measure(self, candidate: Candidate, default: Runner) -> None:
        self._journal.begin(candidate)
        runner, why = self._start(candidate)
        if runner is None:
            self._journal.fail(candidate, why)
            return
        try:
            (default_us, us), broken = self._compare([default, runner], self._effort.rounds)
        finally:
            _close(runner)
        if broken:
            why = broken.get(1) or f"makes the default fail, {broken[0]}"
            self._journal.fail(candidate, why)
            return
        self._journal.add(Measured(candidate, us, default_us, self._predicted(candidate)))

    def _predicted(self, candidate: Candidate) -> float | None:
        return self._findings.predicted.get(candidate)

    def _default_fails(self, why: str) -> SyncopateError:
        name = self._space.default.name
        return SyncopateError(f"the default, {name}, fails when it runs on {why}")

    def _compare(
        self, runners: Sequence[Runner], rounds: int
    ) -> tuple[list[float], dict[int, str]]:
        """Medians of the slowest rank, in microseconds; infinity for what has failed, after which it runs no more.

        Returns:
            The medians, and for what has failed, why, and on which rank.
        """
        times: list[list[float]] = [[] for _ in runners]
        broken: dict[int, str] = {}
        for number in range(rounds + WARM_UP):
            for place in range(len(runners)):
                which = (place + number) % len(runners)
                if which in broken:
                    continue
                us, why = self._sample(runners[which])
                if why:
                    broken[which] = why
                elif number >= WARM_UP:
                    times[which].append(us)
        medians = [
            math.inf if which in broken else statistics.median(some)
            for which, some in enumerate(times)
        ]
        return medians, broken

    def _sample(self, runner: Runner) -> tuple[float, str]:
        """The time of the slowest rank, or what is wrong and where."""
        us, problem = math.inf, ""
        try:
            us = runner.sample_us()
            if not 0 < us < math.inf:
                problem = f"takes {us} µs"
        except Exception as error:
            # Whatever it is: ranks that went on alone would wait for this one for ever.
            problem = f"{type(error).__name__}: {error}"
        (slowest,) = maximum(self._agreement, [math.inf if problem else us])
        return slowest, settle(self._agreement, problem) if slowest == math.inf else ""

    def _finish(self, default: Runner) -> Outcome:
        names = from_first(self._agreement, self._choose_finalists)
        runners: list[tuple[Candidate, Runner]] = [(self._space.default, default)]
        try:
            for data in names:
                candidate = Candidate.from_json(data)
                runner, why = self._start(candidate)
                self._compiled -= 1
                if runner is None:
                    self._journal.fail(candidate, why)
                else:
                    runners.append((candidate, runner))
            times, broken = self._compare(
                [runner for _, runner in runners], self._effort.final_rounds
            )
        finally:
            for _, runner in runners[1:]:
                _close(runner)
        default_us = times[0]
        measured = dict(self._journal.measured)
        if 0 in broken:
            raise self._default_fails(broken[0])
        final = {candidate: us for (candidate, _), us in zip(runners, times, strict=True)}
        for place, (candidate, us) in enumerate(final.items()):
            if us < math.inf:
                predicted = measured[candidate].predicted_us
                measured[candidate] = Measured(candidate, us, default_us, predicted)
            else:
                del measured[candidate]
                self._journal.fail(candidate, broken[place])
        # Of equal ones, the default stands first.
        chosen = min(final, key=lambda candidate: final[candidate])
        return Outcome(
            chosen=chosen,
            measured=tuple(sorted(measured.values(), key=lambda one: one.share)),
            failed=dict(self._journal.failed),
            final_us={candidate.name: us for candidate, us in final.items() if us < math.inf},
            compiled=self._compiled,
            compile_seconds=self._compile_seconds,
            resumed=self._resumed,
        )

    def _choose_finalists(self) -> list[dict[str, Any]]:
        best = sorted(
            (
                one
                for one in self._journal.measured.values()
                if one.candidate != self._space.default
            ),
            key=lambda one: one.share,
        )
        return [one.candidate.to_json() for one in best[: self._effort.finalists]]
