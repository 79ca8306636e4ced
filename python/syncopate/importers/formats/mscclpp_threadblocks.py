"""Threadblocks of MSCCL++ execution plans as instructions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncopate.importers.documents.items import MOST, Item
from syncopate.importers.steps.collective_steps import Cells, CollectiveSteps, Memory, Move
from syncopate.importers.steps.threads import Instruction

__all__ = ["FINEST", "BlockReader", "GpuReader"]

FINEST: Final = 1 << 10
"""Into how many parts groups of threadblocks may cut a chunk."""

_BUFFERS: Final = {"i": Memory.INPUT, "o": Memory.OUTPUT, "s": Memory.SCRATCH}
_CHANNELS: Final = {"memory": "memory", "port": "port", "switch": "switch"}
_MULTICAST: Final = ("gstore", "gstorepkt", "glre", "glres")
_COPIES: Final = ("put", "pws", "pwsf", "ppkt", "rppkt", "get", "copy", "cpkt", "upkt")
_REDUCTIONS: Final = ("re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt")
_OTHERS: Final = ("nop", "flush", "signal", "rlxsignal", "wait", "rlxwait")
_SYNCHRONIZATION: Final = ("barrier", "sem_acquire", "sem_release", "pipeline")
_NAMES: Final = {
    name: name for name in (*_COPIES, *_REDUCTIONS, *_OTHERS, *_SYNCHRONIZATION, *_MULTICAST)
}


@dataclass(frozen=True)
class _Channel:
    """This end of a connection; signals go out by it and come in."""

    kind: str
    rank: int
    peer: int
    number: int

    def outward(self) -> str:
        return f"signals {self.number} on {self.kind} channels from rank {self.rank} to rank {self.peer}"

    def inward(self) -> str:
        return _Channel(self.kind, self.peer, self.rank, self.number).outward()


class GpuReader:
    """What the threadblocks of a gpu have in common."""

    def __init__(self, steps: CollectiveSteps, rank: int, gpu: Item, parts: int) -> None:
        self.steps, self.rank, self.parts = steps, rank, parts
        self.channels: dict[str, list[_Channel]] = defaultdict(list)
        for entry in gpu.items("channels", "channel"):
            kind = entry.word("channel_type", _CHANNELS)
            counts: Counter[int] = Counter()
            if kind == "switch":
                continue
            counts.update(channel.peer for channel in self.channels[kind])
            for peer in entry.integers("connected_to", 0, steps.ranks):
                if peer == rank:
                    entry.fail(
                        f"expects connected_to to be other gpus, but got {peer}", "connected_to"
                    )
                self.channels[kind].append(_Channel(kind, rank, peer, counts[peer]))
                counts[peer] += 1
        self.remote = [
            (entry.integer("rank", 0, steps.ranks), entry.word("type", _BUFFERS))
            for entry in gpu.items("remote_buffers", "remote buffer")
        ]
        self.semaphores = {
            f"semaphore {number} of rank {rank}": entry.integer("init_value", 0, 1 << 16)
            for number, entry in enumerate(gpu.items("semaphores", "semaphore", optional=True))
        }
        self.blocks = gpu.items("threadblocks", "threadblock")


class BlockReader:
    """Reads the operations of a threadblock."""

    def __init__(self, gpu: GpuReader, block: Item, reductions: dict[str, Item]) -> None:
        self.gpu, self.block, self.reductions = gpu, block, reductions
        self.channels: dict[str, list[_Channel]] = defaultdict(list)
        for entry in block.items("channels", "channel"):
            kind = entry.word("channel_type", _CHANNELS)
            if kind == "switch":
                continue
            known = gpu.channels[kind]
            for number in entry.integers("channel_ids", 0, len(known)):
                self.channels[kind].append(known[number])
        self.remote: dict[str, list[tuple[int, Memory]]] = defaultdict(list)
        for entry in block.items("remote_buffer_refs", "remote buffer", optional=True):
            kind = entry.word("access_channel_type", _CHANNELS)
            for number in entry.integers("remote_buffer_ids", 0, len(gpu.remote)):
                self.remote[kind].append(gpu.remote[number])

    def read(self) -> Iterator[Instruction]:
        """The instructions of the threadblock."""
        for number, op in enumerate(self.block.items("ops", "operation")):
            yield from self._read(op, f"operation {number}")

    def _read(self, op: Item, where: str) -> Iterator[Instruction]:
        name = op.word("name", _NAMES)
        rank = self.gpu.rank
        what = f"{name} ({where} of threadblock {self.block.fields['id']} of gpu {rank})"
        if name in _MULTICAST:
            op.fail(
                f"expects transfers between two ranks, but got {name}, which is multicast by a switch: plans have none",
                "name",
            )
        if name == "pipeline":
            for number, inner in enumerate(op.items("ops", "operation")):
                if inner.fields.get("name") == "pipeline":
                    inner.fail("expects no pipeline inside of another")
                yield from self._read(inner, f"{where}.{number}")
        elif name in ("signal", "rlxsignal"):
            for channel in self._read_channels(op):
                yield Instruction(op.place, what, post=channel.outward())
        elif name in ("wait", "rlxwait"):
            for channel in self._read_channels(op):
                yield Instruction(op.place, what, take=channel.inward())
        elif name == "barrier":
            count = op.integer("num_threadblocks", 1, len(self.gpu.blocks) + 1)
            barrier = f"barrier {op.integer('barrier_id', 0, MOST)} of rank {rank}"
            yield Instruction(op.place, what, barrier=(barrier, count))
        elif name in ("sem_acquire", "sem_release"):
            for number in op.integers("semaphore_ids", 0, len(self.gpu.semaphores)):
                semaphore = f"semaphore {number} of rank {rank}"
                way = {"take" if name == "sem_acquire" else "post": semaphore}
                yield Instruction(op.place, what, **way)  # type: ignore[arg-type]
        elif name in _COPIES:
            yield from self._read_copies(op, name, what)
        elif name in _REDUCTIONS:
            yield self._read_reduction(op, name, what)

    def _read_copies(self, op: Item, name: str, what: str) -> Iterator[Instruction]:
        far_src, far_dst = name == "get", name in ("put", "pws", "pwsf", "ppkt", "rppkt")
        sources = self._read_cells(op, "src_buff", far_src)
        targets = self._read_cells(op, "dst_buff", far_dst)
        if name == "rppkt" and len(sources) == 1:
            sources *= len(targets)
        self._check_pairs(op, sources, targets)
        engine = (far_src or far_dst) and self._kind(op) == "port"
        moves = tuple(
            Move(src, dst, False, op.place, pull=far_src, engine=engine)
            for src, dst in zip(sources, targets, strict=True)
        )
        signals = self._read_channels(op) if name in ("pws", "pwsf") else []
        if signals and [channel.peer for channel in signals] != [dst.rank for dst in targets]:
            op.fail("expects channel_ids to lead to the ranks of dst_buff", "channel_ids")
        yield Instruction(
            op.place,
            what,
            moves,
            after=_packets(sources) if name in ("upkt", "rppkt") else (),
            done=_packets(targets) if name in ("ppkt", "cpkt", "rppkt") else (),
        )
        for channel in signals:
            yield Instruction(op.place, what, post=channel.outward())

    def _read_reduction(self, op: Item, name: str, what: str) -> Instruction:
        packets = name.endswith("pkt")
        sources = self._read_cells(op, "src_buff", None)
        targets = self._read_cells(op, "dst_buff", None)
        for end, cells in (("src_buff", sources), ("dst_buff", targets)):
            if not cells or cells[0].rank != self.gpu.rank:
                op.fail(f"expects {end} to begin with cells of the gpu itself", end)
        if len(sources) < 2:
            op.fail("expects at least two sources to reduce", "src_buff")
        self._check_pairs(op, sources, [targets[0]] * len(sources))
        self._check_pairs(op, [targets[0]] * len(targets), targets)
        words = {word: word for word in ("sum", "max", "min")}
        self.reductions.setdefault(op.word("reduce_op", words, default="sum"), op)
        result, first = targets[0], sources[0]
        # A result that is one of the sources already holds that one.
        held = result if result in sources else first
        others = list(sources)
        others.remove(held)
        rank = self.gpu.rank
        moves = [] if held == result else [Move(first, result, False, op.place)]
        moves += [Move(src, result, True, op.place, pull=src.rank != rank) for src in others]
        moves += [Move(result, target, False, op.place) for target in targets[1:]]
        return Instruction(
            op.place,
            what,
            tuple(moves),
            after=_packets(sources[1:]) if packets else (),
            done=_packets(targets[1:]) if packets else (),
        )

    def _kind(self, op: Item) -> str:
        kind: str = op.word("channel_type", {"memory": "memory", "port": "port"})
        return kind

    def _read_channels(self, op: Item) -> list[_Channel]:
        known = self.channels[self._kind(op)]
        return [known[number] for number in op.integers("channel_ids", 0, len(known))]

    def _read_cells(self, op: Item, field: str, far: bool | None) -> list[Cells]:
        """Cells of buffers of this rank, of others, or of either."""
        cells = []
        for entry in op.items(field, field):
            rank = self.gpu.rank
            is_far = entry.has("buffer_id")
            if far is not None and far != is_far:
                entry.fail(f"expects {'buffer_id' if far else 'type'}, but it is missing")
            if is_far:
                known = self.remote[self._kind(op)]
                rank, memory = known[entry.integer("buffer_id", 0, len(known))]
            else:
                memory = entry.word("type", _BUFFERS)
            cells.append(self._cut(op, entry, rank, memory))
        return cells

    def _cut(self, op: Item, entry: Item, rank: int, memory: Memory) -> Cells:
        """The part of this threadblock in cells, all of them if it is in no group."""
        steps, parts = self.gpu.steps, self.gpu.parts
        offset, count = entry.integer("index", 0, MOST), entry.integer("size", 1, MOST)
        extent = steps.extent(memory) // parts
        if offset + count > extent:
            entry.fail(
                f"expects to lie in the {extent} chunks of buffer {memory.value}, but got {count} at {offset}"
            )
        begin, size = offset * parts, count * parts
        if op.has("tbg_info"):
            group = op.item("tbg_info")
            members = group.integer("tbg_size", 1, FINEST + 1)
            size //= members
            begin += group.integer("tb_id", 0, members) * size
        return steps.admit(Cells(rank, *steps.own(memory, rank, begin), size), entry.place)

    def _check_pairs(self, op: Item, sources: Sequence[Cells], targets: Sequence[Cells]) -> None:
        if len(sources) != len(targets) or not sources:
            op.fail(
                f"expects as many src_buff as dst_buff, but got {len(sources)} and {len(targets)}"
            )
        for src, dst in zip(sources, targets, strict=True):
            if src.count != dst.count:
                op.fail(
                    f"expects src_buff and dst_buff of the same sizes, but got {src.count // self.gpu.parts} and "
                    f"{dst.count // self.gpu.parts} chunks"
                )


def _packets(cells: Sequence[Cells]) -> tuple[str, ...]:
    return tuple(
        f"packets at {memory.value}[{cell}] of rank {rank}"
        for some in cells
        for rank, memory, cell in some
    )
