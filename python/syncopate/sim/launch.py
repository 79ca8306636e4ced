"""One launch of the fused kernel on a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.cta import Cta
from syncopate.sim.role_async import AsyncRole
from syncopate.sim.scheduler import Agent, Wait

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["Launch"]


class Launch:
    """The CTAs of a launch, all resident from its start."""

    def __init__(
        self, machine: Machine, rank: int, call: int, arguments: Sequence[Any], start: Vector
    ) -> None:
        self.machine, self.rank, self.call = machine, rank, call
        self.grid = machine.program.grid
        x, y, z = self.grid
        self.remaining = x * y * z
        self.vector = start.copy()
        self._ctas = [Cta(self, index) for index in range(self.remaining)]
        for cta in self._ctas:
            dedicated = cta.index < machine.program.comm_ctas
            role = cta.add_role("communicate" if dedicated else "compute", start)
            role.code = machine.kernel.entry(role, *arguments)
            machine.scheduler.spawn(role.threads.name, self._run(cta, role), role)

    def _run(self, cta: Cta, role: AsyncRole) -> Agent:
        yield from role.run()
        cta.end()

    def end_cta(self) -> None:
        """Counts a CTA that has ended."""
        self.remaining -= 1
        if not self.remaining:
            for cta in self._ctas:
                self._join(cta)
            self.machine.scheduler.wake(("launch", self))

    def _join(self, cta: Cta) -> None:
        """The end of a kernel makes all that it did visible to what follows on its stream."""
        vector = self.vector
        for role in cta.roles:
            np.maximum(vector, role.lead, out=vector)
            np.maximum(vector, role.rest, out=vector)
            threads = role.threads
            for thread, clock in (
                (threads.bulk, threads.bulk_issued),
                (threads.bulk_read, threads.bulk_issued),
                (threads.mma, threads.mma_issued),
                (threads.copies, threads.copies_committed + 1),
            ):
                vector[thread] = max(vector[thread], clock)
        for buffer in cta.buffers:
            for barrier in buffer.barriers.values():
                vector[barrier.thread] = max(vector[barrier.thread], barrier.clock)

    def ends(self) -> Wait:
        """What waits for the kernel yields."""
        return Wait(
            ("launch", self),
            lambda: not self.remaining,
            lambda: f"rank {self.rank}'s kernel to end",
        )
