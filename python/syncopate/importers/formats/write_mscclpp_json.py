"""Exports steps as an MSCCL++ execution plan.

Every rank has a threadblock for each peer whose memory it uses, and one for what it does alone; a reduction is carried
out where it ends, which reads the other rank's part. What a move has to come after is said by signals between ranks,
and by semaphores within one. One more threadblock of each rank tells those that use its memory that the call has begun,
and waits for them at the end.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncopate.importers.formats.mscclpp_json import COLLECTIVES
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)

__all__ = ["write_mscclpp_json"]

_LETTERS = {Memory.INPUT: "i", Memory.OUTPUT: "o", Memory.SCRATCH: "s", Memory.FIFO: "s"}
_NOP = {"name": "nop"}
_ALONE = -1
_GUARD = -2


def write_mscclpp_json(steps: CollectiveSteps) -> str:
    """The file. It does not say by what a move is carried out, and not by whom if it reduces."""
    return json.dumps(_Writer(steps).write(), indent=2) + "\n"


@dataclass
class _Block:
    """A threadblock while it is written."""

    rank: int
    peer: int
    number: int
    # What it does, move by move: before, itself, after.
    entries: list[_Entry] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)
    remote: list[int] = field(default_factory=list)


@dataclass
class _Entry:
    move: Move
    # Positions in their threadblocks of what it comes after, and whose threadblocks wait for it.
    waits: list[_Block] = field(default_factory=list)
    tells: list[_Block] = field(default_factory=list)
    syncs: bool = False


class _Writer:
    def __init__(self, steps: CollectiveSteps) -> None:
        self.steps = steps
        self.blocks: list[dict[int, _Block]] = [{} for _ in range(steps.ranks)]
        # By gpu, the ranks at the other ends of its channels, its remote buffers, and its number of semaphores.
        self.channels: list[list[int]] = [[] for _ in range(steps.ranks)]
        self.remote: list[list[tuple[int, str]]] = [[] for _ in range(steps.ranks)]
        self.semaphores = [0] * steps.ranks
        self.links: dict[tuple[int, int, int, int], tuple[int, int]] = {}

    def write(self) -> dict[str, Any]:
        steps = self.steps
        self._place_moves()
        guards = [self._block(rank, _GUARD) for rank in range(steps.ranks)]
        users: dict[int, list[_Block]] = defaultdict(list)
        for blocks in self.blocks:
            for block in blocks.values():
                if block.peer >= 0:
                    users[block.peer].append(block)
        written = {
            (block.rank, block.number): list(self._operations(block, guards))
            for blocks in self.blocks
            for block in blocks.values()
            if block.peer != _GUARD
        }
        for guard in guards:
            mine = users[guard.rank]
            written[guard.rank, guard.number] = [
                *(self._signal("rlxsignal", guard, user) for user in mine),
                *(self._signal("wait", guard, user) for user in mine),
            ]
        return {
            "name": steps.name,
            "collective": next(
                word for word, kind in COLLECTIVES.items() if kind is steps.collective
            ),
            "protocol": "Simple",
            "inplace": steps.in_place,
            "reuse_resources": False,
            "gpus": [self._gpu(rank, written) for rank in range(steps.ranks)],
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": False,
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
        }

    def _block(self, rank: int, peer: int) -> _Block:
        blocks = self.blocks[rank]
        if peer not in blocks:
            blocks[peer] = _Block(rank, peer, len(blocks))
        return blocks[peer]

    def _place_moves(self) -> None:
        """Gives each move to a threadblock, with those that it waits for."""
        places: list[tuple[_Block, int]] = []
        # By two threadblocks, of how many moves of the first the second knows.
        known: dict[tuple[int, int, int, int], int] = defaultdict(int)
        for move, before in zip(self.steps.moves, self.steps.dependences, strict=True):
            src, dst = move.src.rank, move.dst.rank
            rank, peer = (dst, src) if move.pull or move.reduces else (src, dst)
            block = self._block(rank, peer if peer != rank else _ALONE)
            entry = _Entry(move)
            latest: dict[tuple[int, int], tuple[_Block, int]] = {}
            for number in before:
                other, position = places[number]
                key = other.rank, other.number
                if other is block:
                    entry.syncs = True
                elif position >= known[key[0], key[1], rank, block.number]:
                    latest[key] = other, max(position, latest.get(key, (other, 0))[1])
            for key, (other, position) in sorted(latest.items(), key=lambda item: item[0]):
                known[key[0], key[1], rank, block.number] = position + 1
                entry.waits.append(other)
                other.entries[position].tells.append(block)
            places.append((block, len(block.entries)))
            block.entries.append(entry)

    def _operations(self, block: _Block, guards: Sequence[_Block]) -> Iterator[dict[str, Any]]:
        if block.peer >= 0:
            yield self._signal("rlxwait", block, guards[block.peer])
        for entry in block.entries:
            for other in entry.waits:
                yield self._wait(block, other)
            if entry.waits or entry.syncs:
                yield _NOP
            yield self._move(block, entry.move)
            if entry.tells:
                yield _NOP
            for other in entry.tells:
                yield self._tell(block, other)
        if block.peer >= 0:
            yield _NOP
            yield self._signal("signal", block, guards[block.peer])

    def _tell(self, block: _Block, other: _Block) -> dict[str, Any]:
        if block.rank != other.rank:
            return self._signal("signal", block, other)
        return {"name": "sem_release", "semaphore_ids": [self._semaphore(block, other)]}

    def _wait(self, block: _Block, other: _Block) -> dict[str, Any]:
        if block.rank != other.rank:
            return self._signal("wait", block, other)
        return {"name": "sem_acquire", "semaphore_ids": [self._semaphore(other, block)]}

    def _semaphore(self, first: _Block, second: _Block) -> int:
        key = first.rank, first.number, second.rank, second.number
        if key not in self.links:
            self.links[key] = self.semaphores[first.rank], 0
            self.semaphores[first.rank] += 1
        return self.links[key][0]

    def _signal(self, name: str, block: _Block, other: _Block) -> dict[str, Any]:
        """A signal to, or a wait for, a threadblock of another rank; both ends make the channel at once."""
        ends = sorted((block, other), key=lambda end: end.rank)
        key = ends[0].rank, ends[0].number, ends[1].rank, ends[1].number
        if key not in self.links:
            numbers = []
            for end, far in zip(ends, reversed(ends), strict=True):
                numbers.append(len(self.channels[end.rank]))
                self.channels[end.rank].append(far.rank)
            self.links[key] = numbers[0], numbers[1]
        number = self.links[key][0 if block is ends[0] else 1]
        if number not in block.channels:
            block.channels.append(number)
        return {
            "name": name,
            "channel_ids": [block.channels.index(number)],
            "channel_type": "memory",
        }

    def _move(self, block: _Block, move: Move) -> dict[str, Any]:
        src, dst = self._buffer(block, move.src), self._buffer(block, move.dst)
        if move.src.rank == move.dst.rank:
            name = "re" if move.reduces else "copy"
        elif move.reduces:
            name = "rre"
        else:
            name = "get" if move.pull else "put"
        operation: dict[str, Any] = {
            "name": name,
            "src_buff": [dst, src] if move.reduces else [src],
            "dst_buff": [dst],
        }
        if name in ("put", "get", "rre"):
            operation["channel_type"] = "memory"
        if move.reduces:
            operation["reduce_op"] = self.steps.reduction
        return operation

    def _buffer(self, block: _Block, cells: Cells) -> dict[str, Any]:
        # In place, that of the two is named which is all of the buffer.
        whole = "o" if self.steps.collective is Collective.ALL_GATHER else "i"
        letter, offset = _LETTERS.get(cells.memory, whole), cells.offset
        if cells.memory is Memory.FIFO:
            offset += self.steps.extent(Memory.SCRATCH)
        place = {"index": offset, "size": cells.count}
        if cells.rank == block.rank:
            return {"type": letter, **place}
        known, there = self.remote[block.rank], (cells.rank, letter)
        if there not in known:
            known.append(there)
        number = known.index(there)
        if number not in block.remote:
            block.remote.append(number)
        return {"buffer_id": block.remote.index(number), **place}

    def _gpu(
        self, rank: int, written: dict[tuple[int, int], list[dict[str, Any]]]
    ) -> dict[str, Any]:
        steps = self.steps
        return {
            "id": rank,
            "input_chunks": steps.extent(Memory.INPUT),
            "output_chunks": steps.extent(Memory.OUTPUT),
            "scratch_chunks": sum(steps.scratch.values()),
            "threadblocks": [
                {
                    "id": block.number,
                    "ops": written[rank, block.number],
                    "channels": [{"channel_type": "memory", "channel_ids": block.channels}]
                    if block.channels
                    else [],
                    "remote_buffer_refs": [
                        {"access_channel_type": "memory", "remote_buffer_ids": block.remote}
                    ]
                    if block.remote
                    else [],
                }
                for block in self.blocks[rank].values()
            ],
            "channels": [{"channel_type": "memory", "connected_to": self.channels[rank]}]
            if self.channels[rank]
            else [],
            "remote_buffers": [
                {"rank": peer, "type": letter, "access_channel_types": ["memory"]}
                for peer, letter in self.remote[rank]
            ],
            "semaphores": [{"init_value": 0}] * self.semaphores[rank],
        }
