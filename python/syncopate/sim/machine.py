"""Everything that all ranks share in a simulation: memory, clocks, scheduler, what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncopate.abi import FIRST_EPOCH
from syncopate.runtime.commands import adds_unordered
from syncopate.sim.clocks import Clocks, Vector
from syncopate.sim.findings import Finding, Kind, TraceEvent, Verdict
from syncopate.sim.global_memory import GlobalMemory, MemoryRegion
from syncopate.sim.library import Library
from syncopate.sim.role import Role, RoleThreads
from syncopate.sim.scheduler import Policy, Scheduler, Script
from syncopate.sim.shared_memory import Mbarrier
from syncopate.sim.values import wrap

if TYPE_CHECKING:
    from syncopate.sim.translate import Kernel

__all__ = ["Machine"]

_NS_PER_STEP = 100
_I32 = np.dtype(np.int32)


class Machine:
    """The state of a simulation."""

    def __init__(self, program: Any, kernel: Kernel, policy: Policy | Script, seed: int) -> None:
        self.program, self.kernel = program, kernel
        x, y, z = program.grid
        per_cta = 7 * kernel.roles + 32
        self.clocks = Clocks(1 + program.world_size * (8 + x * y * z * per_cta))
        self.clocks.thread("the host, before the first call")
        self.memory = GlobalMemory(self)
        self.scheduler = Scheduler(policy, seed)
        self.verdict = Verdict()
        # Whether the plan lets several add to one place without an order.
        self.adds_unordered = adds_unordered(map(program.rank_tables, range(program.world_size)))
        self.trace: list[TraceEvent] | None = None
        self.executing: tuple[Role, int] | None = None
        self.flag_words: dict[MemoryRegion, int] = {}
        self.state_words: dict[int, MemoryRegion] = {}
        self.describe_flag: Callable[[int, int], str] = lambda rank, index: f"flag {index}"
        self.library = Library(self)
        self.first_epoch = FIRST_EPOCH
        self._skipped_ns = 0
        self._threads: dict[Any, RoleThreads] = {}
        self._barriers: dict[Any, Mbarrier] = {}
        self._found: set[tuple[Kind, int, str]] = set()

    # Threads that outlive a launch.

    def threads_of(self, key: Any, name: str) -> RoleThreads:
        """The threads of a role."""
        threads = self._threads.get(key)
        if threads is None:
            threads = self._threads[key] = RoleThreads(self.clocks, name)
        return threads

    def barrier_of(self, key: Any, name: str) -> Mbarrier:
        """A new mbarrier whose deliveries have the same thread as at the last launch."""
        old = self._barriers.get(key)
        thread = (
            old.thread if old else self.clocks.thread(f"a TMA load onto {name}", asynchronous=True)
        )
        first = old.clock if old else 0
        barrier = self._barriers[key] = Mbarrier(name, thread, first, self.clocks.vector())
        return barrier

    def keep_barrier(self, barrier: Mbarrier) -> None:
        """An mbarrier's CTA ends."""
        barrier.valid = False

    # Time.

    def now(self) -> int:
        """Nanoseconds."""
        return self.scheduler.steps * _NS_PER_STEP + self._skipped_ns

    def skip(self, nanoseconds: int) -> None:
        """Lets time pass."""
        self._skipped_ns += nanoseconds

    # Reports.

    def report(self, kind: Kind, message: str) -> None:
        """Records a finding about the operation that is executing, once for each operation."""
        site, agent = 0, ""
        if self.executing is not None:
            site = self.executing[1]
        elif self.scheduler.current is not None:
            task = self.scheduler.current
            agent = task.name
            if isinstance(task.owner, Role):
                site, agent = task.owner.site, ""
        key = (kind, site, agent if not site else "")
        if key in self._found and site:
            return
        self._found.add(key)
        operation, location = self.kernel.describe(site)
        self.verdict.findings.append(Finding(kind, message, operation, location))

    def event(self, agent: str, what: str, detail: str) -> None:
        """Adds to the trace."""
        if self.trace is not None:
            self.trace.append(TraceEvent(self.scheduler.steps, agent, what, detail))

    def event_of(self, role: Role, what: str, where: str, coordinates: Sequence[int]) -> None:
        """Adds a bulk copy of a role to the trace."""
        if self.trace is not None:
            self.event(role.threads.name, what, f"{where} at {list(coordinates)}")

    def name_thread(self, thread: int) -> str:
        """A thread in words."""
        return self.clocks.names[thread]

    def name_site(self, site: int) -> str:
        """Where in the source an operation is."""
        return self.kernel.describe(site)[1]

    def name_word(self, region: MemoryRegion, offset: int) -> str:
        """A word of memory in words; for a flag, what it means."""
        if region in self.flag_words:
            rank, index = self.flag_words[region], offset // 4
            return f"flag {index} of rank {rank} ({self.describe_flag(rank, index)})"
        return f"word {offset // 4} of {region.name}"

    def is_twin(self, region: MemoryRegion, offset: int) -> bool:
        """Whether a word is a binary twin, which is raised and consumed in turn."""
        layout = self.program.signal_layout
        return region in self.flag_words and layout.decode(offset // 4)[2]

    def describe_poll(self, role: Role, region: MemoryRegion, offset: int) -> str:
        """What a role that polls a word waits for."""
        value = region.view(_I32)[offset // 4].item()
        if region in self.flag_words:
            rank, index = self.flag_words[region], offset // 4
            return f"{self.describe_flag(rank, index)} (flag {index} of rank {rank} is {value})"
        return f"{self.name_word(region, offset)} to change (it is {value})"

    def on_word(self, role: Role, region: MemoryRegion, offset: int, old: Any, new: Any) -> None:
        """A word was changed atomically."""
        if self.trace is not None:
            self.event(
                role.threads.name, "raises", f"{self.name_word(region, offset)}: {old} -> {new}"
            )
        self.check_flag(role.threads.name, region, offset, int(old), int(new), role.lead)

    def check_flag(
        self, who: str, region: MemoryRegion, offset: int, old: int, new: int, seen: Vector
    ) -> None:
        """Checks that a flag does not go back, and that who raises a twin has seen that it was consumed."""
        if region not in self.flag_words:
            return
        if not self.is_twin(region, offset):
            if wrap(new - old, 32) < 0:
                name = self.name_word(region, offset)
                self.report(Kind.OVERFLOW, f"{who} lowers {name} from {old} to {new}")
        elif new == 1:
            thread, clock = region.word(offset).consumed
            if old == 1 or clock > seen[thread]:
                why = "before it was consumed"
                if old != 1:
                    why = f"and nothing orders it behind {self.name_thread(thread)}, which consumes it"
                name = self.name_word(region, offset)
                self.report(Kind.OVERFLOW, f"{who} raises {name} again {why}")
