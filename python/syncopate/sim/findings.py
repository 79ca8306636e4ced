"""What a simulation finds, and the errors it raises."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from syncopate.errors import SyncopateError

__all__ = ["Finding", "Kind", "SimulationError", "Stop", "TraceEvent", "Verdict"]


class Kind(enum.Enum):
    """What is wrong with a program."""

    DEADLOCK = "deadlock"
    RACE = "race"
    UNWRITTEN = "unwritten"
    ARRIVAL = "not arrived"
    OUT_OF_BOUNDS = "out of bounds"
    BARRIER = "mbarrier"
    OVERFLOW = "signal overflow"
    SHARED_RACE = "shared memory race"
    REGISTER = "register in flight"
    TIMEOUT = "timeout"
    OUTPUT = "output not written"
    RESULT = "wrong result"
    ASSERTION = "assertion"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with the program, the first time it was seen at an operation.

    Attributes:
        kind: What.
        message: In words: who, where, against whom.
        operation: The operation that was executing, as text; empty for a host's.
        location: Its source location.
    """

    kind: Kind
    message: str
    operation: str = ""
    location: str = ""

    def __str__(self) -> str:
        where = f"\n    at {self.location}\n    {self.operation}" if self.operation else ""
        return f"{self.kind.value}: {self.message}{where}"


@dataclass(frozen=True)
class TraceEvent:
    """One step worth telling.

    Attributes:
        step: Number of the scheduler's step.
        agent: Who.
        what: The event, such as `raises`, `sees`, `copies`.
        detail: In words.
    """

    step: int
    agent: str
    what: str
    detail: str


@dataclass
class Verdict:
    """Whether the run was sound.

    Attributes:
        findings: What was wrong, in the order found; at most one of a kind for each operation.
        steps: Steps that the scheduler took.
    """

    findings: list[Finding] = field(default_factory=list)
    steps: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return "sound" if self.ok else "\n".join(map(str, self.findings))


class SimulationError(SyncopateError):
    """The simulator cannot execute a program: an operation or a form of it that it does not know."""


class Stop(Exception):
    """Ends a run after a finding that leaves nothing sensible to execute."""
