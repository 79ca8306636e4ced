"""`strategy="auto"`: from the cache, else by the model, else, if that is wanted, by measurement.

All ranks choose alike: a cached choice counts if all ranks have the same one, the model is asked on rank 0, and what is
measured is agreed upon.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import syncopate
from syncopate.agreement import (
    Agreement,
    Processes,
    agree_on,
    attempt,
    find_agreement,
    from_first,
    require,
)
from syncopate.errors import SyncopateError
from syncopate.tune.cache import Entry, Key, Measured, TuningCache
from syncopate.tune.journal import Journal, read_journal
from syncopate.tune.machines import find_gpu, find_model, machine_id
from syncopate.tune.progress import Progress
from syncopate.tune.report import Origin, TuningReport, count_reasons, statistics
from syncopate.tune.search import Findings, Prepared, Unknown, search
from syncopate.tune.space import Candidate
from syncopate.tune.subject import Subject
from syncopate.tune.tuner import Effort, Outcome, Tuner

if TYPE_CHECKING:
    from syncopate.model import KernelCost, Machine
    from syncopate.strategy import Strategy
    from syncopate.tune.bench import Bench

__all__ = ["Auto", "as_auto", "choose"]

MEASURE_VARIABLE: Final = "SYNCOPATE_MEASURE"

MARGIN: Final = 0.05
"""By what share the model has to find something faster than the default to choose it without a measurement: more than
it was ever off between two ways to run a shape that was measured (docs/design/0024-tuner.md)."""

NEIGHBOURS: Final = 4
"""Strategies of tuned shapes that a new shape looks at."""

NEAREST: Final = 2
"""How many of them are measured whatever the model says."""

FARTHEST: Final = 4.0
"""How far such a shape may be, in powers of two of M, N and K together."""


@dataclass(frozen=True)
class Auto:
    """How to choose a strategy, as an argument in its place; `"auto"` is short for `Auto()`.

    Attributes:
        measure: Whether to measure, where nothing measured is in the cache. All ranks of a process group then compile
            together, each on its GPU. Left out, the environment variable SYNCOPATE_MEASURE says so.
        machine: By whose model: a `Machine`, the name of a preset, or a file; left out, what is known of the GPU.
        gpu: Name of the GPU to choose for, as torch gives it; that of this process if it is left out.
        cost: What tiles of a kernel take that is not one of `syncopate.kernels`.
        unordered: Whether results of a sum may differ from call to call, as those of `Combine.DESTINATION`.
        effort: How much to measure.
        cache: Where choices are kept; the user's cache if it is left out.
        keep: Whether to keep this one.
        progress: Whether to show how far it is; left out, a bar on a terminal, lines elsewhere.
        agreement: The ranks that choose together, such as `syncopate.agreement.processes(group)`; left out, those of
            the group that a program is loaded on at once, else torch.distributed's default group if it has as many
            ranks as the program, else this process alone.
    """

    measure: bool | None = None
    machine: Machine | str | None = None
    gpu: str | None = None
    cost: KernelCost | None = None
    unordered: bool = False
    effort: Effort = field(default_factory=Effort)
    cache: TuningCache | None = None
    keep: bool = True
    progress: bool | None = None
    agreement: Agreement | None = None

    @property
    def measures(self) -> bool:
        """Whether to measure."""
        if self.measure is None:
            return os.environ.get(MEASURE_VARIABLE, "") not in ("", "0")
        return self.measure


def as_auto(strategy: Strategy | Auto | str | None) -> Auto | None:
    """How to choose, if an argument for a strategy asks for that.

    Raises:
        SyncopateError: It is another text.
    """
    if isinstance(strategy, str):
        if strategy != "auto":
            raise SyncopateError(
                f"strategy: expects a syncopate.Strategy, or 'auto', but got {strategy!r}"
            )
        return Auto()
    return strategy if isinstance(strategy, Auto) else None


def choose(subject: Subject, auto: Auto, bench: Bench | None = None) -> TuningReport:
    """Chooses a candidate. Collective, if there are several ranks.

    Args:
        subject: What for.
        auto: How.
        bench: What measures; that of the subject if it is left out.

    Raises:
        SyncopateError: It is to be measured, and cannot be; or an argument is wrong; or another rank, which the message
            names, has failed.
    """
    agreement = auto.agreement or find_agreement(subject.world_size)

    def begin() -> _Choice:
        return _Choice(subject, auto, bench, agreement)

    return require(agreement, subject.name, begin).run()


class _Choice:
    def __init__(
        self, subject: Subject, auto: Auto, bench: Bench | None, agreement: Agreement
    ) -> None:
        """Does all that may fail on a rank before the ranks meet: whatever it is, the others hear of it."""
        self.begin = time.monotonic()
        self.subject, self.auto, self.bench = subject, auto, bench
        self.agreement = agreement
        self.cache = auto.cache or TuningCache()
        gpu = auto.gpu or find_gpu()
        self.machine, self.why = find_model(auto.machine, gpu, subject.world_size)
        self.machine_id = machine_id(self.machine)
        named = self.machine.name if self.machine is not None else "any"
        target = subject.target
        self.key = Key(
            subject.data, gpu or named, f"{target}x{target.num_sms}", syncopate.__version__
        )
        self.default = subject.space.default
        self.cached = self._look()

    def run(self) -> TuningReport:
        default = self.default
        entry = self._find()
        if entry is not None:
            statistics.hits += 1
            known = {one.candidate: one for one in entry.measured}
            found = known.get(entry.candidate)
            return self._report(
                chosen=entry.candidate,
                origin=Origin.CACHE,
                reason=f"chosen by {'measurement' if entry.measured else 'the model'} before",
                measured=entry.measured,
                predicted_us=None if found is None else found.predicted_us,
                default_predicted_us=known[default].predicted_us if default in known else None,
            )
        statistics.misses += 1
        return self._measure() if self.auto.measures else self._ask_model()

    def _look(self) -> Entry | None:
        """What is in this rank's cache, if it counts."""
        entry = self.cache.find(self.key, self.machine_id)
        if entry is not None and self.auto.measures and not entry.measured:
            return None
        return entry

    def _find(self) -> Entry | None:
        """What is in the cache, if all ranks have the same."""
        entry = self.cached
        same = agree_on(self.agreement, None if entry is None else entry.candidate.to_json())
        return entry if same else None

    # By the model.

    def _prepare(self, candidate: Candidate) -> Prepared:
        if self.machine is None:
            raise Unknown(self.why)
        return self.subject.prepare(candidate, self.machine)

    def _search(self) -> tuple[Findings, Origin]:
        """What the model says: of what was tuned for near shapes, or of all axes."""
        near = self._neighbours()
        findings = Findings()
        if near:
            for candidate in (self.subject.space.default, *near):
                findings.look(candidate, self._prepare)
            return findings, Origin.NEIGHBOURS
        if self.machine is None:
            return findings, Origin.DEFAULT
        findings = search(self.subject.space, self._prepare, work=self.subject.work)
        return findings, Origin.MODEL

    def _neighbours(self) -> list[Candidate]:
        """What was measured to be best for the nearest shapes."""
        found: list[tuple[float, Candidate]] = []
        for _, entry in self.cache.entries():
            like = (entry.key.gpu, entry.key.target, entry.key.version)
            if not entry.measured or like != (self.key.gpu, self.key.target, self.key.version):
                continue
            distance = self.subject.distance(entry.key.subject)
            if distance is not None and distance <= FARTHEST:
                found.append((distance, self.subject.adapt(entry.candidate)))
        found.sort(key=lambda pair: pair[0])
        return list(dict.fromkeys(candidate for _, candidate in found))[:NEIGHBOURS]

    def _ask_model(self) -> TuningReport:
        """Rank 0 asks, and all do what it says."""
        made = from_first(self.agreement, self._choose_by_model)
        report = self._read_report(made)
        if report.origin is not Origin.DEFAULT:
            self._store(report.chosen, (), report)
        return report

    def _store(
        self, chosen: Candidate, measured: tuple[Measured, ...], report: TuningReport
    ) -> None:
        if self.auto.keep:
            entry = Entry(self.key, chosen, self.machine_id, measured, report.to_json())
            self.cache.store(entry)

    def _choose_by_model(self) -> dict[str, Any]:
        default = self.subject.space.default
        findings, origin = self._search()
        ranked, reason = findings.ranked(), self.why
        chosen = default
        if default not in findings.predicted:
            origin = Origin.DEFAULT
            reason = findings.unknown.get(default) or findings.refused.get(default) or self.why
        else:
            us, best = ranked[0]
            if us < findings.predicted[default] * (1 - MARGIN):
                chosen = best
        return {
            "chosen": chosen.to_json(),
            "origin": origin.name,
            "reason": reason,
            "considered": findings.considered,
            "refused": count_reasons(findings.refused),
            "unknown": len(findings.unknown),
            "predicted_us": findings.predicted.get(chosen),
            "default_predicted_us": findings.predicted.get(default),
        }

    def _read_report(self, made: Mapping[str, Any]) -> TuningReport:
        return self._report(
            chosen=Candidate.from_json(made["chosen"]),
            origin=Origin[made["origin"]],
            **{name: value for name, value in made.items() if name not in ("chosen", "origin")},
        )

    # By measurement.

    def _measure(self) -> TuningReport:
        bench, why = self._find_bench()
        if bench is None:
            if self.auto.measure:
                raise SyncopateError(f"measure: {why}")
            report = self._ask_model()
            return self._report(
                **{**vars(report), "reason": f"{report.reason}; not measured: {why}"}
            )
        effort, first = self.auto.effort, self.agreement.rank == 0
        header = json.dumps(
            {**self.key.data, "machine": self.machine_id, "rounds": effort.rounds},
            sort_keys=True,
        )
        path = self.cache.folder / "unfinished" / f"{self.key.stem}.jsonl"
        findings, near = Findings(), list[Candidate]()

        def prepare() -> list[dict[str, Any]]:
            near.extend(self._neighbours())
            if self.machine is not None:
                search(
                    self.subject.space,
                    self._prepare,
                    starts=near,
                    work=self.subject.work,
                    findings=findings,
                )
            return read_journal(path, header)

        lines = from_first(self.agreement, prepare)
        progress = Progress(self.subject.name, shown=self.auto.progress if first else False)
        journal = Journal(path if first else None, header, lines)
        tuner = Tuner(
            self.subject.space,
            bench,
            self.agreement,
            journal,
            effort,
            progress,
            findings,
            self._prepare,
            near[:NEAREST],
        )
        outcome = tuner.run()
        made = from_first(self.agreement, lambda: self._describe(findings, outcome))
        measured = tuple(map(Measured.from_json, made.pop("measured")))
        report = self._report(
            chosen=outcome.chosen,
            origin=Origin.MEASUREMENT,
            reason=self.why,
            compiled=outcome.compiled,
            measured=measured,
            failed={candidate.name: why for candidate, why in outcome.failed.items()},
            compile_seconds=outcome.compile_seconds,
            final_us=outcome.final_us,
            resumed=outcome.resumed,
            **made,
        )
        self._store(outcome.chosen, measured, report)
        journal.remove()
        progress.close(f"{outcome.chosen.name}, {report.speedup or 1.0:.3f}x the default")
        return report

    def _describe(self, findings: Findings, outcome: Outcome) -> dict[str, Any]:
        """What only rank 0 knows, since it alone has asked the model."""
        return {
            "considered": findings.considered,
            "refused": count_reasons(findings.refused),
            "unknown": len(findings.unknown),
            "measured": [one.to_json() for one in outcome.measured],
            "predicted_us": findings.predicted.get(outcome.chosen),
            "default_predicted_us": findings.predicted.get(self.subject.space.default),
        }

    def _find_bench(self) -> tuple[Bench | None, str]:
        """What measures, on all ranks or on none."""
        _, why, _ = attempt(self.agreement, self._expect_gpus)
        if why:
            return None, why
        bench, why, _ = attempt(self.agreement, self._make_bench)
        return bench, why

    def _make_bench(self) -> Bench:
        if self.bench is not None:
            return self.bench
        assert isinstance(self.agreement, Processes)
        return self.subject.make_bench(self.agreement.group)

    def _expect_gpus(self) -> None:
        """Raises SyncopateError if nothing can be measured here."""
        if self.bench is not None:
            return
        if find_gpu() is None:
            raise SyncopateError("expects a GPU of each rank, but torch sees none")
        ranks, agreement = self.subject.world_size, self.agreement
        group = agreement.group if isinstance(agreement, Processes) else None
        if group is None or group.size() != ranks:
            raise SyncopateError(
                f"expects a process group of torch.distributed of {ranks} ranks, all of which compile"
            )

    def _report(self, **fields: Any) -> TuningReport:
        own: dict[str, Any] = {
            "subject": self.subject.name,
            "default": self.subject.space.default,
            "space": self.subject.space.size,
        }
        own.update(fields)
        own["seconds"] = time.monotonic() - self.begin
        own["hit_rate"] = statistics.hit_rate
        return TuningReport(**own)
