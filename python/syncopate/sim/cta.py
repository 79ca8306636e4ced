"""One CTA of a launch: its roles and its shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncopate.sim.clocks import Vector
from syncopate.sim.findings import Kind
from syncopate.sim.role_async import AsyncRole
from syncopate.sim.role_maps import TensorMap
from syncopate.sim.shared_memory import Buffer, Mbarrier

if TYPE_CHECKING:
    from syncopate.sim.launch import Launch

__all__ = ["Cta"]


class Cta:
    """A CTA while it runs."""

    def __init__(self, launch: Launch, index: int) -> None:
        self.launch, self.index = launch, index
        self.machine, self.rank, self.call = launch.machine, launch.rank, launch.call
        self.grid = launch.grid
        self.buffers: list[Buffer] = []
        self.roles: list[AsyncRole] = []
        self.tensor_maps: dict[str, TensorMap] = {}
        self.bulk_in_flight = 0
        self._barriers = 0
        self._left: list[int] = []
        self._body_ended = False
        self.ended = False

    def add_role(self, name: str, start: Vector) -> AsyncRole:
        """A role that starts with what `start` has seen."""
        key = (self.rank, self.index, name)
        threads = self.machine.threads_of(key, f"rank {self.rank} CTA {self.index} {name}")
        role = AsyncRole(self, threads, start)
        self.roles.append(role)
        return role

    def make_barrier(self, buffer: Buffer, index: int) -> Mbarrier:
        """The mbarrier in a buffer."""
        name = f"mbarrier {index} of {buffer.name}, rank {self.rank} CTA {self.index}"
        if self._left:
            number = self._left.pop()
        else:
            number = self._barriers
            self._barriers += 1
        barrier = self.machine.barrier_of((self.rank, self.index, number), name)
        barrier.number = number
        return barrier

    def drop_barrier(self, buffer: Buffer, index: int) -> None:
        """The mbarrier in a buffer is no more; the next one of the CTA takes over its thread.

        Loops have mbarriers of their own each time they begin, so that a CTA with many tiles makes very many.
        """
        self._left.append(buffer.barriers.pop(index).number)

    def end(self) -> None:
        """The code has come to its end; bulk stores may still be under way."""
        for buffer in self.buffers:
            for barrier in buffer.barriers.values():
                if barrier.in_flight:
                    self.machine.report(
                        Kind.BARRIER,
                        f"{barrier.name}: the CTA ends while {barrier.in_flight} copies are under way",
                    )
                self.machine.keep_barrier(barrier)
        self._body_ended = True
        self.check_end()

    def check_end(self) -> None:
        """Ends the CTA when nothing of it is left."""
        if self._body_ended and not self.bulk_in_flight and not self.ended:
            self.ended = True
            self.launch.end_cta()
