"""Systematic exploration: every schedule of a small program that deviates from the plain one in few steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.sim.findings import Finding
from syncopate.sim.scheduler import Script
from syncopate.sim.simulate import simulate

__all__ = ["Exploration", "explore"]


@dataclass(frozen=True)
class Exploration:
    """What an exploration found.

    Attributes:
        findings: Different findings, by kind and operation, in the order found.
        schedules: How many schedules were run.
        complete: Whether they were all that there are within the bound.
    """

    findings: tuple[Finding, ...]
    schedules: int
    complete: bool

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def explore(program: Any, *, bound: int = 1, limit: int = 1000, **options: Any) -> Exploration:
    """Runs the schedules of a program that differ from the plain one in at most `bound` steps.

    In the plain schedule an agent runs until it cannot go on, and asynchronous operations complete when no agent can.
    Most errors of a protocol show with one or two deviations.

    Args:
        program: As for `simulate`.
        bound: Deviations.
        limit: Schedules at most.
        **options: What else `simulate` takes.

    Raises:
        SyncopateError: An argument is wrong.
    """
    if bound < 0 or limit < 1:
        raise SyncopateError(f"bound, limit: expect at least 0 and 1, but got {bound} and {limit}")
    found: dict[tuple[object, str], Finding] = {}
    # Fewer deviations first.
    waiting: deque[dict[int, int]] = deque([{}])
    runs = 0
    while waiting and runs < limit:
        choices = waiting.popleft()
        script = Script(choices)
        runs += 1
        for finding in simulate(program, scheduler=script, **options).verdict.findings:
            found.setdefault((finding.kind, finding.location), finding)
        if len(choices) < bound:
            first = max(choices, default=-1) + 1
            for step, count in enumerate(script.options[first:], start=first):
                waiting.extend({**choices, step: choice} for choice in range(1, count))
    return Exploration(tuple(found.values()), runs, complete=not waiting)
