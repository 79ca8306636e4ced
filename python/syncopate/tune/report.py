"""What a tuning did, for people and for tables."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncopate.tune.cache import Measured
from syncopate.tune.space import Candidate

__all__ = ["Origin", "Statistics", "TuningReport", "statistics"]


_PLACE = re.compile(r"^\S+:\d+: ")


class Origin(enum.Enum):
    """Where a choice is from."""

    CACHE = "the cache"
    NEIGHBOURS = "what was tuned for the nearest shapes, by the model"
    MODEL = "the model"
    MEASUREMENT = "measurement"
    DEFAULT = "the defaults"


@dataclass
class Statistics:
    """Of this process: how often a choice was in the cache, and how often not."""

    hits: int = 0
    misses: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of choices that were in the cache; 0 if there were none."""
        return self.hits / max(self.hits + self.misses, 1)


statistics = Statistics()


@dataclass(frozen=True)
class TuningReport:
    """What a choice is, where it is from, and what it took.

    Attributes:
        subject: What was chosen for.
        chosen: What was chosen.
        default: What would have been without.
        origin: Where the choice is from.
        reason: Why from there, if somebody could wonder.
        space: Candidates that there are.
        considered: How many the model, or the compiler's checks, looked at.
        refused: How many of them the checks refused, by reason.
        unknown: How many the model could not say anything of.
        compiled: How many were compiled to be measured.
        measured: What was measured, best first; that of an earlier tuning, if the choice is from the cache.
        failed: What was dropped by all ranks, by name: why.
        compile_seconds: Spent on compiling them.
        seconds: All that the choice took.
        hit_rate: Of the choices of this process so far, the share that was in the cache.
        predicted_us: What the model says of the choice; None if it cannot, or was not asked.
        default_predicted_us: The same of the default.
        final_us: What the candidates of the last comparison took, by name.
        resumed: How many were measured by a tuning that did not end.
    """

    subject: str
    chosen: Candidate
    default: Candidate
    origin: Origin
    reason: str = ""
    space: int = 0
    considered: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    unknown: int = 0
    compiled: int = 0
    measured: tuple[Measured, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    compile_seconds: float = 0.0
    seconds: float = 0.0
    hit_rate: float = 0.0
    predicted_us: float | None = None
    default_predicted_us: float | None = None
    final_us: Mapping[str, float] = field(default_factory=dict)
    resumed: int = 0

    @property
    def regret(self) -> float | None:
        """By what share the choice is slower than the best of all that was measured; None if it was not measured."""
        return self.regret_of(self.chosen)

    @property
    def model_regret(self) -> float | None:
        """The same of what the model ranked first of it; None if nothing was measured that it knows."""
        known = [one for one in self.measured if one.predicted_us is not None]
        if not known:
            return None
        return self.regret_of(min(known, key=lambda one: one.predicted_us or 0.0).candidate)

    def regret_of_first(self, count: int) -> float | None:
        """What the regret would be had only the default and the model's first candidates been measured.

        Args:
            count: How many.
        """
        known = sorted(
            (one for one in self.measured if one.predicted_us is not None),
            key=lambda one: one.predicted_us or 0.0,
        )
        shares = [one.share for one in known[:count]]
        shares += [one.share for one in self.measured if one.candidate == self.default]
        if not known:
            return None
        return min(shares) / min(one.share for one in self.measured) - 1

    def regret_of(self, candidate: Candidate) -> float | None:
        """By what share a candidate is slower than the best of all that was measured; None if it was not measured."""
        shares = {one.candidate: one.share for one in self.measured}
        if candidate not in shares:
            return None
        return shares[candidate] / min(shares.values()) - 1

    @property
    def speedup(self) -> float | None:
        """Of the choice over the default, as measured."""
        for one in self.measured:
            if one.candidate == self.chosen:
                return 1 / one.share
        return None

    def to_json(self) -> dict[str, Any]:
        """Its numbers as plain data."""
        return {
            "space": self.space,
            "considered": self.considered,
            "refused": sum(self.refused.values()),
            "unknown": self.unknown,
            "compiled": self.compiled,
            "measured": len(self.measured),
            "failed": dict(self.failed),
            "compile_seconds": round(self.compile_seconds, 3),
            "seconds": round(self.seconds, 3),
            "resumed": self.resumed,
            "regret": self.regret,
            "model_regret": self.model_regret,
            "speedup": self.speedup,
            "predicted_us": self.predicted_us,
            "default_predicted_us": self.default_predicted_us,
            "final_us": dict(self.final_us),
        }

    def __str__(self) -> str:
        same = " (the default)" if self.chosen == self.default else ""
        lines = [f"tuning of {self.subject}: {self.chosen.name}{same}, from {self.origin.value}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.considered:
            lines.append(
                f"  considered {self.considered} of {self.space:,} candidates: {sum(self.refused.values())} refused by "
                f"checks, {self.unknown} unknown to the model"
            )
        if self.predicted_us is not None and self.default_predicted_us is not None:
            lines.append(
                f"  predicted {self.predicted_us:.1f} µs, and {self.default_predicted_us:.1f} µs for the default"
            )
        if self.measured:
            lines.append(
                f"  measured {len(self.measured)}, of {self.compiled} compiled in {self.compile_seconds:.1f} s"
                + (f"; {self.resumed} by a tuning before" if self.resumed else "")
                + (f"; {len(self.failed)} dropped" if self.failed else "")
            )
        if self.regret is not None and self.speedup is not None:
            model = self.model_regret
            lines.append(
                f"  {self.speedup:.3f}x the speed of the default, {self.regret:.1%} slower than the best measured"
                + ("" if model is None else f"; the model's first choice {model:.1%}")
            )
        lines += [f"  dropped {name}: {why}" for name, why in self.failed.items()]
        lines.append(
            f"  took {self.seconds:.2f} s; {self.hit_rate:.0%} of this process's choices were in the cache"
        )
        return "\n".join(lines)


def count_reasons(refused: Mapping[Candidate, str]) -> dict[str, int]:
    """How many candidates were refused for each reason, said without the place in a plan."""
    return dict(Counter(_PLACE.sub("", why.strip().splitlines()[0]) for why in refused.values()))
