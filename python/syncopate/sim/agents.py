"""Cooperative agents that a seeded generator interleaves at random."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from syncopate.sim.errors import Deadlock


@dataclass(frozen=True)
class Blocked:
    """What an agent yields when it cannot go on.

    Attributes:
      key: what changes when the condition may have; see `Agents.wake`.
      holds: whether the agent may go on.
      says: the line of a deadlock report about this wait, or "" for a wait that
        only follows from another agent's.
    """

    key: Hashable
    holds: Callable[[], bool]
    says: Callable[[], str] = lambda: ""


Agent = Iterator[Blocked | None]


class Agents:
    """Runs agents until all have ended, one step of a randomly chosen one at a time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._ready: list[Agent] = []
        self._blocked: dict[Hashable, list[tuple[Blocked, Agent]]] = defaultdict(list)
        self.steps = 0

    def spawn(self, agent: Agent, pause: int = 0) -> Blocked:
        """Adds `agent`; yielding the result waits until it has ended.

        Args:
          agent: what to run.
          pause: steps of other agents, or of its own waiting, between two of its steps: how slow it is.
        """
        key, ended = object(), []

        def body() -> Agent:
            for block in agent:
                yield block
                for _ in range(pause):
                    yield None
            ended.append(True)
            self.wake(key)

        self._ready.append(body())
        return Blocked(key, lambda: bool(ended))

    def wake(self, key: Hashable) -> None:
        """Lets those go on that are blocked on `key` and whose condition holds now."""
        for block, agent in self._blocked.pop(key, []):
            if block.holds():
                self._ready.append(agent)
            else:
                self._blocked[key].append((block, agent))

    def run(self) -> None:
        """Returns when all agents have ended; raises `Deadlock` if some never can."""
        while self._ready:
            self.steps += 1
            at = int(self._rng.integers(len(self._ready)))
            self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
            agent = self._ready.pop()
            try:
                block = next(agent)
            except StopIteration:
                continue
            if block is None or block.holds():
                self._ready.append(agent)
            else:
                self._blocked[block.key].append((block, agent))
        stuck = [block for waits in self._blocked.values() for block, _ in waits]
        if stuck:
            raise Deadlock({block.says() for block in stuck} - {""})
