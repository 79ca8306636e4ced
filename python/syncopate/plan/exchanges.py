"""The copies of an all-to-all between two buffers: straight, or in two levels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

from syncopate.choices import Swizzle
from syncopate.plan.body import Buffer, Chunk
from syncopate.plan.builder import shard
from syncopate.plan.loops import Hand, exchange

__all__ = ["exchange_blocks", "exchange_by_levels"]

Copy: TypeAlias = Callable[[Chunk, int, int, Chunk], None]
"""Copies a chunk of one rank to a chunk of another."""


def exchange_blocks(
    given: Buffer, result: Buffer, ranks: int, swizzle: Swizzle, copy: Copy
) -> None:
    """Copies each block from its sender to its receiver, the rank's own first.

    Args:
        given: Block i is for rank i.
        result: Block i is from rank i; all are of one size.
        ranks: Number of ranks.
        swizzle: In which order each takes the others.
        copy: Copies.
    """
    blocks, rows = shard(given, 0, ranks), result.shape[0] // ranks
    own = (Hand(rank, rank, rank) for rank in range(ranks))
    for hand in (*own, *exchange(ranks, swizzle)):
        block = blocks[hand.dst]
        if block is not None:
            begin = hand.src * rows
            copy(block, hand.src, hand.dst, result[begin : begin + block.sizes[0]])


def exchange_by_levels(
    given: Buffer, passing: Buffer, result: Buffer, nodes: int, near: int, copy: Copy
) -> None:
    """Copies within each node to the rank at the receiver's place, then, all of a node together, to the other node.

    Args:
        given: Block i is for rank i.
        passing: Of the shape of the result, for what is on its way.
        result: Block i is from rank i; all are of one size.
        nodes: Number of nodes, of consecutive ranks.
        near: Ranks of each.
        copy: Copies.
    """
    blocks, rows = shard(given, 0, nodes * near), result.shape[0] // (nodes * near)

    def slot(buffer: Buffer, number: int, size: int) -> Chunk:
        return buffer[number * rows : number * rows + size]

    own = [Hand(place, place, place) for place in range(near)]
    for hand in (*own, *exchange(near)):
        for node, other in itertools.product(range(nodes), repeat=2):
            src, dst = node * near + hand.src, node * near + hand.dst
            block = blocks[other * near + hand.dst]
            if block is not None:
                # What stays in the node has arrived; what does not lies with what goes there too.
                buffer = result if node == other else passing
                copy(block, src, dst, slot(buffer, other * near + hand.src, block.sizes[0]))
    for hand in exchange(nodes):
        for place in range(near):
            src, dst = hand.src * near + place, hand.dst * near + place
            block = blocks[dst]
            if block is None:
                continue
            whole = block.sizes[0] == rows
            for first in range(0, near, near if whole else 1):
                size = near * rows if whole else block.sizes[0]
                source = slot(passing, hand.dst * near + first, size)
                copy(source, src, dst, slot(result, hand.src * near + first, size))
