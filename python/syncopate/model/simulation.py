"""Discrete-event simulation of schedule tables: what runs when, and how long a call takes.

Tiles run on CTAs in the order of the tables, wait for flags, and count in groups; roles and engines walk their queues;
what tiles hand over is moved by the CTA of the tile; all share links. Work is kept in clocks that only their speed
changes, one for the tiles of each rank and one for the transfers of each kind, so that a change of speed costs the same
however much is under way.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from syncopate.abi import NO_EXCHANGE, Realization
from syncopate.errors import SyncopateError
from syncopate.model.calls import LibraryCalls, Sends
from syncopate.model.flows import FlowKind, Network
from syncopate.model.gemm import KernelCost
from syncopate.model.machine import Machine
from syncopate.model.state import Cta, RankState, Waiter
from syncopate.model.tables import Command, Signals, Tile, Waits, read_tables
from syncopate.model.timeline import Timeline, TransferEvent

__all__ = ["predict"]

_INFINITY = float("inf")


def predict(
    program: Any, cost: KernelCost, machine: Machine, *, in_place: bool = False
) -> Timeline:
    """Predicts one call of a program, on ranks that start at the same time.

    Args:
        program: What `syncopate.compile` gives, or a `syncopate.plan.schedule.Schedule`, which needs no kernel's code.
        cost: What its tiles take.
        machine: What it runs on.
        in_place: The caller writes the input into the symmetric buffer.

    Returns:
        The timeline. It is the same for the same arguments.

    Raises:
        SyncopateError: The machine lacks a curve, or the tables wait for something that never happens.
    """
    return _Simulation(program, cost, machine, in_place).run()


class _Simulation:
    def __init__(self, program: Any, cost: KernelCost, machine: Machine, in_place: bool) -> None:
        self.machine, self.cost, self.program = machine, cost, program
        self.now = 0.0
        self.network = Network(machine, program.world_size)
        ctas = program.num_ctas + program.comm_ctas
        self.calls = LibraryCalls(machine, program.world_size, ctas)
        self.sends = Sends()
        self.timed: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.sequence = 0
        self.changed = True
        self.events: list[TransferEvent] = []
        self.ranks = [
            RankState(rank, read_tables(program, rank, in_place=in_place), program.num_ctas)
            for rank in range(program.world_size)
        ]
        for rank in self.ranks:
            self._start(rank)

    def run(self) -> Timeline:
        """Steps from event to event until nothing is left to happen."""
        while self._step():
            pass
        stuck = [rank.index for rank in self.ranks if rank.end == _INFINITY]
        if stuck:
            raise SyncopateError(
                f"program {self.program.name}: ranks {stuck} never end, since its tables wait for what nobody does"
            )
        return self._timeline()

    def _step(self) -> bool:
        if self.changed:
            self._set_speeds()
        until = self.timed[0][0] if self.timed else _INFINITY
        for rank in self.ranks:
            if rank.heap:
                until = min(until, self.now + (rank.heap[0][0] - rank.clock) / rank.speed)
        for flows in self.network.active:
            until = min(until, self.now + flows.next_us())
        if until == _INFINITY:
            return False
        passed = max(until - self.now, 0.0)
        self.now = max(until, self.now)
        for rank in self.ranks:
            rank.clock += passed * rank.speed
        for flows in self.network.active:
            flows.advance(passed)
        while self.timed and self.timed[0][0] <= self.now:
            _, _, call, arguments = heapq.heappop(self.timed)
            call(*arguments)
        for flows in self.network.active:
            for done in flows.take_complete():
                self.changed = True
                done()
        for rank in self.ranks:
            # Far below a nanosecond, and far above what is lost by adding up.
            while rank.heap and rank.heap[0][0] <= rank.clock + 1e-6:
                cta = rank.ctas[heapq.heappop(rank.heap)[1]]
                self.changed = True
                self._computed(rank, cta)
        return True

    def _set_speeds(self) -> None:
        self.changed = False
        self.network.update()
        share = [0.0] * len(self.ranks)
        for flows in self.network.active:
            kind = flows.kind
            if kind.src != kind.dst:
                slower = self.machine.interference.get(kind.realization, 0.0)
                rate = flows.rate * len(flows) / (self.machine.topology.link_gbps * 1e3)
                share[kind.by] += slower * rate
        calls = self.machine.interference.get(Realization.NCCL, 0.0) * self.calls.share
        for rank, slower in zip(self.ranks, share, strict=True):
            factor = self.machine.load_slowdown(len(rank.heap)) * (1.0 + slower + calls)
            if rank.sustained:
                factor *= self.machine.sustained_slowdown
            rank.speed = 1.0 / factor

    def _at(self, time: float, call: Callable[..., None], *arguments: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.timed, (time, self.sequence, call, arguments))

    # Flags.

    def _raise(self, by: int, signals: Signals, delay: float = 0.0) -> None:
        latencies, ranks = self.machine.latencies, self.program.world_size
        for to, signal in signals:
            latency = latencies.flag_local if to == by else latencies.flag_remote
            latency += self.machine.detour_us(ranks, by, to)
            self._at(self.now + delay + latency, self._arrive, self.ranks[to], signal)

    def _arrive(self, rank: RankState, signal: int) -> None:
        count = rank.raised[signal] = rank.raised.get(signal, 0) + 1
        waiters = rank.waiters.get(signal)
        if not waiters:
            return
        rank.waiters[signal] = [entry for entry in waiters if entry[0] > count]
        for wanted, waiter in waiters:
            if wanted <= count:
                waiter.pending -= 1
                if waiter.pending == 0:
                    waiter.call()

    def _await(self, rank: RankState, waits: Waits, call: Callable[[], None]) -> None:
        """Goes on when all waits are over; at once if they are."""
        pending = [(signal, count) for signal, count in waits if rank.raised.get(signal, 0) < count]
        if not pending:
            call()
            return
        waiter = Waiter(len(pending), call)
        for signal, count in pending:
            rank.waiters.setdefault(signal, []).append((count, waiter))

    # The beginning and the end of a call.

    def _start(self, rank: RankState) -> None:
        latencies, staged = self.machine.latencies, rank.tables.staged_bytes
        begin = staged / (self.machine.memory_gbps * 1e3) + latencies.staging if staged else 0.0
        self._at(begin + latencies.launch / 2, self._launch, rank)
        for role in rank.tables.queues:
            if role.is_engine:
                self._at(begin + latencies.engine_start, self._engine, rank, role, 0)

    def _launch(self, rank: RankState) -> None:
        self._raise(rank.index, rank.tables.opening)
        if self.machine.burst_us != _INFINITY:
            self._at(self.now + self.machine.burst_us, self._sustain, rank)
        for role in rank.tables.queues:
            if not role.is_engine:
                self._role(rank, role, 0)
        for cta in rank.ctas:
            self._next_tile(rank, cta)

    def _sustain(self, rank: RankState) -> None:
        rank.sustained = self.changed = True

    def _leave(self, rank: RankState) -> None:
        """A CTA or a queue is through; the last one waits for what the call owes."""
        rank.open -= 1
        if rank.open == 0:
            self._await(rank, rank.tables.closing, lambda: self._close(rank))

    def _close(self, rank: RankState) -> None:
        latencies = self.machine.latencies
        rank.end = self.now + latencies.launch / 2 + latencies.call

    # Tiles.

    def _next_tile(self, rank: RankState, cta: Cta) -> None:
        if cta.position >= len(rank.tables.tiles):
            cta.busy = False
            rank.computing -= 1
            if rank.computing == 0 and rank.when_idle is not None:
                rank.when_idle()
            if not cta.moving:
                self._leave(rank)
            return
        cta.since = self.now
        waits = rank.tables.tiles[cta.position].waits
        self._await(rank, waits, lambda: self._compute(rank, cta))

    def _compute(self, rank: RankState, cta: Cta) -> None:
        rank.begins[cta.position] = self.now
        cta.steps = 0
        self._go_on(rank, cta)

    def _go_on(self, rank: RankState, cta: Cta) -> None:
        """Computes what comes before the next step that waits, or the rest of the tile."""
        tile = rank.tables.tiles[cta.position]
        rank.stalls[cta.position] += self.now - cta.since
        places = [0.0, *(place for place, _ in tile.steps), 1.0]
        share = places[cta.steps + 1] - places[cta.steps]
        work = share * self.cost.part_us(tile.number, tile.parts, self.machine.latencies)
        if tile.parts == 1 and cta.steps == len(tile.steps):
            work += self.cost.storing_us(tile, self.machine.latencies)
        self._work(rank, cta, work)

    def _work(self, rank: RankState, cta: Cta, us: float) -> None:
        self.changed = True
        heapq.heappush(rank.heap, (rank.clock + us, cta.index))

    def _computed(self, rank: RankState, cta: Cta) -> None:
        tile, cta.since = rank.tables.tiles[cta.position], self.now
        if cta.steps < len(tile.steps):
            cta.steps += 1
            self._await(rank, tile.steps[cta.steps - 1][1], lambda: self._go_on(rank, cta))
            return
        if tile.parts > 1 and not cta.adding:
            self._leave_part(rank, cta, tile)
            return
        cta.adding = False
        self._await(rank, tile.sum_waits, lambda: self._stored(rank, cta))

    def _leave_part(self, rank: RankState, cta: Cta, tile: Tile) -> None:
        """Whoever leaves the last part of a tile adds all of them up; others go on."""
        rank.parts[tile.number] -= 1
        if rank.parts[tile.number]:
            rank.ends[cta.position] = self.now
            self._advance(rank, cta)
            return
        cta.adding = True
        latencies = self.machine.latencies
        adding = self.cost.sum_us(tile.parts, latencies)
        self._work(rank, cta, adding + self.cost.storing_us(tile, latencies))

    def _stored(self, rank: RankState, cta: Cta) -> None:
        tile = rank.tables.tiles[cta.position]
        rank.ends[cta.position] = self.now
        if tile.group >= 0:
            rank.left[tile.group] -= 1
            if rank.left[tile.group] == 0:
                self._raise(rank.index, rank.tables.groups[tile.group][1])
        if tile.commands:
            slots = self.machine.ring_slots
            if slots and len(cta.records) >= slots:
                cta.stuck = True
                return
            self._hand_over(rank, cta)
        else:
            self._advance(rank, cta)

    def _hand_over(self, rank: RankState, cta: Cta) -> None:
        cta.records.append(cta.position)
        if not cta.moving:
            cta.moving = True
            self._take(rank, cta)
        self._advance(rank, cta)

    def _advance(self, rank: RankState, cta: Cta) -> None:
        rank.stalls[cta.position] += self.now - cta.since
        cta.position += len(rank.ctas)
        self._next_tile(rank, cta)

    def _take(self, rank: RankState, cta: Cta) -> None:
        """The role beside the tiles takes the next record, which may make room for another."""
        if not cta.records:
            cta.moving = False
            if not cta.busy:
                self._leave(rank)
            return
        position = cta.records.popleft()
        if cta.stuck:
            cta.stuck = False
            self._hand_over(rank, cta)
        numbers = iter(rank.tables.tiles[position].commands)

        def following() -> None:
            number = next(numbers, None)
            if number is None:
                self._take(rank, cta)
                return
            command = rank.tables.commands[number]
            self._await(
                rank, command.waits, lambda: self._move(rank, command, 1, cta.index, following)
            )

        following()

    # Transfers.

    def _role(self, rank: RankState, role: Any, place: int) -> None:
        """A role carries out the command at a place in its queue, and then those behind it."""
        queue = rank.tables.queues[role]
        if place == len(queue):
            self._leave(rank)
            return
        command = queue[place]

        def move() -> None:
            ctas = rank.tables.ctas[role]
            self._move(rank, command, ctas, -1, lambda: self._role(rank, role, place + 1))

        self._await(rank, command.waits, move)

    def _engine(self, rank: RankState, role: Any, place: int) -> None:
        """A stream does the same. It raises flags one after another, by operations of its own."""
        queue, op = rank.tables.queues[role], self.machine.latencies.engine_op
        if place == len(queue):
            done = self.program.signal_layout.engine_done
            self._raise(rank.index, ((rank.index, done),), op)
            self._leave(rank)
            return
        command, began = queue[place], self.now
        if command.exchange != NO_EXCHANGE:
            self._exchange(rank, role, place)
            return

        def raise_flags() -> None:
            for number, signal in enumerate(command.signals, 1):
                self._raise(rank.index, (signal,), op * number)
            delay = op * len(command.signals)
            self._at(self.now + delay, self._engine, rank, role, place + 1)

        def move() -> None:
            if command.call is None:
                self._move(rank, command, 0, -1, lambda: None, raise_flags)
            elif self.calls.wait_for_tiles and rank.computing:
                rank.when_idle = lambda: self._call(rank, command, raise_flags)
            else:
                self._call(rank, command, raise_flags)

        def resume() -> None:
            if command.waits:
                waited = self.now > began
                delay = self.machine.latencies.stream_wait if waited else 2 * op
                self._at(self.now + delay, move)
            else:
                move()

        self._await(rank, command.waits, resume)

    def _exchange(self, rank: RankState, role: Any, place: int) -> None:
        """A stream starts all sends and receives of an exchange, and raises what they raise when all are over."""
        queue, op = rank.tables.queues[role], self.machine.latencies.engine_op
        number, end = queue[place].exchange, place
        while end < len(queue) and queue[end].exchange == number:
            end += 1
        mine, began = queue[place:end], self.now
        left = [len(mine)]

        def one_over() -> None:
            left[0] -= 1
            if left[0]:
                return
            signals = [signal for command in mine for signal in command.signals]
            for position, signal in enumerate(signals, 1):
                self._raise(rank.index, (signal,), op * position)
            self._at(self.now + op * len(signals), self._engine, rank, role, end)

        def start() -> None:
            for command in mine:
                if command.src == rank.index:
                    self.sends.send(command, one_over)
                else:
                    self.sends.receive(command, functools.partial(move, command))

        def move(command: Command, sent: Callable[[], None]) -> None:
            self._move(rank, command, 0, -1, one_over, sent)

        def resume() -> None:
            waited = mine[0].waits and self.now > began
            self._at(self.now + (self.machine.latencies.stream_wait if waited else op), start)

        self._await(rank, mine[0].waits, resume)

    def _call(self, rank: RankState, command: Command, following: Callable[[], None]) -> None:
        """Joins a library call, which goes on when all ranks have."""
        began = self.now

        def done() -> None:
            self.events.append(
                TransferEvent(
                    rank.index, command.number, command.realization, command.direction, command.src,
                    command.dst, command.nbytes, -1, began, self.now,
                )
            )  # fmt: skip
            self.changed = True
            following()

        started = self.calls.join(rank.index, command, done)
        if started is not None:
            us, end = started
            self.changed = True
            self._at(self.now + us, end)

    def _move(
        self,
        rank: RankState,
        command: Command,
        ctas: int,
        cta: int,
        following: Callable[[], None],
        signal: Callable[[], None] | None = None,
    ) -> None:
        """Moves the bytes of a command, raises what it raises, and goes on."""
        kind = FlowKind(
            rank.index,
            command.src,
            command.dst,
            command.realization,
            command.direction,
            command.combining,
            command.pause_us,
            ctas,
        )
        flows, began = self.network.find(kind), self.now
        latency = flows.curve.latency_us
        latency += self.machine.detour_us(self.program.world_size, command.src, command.dst)

        def complete() -> None:
            self.events.append(
                TransferEvent(
                    rank.index, command.number, command.realization, command.direction, command.src,
                    command.dst, command.nbytes, cta, began, self.now,
                )
            )  # fmt: skip
            if signal is None:
                self._raise(rank.index, command.signals)
            else:
                signal()
            following()

        def start() -> None:
            self.changed = True
            flows.add(command.nbytes, complete)

        if command.nbytes == 0:
            complete()
        else:
            self._at(self.now + latency, start)

    def _timeline(self) -> Timeline:
        ends = tuple(rank.end for rank in self.ranks)
        return Timeline(
            machine=self.machine.label,
            source=self.machine.source,
            num_ctas=self.program.num_ctas,
            us=max(ends),
            rank_us=ends,
            tile_begin=tuple(rank.begins for rank in self.ranks),
            tile_end=tuple(rank.ends for rank in self.ranks),
            tile_stall=tuple(rank.stalls for rank in self.ranks),
            tile_numbers=tuple(
                np.array([tile.number for tile in rank.tables.tiles], np.int64)
                for rank in self.ranks
            ),
            transfers=tuple(self.events),
            link_bytes=self.network.count_bytes(self.events),
        )
