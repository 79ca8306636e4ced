"""Checks a plan by simulating it, with a probe kernel in the place of the one that it is for."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from syncopate.sim.findings import Finding
from syncopate.sim.probe import Probe, compare
from syncopate.sim.scheduler import Policy
from syncopate.sim.simulate import simulate

__all__ = ["Report", "check_probe"]

_CALLS = 3
"""What a call owes to the next one shows in the next, and buffers and flags are used again in all."""


@dataclass(frozen=True)
class Report:
    """What a check did and found.

    Attributes:
        probe: The program that ran.
        policies: How each interleaving was scheduled.
        calls: Calls of each.
        findings: What is wrong, of the first interleaving in which something is.
    """

    probe: Probe
    policies: tuple[Policy, ...]
    calls: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        counts = ", ".join(
            f"{self.policies.count(policy)} {policy.value}"
            for policy in Policy
            if policy in self.policies
        )
        what = f"{len(self.policies)} interleavings ({counts}) of {self.calls} calls on {self.probe.world_size} ranks"
        if not self.ok:
            return f"{what}; the last one:\n" + "\n".join(map(str, self.findings))
        lines = [
            f"{what}: no races or deadlocks, every tile of {math.prod(self.probe.tiles)} found what the plan brings "
            "there, and the buffers hold it in the end"
        ]
        for sampling in self.probe.samplings:
            if math.prod(sampling.strides) > 1:
                argument, step = sampling.access.argument, " x ".join(map(str, sampling.strides))
                lines.append(
                    f"of {argument}, tiles read every ({step})th element of their footprint, and the last"
                )
        return "\n".join(lines)


def check_probe(probe: Probe, *, seeds: int, calls: int = _CALLS) -> Report:
    """Simulates a probe program in some interleavings and compares what it finds with what the plan means.

    Args:
        probe: The program.
        seeds: Interleavings; they take turns in being random, and in completing asynchronous operations late or early.
        calls: Calls of each, back to back, with fresh data.
    """
    policies: list[Policy] = []
    for seed, policy in zip(range(seeds), itertools.cycle(Policy), strict=False):
        policies.append(policy)
        result = simulate(probe, calls=calls, seed=seed, scheduler=policy)
        findings = (*result.verdict.findings, *compare(probe, result))
        if findings:
            return Report(probe, tuple(policies), calls, findings)
    return Report(probe, tuple(policies), calls, ())
