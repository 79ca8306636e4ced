"""Executes the schedule tables of all ranks with numpy, in a random interleaving.

The rules are those of the fused kernel and of the host runner:

* A wait `(signal, count)` holds once `flag - epoch * count >= 0` in wrapping
  32-bit arithmetic; count 0 is a guard and holds once `flag - (epoch - 1) >= 0`.
* A signal stores the epoch (kind 0), stores 1 (kind 1) or adds 1 (kind 2).
* A stream (realization `copy_engine`) waits until a flag is 1 and writes 0 to it;
  after its last command it raises `engine_done`.
* The last CTA to finish a command raises its signals; the last CTA to finish a
  call waits for `close_wait`, raises `close_signal` and steps the epoch.
* Before a host writes a call's input it waits until the ranks whose commands
  read that input have finished the call before.

Hosts, streams and the roles of CTAs are agents that a seeded generator interleaves. With `skew` some of them are much
slower than others, as ranks are whose host is late or whose stream is held up: rules about the end of a call and about
the next one only matter then.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from syncopate.abi import Realization, SignalKind
from syncopate.runtime.faults import describe_signal
from syncopate.runtime.interface import BufferSpec
from syncopate.runtime.linking import initial_flags
from syncopate.sim.agents import Agent, Agents, Blocked
from syncopate.sim.errors import StaleRead
from syncopate.sim.memory import FLOATS, NEVER, Buffer, blocks, encode
from syncopate.sim.workload import Workload

BLOCK_BYTES = 16384  # what a CTA copies at a time
ENGINE = Realization.COPY_ENGINE

Row = dict[str, int]


@dataclass(frozen=True)
class Execution:
    """What a run did; `max_error` is relative to the largest reference value."""

    max_error: float
    calls: int
    steps: int


@dataclass
class _Rank:
    index: int
    tables: dict[str, list[Row]]
    buffers: list[Buffer]
    flags: list[int]
    done: dict[tuple[str, int], int]
    pauses: dict[str, int]
    epoch: int = 1
    task: Any = None

    def rows(self, table: str, row: Row, span: str) -> list[Row]:
        return self.tables[table][row[f"{span}_begin"] : row[f"{span}_end"]]

    @property
    def call(self) -> Row:
        return self.tables["calls"][0]


def execute_tables(
    program: Any, workload: Workload, *, calls: int = 3, seed: int = 0, skew: bool = False
) -> Execution:
    """Runs `calls` calls of `program` back to back on all ranks, with fresh data.

    Args:
      program: has `world_size`, `num_ctas`, `buffers` and `rank_tables(rank)`.
      workload: what a tile computes: `Reads.of(schedule)`, or a `Gemm` of the first buffer.
      calls: calls that follow one another with no barrier between them.
      seed: of the interleaving and of the data.
      skew: whether some agents, drawn by the seed, are much slower than others.

    Raises:
      Deadlock: if some agents wait for flags that nobody raises any more.
      StaleRead: if a tile reads bytes that no transfer of its call delivered.
    """
    machine = _Machine(program, workload, calls, seed, skew)
    for rank in machine.ranks:
        machine.agents.spawn(machine.host(rank), rank.pauses["host"])
    machine.agents.run()
    return Execution(machine.max_error, calls, machine.agents.steps)


_ROLES = ("host", "stream", "compute", "communicate")
_PAUSES = (0, 0, 0, 8, 150)


def _buffer(spec: BufferSpec) -> Buffer:
    return Buffer(spec.name, spec.shape, spec.dtype)


class _Machine:
    """All ranks' memory, and the agents: hosts, streams and the roles of each CTA."""

    def __init__(self, program: Any, workload: Workload, calls: int, seed: int, skew: bool) -> None:
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.skew = skew
        self.agents = Agents(self.rng)
        self.program, self.workload = program, workload
        self.calls, self.max_error = calls, 0.0
        self.num_ctas: int = program.num_ctas
        self.ranks = [self._rank(index) for index in range(program.world_size)]
        self._buffers = [rank.buffers for rank in self.ranks]
        # Ranks drift apart by as many calls as there are.
        self.inputs = lru_cache(maxsize=None)(self._inputs)
        self.memory = lru_cache(maxsize=None)(self._memory)

    def _rank(self, index: int) -> _Rank:
        tables = {name: table.rows() for name, table in self.program.rank_tables(index).items()}
        buffers = [_buffer(spec) for spec in self.program.buffers]
        layout = self.program.signal_layout
        flags: list[int] = initial_flags(layout, self.program.world_size).tolist()
        pauses = {role: int(self.rng.choice(_PAUSES)) if self.skew else 0 for role in _ROLES}
        return _Rank(index, tables, buffers, flags, defaultdict(int), pauses)

    def _inputs(self, call: int) -> list[Buffer]:
        """Every buffer's whole contents in `call`; each rank stages its regions of them."""
        rng = np.random.default_rng((self.seed, call))
        whole = [_buffer(spec) for spec in self.program.buffers]
        for buffer in whole:
            if buffer.dtype in FLOATS:
                values = rng.standard_normal(buffer.shape, np.float32)
                buffer.data[:] = encode(values, buffer.dtype).ravel()
            else:
                buffer.data[:] = rng.integers(0, 256, buffer.data.shape, np.uint8)
        return whole

    def _memory(self, call: int) -> list[list[Buffer]]:
        """By rank, what its buffers hold in `call` after all transfers in the order of the plan."""
        ranks = [[_buffer(spec) for spec in self.program.buffers] for _ in self.ranks]
        for rank, buffers in enumerate(ranks):
            for index, spec in enumerate(self.program.buffers):
                for region in spec.inputs[rank]:
                    data, stamp = buffers[index].rectangle(region.offsets, region.sizes)
                    data[:] = self.inputs(call)[index].rectangle(region.offsets, region.sizes)[0]
                    stamp[:] = call
        commands = [c for rank in self.ranks for c in rank.tables["commands"]]
        for command in sorted(commands, key=lambda c: c["transfer"]):
            for _ in self._copy(ranks, command, 0, 1):
                pass
        return ranks

    # Agents.

    def host(self, rank: _Rank) -> Agent:
        for call in range(1, self.calls + 1):
            yield from self._stage(rank, call)
            roles = [self.agents.spawn(self._stream(rank), rank.pauses["stream"])]
            roles += [self.agents.spawn(self._cta(rank, cta)) for cta in range(self.num_ctas)]
            yield from roles
            self.max_error = max(self.max_error, rank.task.error())

    def _stage(self, rank: _Rank, call: int) -> Agent:
        yield from self._wait(rank, rank.rows("waits", rank.call, "guard"), "staging")
        for index, spec in enumerate(self.program.buffers):
            for region in spec.inputs[rank.index]:
                data, stamp = rank.buffers[index].rectangle(region.offsets, region.sizes)
                data[:] = self.inputs(call)[index].rectangle(region.offsets, region.sizes)[0]
                stamp[:] = call
                yield None
        rank.task = self.workload.start(self.rng, _Expected(self, rank.index, call))

    def _stream(self, rank: _Rank) -> Agent:
        commands = [c for c in rank.tables["commands"] if c["realization"] == ENGINE]
        for command in commands:
            for wait in rank.rows("waits", command, "wait"):
                yield self._until(rank, wait["signal"], 1, _name(command), exactly=True)
                rank.flags[wait["signal"]] = 0
            yield from self._copy(self._buffers, command, 0, 1)
            yield from self._raise(rank, rank.rows("signals", command, "signal"))
        if commands:
            self._write(rank.index, self.program.signal_layout.engine_done, rank.epoch)

    def _cta(self, rank: _Rank, cta: int) -> Agent:
        if cta == 0:
            yield from self._raise(rank, rank.rows("signals", rank.call, "open"))
        communication = self.agents.spawn(self._communicate(rank, cta), rank.pauses["communicate"])
        yield self.agents.spawn(self._compute(rank, cta), rank.pauses["compute"])
        yield communication
        if self._last(rank, ("call", 0)):
            yield from self._wait(rank, rank.rows("waits", rank.call, "close_wait"), "its end")
            with _blamed(rank, "its end"):
                rank.task.close(rank.buffers)
            yield from self._raise(rank, rank.rows("signals", rank.call, "close_signal"))
            rank.epoch += 1

    def _communicate(self, rank: _Rank, cta: int) -> Agent:
        for index, command in enumerate(rank.tables["commands"]):
            if command["realization"] == ENGINE:
                continue
            waits = rank.rows("waits", command, "wait")
            yield from self._wait(rank, waits, _name(command))
            yield from self._copy(self._buffers, command, cta, self.num_ctas)
            if self._last(rank, ("command", index)):
                yield from self._raise(rank, rank.rows("signals", command, "signal"))

    def _compute(self, rank: _Rank, cta: int) -> Agent:
        for tile in rank.tables["tiles"][cta :: self.num_ctas]:
            coords = (tile["c0"], tile["c1"], tile["c2"])
            where = f"tile {coords}"
            yield from self._wait(rank, rank.rows("waits", tile, "wait"), where)
            yield None

            with _blamed(rank, where):
                rank.task.compute(coords, functools.partial(self._read, rank))

    # Steps.

    def _last(self, rank: _Rank, key: tuple[str, int]) -> bool:
        rank.done[key] += 1
        return rank.done[key] == rank.epoch * self.num_ctas

    def _wait(self, rank: _Rank, waits: list[Row], where: str) -> Agent:
        for wait in waits:
            count = wait["count"]
            wanted = rank.epoch * count if count else rank.epoch - 1
            yield self._until(rank, wait["signal"], wanted, where)

    def _until(
        self, rank: _Rank, signal: int, wanted: int, where: str, exactly: bool = False
    ) -> Blocked:
        def holds() -> bool:
            behind: int = (rank.flags[signal] - wanted + 2**31) % 2**32 - 2**31
            return behind == 0 if exactly else behind >= 0

        def says() -> str:
            return (
                f"rank {rank.index}, call {rank.epoch}, {where}: waits for signal {signal} to be "
                f"{wanted}, is {rank.flags[signal]}: {describe_signal(self.program, rank.index, signal)}"
            )

        return Blocked((rank.index, signal), holds, says)

    def _raise(self, rank: _Rank, signals: list[Row]) -> Agent:
        for signal in signals:
            yield None
            old = self.ranks[signal["rank"]].flags[signal["signal"]]
            values = {SignalKind.EPOCH: rank.epoch, SignalKind.ONE: 1, SignalKind.ADD: old + 1}
            value = values[SignalKind(signal["kind"])]
            self._write(signal["rank"], signal["signal"], value)

    def _write(self, rank: int, signal: int, value: int) -> None:
        self.ranks[rank].flags[signal] = value
        self.agents.wake((rank, signal))

    def _copy(self, ranks: list[list[Buffer]], command: Row, first: int, step: int) -> Agent:
        ends = []
        for end in ("src", "dst"):
            buffer = ranks[command[f"{end}_rank"]][command[f"{end}_buffer"]]
            ends.append((buffer, command[f"{end}_offset"], command[f"{end}_stride"]))
        (src, src_at, src_stride), (dst, dst_at, dst_stride) = ends
        for block in blocks(command["rows"], command["row_bytes"], first, step, BLOCK_BYTES):
            yield None
            for row, begin, end in block:
                a, b = src_at + row * src_stride + begin, dst_at + row * dst_stride + begin
                dst.data[b : b + end - begin] = src.data[a : a + end - begin]
                dst.stamp[b : b + end - begin] = src.stamp[a : a + end - begin]

    def _read(
        self, rank: _Rank, index: int, offsets: tuple[int, ...], sizes: tuple[int, ...]
    ) -> Any:
        buffer = rank.buffers[index]
        data, stamp = buffer.rectangle(offsets, sizes)
        stale = np.argwhere(stamp != rank.epoch)
        if stale.size:
            row, found = offsets[0] + int(stale[0][0]), int(stamp[tuple(stale[0])])
            raise StaleRead(
                f"row {row} of {buffer.name} "
                + (f"is of call {found}" if found != NEVER else "has not been written")
            )
        return data


@dataclass(frozen=True)
class _Expected:
    machine: _Machine
    rank: int
    call: int

    @property
    def inputs(self) -> Sequence[Buffer]:
        return self.machine.inputs(self.call)

    @property
    def memory(self) -> Sequence[Buffer]:
        return self.machine.memory(self.call)[self.rank]


@contextlib.contextmanager
def _blamed(rank: _Rank, where: str) -> Iterator[None]:
    """Puts in front of an error who made it."""
    try:
        yield
    except StaleRead as error:
        raise StaleRead(f"rank {rank.index}, call {rank.epoch}, {where}: {error}") from None


def _name(command: Row) -> str:
    ends = f"from rank {command['src_rank']} to rank {command['dst_rank']}"
    return f"transfer {command['transfer']} {ends}"
