"""Says why nobody can go on: who waits for what from whom, in a circle, or what will never come, and who owes it.

The words that a kernel polls are flags and counters. Who raises a flag follows from the tables of all ranks: a command
of a communication role or of a copy engine, or the beginning or the end of a call. If whoever should do it is stuck
itself, that is an edge of the graph of waits; a cycle of edges is the reason of the deadlock. If it is through, or if
there is no such command, the flag has no producer any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncopate.abi import Realization, StateWord
from syncopate.runtime.commands import Part, role_parts, split_commands
from syncopate.runtime.handover import handing_tile
from syncopate.sim.role import Role
from syncopate.sim.scheduler import Park, Task
from syncopate.sim.translate import place_of
from syncopate.sim.values import wrap

if TYPE_CHECKING:
    from syncopate.sim.machine import Machine

__all__ = ["describe_stuck"]

_I32 = np.dtype(np.int32)


@dataclass(frozen=True)
class _Producer:
    """Who raises a flag.

    Attributes:
        what: In words.
        tasks: Those of its tasks that are stuck and have not come to it.
        past: Why it will not do so any more if there are none.
    """

    what: str
    tasks: tuple[Task, ...]
    past: str


def describe_stuck(machine: Machine, stuck: Sequence[Task]) -> str:
    """The message of a deadlock: every stuck task, then the cycles, or the producers that are missing."""
    waits = _Waits(machine, stuck)
    lines = sorted(waits.describe(task) for task in stuck)
    reasons = [*waits.cycles(), *waits.missing()]
    return "nobody can go on:" + "".join(f"\n  {line}" for line in lines + reasons)


class _Waits:
    """Who waits for whom among the stuck."""

    def __init__(self, machine: Machine, stuck: Sequence[Task]) -> None:
        self._machine, self._program = machine, machine.program
        self._stuck = sorted(stuck, key=lambda task: task.name)
        self._by_name = {task.name: task for task in stuck}
        self._parts = [
            role_parts(
                self._program.rank_tables(rank)["commands"],
                self._program.comm_ctas,
                self._program.num_ctas,
            )
            for rank in range(self._program.world_size)
        ]
        self._producers = {task: tuple(self._find_producers(task)) for task in self._stuck}

    def describe(self, task: Task) -> str:
        """What a task does, with the place in the source."""
        place = ""
        if isinstance(task.owner, Role):
            op = self._machine.kernel.sites.get(task.owner.site)
            place = f", at {place_of(op)}" if op is not None else ""
        return f"{self._says(task)}{place}"

    def _says(self, task: Task) -> str:
        does = "runs on without end" if task.blocked is None else f"waits for {task.blocked.says()}"
        return f"{task.name} {does}"

    def cycles(self) -> list[str]:
        """Lines that show cycles of waits; none with a task of one that is shown already."""
        lines: list[str] = []
        done: set[Task] = set()
        shown: set[Task] = set()

        def visit(task: Task, path: list[Task]) -> None:
            if task in path:
                circle = path[path.index(task) :]
                if shown.isdisjoint(circle):
                    shown.update(circle)
                    lines.append("because they wait for each other in a circle:")
                    lines.extend(
                        self._edge(*pair) for pair in zip(circle, [*circle[1:], task], strict=True)
                    )
            elif task not in done:
                for producer in self._producers[task]:
                    for other in producer.tasks:
                        visit(other, [*path, task])
                done.add(task)

        for start in self._stuck:
            visit(start, [])
        return lines

    def _edge(self, task: Task, other: Task) -> str:
        producer = next(p for p in self._producers[task] if other in p.tasks)
        return f"  {self._says(task)}: that is up to {producer.what}, by {other.name}"

    def missing(self) -> list[str]:
        """Lines that name what nobody will ever do, once for each thing that is waited for."""
        lines = []
        for task in self._stuck:
            if task.blocked is None or any(p.tasks for p in self._producers[task]):
                continue
            owed = " and ".join(f"{p.what}, and that {p.past}" for p in self._producers[task])
            reason = f"was up to {owed}" if owed else "is up to nobody"
            lines.append(f"because this never comes: {task.blocked.says()}, which {reason}")
        return list(dict.fromkeys(lines))

    # Producers.

    def _find_producers(self, task: Task) -> Iterator[_Producer]:
        if task.blocked is None:
            return
        key = task.blocked.key
        flag = self._flag_of(key)
        if flag is not None:
            yield from self._raisers(*flag)
        elif isinstance(key, tuple) and key and key[0] == "role":
            yield self._tasks_of(key[1].threads.name, [key[1].threads.name])
        elif isinstance(key, tuple) and key and key[0] == "launch":
            rank = key[1].rank
            yield self._tasks_of(f"the CTAs of rank {rank}", self._roles_of(rank))
        elif not isinstance(task.blocked, Park) and task.name.startswith("the copy engine of rank"):
            stream = task.name.replace("the copy engine", "the stream")
            yield self._tasks_of(stream, [stream])

    def _flag_of(self, key: object) -> tuple[int, int] | None:
        """Rank and index of the flag at an address."""
        for region, rank in self._machine.flag_words.items():
            if isinstance(key, int) and region.base <= key < region.base + region.nbytes:
                return rank, (key - region.base) // 4
        return None

    def _raisers(self, rank: int, flag: int) -> Iterator[_Producer]:
        """Those who raise a flag of a rank."""
        if flag == self._program.signal_layout.engine_done:
            yield self._tasks_of(f"the copy engine of rank {rank}", self._engine_of(rank))
        for issuer in range(self._program.world_size):
            tables = self._program.rank_tables(issuer)
            raised = {
                index
                for index, row in enumerate(tables["signals"].rows())
                if (row["rank"], row["signal"]) == (rank, flag)
            }
            device, engine = split_commands(tables["commands"])
            rows = tables["commands"].rows()
            for number in sorted([*device.tolist(), *engine.tolist()]):
                row = rows[number]
                if not raised & set(range(row["signal_begin"], row["signal_end"])):
                    continue
                what = f"command {number} of rank {issuer}"
                if number in engine:
                    yield self._tasks_of(what, self._engine_of(issuer))
                    continue
                part = self._parts[issuer][Realization(row["realization"])]
                tile = handing_tile(tables, number)
                if tile is not None:
                    cta = part.ctas[tile.position % self._program.num_ctas]
                    what += f", which tile {tile.number} hands over"
                    yield self._tasks_of(what, self._workers_of(issuer, range(cta, cta + 1)))
                elif self._is_past(rank, issuer, int(np.flatnonzero(device == number)[0]), part):
                    yield _Producer(what, (), "has been carried out")
                else:
                    yield self._tasks_of(what, self._workers_of(issuer, part.ctas))
            yield from self._calls(rank, issuer, raised)

    def _calls(self, rank: int, issuer: int, raised: set[int]) -> Iterator[_Producer]:
        """The beginning or the end of a call, if it raises one of these signals."""
        call = self._program.rank_tables(issuer)["calls"].rows()[0]
        if raised & set(range(call["open_begin"], call["open_end"])):
            what = f"the beginning of the call of rank {issuer}"
            began = bool(self._roles_of(issuer)) and not self._is_behind(rank, issuer)
            yield (
                _Producer(what, (), "has begun")
                if began
                else self._tasks_of(what, [f"the stream of rank {issuer}"])
            )
        if raised & set(range(call["close_signal_begin"], call["close_signal_end"])):
            what = f"the end of the previous call of rank {issuer}"
            yield (
                self._tasks_of(what, self._roles_of(issuer))
                if self._is_behind(rank, issuer)
                else _Producer(what, (), "has ended")
            )

    def _epoch(self, rank: int) -> int:
        return int(self._machine.state_words[rank].view(_I32)[StateWord.EPOCH])

    def _is_behind(self, rank: int, issuer: int) -> bool:
        """Whether a rank is still in an earlier call than another."""
        return wrap(self._epoch(issuer) - self._epoch(rank), 32) < 0

    def _is_past(self, rank: int, issuer: int, number: int, part: Part) -> bool:
        """Whether all CTAs of a role of a rank have carried out a command in the call of another."""
        counter = self._machine.state_words[issuer].view(_I32)[StateWord.COMMANDS + number]
        wanted = self._epoch(rank) * len(part.ctas)
        return wrap(int(counter) - wanted, 32) >= 0

    def _engine_of(self, rank: int) -> list[str]:
        return [f"the copy engine of rank {rank}"]

    def _roles_of(self, rank: int) -> list[str]:
        """Names of the stuck roles of a rank's CTAs."""
        return [
            task.name
            for task in self._stuck
            if isinstance(task.owner, Role) and task.owner.rank == rank
        ]

    def _workers_of(self, rank: int, where: range) -> list[str]:
        """Names of those on some CTAs that carry out commands of a communication role and are stuck."""
        ctas = tuple(f"rank {rank} CTA {cta} " for cta in where)
        return [
            name
            for name in self._roles_of(rank)
            if name.startswith(ctas) and not name.endswith(" compute")
        ]

    def _tasks_of(self, what: str, names: Sequence[str]) -> _Producer:
        found = tuple(self._by_name[name] for name in names if name in self._by_name)
        return _Producer(what, found, "is through")
