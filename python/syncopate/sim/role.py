"""One role of a CTA as the interpreted kernel sees it: memory, atomics, barriers, asynchronous operations.

The threads of a role are two threads of the memory model: the *lead*, which alone performs scalar stores, scalar
atomics and the issue of bulk operations, and the *rest*, which stand for all threads when a tensor or a scalar is
loaded and when a tensor is stored. Only barriers join the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind
from syncopate.sim.scheduler import Agent, Wait

if TYPE_CHECKING:
    from syncopate.sim.cta import Cta

__all__ = ["Role", "RoleThreads"]


class RoleThreads:
    """The threads of a role in the memory model; they outlive a launch."""

    def __init__(self, clocks: Any, name: str) -> None:
        self.name = name
        self.lead = clocks.thread(f"{name} (its first thread)")
        self.rest = clocks.thread(name)
        self.bulk_read = clocks.thread(f"a TMA store of {name}", asynchronous=True)
        self.bulk = clocks.thread(f"a TMA store of {name}", asynchronous=True)
        self.mma = clocks.thread(f"a wgmma of {name}", asynchronous=True)
        self.copies = clocks.thread(f"a cp.async of {name}")
        self.clock = 1
        self.bulk_issued = 0
        self.mma_issued = 0
        self.copies_committed = 0


class Role:
    """What the interpreted function of one role calls."""

    def __init__(self, cta: Cta, threads: RoleThreads, start: Vector) -> None:
        self.cta, self.threads = cta, threads
        self.machine = cta.machine
        self.memory = cta.machine.memory
        self.lead, self.rest = start.copy(), start.copy()
        self.fenced = start.copy()
        self.fenced_shared = start.copy()
        self.fence: Vector | None = None
        # The last of its bulk stores that is known to be complete by the thread that has issued them.
        self.written = 0
        self.observed: Vector | None = None
        self.tick()
        self.code: Any = None
        self.last_poll: Any = None
        self.call = cta.call
        self.rank = cta.rank
        self.index = cta.index
        self.ended = False

    # Clocks.

    def tick(self) -> None:
        """What comes next is not covered by what was released so far."""
        threads = self.threads
        threads.clock += 1
        self.lead[threads.lead] = threads.clock
        self.rest[threads.rest] = threads.clock

    def join(self) -> None:
        """A barrier among the role's threads."""
        np.maximum(self.lead, self.rest, out=self.lead)
        self.lead[self.threads.bulk] = max(self.lead[self.threads.bulk], self.written)
        self.rest[:] = self.lead
        self.tick()

    def joined(self) -> Vector:
        """What all threads together have seen, for shared memory, where Triton puts barriers itself."""
        return np.maximum(self.lead, self.rest)  # type: ignore[no-any-return]

    @property
    def site(self) -> int:
        """Number of the operation that is executing."""
        frame = None if self.code is None else self.code.gi_frame
        return 0 if frame is None else int(frame.f_lineno)

    # Fences and time.

    def fence_proxy(self) -> None:
        """fence.proxy.async, by every thread."""
        self.last_poll = None
        self.fenced[:] = self.rest
        self.fenced_shared[:] = self.joined()

    def fence_shared(self) -> None:
        """fence.proxy.async.shared::cta, by every thread."""
        self.fenced_shared[:] = self.joined()

    def fence_system(self) -> None:
        """fence.acq_rel.sys, by every thread."""
        if self.observed is not None:
            np.maximum(self.lead, self.observed, out=self.lead)
            self.observed = None
        self.fence = self.lead.copy()
        self.tick()

    def program_id(self, axis: int) -> int:
        """The CTA's coordinate in the grid."""
        x, y, _ = self.cta.grid
        return int((self.index % x, self.index // x % y, self.index // (x * y))[axis])

    def timer(self) -> int:
        """The clock in nanoseconds."""
        return self.machine.now()

    # Warp specialization.

    def fork(
        self, functions: Sequence[Callable[..., Agent]], captures: Sequence[Any]
    ) -> Sequence[Role]:
        """Starts the partitions; every warp has passed a barrier."""
        self.join()
        roles: list[Role] = []
        for number, function in enumerate(functions):
            role = self.cta.add_role(f"partition {number}", self.lead)
            role.code = function(role, *captures)
            self.machine.scheduler.spawn(role.threads.name, role.run(), role)
            role.fenced[:] = self.fenced
            roles.append(role)
        return roles

    def run(self) -> Agent:
        """The role's code, and the bookkeeping of its end."""
        assert self.code is not None
        yield from self.code
        self.finish()

    def finish(self) -> None:
        """Ends the role."""
        self.join()
        self.ended = True
        self.machine.scheduler.wake(("role", self))

    def ends(self) -> Wait:
        """What waits for the role yields."""
        return Wait(("role", self), lambda: self.ended, lambda: f"{self.threads.name} to end")

    def wait_for(self, roles: Sequence[Role]) -> Agent:
        """Waits for partitions to end, at a barrier of all warps."""
        for role in roles:
            yield role.ends()
            np.maximum(self.lead, role.lead, out=self.lead)
        self.join()

    def check(self, condition: Any, message: str) -> None:
        """A device assertion."""
        if not np.all(condition):
            self.machine.report(Kind.ASSERTION, message)
