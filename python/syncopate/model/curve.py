"""How long a transfer takes by its size: what was measured of one realization, alone on an idle machine."""

from __future__ import annotations

import bisect
import enum
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from syncopate.abi import Realization
from syncopate.errors import SyncopateError
from syncopate.model.numbers import expect_count, expect_number

__all__ = ["Combining", "Curve", "FlowDirection", "TransferCurve", "TransferRates"]


class FlowDirection(enum.Enum):
    """Who carries a transfer out, and between whom."""

    PUSH = "push"
    """The rank that has the data stores them at another."""
    PULL = "pull"
    """The rank that needs the data loads them from another."""
    LOCAL = "local"
    """Source and destination are the executor's own memory."""


class Combining(enum.Enum):
    """How what a transfer moves is combined with what is there."""

    COPY = "copy"
    REDUCE = "reduce"
    """In the order that the plan gives, by the executor alone."""
    ATOMIC = "atomic"
    """By atomic additions, without an order."""


@dataclass(frozen=True)
class Curve:
    """Time by size: straight between measured points, and behind the last at its slope.

    Attributes:
        nbytes: Sizes in bytes, ascending.
        us: Microseconds for each of them, not descending.
    """

    nbytes: tuple[float, ...]
    us: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.nbytes) != len(self.us) or len(self.us) < 2:
            raise SyncopateError(
                f"curve: expects two or more sizes and a time for each, but got {len(self.nbytes)} and {len(self.us)}"
            )
        for name, values, strict in (("nbytes", self.nbytes, True), ("us", self.us, False)):
            for value in values:
                expect_number(f"curve: {name}", value)
            for before, after in itertools.pairwise(values):
                if after < before or (strict and after == before):
                    raise SyncopateError(f"curve: expects ascending {name}, but got {values}")
        if self.us[-1] <= self.us[-2]:
            raise SyncopateError(
                f"curve: expects the last point above the one before, but got {self.nbytes} and {self.us}"
            )

    @staticmethod
    def of_rate(latency_us: float, gbps: float) -> Curve:
        """The straight line of a latency in microseconds and a rate in GB/s (10⁹ bytes a second)."""
        return Curve((0.0, 1e6), (latency_us, latency_us + 1e3 / gbps))

    @property
    def latency_us(self) -> float:
        """What a transfer of no bytes takes: the first two points continued to the left, or 0 if that is below it."""
        slope = (self.us[1] - self.us[0]) / (self.nbytes[1] - self.nbytes[0])
        return min(max(self.us[0] - slope * self.nbytes[0], 0.0), self.us[0])

    def time_us(self, nbytes: float) -> float:
        """Microseconds for a size in bytes."""
        sizes, times = self.nbytes, self.us
        if nbytes <= sizes[0]:
            share = nbytes / sizes[0] if sizes[0] else 1.0
            return self.latency_us + (times[0] - self.latency_us) * share
        i = min(bisect.bisect_left(sizes, nbytes), len(sizes) - 1)
        slope = (times[i] - times[i - 1]) / (sizes[i] - sizes[i - 1])
        return times[i - 1] + slope * (nbytes - sizes[i - 1])

    def rate(self, nbytes: float) -> float:
        """Bytes per microsecond at which a transfer of a size moves once its latency is over."""
        # A byte of a curve with a flat beginning would have no time at all.
        moving = max(self.time_us(nbytes) - self.latency_us, 1e-9)
        return nbytes / moving if nbytes else float("inf")


@dataclass(frozen=True)
class TransferCurve:
    """The curve of one realization, direction and way to combine, on some CTAs.

    Attributes:
        realization: Who moves the bytes.
        direction: From where to where.
        combining: How they are combined with what is there.
        ctas: CTAs that share the transfer; 0 for a copy engine.
        curve: Time by the size of one transfer; of a sum, the bytes of all its parts.
    """

    realization: Realization
    direction: FlowDirection
    combining: Combining
    ctas: int
    curve: Curve

    def __post_init__(self) -> None:
        expect_count("curves: ctas", self.ctas)


class TransferRates:
    """Finds the rate of a transfer among measured curves."""

    def __init__(self, curves: Iterable[TransferCurve]) -> None:
        self._curves: dict[tuple[Realization, FlowDirection, Combining], list[TransferCurve]] = {}
        for entry in sorted(curves, key=lambda entry: entry.ctas):
            key = (entry.realization, entry.direction, entry.combining)
            self._curves.setdefault(key, []).append(entry)

    def find(
        self, realization: Realization, direction: FlowDirection, combining: Combining, ctas: int
    ) -> tuple[Curve, float]:
        """The curve of the measured number of CTAs at or above `ctas`, and by what its rate is to be multiplied.

        Below the fewest and between measured numbers of CTAs, rates grow in proportion; above the most, they stay.

        Raises:
            SyncopateError: Nothing was measured of such transfers.
        """
        entries = self._curves.get((realization, direction, combining))
        if entries is None:
            raise SyncopateError(
                f"machine: has no curve of {realization.spelling} {direction.value} {combining.value}; measure it with "
                "python -m syncopate.model.measure"
            )
        if realization.is_on_stream:
            return entries[0].curve, 1.0
        above = next((entry for entry in entries if entry.ctas >= ctas), entries[-1])
        if ctas >= above.ctas:
            return above.curve, 1.0
        below = [entry for entry in entries if entry.ctas < ctas]
        if not below:
            return above.curve, ctas / above.ctas
        # In proportion between the two rates for large messages, which the CTAs share.
        low, high = (entry.curve.rate(2**26) for entry in (below[-1], above))
        share = (ctas - below[-1].ctas) / (above.ctas - below[-1].ctas)
        return above.curve, (low + share * (high - low)) / high
