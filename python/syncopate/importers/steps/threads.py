"""Runs a program of several threads per rank once, and so finds its moves, in an order in which they may be made.

What orders instructions in such a program: those of a thread stand one behind the other; an instruction may wait for
named events of others; it may take a message that another thread has posted to a channel, first in, first out; and
threads may meet at a barrier. A message may carry cells: then they are read where it is posted, and written where it is
taken, as through a FIFO with room for all of them.

* A program that stops before its end waits for itself in a circle, or for what nobody does: an error.
* Two uses of a cell of which one writes it, and which nothing orders, are a race: an error. Clocks of all threads say
  what is ordered.
* A message's cells move at once to where they are taken. Only if the sender writes them again in between, they go
  through cells of `Memory.FIFO` of the receiver.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from syncopate.importers.documents.items import Place
from syncopate.importers.steps.collective_steps import Cells, CollectiveSteps, Memory, Move

__all__ = ["Instruction", "run_threads"]

MOST_CLOCKS = 1 << 26
"""Entries of the clocks of all instructions, of 4 bytes each."""


@dataclass(frozen=True)
class Instruction:
    """What a thread does at once.

    Attributes:
        place: Where the file says so.
        what: What it is called in errors.
        moves: What it moves itself.
        after: Events that have to have happened before.
        done: Events that happen with it.
        post: Channel that it posts a message to.
        payload: The cells of that message, if it carries any.
        take: Channel that it takes a message from.
        into: Where the cells of that message go.
        reduces: Whether they are combined with what is there.
        barrier: A barrier, and how many threads meet there.
    """

    place: Place
    what: str
    moves: tuple[Move, ...] = ()
    after: tuple[Hashable, ...] = ()
    done: tuple[Hashable, ...] = ()
    post: Hashable = None
    payload: Cells | None = None
    take: Hashable = None
    into: Cells | None = None
    reduces: bool = False
    barrier: tuple[Hashable, int] | None = None


def run_threads(
    steps: CollectiveSteps,
    threads: Mapping[Hashable, Sequence[Instruction]],
    posted: Mapping[Hashable, int] | None = None,
) -> None:
    """Adds the moves of a program to steps.

    Args:
        steps: The steps, so far without any.
        threads: The instructions of each thread.
        posted: By channel, how many messages without cells are there in the beginning, and are to be in the end.

    Raises:
        PlanError: The program does not end, has a race, leaves messages behind, or posts and takes different numbers
            of cells.
    """
    run = _Run(steps, threads, posted or {})
    run.run()
    steps.moves = [move for move in run.moves if move is not None]
    if run.fifo:
        steps.scratch[Memory.FIFO] = max(run.fifo.values())


@dataclass(frozen=True)
class _Message:
    instruction: Instruction
    node: int
    # Position among the moves, and how many writes there had been.
    position: int
    time: int


class _Run:
    def __init__(
        self,
        steps: CollectiveSteps,
        threads: Mapping[Hashable, Sequence[Instruction]],
        posted: Mapping[Hashable, int],
    ) -> None:
        self.threads, self.posted = threads, posted
        self.numbers = {name: number for number, name in enumerate(threads)}
        total = sum(map(len, threads.values()))
        if total * len(threads) > MOST_CLOCKS:
            steps.place.fail(
                f"expects at most {MOST_CLOCKS // max(1, len(threads))} steps of {len(threads)} threadblocks, but got "
                f"{total}"
            )
        self.clocks = np.zeros((total, len(threads)), np.int32)
        self.nodes: list[tuple[Instruction, int]] = []
        self.position = dict.fromkeys(threads, 0)
        self.last: dict[Hashable, int] = {}
        self.events: dict[Hashable, int] = {}
        self.mail: dict[Hashable, deque[_Message | None]] = defaultdict(deque)
        for channel, count in posted.items():
            self.mail[channel].extend([None] * count)
        self.arrivals: dict[Hashable, list[Hashable]] = defaultdict(list)
        self.waiting: dict[Hashable, list[Hashable]] = defaultdict(list)
        self.ready = deque(threads)
        self.moves: list[Move | None] = []
        self.fifo: Counter[int] = Counter()
        self.writes = 0
        self.written: dict[tuple[int, Memory, int], tuple[int, int]] = {}
        self.read: dict[tuple[int, Memory, int], list[int]] = defaultdict(list)

    def run(self) -> None:
        while self.ready:
            self._try(self.ready.popleft())
        stuck = [name for name, code in self.threads.items() if self.position[name] < len(code)]
        if stuck:
            self._report_stuck(stuck)
        for channel, messages in self.mail.items():
            left = [message for message in messages if message is not None]
            if left and len(messages) > self.posted.get(channel, 0):
                left[0].instruction.place.fail(
                    f"{left[0].instruction.what} sends to {_spell(channel)}, but nobody receives it"
                )

    def _try(self, name: Hashable) -> None:
        """Carries out the next instruction of a thread, or has it wait."""
        code = self.threads[name]
        if self.position[name] == len(code):
            return
        instruction = code[self.position[name]]
        for event in instruction.after:
            if event not in self.events:
                self.waiting["event", event].append(name)
                return
        if instruction.barrier:
            self._meet(name, *instruction.barrier)
        elif instruction.take is not None and not self.mail[instruction.take]:
            self.waiting["mail", instruction.take].append(name)
        else:
            self._carry_out(name, instruction)

    def _meet(self, name: Hashable, barrier: Hashable, count: int) -> None:
        arrived = self.arrivals[barrier]
        arrived.append(name)
        if len(arrived) < count:
            return
        before = [self.last[thread] for thread in arrived if thread in self.last]
        for thread in self.arrivals.pop(barrier):
            self._finish(thread, self._add_node(thread, before))

    def _carry_out(self, name: Hashable, instruction: Instruction) -> None:
        before = [self.events[event] for event in instruction.after]
        message = None
        if instruction.take is not None:
            message = self.mail[instruction.take].popleft()
            if message is not None:
                before.append(message.node)
        node = self._add_node(name, before)
        if instruction.into is not None:
            assert message is not None
            self._receive(node, instruction, message)
        for move in instruction.moves:
            self._access(node, move.src, move.dst)
            self.moves.append(move)
        if instruction.post is not None:
            if instruction.payload is not None:
                self._access(node, instruction.payload, None)
            # A place for the move that may be needed here.
            self.moves.append(None)
            self.mail[instruction.post].append(
                _Message(instruction, node, len(self.moves) - 1, self.writes)
            )
            self.ready.extend(self.waiting.pop(("mail", instruction.post), ()))
        self._finish(name, node)

    def _receive(self, node: int, instruction: Instruction, message: _Message) -> None:
        src, dst = message.instruction.payload, instruction.into
        assert dst is not None
        if src is None or src.count != dst.count:
            count = 0 if src is None else src.count
            instruction.place.fail(
                f"{instruction.what} receives {dst.count} chunks, but {message.instruction.what} at "
                f"{message.instruction.place} sends {count}"
            )
        self._access(node, None, dst)
        if any(self.written.get(cell, (0, 0))[1] > message.time for cell in src):
            slot = Cells(dst.rank, Memory.FIFO, self.fifo[dst.rank], dst.count)
            self.fifo[dst.rank] += dst.count
            self.moves[message.position] = Move(src, slot, False, message.instruction.place)
            src = slot
        self.moves.append(Move(src, dst, instruction.reduces, instruction.place))

    def _add_node(self, name: Hashable, before: Sequence[int]) -> int:
        node, number = len(self.nodes), self.numbers[name]
        clock = self.clocks[node]
        for other in (*before, *((self.last[name],) if name in self.last else ())):
            np.maximum(clock, self.clocks[other], out=clock)
        clock[number] = self.position[name] + 1
        self.nodes.append((self.threads[name][self.position[name]], number))
        return node

    def _finish(self, name: Hashable, node: int) -> None:
        instruction = self.threads[name][self.position[name]]
        self.last[name] = node
        for event in instruction.done:
            if event in self.events:
                instruction.place.fail(f"{instruction.what}: {_spell(event)} is there already")
            self.events[event] = node
            self.ready.extend(self.waiting.pop(("event", event), ()))
        self.position[name] += 1
        self.ready.append(name)

    def _access(self, node: int, src: Cells | None, dst: Cells | None) -> None:
        """Notes who reads and writes, and looks for races."""
        for cell in src or ():
            if cell in self.written:
                self._check_order(self.written[cell][0], node, cell)
            self.read[cell].append(node)
        if dst is None:
            return
        self.writes += 1
        for cell in dst:
            if cell in self.written:
                self._check_order(self.written[cell][0], node, cell)
            for reader in self.read.pop(cell, ()):
                self._check_order(reader, node, cell)
            self.written[cell] = node, self.writes

    def _check_order(self, first: int, second: int, cell: tuple[int, Memory, int]) -> None:
        one, thread = self.nodes[first]
        if self.clocks[first, thread] <= self.clocks[second, thread]:
            return
        rank, memory, number = cell
        other, _ = self.nodes[second]
        other.place.fail(
            f"race: {other.what} uses {memory.value}[{number}] of rank {rank}, and so does {one.what} at {one.place}: "
            "at least one of them writes it, and neither comes after the other"
        )

    def _report_stuck(self, stuck: Sequence[Hashable]) -> None:
        lines = list(self._describe(stuck))
        first = self.threads[stuck[0]][self.position[stuck[0]]].place
        first.fail("deadlock: " + "\n  ".join(lines[:8]))

    def _describe(self, stuck: Sequence[Hashable]) -> Iterator[str]:
        for name in stuck:
            instruction = self.threads[name][self.position[name]]
            missing = [event for event in instruction.after if event not in self.events]
            if missing:
                what = _spell(missing[0])
            elif instruction.barrier:
                met = len(self.arrivals[instruction.barrier[0]])
                what = f"a barrier where {met} of {instruction.barrier[1]} threadblocks are"
            else:
                what = f"what comes by {_spell(instruction.take)}"
            yield f"{instruction.what} at {instruction.place} waits for {what}"


def _spell(name: Hashable) -> str:
    return str(name)
