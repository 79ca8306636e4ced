"""Checks a plan by simulating it, with a probe kernel in the place of the one that it is for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.plan.plan_file import schedule_plan
from syncopate.runtime.commands import is_counted
from syncopate.sim.findings import Finding
from syncopate.sim.probe import Probe, compare, make_probe
from syncopate.sim.probe_data import draw_inputs
from syncopate.sim.scheduler import Policy
from syncopate.sim.simulate import expect_integer, simulate

__all__ = ["Report", "check_plan"]

CALLS = 3
"""What a call owes to the next one shows in the next, and buffers and flags are used again in all."""

MOST_BUFFER_ELEMENTS = 1 << 24
"""Of all ranks; each takes some 25 bytes."""

MOST_CTAS = 64
"""Of all ranks; time and memory grow faster than their number."""


@dataclass(frozen=True)
class Report:
    """What a check did and found.

    Attributes:
        probe: The program that ran.
        ctas: CTAs that the plan asks for.
        policies: How each interleaving was scheduled.
        calls: Calls of each.
        findings: What is wrong, of the first interleaving in which something is.
    """

    probe: Probe
    ctas: int
    policies: tuple[Policy, ...]
    calls: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "ok": self.ok,
            "ranks": self.probe.world_size,
            "tiles": math.prod(self.probe.tiles),
            "interleavings": [policy.value for policy in self.policies],
            "calls": self.calls,
            "findings": [
                {"kind": finding.kind.value, "message": finding.message}
                for finding in self.findings
            ],
        }

    def __str__(self) -> str:
        counts = ", ".join(
            f"{self.policies.count(policy)} {policy.value}"
            for policy in Policy
            if policy in self.policies
        )
        number = len(self.policies)
        runs = f"{number} interleaving{'s' if number > 1 else ''}"
        what = f"{runs} ({counts}) of {self.calls} calls on {self.probe.world_size} ranks"
        if not self.ok:
            return f"{what}; the last one:\n" + "\n".join(map(str, self.findings))
        tiles = f"every tile of {math.prod(self.probe.tiles)}"
        found = f"{tiles} found what the plan brings there, and the buffers hold it in the end"
        if not self.probe.samplings:
            found = (
                f"and of what {tiles} has stored, the buffers hold what the plan makes in the end"
            )
        lines = [f"{what}: no races or deadlocks, {found}"]
        if self.probe.num_ctas != self.ctas:
            lines.append(
                f"tiles were distributed over {self.probe.num_ctas} CTAs instead of {self.ctas}"
            )
        for sampling in self.probe.samplings:
            if math.prod(sampling.strides) > 1:
                argument, step = sampling.access.argument, " x ".join(map(str, sampling.strides))
                lines.append(
                    f'of "{argument}", tiles read every ({step})th element of their footprint, and the last'
                )
        return "\n".join(lines)


def check_plan(
    text: str,
    options: str = "",
    *,
    file: str = "",
    seeds: int,
    calls: int = CALLS,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Report:
    """Simulates a plan in some interleavings and compares what tiles find with what the plan means.

    Args:
        text: A module with one plan, whose kernel has footprints.
        options: Of the pipeline.
        file: Where the text comes from, for errors.
        seeds: Interleavings; they take turns in being random, and in completing asynchronous operations late or early.
        calls: Calls of each, back to back, with fresh data.
        progress: Told how many interleavings are done, of how many.

    Raises:
        PlanError: The module is malformed, a pass refuses it, or it has no kernel.
        SyncopateError: An option is wrong, a number is not positive, or the plan's buffers are too large.
    """
    for name, number in (("seeds", seeds), ("calls", calls)):
        expect_integer(name, number, 1)
    schedule = schedule_plan(text, options, file=file)
    if is_counted(schedule.tables):
        raise SyncopateError(
            f"plan {schedule.name}: passes all static checks, but how much it moves, or what its tiles need, is read "
            "at run time, and only the plan's own kernel goes with that; compile it, and call `simulate` with inputs"
        )
    if any(spec.slots is not None for spec in schedule.buffers):
        raise SyncopateError(
            f"plan {schedule.name}: passes all static checks, but its collective becomes library calls, of what the "
            "plan's own kernel stores into slots; compile it, and call `simulate`"
        )
    elements = schedule.world_size * sum(math.prod(spec.shape) for spec in schedule.buffers)
    if elements > MOST_BUFFER_ELEMENTS:
        raise SyncopateError(
            f"plan {schedule.name}: passes all static checks, but its buffers have {elements} elements on all ranks "
            f"together, of which at most {MOST_BUFFER_ELEMENTS} can be simulated; make it smaller"
        )
    probe = make_probe(text, options, schedule, most_ctas=max(2, MOST_CTAS // schedule.world_size))
    policies: list[Policy] = []
    findings: tuple[Finding, ...] = ()
    for seed in range(seeds):
        progress(seed, seeds, "interleavings")
        policy = Policy.of_seed(seed)
        policies.append(policy)
        inputs = draw_inputs(probe, calls, seed)
        result = simulate(probe, inputs=inputs, calls=calls, seed=seed, scheduler=policy)
        findings = (*result.verdict.findings, *compare(probe, result))
        if findings:
            break
    progress(seeds, seeds, "interleavings")
    return Report(probe, schedule.num_ctas, tuple(policies), calls, findings)
