"""Chooses who goes on: agents, and asynchronous operations that complete when it pleases the scheduler.

Every policy is seeded and repeatable. RANDOM draws its own temper first: how long an agent runs before another gets a
turn, and how fast asynchronous operations complete. LATE is the worst case for whoever forgets to wait: asynchronous
operations complete only when nobody else can go on, the youngest first, and agents run as long as they can, so that
some lag far behind. EARLY completes them at once.
"""

from __future__ import annotations

import enum
import random
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Agent", "Park", "Policy", "Scheduler", "Script", "Task", "Wait"]


class Policy(enum.Enum):
    """How the scheduler chooses."""

    RANDOM = "random"
    LATE = "late"
    EARLY = "early"

    @classmethod
    def of_seed(cls, seed: int) -> Policy:
        """The policy of a run among several: with the seeds 0, 1, 2, … they take turns."""
        return tuple(cls)[seed % len(cls)]


@dataclass
class Script:
    """A schedule by its deviations from the plain one, in which an agent runs until it cannot go on.

    Attributes:
        choices: At which step which of the possible continuations is taken instead of the first.
        options: Afterwards, how many continuations there were at each step.
    """

    choices: Mapping[int, int] = field(default_factory=dict)
    options: list[int] = field(default_factory=list)

    def choose(self, count: int) -> int:
        """The continuation of the next step."""
        self.options.append(count)
        return min(self.choices.get(len(self.options) - 1, 0), count - 1)


class Wait:
    """What an agent yields when it cannot go on.

    Attributes:
        key: What changes when the condition may have.
        holds: Whether the agent may go on.
        says: What it waits for, in words.
    """

    __slots__ = ("holds", "key", "says")

    def __init__(self, key: Hashable, holds: Callable[[], bool], says: Callable[[], str]) -> None:
        self.key, self.holds, self.says = key, holds, says


class Park:
    """What an agent yields when it polls a word that has not changed since it last did."""

    __slots__ = ("key", "says")

    def __init__(self, key: Hashable, says: Callable[[], str]) -> None:
        self.key, self.says = key, says


Agent = Generator["Wait | Park | None", None, None]


class Pending(Protocol):
    """An asynchronous operation."""

    def advance(self) -> bool:
        """Does one part of it; says whether it is complete."""


class Task:
    """An agent in the scheduler's hands."""

    __slots__ = ("agent", "blocked", "name", "owner")

    def __init__(self, name: str, agent: Agent, owner: Any = None) -> None:
        self.name, self.agent, self.owner = name, agent, owner
        self.blocked: Wait | Park | None = None


_IDLE_ROUNDS = 200
"""Rounds in which all polls see nothing new before they count as stuck: more than a wait polls between two looks at
anything else."""


_IDLE_STEPS = 300_000
"""Steps without any effect after which whoever still runs counts as stuck."""


class Scheduler:
    """Runs tasks and pending operations until all have ended or nobody can go on."""

    def __init__(self, policy: Policy | Script, seed: int) -> None:
        self.random = random.Random(seed)
        self.policy = policy
        self.ready: list[Task] = []
        self.pending: list[Pending] = []
        self.blocked: dict[Hashable, list[Task]] = defaultdict(list)
        self.parked: dict[Hashable, list[Task]] = defaultdict(list)
        self.current: Task | None = None
        self.steps = 0
        self.progress = 0
        self._burst = self.random.choice((1, 2, 8, 32))
        self._eagerness = self.random.choice((0.02, 0.2, 0.6, 0.95))
        if policy is Policy.LATE:
            self._burst = 64

    def spawn(self, name: str, agent: Agent, owner: Any = None) -> Task:
        """Adds an agent."""
        task = Task(name, agent, owner)
        self.ready.append(task)
        return task

    def submit(self, operation: Pending) -> None:
        """Adds an asynchronous operation."""
        self.pending.append(operation)
        self.progress += 1

    def wake(self, key: Hashable) -> None:
        """Lets those go on that wait for `key` and whose condition holds now."""
        self.progress += 1
        parked = self.parked.pop(key, None)
        if parked:
            for task in parked:
                task.blocked = None
            self.ready.extend(parked)
        waiting = self.blocked.pop(key, None)
        if waiting:
            for task in waiting:
                assert isinstance(task.blocked, Wait)
                if task.blocked.holds():
                    task.blocked = None
                    self.ready.append(task)
                else:
                    self.blocked[key].append(task)

    def run(self, on_idle: Callable[[], bool]) -> list[Task]:
        """Runs until nobody can go on; returns the tasks that are stuck.

        Args:
            on_idle: Called when all that is left polls in vain, or waits; says whether it has changed that.
        """
        rounds, seen = 0, -1
        last_progress, last_step = -1, 0
        while True:
            if self.progress != last_progress:
                last_progress, last_step = self.progress, self.steps
            elif self.steps - last_step > _IDLE_STEPS:
                break
            if not self.ready and not self.pending:
                if not self.parked:
                    if any(self.blocked.values()) and on_idle():
                        continue
                    break
                rounds = rounds + 1 if self.progress == seen else 0
                seen = self.progress
                if rounds > _IDLE_ROUNDS:
                    if not on_idle():
                        break
                    rounds = 0
                for tasks in self.parked.values():
                    for task in tasks:
                        task.blocked = None
                    self.ready.extend(tasks)
                self.parked.clear()
                # Each polls once; it must not matter who comes first.
                for _ in range(len(self.ready)):
                    self._resume(self.ready.pop(0))
                continue
            if isinstance(self.policy, Script):
                self._follow(self.policy)
            elif self.pending and self._completes():
                self._advance(self._choose_pending())
            elif self.ready:
                self._run_some()
        stuck = [task for tasks in self.blocked.values() for task in tasks]
        stuck += [task for tasks in self.parked.values() for task in tasks]
        return stuck + self.ready

    def _completes(self) -> bool:
        if not self.ready:
            return True
        if self.policy is Policy.RANDOM:
            return self.random.random() < self._eagerness
        return self.policy is Policy.EARLY

    def _choose_pending(self) -> int:
        count = len(self.pending)
        return count - 1 if self.policy is Policy.LATE else int(self.random.random() * count)

    def _follow(self, script: Script) -> None:
        """One step of a script; the agent that ran last comes first, the operations that are pending last."""
        agents = len(self.ready)
        choice = script.choose(agents + len(self.pending))
        if choice >= agents:
            self._advance(choice - agents)
            return
        task = self.ready.pop(agents - 1 - choice)
        if self._resume(task, keep=True):
            self.ready.append(task)

    def _advance(self, at: int) -> None:
        pending = self.pending
        pending[at], pending[-1] = pending[-1], pending[at]
        operation = pending.pop()
        self.steps += 1
        self.current = None
        if not operation.advance():
            pending.append(operation)
        self.progress += 1

    def _run_some(self) -> None:
        ready = self.ready
        at = int(self.random.random() * len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        task = ready.pop()
        turns = 1 + int(self.random.random() * self._burst)
        for _ in range(turns):
            if not self._resume(task, keep=True):
                return
        ready.append(task)

    def _resume(self, task: Task, *, keep: bool = False) -> bool:
        """Runs a task to its next yield; whether it can go on at once."""
        self.steps += 1
        self.current = task
        try:
            block = next(task.agent)
        except StopIteration:
            self.progress += 1
            return False
        if block is not None:
            if isinstance(block, Park):
                task.blocked = block
                self.parked[block.key].append(task)
                return False
            if not block.holds():
                task.blocked = block
                self.blocked[block.key].append(task)
                return False
        if not keep:
            self.ready.append(task)
        return True
