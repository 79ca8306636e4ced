"""Threadblocks of MSCCL XML as instructions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from syncopate.importers.documents.items import MOST, Item
from syncopate.importers.steps.collective_steps import Cells, CollectiveSteps, Memory, Move
from syncopate.importers.steps.threads import Instruction

__all__ = ["Channel", "ThreadblockReader"]

_BUFFERS: Final = {"i": Memory.INPUT, "o": Memory.OUTPUT, "s": Memory.SCRATCH}
# A bound for numbers that no meaning hangs on, such as that of a channel.
_ANY: Final = 1 << 31

Channel = tuple[str, int, int, int]
"""Which end of it, who sends, who receives, and its number."""


@dataclass(frozen=True)
class _Kind:
    """What a step does: it receives, combines what comes with its source, stores it, sends it on."""

    receives: bool = False
    reduces: bool = False
    stores: bool = False
    sends: bool = False


_KINDS: Final = {
    "s": _Kind(sends=True),
    "r": _Kind(receives=True, stores=True),
    "rcs": _Kind(receives=True, stores=True, sends=True),
    "rrs": _Kind(receives=True, reduces=True, sends=True),
    "rrc": _Kind(receives=True, reduces=True, stores=True),
    "rrcs": _Kind(receives=True, reduces=True, stores=True, sends=True),
    "cpy": _Kind(stores=True),
    "re": _Kind(reduces=True, stores=True),
    "nop": _Kind(),
}


class ThreadblockReader:
    """Reads the threadblocks of a gpu."""

    def __init__(
        self,
        steps: CollectiveSteps,
        rank: int,
        gpu: Item,
        channels: dict[Channel, Item],
        spare: list[int],
    ) -> None:
        self.steps, self.rank, self.gpu = steps, rank, gpu
        self.channels, self.spare = channels, spare
        self.blocks: dict[int, tuple[Item, ...]] = {}
        self.copied: tuple[str, ...] = ()

    def read(self) -> dict[Hashable, list[Instruction]]:
        """By threadblock, its instructions."""
        blocks = [child for child in self.gpu.children if child.what != "copy"]
        copies = [self._read_copy(child) for child in self.gpu.children if child.what == "copy"]
        for block in blocks:
            if block.what != "tb":
                block.fail("expects only copy and tb inside of gpu")
            number = block.integer("id", 0, MOST)
            if number in self.blocks:
                block.fail(f"expects each id of a gpu once, but got {number} again")
            self.blocks[number] = block.elements("step")
        threads: dict[Hashable, list[Instruction]] = {}
        if moves := tuple(move for move in copies if move.src != move.dst):
            # What TACCL has each gpu copy before all steps.
            self.copied = (f"copies of gpu {self.rank}",)
            what = f"copy of gpu {self.rank}"
            threads[self.rank, "copies"] = [
                Instruction(moves[0].place, what, moves, done=self.copied)
            ]
        for block in blocks:
            threads[self.rank, block.integer("id", 0, MOST)] = list(self._read_block(block))
        return threads

    def _read_copy(self, copy: Item) -> Move:
        ends = [
            Cells(
                self.rank,
                *self.steps.own(
                    memory, self.rank, copy.integer(field, 0, self.steps.extent(memory))
                ),
                1,
            )
            for field, memory in (("i_off", Memory.INPUT), ("o_off", Memory.OUTPUT))
        ]
        return Move(ends[0], ends[1], False, copy.place)

    def _read_block(self, block: Item) -> Iterator[Instruction]:
        peers: dict[str, int] = {}
        number = block.integer("chan", -1, _ANY, default=0)
        kinds = [_KINDS.get(step.fields.get("type", ""), _Kind()) for step in block.children]
        used = {
            "send": any(kind.sends for kind in kinds),
            "recv": any(kind.receives for kind in kinds),
        }
        for way in used:
            peer = block.integer(way, -1, self.steps.ranks, default=-1)
            if peer == self.rank:
                block.fail(f"expects {way} to be another gpu, but got {peer}", way)
            if peer < 0 or not used[way]:
                continue
            peers[way] = peer
            key = (way, *((self.rank, peer) if way == "send" else (peer, self.rank)), number)
            if key in self.channels:
                block.fail(
                    f"expects one threadblock to {way} between gpus {key[1]} and {key[2]} on channel {number}, but the "
                    f"one at {self.channels[key].place} does so too"
                )
            self.channels[key] = block
        for position, step in enumerate(block.children):
            if step.integer("s", 0, MOST) != position:
                step.fail(
                    f"expects s to be {position}, the number of the step, but got {step.fields['s']}"
                )
            name = f"tb {block.fields['id']} of gpu {self.rank}, step {position}"
            yield from self._read_step(step, block, peers, number, name)

    def _read_step(
        self, step: Item, block: Item, peers: dict[str, int], channel: int, name: str
    ) -> Iterator[Instruction]:
        kind: _Kind = step.word("type", _KINDS)
        done = (f"gpu {self.rank}, tb {block.fields['id']}, step {step.fields['s']}",)
        after = self._read_dependence(step)
        if kind == _Kind():
            yield Instruction(step.place, name, after=after, done=done)
            return
        count = step.integer("cnt", 1, MOST, default=1)
        reads = kind.reduces or not kind.receives
        src = self._read_cells(step, "src", count) if reads else None
        dst = self._read_cells(step, "dst", count) if kind.stores else None
        if kind.receives and not kind.stores:
            dst = Cells(
                self.rank,
                Memory.SCRATCH,
                self.steps.scratch[Memory.SCRATCH] + self.spare[self.rank],
                count,
            )
            self.spare[self.rank] += count
        for way, wanted in (("send", kind.sends), ("recv", kind.receives)):
            if wanted and way not in peers:
                step.fail(f"expects {way} of the threadblock to be a gpu, but it is none")
        moves: tuple[Move, ...] = ()
        take = post = None
        if kind.receives:
            take = f"channel {channel} from gpu {peers['recv']} to gpu {self.rank}"
            # What comes is combined with the source, wherever the result goes.
            if src is not None and src != dst:
                assert dst is not None
                yield Instruction(
                    step.place, name, (Move(src, dst, False, step.place),), after=after
                )
                after = ()
        elif not kind.sends:
            assert src is not None
            assert dst is not None
            moves = (Move(src, dst, kind.reduces, step.place),) if src != dst else ()
        if kind.sends:
            post = f"channel {channel} from gpu {self.rank} to gpu {peers['send']}"
        if not (kind.receives and kind.sends):
            yield Instruction(
                step.place,
                name,
                moves,
                after=after,
                done=done,
                post=post,
                payload=src if kind.sends else None,
                take=take,
                into=dst if kind.receives else None,
                reduces=kind.reduces,
            )
            return
        yield Instruction(step.place, name, after=after, take=take, into=dst, reduces=kind.reduces)
        yield Instruction(step.place, name, done=done, post=post, payload=dst)

    def _read_dependence(self, step: Item) -> tuple[str, ...]:
        other = step.integer("depid", -1, MOST, default=-1)
        number = step.integer("deps", -1, MOST, default=-1)
        if other < 0:
            return self.copied
        if other not in self.blocks:
            step.fail(
                f"expects depid to be a threadblock of gpu {self.rank}, but got {other}", "depid"
            )
        if not 0 <= number < len(self.blocks[other]):
            step.fail(
                f"expects deps to be a step of tb {other} in [0, {len(self.blocks[other])}), but got {number}",
                "deps",
            )
        return (*self.copied, f"gpu {self.rank}, tb {other}, step {number}")

    def _read_cells(self, step: Item, end: str, count: int) -> Cells:
        memory: Memory = step.word(f"{end}buf", _BUFFERS)
        offset = step.integer(f"{end}off", 0, MOST)
        size = self.steps.extent(memory)
        scratch = self.steps.scratch[Memory.SCRATCH]
        if memory is Memory.OUTPUT and offset >= size and scratch:
            # TACCL has scratch behind the output.
            memory, offset, size = Memory.SCRATCH, offset - size, scratch
        if offset + count > size:
            step.fail(
                f"expects {end} to lie in the {size} chunks of buffer {step.fields[end + 'buf']}, but got {count} at "
                f"{offset}"
            )
        cells = Cells(self.rank, *self.steps.own(memory, self.rank, offset), count)
        return self.steps.admit(cells, step.place)
