"""Proves that steps amount to the collective that they are said to be.

The moves are made one after another on names instead of numbers: of every cell of every rank it is known of which
inputs it is made, each as often as it has been added. So a contribution that is missing, or comes twice, is found,
whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncopate.importers.steps.collective_steps import Collective, CollectiveSteps, Memory, Move

__all__ = ["prove"]

Content = tuple[tuple[int, int], ...]
"""The inputs in a cell, sorted: of each, the rank and the number of the cell there."""


def prove(steps: CollectiveSteps) -> None:
    """Raises an error unless the steps are the collective that they are said to be.

    Raises:
        PlanError: A move reads what nothing has brought, or overwrites itself, or an output does not hold in the end
            what it should; the message says where, and which move has brought what is there.
    """
    contents: dict[tuple[int, Memory, int], Content] = {}
    brought: dict[tuple[int, Memory, int], Move] = {}
    for rank in range(steps.ranks):
        for number, cell in enumerate(steps.given(rank)):
            contents[cell] = ((rank, number),)
    for move in steps.moves:
        if set(move.src) & set(move.dst):
            move.place.fail(f"a {move} reads what it writes")
        for source, target in zip(move.src, move.dst, strict=True):
            for cell in (source, target) if move.reduces else (source,):
                if cell not in contents:
                    move.place.fail(
                        f"a {move} reads {_name(cell)}, which holds nothing: it is no input, and no step before brings "
                        "anything there"
                    )
        values = [contents[cell] for cell in move.src]
        for cell, value in zip(move.dst, values, strict=True):
            contents[cell] = _combine(steps, contents[cell], value) if move.reduces else value
            brought[cell] = move
    for rank in range(steps.ranks):
        for cell, expected in zip(steps.taken(rank), _expected(steps, rank), strict=True):
            found = contents.get(cell)
            if found == expected:
                continue
            move_there = brought.get(cell)
            place = steps.place if move_there is None else move_there.place
            place.fail(
                f"{steps.name} is no {steps.collective.value}: in the end, {_name(cell)} is to hold "
                f"{_describe(expected)}, but holds {_describe(found)}"
                + (f"; a {move_there} has brought it" if move_there else "")
            )


def _combine(steps: CollectiveSteps, there: Content, value: Content) -> Content:
    # A maximum does not mind a part twice.
    both = {*there, *value} if steps.reduction != "sum" else (*there, *value)
    return tuple(sorted(both))


def _expected(steps: CollectiveSteps, rank: int) -> Iterator[Content]:
    """What the cells of a rank's output are made of."""
    ranks, chunks = range(steps.ranks), steps.chunks
    match steps.collective:
        case Collective.ALL_GATHER:
            yield from (((source, cell),) for source in ranks for cell in range(chunks))
        case Collective.ALL_REDUCE:
            yield from (tuple((source, cell) for source in ranks) for cell in range(chunks))
        case Collective.REDUCE_SCATTER:
            mine = range(rank * chunks, (rank + 1) * chunks)
            yield from (tuple((source, cell) for source in ranks) for cell in mine)
        case Collective.ALL_TO_ALL:
            mine = range(rank * chunks, (rank + 1) * chunks)
            yield from (((source, cell),) for source in ranks for cell in mine)
        case Collective.BROADCAST:
            yield from (((steps.root, cell),) for cell in range(chunks))


def _name(cell: tuple[int, Memory, int]) -> str:
    rank, memory, number = cell
    return f"{memory.value}[{number}] of rank {rank}"


def _describe(content: Content | None) -> str:
    if content is None:
        return "nothing"
    names = [f"input {cell} of rank {rank}" for rank, cell in content[:8]]
    more = f" and {len(content) - 8} more" if len(content) > 8 else ""
    return f"the sum of {', '.join(names)}{more}" if len(content) > 1 else names[0]
