"""Exports steps as MSCCL XML.

Every rank has a threadblock for each peer that it sends to, one for each that it receives from, and one for what it
does alone; a step waits for those of other threadblocks whose cells it uses. The steps of all ranks together are in the
order of the moves, and each move's two steps stand side by side in it, so the program cannot wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import quoteattr

from syncopate.importers.formats.msccl_xml import COLLECTIVES
from syncopate.importers.steps.collective_steps import Cells, Collective, CollectiveSteps, Memory
from syncopate.plan.dependences import Dependences

__all__ = ["write_msccl_xml"]

_LETTERS = {Memory.INPUT: "i", Memory.OUTPUT: "o", Memory.SCRATCH: "s", Memory.FIFO: "s"}


@dataclass
class _Step:
    """A step, and where it stands."""

    kind: str
    src: Cells | None
    dst: Cells | None
    block: _Block
    number: int
    depends: _Step | None = None
    is_awaited: bool = False


@dataclass
class _Block:
    send: int
    recv: int
    steps: list[_Step] = field(default_factory=list)
    # By other threadblock, how many of its steps are known to be over.
    known: dict[int, int] = field(default_factory=dict)
    number: int = 0


def write_msccl_xml(steps: CollectiveSteps) -> str:
    """The file. It says neither who carries a move out, nor by what."""
    writer = _Writer(steps)
    for move in steps.moves:
        writer.add(move.src, move.dst, move.reduces)
    return writer.text()


class _Writer:
    def __init__(self, steps: CollectiveSteps) -> None:
        self.steps = steps
        self.blocks: list[dict[tuple[int, int], _Block]] = [{} for _ in range(steps.ranks)]
        self.dependences = Dependences()
        # By their numbers among the dependences.
        self.numbered: list[_Step] = []

    def add(self, src: Cells, dst: Cells, reduces: bool) -> None:
        if src.rank == dst.rank:
            self._step("re" if reduces else "cpy", src, dst, (-1, -1), src.rank, src, dst)
            return
        self._step("s", src, dst, (dst.rank, -1), src.rank, src, None)
        # What a step reduces with is its source.
        seen = dst if reduces else src
        self._step("rrc" if reduces else "r", seen, dst, (-1, src.rank), dst.rank, None, dst)

    def _step(
        self,
        kind: str,
        src: Cells,
        dst: Cells,
        peers: tuple[int, int],
        rank: int,
        reads: Cells | None,
        writes: Cells | None,
    ) -> None:
        """Adds a step behind those of its threadblock, and behind nops for all that it waits for but one."""
        blocks = self.blocks[rank]
        if peers not in blocks:
            blocks[peers] = _Block(*peers, number=len(blocks))
        block = blocks[peers]
        uses = [reads.region] if reads else [], [writes.region] if writes else []
        needed = self.dependences.find(*uses)
        waits = self._find_waits(block, [self.numbered[number] for number in needed])
        for awaited in waits[:-1]:
            block.steps.append(_Step("nop", None, None, block, len(block.steps), awaited))
        step = _Step(kind, src, dst, block, len(block.steps), waits[-1] if waits else None)
        block.steps.append(step)
        self.dependences.note(*uses, needed)
        self.numbered.append(step)

    def _find_waits(self, block: _Block, needed: Sequence[_Step]) -> list[_Step]:
        """Of the steps of other threadblocks that one comes after, the last of each that is not known to be over."""
        latest: dict[int, _Step] = {}
        for step in needed:
            other = step.block.number
            if step.block is not block and step.number >= block.known.get(other, 0):
                latest[other] = max(latest.get(other, step), step, key=lambda step: step.number)
        for other, step in latest.items():
            block.known[other] = step.number + 1
            step.is_awaited = True
        return [latest[other] for other in sorted(latest)]

    def text(self) -> str:
        steps = self.steps
        spelled = next(
            (word for word, kind in COLLECTIVES.items() if kind is steps.collective), None
        )
        if spelled is None:
            steps.place.fail(
                f"expects no chunk.{steps.collective.value}, which MSCCL's XML has not"
            )
        chunks = max(steps.extent(Memory.INPUT), steps.extent(Memory.OUTPUT))
        head = {
            "name": steps.name,
            "proto": "Simple",
            "nchannels": 1,
            "nchunksperloop": chunks,
            "ngpus": steps.ranks,
            "coll": spelled,
            "inplace": int(steps.in_place),
        }
        if steps.reduction != "sum":
            head["redop"] = steps.reduction
        lines = [_tag("algo", head)]
        sizes = {
            "i_chunks": steps.extent(Memory.INPUT),
            "o_chunks": steps.extent(Memory.OUTPUT),
            "s_chunks": sum(steps.scratch.values()),
        }
        for rank, blocks in enumerate(self.blocks):
            lines.append("  " + _tag("gpu", {"id": rank, **sizes}))
            for block in blocks.values():
                place = {"id": block.number, "send": block.send, "recv": block.recv, "chan": 0}
                lines.append("    " + _tag("tb", place))
                lines += ["      " + _tag("step", self._fields(step), "/>") for step in block.steps]
                lines.append("    </tb>")
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])

    def _fields(self, step: _Step) -> dict[str, object]:
        awaited = step.depends
        return {
            "s": step.number,
            "type": step.kind,
            **self._ends("src", step.src),
            **self._ends("dst", step.dst),
            "cnt": step.dst.count if step.dst else 0,
            "depid": awaited.block.number if awaited else -1,
            "deps": awaited.number if awaited else -1,
            "hasdep": int(step.is_awaited),
        }

    def _ends(self, end: str, cells: Cells | None) -> dict[str, object]:
        if cells is None:
            return {f"{end}buf": "i", f"{end}off": -1}
        offset = cells.offset
        if cells.memory is Memory.FIFO:
            offset += self.steps.extent(Memory.SCRATCH)
        # In place, that of the two is named which is all of the buffer.
        whole = "o" if self.steps.collective is Collective.ALL_GATHER else "i"
        return {f"{end}buf": _LETTERS.get(cells.memory, whole), f"{end}off": offset}


def _tag(name: str, fields: Mapping[str, object], end: str = ">") -> str:
    words: Iterable[str] = (f"{key}={quoteattr(str(value))}" for key, value in fields.items())
    return f"<{name} {' '.join(words)}{end}"
