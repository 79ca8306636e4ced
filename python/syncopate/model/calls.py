"""Library calls under way: all ranks come to each of them in the same order, and it takes what its curve says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from syncopate.abi import LibraryCall
from syncopate.model.machine import Machine
from syncopate.model.tables import Command
from syncopate.runtime.engine_plan import library_ctas

__all__ = ["LibraryCalls", "Sends"]


Over = Callable[[], None]


class Sends:
    """What ranks send in exchanges, and who waits to receive it: what comes first waits for the other end."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int, int], deque[Over]] = {}
        self._awaited: dict[tuple[int, int, int], deque[Callable[[Over], None]]] = {}

    def send(self, command: Command, over: Over) -> None:
        """A rank sends; `over` is called when all has arrived."""
        awaited = self._awaited.get(_ends(command))
        if awaited:
            awaited.popleft()(over)
        else:
            self._sent.setdefault(_ends(command), deque()).append(over)

    def receive(self, command: Command, start: Callable[[Over], None]) -> None:
        """A rank receives; `start` is called when the other one sends, with what to call when all has arrived."""
        sent = self._sent.get(_ends(command))
        if sent:
            start(sent.popleft())
        else:
            self._awaited.setdefault(_ends(command), deque()).append(start)


def _ends(command: Command) -> tuple[int, int, int]:
    return command.exchange, command.src, command.dst


@dataclass
class _Meeting:
    done: list[Callable[[], None]] = field(default_factory=list)


class LibraryCalls:
    """The calls of a simulation.

    Attributes:
        share: By what share of a link the calls under way move data out of each rank.
    """

    def __init__(self, machine: Machine, world_size: int, kernel_ctas: int) -> None:
        """Starts with none.

        Args:
            machine: Whose curves they have.
            world_size: Number of ranks.
            kernel_ctas: All CTAs of the kernel beside which they run.
        """
        self.share = 0.0
        self.ctas = library_ctas(machine.sms, kernel_ctas)
        self._machine, self._world_size = machine, world_size
        self._meetings: list[_Meeting] = []
        self._made = [0] * world_size

    @property
    def wait_for_tiles(self) -> bool:
        """Whether a call finds no free multiprocessor before a rank's tiles are done."""
        return self.ctas == 0

    def join(
        self, rank: int, command: Command, done: Callable[[], None]
    ) -> tuple[float, Callable[[], None]] | None:
        """A rank comes to its next call.

        Args:
            rank: The rank.
            command: Its command.
            done: What goes on when the call is over.

        Returns:
            When the last rank has come: how long the call takes from now on in microseconds, and what to call then.
        """
        number = self._made[rank]
        self._made[rank] = number + 1
        if number == len(self._meetings):
            self._meetings.append(_Meeting())
        meeting = self._meetings[number]
        meeting.done.append(done)
        if len(meeting.done) < self._world_size:
            return None
        assert command.call is not None
        us = self._machine.find_collective(
            command.call.name.lower(), self._world_size, self.ctas
        ).time_us(command.nbytes)
        # What a rank sends; sums that come back to all are sent twice.
        sent = command.nbytes * (self._world_size - 1) / self._world_size
        if command.call is LibraryCall.ALL_REDUCE:
            sent *= 2
        share = sent / us / (self._machine.topology.link_gbps * 1e3) if us else 0.0
        self.share += share

        def end() -> None:
            self.share -= share
            for each in meeting.done:
                each()

        return us, end
