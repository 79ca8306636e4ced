"""A sequence that ranks share: which of its elements each of them has, and how what belongs to them comes to all."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from syncopate.choices import Algorithm
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Token
from syncopate.plan.builder import Plan
from syncopate.plan.loops import Hand, gather
from syncopate.plan.sums import add_transfer, spelled
from syncopate.strategy import Strategy

__all__ = ["SequenceShards", "Sharding", "gather_sequence"]


class Sharding(enum.Enum):
    """How a sequence is cut."""

    CONTIGUOUS = "contiguous"
    """Each rank has one block, of ceil(length / ranks) elements or, in the end, fewer."""
    ZIGZAG = "zigzag"
    """The sequence is cut into twice as many blocks as ranks, and rank r has the r-th from either end, so that causal
    attention is about as much work for each."""


@dataclass(frozen=True)
class SequenceShards:
    """What each rank has of a sequence.

    Attributes:
        length: Elements of the sequence.
        world_size: Number of ranks.
        sharding: How it is cut.
    """

    length: int
    world_size: int
    sharding: Sharding = Sharding.CONTIGUOUS

    def __post_init__(self) -> None:
        for name, value in (("length", self.length), ("world_size", self.world_size)):
            if type(value) is not int or value < 1:
                raise PlanError(f"{name}: expects a positive integer, but got {value!r}")
        if not isinstance(self.sharding, Sharding):
            raise PlanError(f"sharding: expects a Sharding, but got {self.sharding!r}")
        if self._blocks_per_rank > 1 and self.world_size * self.block > self.length:
            raise PlanError(
                f"length: {self.length} elements in {2 * self.world_size} blocks of {self.block} are too few for the "
                f"first block of each of {self.world_size} ranks; use a longer sequence, or Sharding.CONTIGUOUS"
            )

    @property
    def _blocks_per_rank(self) -> int:
        return 2 if self.sharding is Sharding.ZIGZAG else 1

    @property
    def block(self) -> int:
        """Elements of a block; the last ones of the sequence may have fewer."""
        return -(-self.length // (self.world_size * self._blocks_per_rank))

    @property
    def rows(self) -> int:
        """Rows of a rank's tensors. Where its blocks have fewer elements, the last rows of each stand for none."""
        return self.block * self._blocks_per_rank

    def begins(self, rank: int) -> tuple[int, ...]:
        """Where the blocks of a rank begin in the sequence, if they were all of full length."""
        first = rank * self.block
        if self.sharding is Sharding.CONTIGUOUS:
            return (first,)
        return first, (2 * self.world_size - 1 - rank) * self.block

    def ranges(self, rank: int) -> tuple[tuple[int, int], ...]:
        """The elements of the sequence that a rank has: for each of its blocks that is not empty, begin and end."""
        ends = [(begin, min(begin + self.block, self.length)) for begin in self.begins(rank)]
        return tuple((begin, end) for begin, end in ends if begin < end)

    def positions(self, rank: int) -> npt.NDArray[np.int32]:
        """The place in the sequence of each row of a rank's tensors, i32 [rows]; -1 for a row that stands for none."""
        places = np.concatenate(
            [np.arange(begin, begin + self.block) for begin in self.begins(rank)]
        )
        result: npt.NDArray[np.int32] = np.where(places < self.length, places, -1).astype(np.int32)
        return result

    def check(self, plan: Plan, buffers: Iterable[Buffer]) -> None:
        """Checks that a plan is one of these ranks, and that buffers have a row for each element.

        Raises:
            PlanError: They are not.
        """
        for buffer in buffers:
            if buffer.shape[0] != self.length:
                raise PlanError(
                    f"buffer {buffer.name}: expects {self.length} rows, as many as the sequence has elements, but got "
                    f"{buffer.shape[0]}"
                )
        if plan.world_size != self.world_size:
            raise PlanError(
                f"shards: expects a sequence of {plan.world_size} ranks, those of the plan, but got {self.world_size}"
            )

    def place(self, rank: int, row: Any) -> Any:
        """The place of a row, in the sequence that full blocks would make, as an affine expression of that row.

        It grows with the row, also beyond the last one.

        Args:
            rank: The rank.
            row: An integer, or an affine expression.
        """
        begins = self.begins(rank)
        if len(begins) == 1:
            return row + begins[0]
        second = (
            row // self.block if isinstance(row, int) else type(row).get_floor_div(row, self.block)
        )
        return row + second * (begins[1] - begins[0] - self.block) + begins[0]


def gather_sequence(
    plan: Plan,
    buffers: Buffer | Sequence[Buffer],
    shards: SequenceShards,
    strategy: Strategy | None = None,
    *,
    taken: Sequence[Sequence[tuple[int, int]]] | None = None,
    groups: int = 1,
) -> Token | None:
    """Says that each rank holds its elements of a sequence when a call starts, and brings all to all ranks.

    Columns come one group after another, so that tiles that take those of the first, such as the first heads, can start
    early. Of a group, what belongs to the same elements, such as their keys and values, comes together: one rank's of
    all buffers, then the next one's.

    Args:
        plan: The plan.
        buffers: One or more, each with a row for each element: [length, …].
        shards: Who has which of them.
        strategy: The choices. Its algorithm is direct; a ring, by which ranks pass on what they have got while they use
            it; or hierarchical, a ring of rings: what is in a node goes around its ranks, while what the ranks at the
            same place of the node before have comes in. Ranks of a node differ in the last dimension of the mesh.
        taken: For each rank, where the elements begin and end that its tiles take, as of causal attention, or of
            several sequences: of each block a rank gets what is between the first and the last of them, and what it
            passes on. If it is left out, each takes all.
        groups: Groups of columns, which divide those of each buffer.

    Returns:
        The token that all elements are there, or those that are taken, on every rank; None if nothing moves.

    Raises:
        PlanError: A buffer has another number of rows, or the plan of ranks; the strategy has another algorithm;
            `taken` has no entry for each rank; groups do not divide columns; or a rule of the plan is broken.
    """
    buffers = [buffers] if isinstance(buffers, Buffer) else list(buffers)
    strategy = strategy or Strategy()
    shards.check(plan, buffers)
    if taken is not None and len(taken) != shards.world_size:
        raise PlanError(
            f"taken: expects an entry for each of {shards.world_size} ranks, but got {len(taken)}"
        )
    for buffer in buffers:
        check_groups(buffer, groups)
    algorithm = Algorithm(strategy.algorithm)
    if algorithm not in (Algorithm.DIRECT, Algorithm.RING, Algorithm.HIERARCHICAL):
        raise PlanError(
            f"strategy: expects algorithm direct, ring or hierarchical for a sequence, but got "
            f"{spelled(strategy.algorithm)}"
        )
    plan.follow(strategy)
    blocks = sum(len(shards.ranges(rank)) for rank in range(shards.world_size))
    plan.expect_transfers(groups * blocks * (shards.world_size - 1) * len(buffers))
    for buffer in buffers:
        for rank in range(shards.world_size):
            for begin, end in shards.ranges(rank):
                plan.input(buffer[begin:end], rank=rank)
    world = plan.world_size
    hierarchical = algorithm is Algorithm.HIERARCHICAL
    hands = _around_nodes(world, plan.mesh[-1]) if hierarchical else gather(world, algorithm)
    everything = [[(0, shards.length)]] * shards.world_size
    passed = _find_passed(shards, list(hands), everything if taken is None else taken)
    arrived = _pass_blocks(plan, buffers, passed, strategy, groups)
    if taken is None and shards.sharding is Sharding.CONTIGUOUS:
        for buffer in buffers:
            with plan.claim(after=arrived):
                plan.all_gather(buffer)
    return plan.join(arrived) if arrived else None


def _around_nodes(world: int, places: int) -> Iterator[Hand]:
    """Parts of one node after another's go around the ranks of each node.

    The next node's leave behind the first of those that go around, which is needed sooner.
    """
    nodes = world // places
    for far in range(nodes):
        near = [list(_within(world, places, far, distance)) for distance in range(1, places)]
        next_node = [
            Hand((rank - places) % world, rank, (rank - (far + 1) * places) % world)
            for rank in range(world)
            if far + 1 < nodes
        ]
        yield from itertools.chain(*near[:1], next_node, *near[1:])


def _within(world: int, places: int, far: int, distance: int) -> Iterator[Hand]:
    """Parts of the node that is `far` nodes before come to ranks from the one before them in their own."""
    for rank in range(world):
        node, place = rank - rank % places, rank % places
        origin = node - far * places + (place - distance) % places
        yield Hand(node + (place - 1) % places, rank, origin % world)


def _find_passed(
    shards: SequenceShards, hands: Sequence[Hand], taken: Sequence[Sequence[tuple[int, int]]]
) -> list[tuple[Hand, int, tuple[int, int]]]:
    """In the order of the hands: one, where the block of it begins, and what of that block is passed.

    That is what the rank takes, and what those take to which it passes the block on.
    """
    wanted: dict[tuple[int, int], list[tuple[int, int]]] = {}
    passed = []
    # Who passes something on has got it before, so the last hands say first what is wanted.
    for hand in reversed(hands):
        for begin, end in reversed(shards.ranges(hand.block)):
            own = (
                (max(begin, first), min(end, last))
                for first, last in taken[hand.dst]
                if max(begin, first) < min(end, last)
            )
            all_of_it = [*own, *wanted.get((hand.dst, begin), ())]
            if not all_of_it:
                continue
            part = min(first for first, _ in all_of_it), max(last for _, last in all_of_it)
            wanted.setdefault((hand.src, begin), []).append(part)
            passed.append((hand, begin, part))
    return passed[::-1]


def _pass_blocks(
    plan: Plan,
    buffers: Sequence[Buffer],
    passed: Iterable[tuple[Hand, int, tuple[int, int]]],
    strategy: Strategy,
    groups: int,
) -> Sequence[Token]:
    """Brings every block, or what is passed of it, to every rank, one group of columns after another."""
    arrived: dict[tuple[int, int, int, str], Token] = {}
    for group in range(groups):
        for hand, block, (begin, end) in passed:
            for buffer in buffers:
                chunk = buffer[begin:end]
                if groups > 1:
                    chunk = buffer[begin:end, group_columns(buffer, group, groups)]
                before = arrived.get((group, hand.src, block, buffer.name))
                after = [] if before is None else [before]
                arrived[group, hand.dst, block, buffer.name] = add_transfer(
                    plan, chunk, chunk, hand.src, hand.dst, after, strategy
                )
    return list(arrived.values())


def check_groups(buffer: Buffer, groups: int) -> None:
    """Raises PlanError unless the columns of a buffer divide into so many groups."""
    width = buffer.shape[1] if len(buffer.shape) > 1 else 1
    if type(groups) is not int or groups < 1 or width % groups:
        raise PlanError(
            f"groups: expects a divisor of the {width} columns of buffer {buffer.name}, but got {groups!r}"
        )


def group_columns(buffer: Buffer, group: int, groups: int) -> slice:
    """The columns of a group."""
    width = buffer.shape[1] // groups
    return slice(group * width, (group + 1) * width)
