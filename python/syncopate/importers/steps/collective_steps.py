"""What all formats of other systems come to: moves of cells between ranks, in an order in which they may be made.

A *cell* is the unit in which a format counts: a buffer of every rank is a row of cells. The *moves* stand in the order
of one run of the program; which of them have to come after which follows from the cells that they read and write.
Importers make `CollectiveSteps` of a file, `emit` makes a plan of them, and exporters go the other way.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from syncopate.importers.documents.items import Item, Place
from syncopate.plan.dependences import PlacedRegion, find_dependences
from syncopate.plan.kinds import Collective

__all__ = [
    "Cells",
    "Collective",
    "CollectiveSteps",
    "Memory",
    "Move",
    "count_chunks",
]


MOST_CELLS: Final = 1 << 20
"""Of the inputs, or outputs, of all ranks together; of sums, a cell counts for each rank that has a part in it."""
MOST_NAMED: Final = 1 << 20
"""Each step names the cells that it reads and writes."""


class Memory(enum.Enum):
    """A buffer of every rank."""

    INPUT = "input"
    OUTPUT = "output"
    # Of steps in place, in the place of both.
    DATA = "data"
    SCRATCH = "scratch"
    # What is on its way where a sender cannot wait for the receiver.
    FIFO = "fifo"
    # Of what ranks bring along, where steps write to it; those start with a copy of it.
    GIVEN = "given"


@dataclass(frozen=True)
class Cells:
    """Cells of a rank's instance of a buffer, one behind the other."""

    rank: int
    memory: Memory
    offset: int
    count: int

    def __iter__(self) -> Iterator[tuple[int, Memory, int]]:
        return ((self.rank, self.memory, self.offset + cell) for cell in range(self.count))

    @property
    def region(self) -> PlacedRegion:
        """The same as dependences are found by."""
        return PlacedRegion((self.rank, self.memory), (self.offset,), (self.count,))

    def __str__(self) -> str:
        end = self.offset + self.count
        return f"{self.memory.value}[{self.offset}:{end}] of rank {self.rank}"


@dataclass(frozen=True)
class Move:
    """Cells that are copied to others, or combined with what is there.

    Attributes:
        src: What is read.
        dst: As many cells that are written.
        reduces: Whether what is there is combined with what comes.
        place: Where the file says so.
        pull: Whether the destination's rank carries it out, not the source's.
        engine: Whether the file leaves it to a copy engine or another device beside the processors.
    """

    src: Cells
    dst: Cells
    reduces: bool
    place: Place
    pull: bool = False
    engine: bool = False

    def __str__(self) -> str:
        return f"{'reduction' if self.reduces else 'copy'} of {self.src} to {self.dst}"


@dataclass
class CollectiveSteps:
    """A communication algorithm.

    Attributes:
        name: Its name.
        collective: What it is said to amount to.
        ranks: Number of ranks.
        chunks: Cells that a rank contributes to each rank's block; of an all-reduce or a broadcast, cells of the
            buffer.
        in_place: Whether input and output are one buffer, `Memory.DATA`.
        reduction: sum, max or min.
        place: Where the file begins.
        moves: In an order in which they may be made one after another.
        scratch: By buffer, its cells, as far as they do not follow from the above.
        named: Cells that steps have named so far.
        root: The rank that has what a broadcast brings to all.
    """

    name: str
    collective: Collective
    ranks: int
    chunks: int
    in_place: bool
    reduction: str
    place: Place
    moves: list[Move] = field(default_factory=list)
    scratch: dict[Memory, int] = field(default_factory=dict)
    named: int = 0
    root: int = 0

    def __post_init__(self) -> None:
        cells = self.ranks * max(self.extent(Memory.INPUT), self.extent(Memory.OUTPUT))
        most = MOST_CELLS // self.ranks if self.collective.reduces else MOST_CELLS
        if cells > most:
            self.place.fail(f"expects at most {most} chunks on all ranks together, but got {cells}")

    def admit(self, cells: Cells, place: Place) -> Cells:
        """Counts cells that a step names, so that no file takes for ever."""
        self.named += cells.count
        if self.named > MOST_NAMED:
            place.fail(f"expects steps that name at most {MOST_NAMED} chunks, but got more")
        return cells

    def extent(self, memory: Memory) -> int:
        """Cells of an input, an output, or another buffer."""
        chunks, all_chunks = self.chunks, self.chunks * self.ranks
        extents = {
            Collective.ALL_GATHER: (chunks, all_chunks),
            Collective.ALL_REDUCE: (chunks, chunks),
            Collective.REDUCE_SCATTER: (all_chunks, chunks),
            Collective.ALL_TO_ALL: (all_chunks, all_chunks),
            Collective.BROADCAST: (chunks, chunks),
        }[self.collective]
        if memory is Memory.DATA:
            return max(extents)
        ends = dict(zip((Memory.INPUT, Memory.OUTPUT), extents, strict=True))
        return ends.get(memory, self.scratch.get(memory, 0))

    @property
    def dependences(self) -> list[list[int]]:
        """By move, numbers of those before it that it has to come after, as `plan.dependences` finds them."""
        return find_dependences((move.src.region, move.dst.region) for move in self.moves)

    @property
    def blocks(self) -> int:
        """Into how many blocks of `chunks` cells what is gathered, reduced or exchanged is cut."""
        whole = (Collective.ALL_REDUCE, Collective.BROADCAST)
        return 1 if self.collective in whole else self.ranks

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The buffers that there are."""
        ends = (Memory.DATA,) if self.in_place else (Memory.INPUT, Memory.OUTPUT)
        return (*ends, *self.scratch)

    def own(self, memory: Memory, rank: int, offset: int) -> tuple[Memory, int]:
        """Where a cell of a rank's input or output is, if these are one buffer."""
        if not self.in_place or memory not in (Memory.INPUT, Memory.OUTPUT):
            return memory, offset
        part = {
            Collective.ALL_GATHER: Memory.INPUT,
            Collective.REDUCE_SCATTER: Memory.OUTPUT,
        }.get(self.collective)
        return Memory.DATA, offset + (rank * self.chunks if memory is part else 0)

    def given(self, rank: int) -> Cells:
        """What a rank has when a call starts."""
        count = self.extent(Memory.INPUT)
        if self.collective is Collective.BROADCAST and rank != self.root:
            count = 0
        return Cells(rank, *self.own(Memory.INPUT, rank, 0), count)

    def taken(self, rank: int) -> Cells:
        """What it is to have in the end."""
        return Cells(rank, *self.own(Memory.OUTPUT, rank, 0), self.extent(Memory.OUTPUT))


def count_chunks(
    root: Item, collective: Collective, ranks: int, given: int, taken: int, *, in_place: bool
) -> int:
    """What a rank contributes to each block, by the cells of its input and output that a file counts.

    Raises:
        PlanError: They do not fit each other. In place, a file may count one of the two alone.
    """
    chunks, blocks = max(given, taken), ranks
    if collective in (Collective.ALL_REDUCE, Collective.BROADCAST):
        blocks = 1
    part, rest = divmod(chunks, blocks)
    if rest:
        root.fail(f"expects its chunks to be a multiple of {ranks}, the ranks, but got {chunks}")
    expected = {
        Collective.ALL_GATHER: (part, chunks),
        Collective.REDUCE_SCATTER: (chunks, part),
    }.get(collective, (chunks, chunks))
    if not in_place and (given, taken) != expected:
        root.fail(
            f"expects {expected[0]} chunks of input and {expected[1]} of output, as an {collective.value} has, but got "
            f"{given} and {taken}"
        )
    if part == 0:
        root.fail("expects ranks with chunks, but none has any")
    return part
