"""Imports TACCL's JSON: the algorithm that its synthesizer saves.

An algorithm has steps, and a step sends: an address goes from one rank to the same address at another, where it is
added if there is a reduction. Sends of one step know nothing of each other. What an address is, the collective says;
ranks on the way keep it in scratch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from syncopate.importers.documents.items import MOST, MOST_RANKS, Item
from syncopate.importers.documents.read_json import read_json
from syncopate.importers.steps.collective_steps import (
    Cells,
    Collective,
    CollectiveSteps,
    Memory,
    Move,
)

__all__ = ["read_taccl_json"]

_COLLECTIVES: Final = {
    "Allgather": Collective.ALL_GATHER,
    "Allreduce": Collective.ALL_REDUCE,
    "ReduceScatter": Collective.REDUCE_SCATTER,
    "Alltoall": Collective.ALL_TO_ALL,
}
_NAME: Final = re.compile(r"(\w+)\(n=(\d{1,4})\)(,chunks=\d{1,6})*")


def read_taccl_json(text: str, file: str) -> CollectiveSteps:
    """The steps of an algorithm.

    Raises:
        PlanError: The file is malformed, or says something that has no meaning.
    """
    root = read_json(text, file).called("algorithm")
    root.word("sccl_type", {"algorithm": None})
    collective = root.item("collective")
    collective.word("sccl_type", {"collective": None})
    name = collective.text("name")
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in _COLLECTIVES:
        collective.fail(
            f"expects name to be {', '.join(_COLLECTIVES)} with (n=RANKS) behind it, but got {name[:60]!r}",
            "name",
        )
    kind, ranks = _COLLECTIVES[match[1]], collective.integer("nodes", 1, MOST_RANKS + 1)
    if int(match[2]) != ranks:
        collective.fail(f"expects nodes to be {match[2]}, as name says, but got {ranks}", "nodes")
    given, taken = (_read_map(root, field, ranks) for field in ("input_map", "output_map"))
    chunks = _count_chunks(root, kind, ranks, given, taken)
    in_place = kind is not Collective.ALL_TO_ALL
    steps = CollectiveSteps(
        root.text("name", default="imported"), kind, ranks, chunks, in_place, "sum", root.place
    )
    _Reader(steps, given, taken).read(root)
    return steps


def _read_map(root: Item, field: str, ranks: int) -> list[tuple[int, ...]]:
    """By rank, its addresses, sorted."""
    entries = root.item(field)
    found: list[tuple[int, ...]] = [()] * ranks
    for key in entries.fields:
        if not re.fullmatch(r"\d{1,4}", key) or int(key) >= ranks:
            entries.fail(f"expects ranks in [0, {ranks}), but got {key[:40]!r}", key)
        addresses = entries.integers(key, 0, MOST)
        if len(set(addresses)) != len(addresses):
            entries.fail(f"expects each address of rank {key} once", key)
        found[int(key)] = tuple(sorted(addresses))
    return found


def _count_chunks(
    root: Item,
    kind: Collective,
    ranks: int,
    given: list[tuple[int, ...]],
    taken: list[tuple[int, ...]],
) -> int:
    """What a rank contributes to each block, if the maps are those of the collective."""
    per_rank = 1 if kind in (Collective.ALL_GATHER, Collective.ALL_REDUCE) else ranks
    chunks = len(given[0]) // per_rank
    if chunks == 0:
        root.fail("expects rank 0 to have addresses in its input, but it has too few", "input_map")
    everything = tuple(range(chunks * (1 if kind is Collective.ALL_REDUCE else ranks)))
    for rank in range(ranks):
        block = everything[rank * chunks : (rank + 1) * chunks]
        if kind is Collective.ALL_TO_ALL:
            begins = [(peer * ranks + rank) * chunks for peer in range(ranks)]
            mine = tuple(begin + cell for begin in begins for cell in range(chunks))
            first = rank * ranks * chunks
            expected = mine, tuple(range(first, first + ranks * chunks))
        else:
            expected = {
                Collective.ALL_GATHER: (block, everything),
                Collective.ALL_REDUCE: (everything, everything),
                Collective.REDUCE_SCATTER: (everything, block),
            }[kind]
        for field, addresses, wanted in zip(
            ("input_map", "output_map"), (given[rank], taken[rank]), expected, strict=True
        ):
            if addresses != wanted:
                root.fail(
                    f"expects {field} of rank {rank} to have {len(wanted)} addresses, those of an {kind.value} with "
                    f"{chunks} chunks of each rank, but got {list(addresses)[:8]} of {len(addresses)}",
                    field,
                )
    return chunks


@dataclass
class _Reader:
    steps: CollectiveSteps
    given: list[tuple[int, ...]]
    taken: list[tuple[int, ...]]

    def __post_init__(self) -> None:
        self.places: list[dict[int, Cells]] = [{} for _ in self.given]
        self.scratch = 0

    def read(self, root: Item) -> None:
        steps = self.steps
        for rank in range(steps.ranks):
            for memory, addresses in ((Memory.INPUT, self.given), (Memory.OUTPUT, self.taken)):
                for number, address in enumerate(addresses[rank]):
                    cells = Cells(rank, *steps.own(memory, rank, number), 1)
                    before = self.places[rank].get(address)
                    if before not in (None, cells):
                        assert before is not None
                        # What a rank sends to itself.
                        steps.moves.append(Move(before, cells, False, steps.place))
                    self.places[rank][address] = cells
        known = {address for some in self.given for address in some}
        for number, step in enumerate(root.items("steps", "step")):
            self._read_step(step.called(f"step {number}"), known)
        if self.scratch:
            steps.scratch[Memory.SCRATCH] = self.scratch

    def _read_step(self, step: Item, known: set[int]) -> None:
        step.word("sccl_type", {"step": None})
        step.integer("rounds", 0, MOST)
        written: dict[Cells, str] = {}
        moves: list[tuple[Item, Move]] = []
        for send in step.entries("sends", "send"):
            if len(send.fields) not in (3, 4, 5, 6):
                send.fail(f"expects 3 to 6 entries, but got {len(send.fields)}")
            address = send.integer("0", 0, MOST)
            src, dst = (send.integer(end, 0, self.steps.ranks) for end in ("1", "2"))
            if address not in known:
                send.fail(f"expects an address of the collective, but got {address}")
            if src == dst:
                send.fail(f"expects another rank to send to than {src} itself")
            operation = send.fields.get("5")
            if operation not in (None, "rrc"):
                send.fail(f"expects its reduction to be null or rrc, but got {operation!r:.40}")
            reduces = operation is not None
            if reduces and not self.steps.collective.reduces:
                send.fail(f"expects no reduction in an {self.steps.collective.value}, but got rrc")
            cells = self._place(src, address), self._place(dst, address)
            moves.append((send, Move(*cells, reduces, send.place)))
        for send, move in moves:
            if move.dst in written:
                send.fail(f"race: {written[move.dst]} writes {move.dst} too, in the same step")
            written[move.dst] = send.what
        for send, move in moves:
            if move.src in written:
                send.fail(
                    f"race: {written[move.src]} writes {move.src}, which this reads in the same step"
                )
        self.steps.moves += [move for _, move in moves]

    def _place(self, rank: int, address: int) -> Cells:
        """Where a rank keeps an address; on the way it is in scratch."""
        mine = self.places[rank]
        if address not in mine:
            used = sum(cells.memory is Memory.SCRATCH for cells in mine.values())
            mine[address] = Cells(rank, Memory.SCRATCH, used, 1)
            self.scratch = max(self.scratch, used + 1)
        return mine[address]
