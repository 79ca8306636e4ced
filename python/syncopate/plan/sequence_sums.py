"""How what ranks contribute to each element of a sequence is added at the rank that has it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncopate.choices import Algorithm, Combine, Direction
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.plan.sums import add_transfer, spelled
from syncopate.strategy import Strategy

__all__ = ["reduce_sequence"]


def reduce_sequence(
    plan: Plan,
    buffers: Buffer | Sequence[Buffer],
    shards: SequenceShards,
    strategy: Strategy | None = None,
    *,
    causal: bool = False,
    cu_seqlens: Sequence[int] | None = None,
) -> Token:
    """Adds what the tiles of all ranks compute of each element, at the rank that has it; the call gives it back.

    Parts travel in the type of the buffer, and are added in an order that does not depend on time. With algorithm
    direct, every rank sends its part of a block to the block's rank, where a role adds all of them at once, and rounds
    once. Around a ring, a sum goes from rank to rank, each of which adds its own part to it, the block's own rank last:
    a role to what tiles have computed, or, with `Combine.TILES`, tiles to what has arrived. Then any realization can
    pass sums on, but no tile may compute parts of two blocks.

    Args:
        plan: The plan.
        buffers: One or more, each with a row for each element: [length, …]. Tiles compute all of it on every rank.
        shards: Who has which element. With `Sharding.ZIGZAG`, the plan gets another buffer for each, named
            `<name>_own`, of [shards.rows, …], of which the call gives back the rows that stand for an element.
        strategy: The choices: its algorithm, direct or ring, its direction, `reducing`, and, around a ring, `combine`.
            If it is direct, the plan gets another buffer for what is on its way.
        causal: Whether a rank contributes only to elements up to its own last one, so that nothing moves from it to
            blocks behind that.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends: 0, …, length. A
            rank contributes only to sequences of which it has elements, so that nothing moves from it to other blocks.

    Returns:
        The token that all sums are there.

    Raises:
        PlanError: A buffer has another number of rows, or the plan of ranks; the strategy has another algorithm, or
            somebody else is to add; or a rule of the plan is broken.
    """
    buffers = [buffers] if isinstance(buffers, Buffer) else list(buffers)
    strategy = strategy or Strategy()
    shards.check(plan, buffers)
    if strategy.algorithm not in (Algorithm.DIRECT, Algorithm.RING):
        raise PlanError(
            f"strategy: expects algorithm direct or ring for sums of a sequence, but got {spelled(strategy.algorithm)}"
        )
    is_ring = strategy.algorithm is Algorithm.RING
    if strategy.combine not in (None, Combine.ROLE, *([Combine.TILES] if is_ring else [])):
        raise PlanError(
            f"combine: expects a role to add sums of a sequence, or tiles around a ring, but got "
            f"{spelled(strategy.combine)}; leave it out"
        )
    plan.follow(strategy)
    bounds = (0, shards.length) if cu_seqlens is None else cu_seqlens
    sums = _Sums(plan, buffers, shards, strategy, causal, bounds)
    plan.expect_transfers(sum(map(len, sums.others.values())) * len(buffers))
    done = sums.around() if is_ring else sums.directly()
    if shards.sharding is Sharding.ZIGZAG:
        done = sums.side_by_side(done)
    else:
        for block in sums.blocks:
            for buffer in buffers:
                plan.output(buffer[block.begin : block.end], rank=block.owner)
        if plan.world_size > 1 and sums.is_whole:
            for buffer in buffers:
                with plan.claim(after=done.values()):
                    plan.reduce_scatter(buffer)
    return plan.join(done.values())


@dataclass(frozen=True)
class _Block:
    """Elements from `begin` to `end` that a rank has, in its tensors from row `row` on."""

    owner: int
    begin: int
    end: int
    row: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


class _Sums:
    """Brings together what ranks contribute to each block, of all buffers."""

    def __init__(
        self,
        plan: Plan,
        buffers: Sequence[Buffer],
        shards: SequenceShards,
        strategy: Strategy,
        causal: bool,
        bounds: Sequence[int],
    ) -> None:
        self.plan, self.buffers, self.shards, self.strategy = plan, buffers, shards, strategy
        self.blocks = [
            _Block(rank, begin, end, number * shards.block)
            for rank in range(shards.world_size)
            for number, (begin, end) in enumerate(shards.ranges(rank))
        ]
        # By rank, to which elements each of its blocks contributes.
        reached = [
            [
                (
                    bounds[bisect.bisect(bounds, begin) - 1],
                    end if causal else bounds[bisect.bisect(bounds, end - 1)],
                )
                for begin, end in shards.ranges(rank)
            ]
            for rank in range(shards.world_size)
        ]
        # By block, the other ranks that contribute to it, the next one first.
        self.others = {
            block: [
                other
                for distance in range(1, shards.world_size)
                for other in [(block.owner + distance) % shards.world_size]
                if any(begin < block.end and block.begin < end for begin, end in reached[other])
            ]
            for block in self.blocks
        }

    @property
    def is_whole(self) -> bool:
        """Whether every rank contributes to every block."""
        return all(len(others) == self.shards.world_size - 1 for others in self.others.values())

    def _produce(self) -> dict[tuple[int, str], Token]:
        """By rank and buffer, that tiles have computed what the rank contributes, which is where the buffer begins."""
        ends: dict[int, int] = {}
        for block in self.blocks:
            for rank in (block.owner, *self.others[block]):
                ends[rank] = max(ends.get(rank, 0), block.end)
        return {
            (rank, buffer.name): self.plan.produce(buffer[: ends[rank]], rank=rank)
            for rank in sorted(ends)
            for buffer in self.buffers
        }

    def directly(self) -> dict[tuple[_Block, str], Token]:
        """All parts of a block come to its rank, and are added there at once."""
        most, made = max(map(len, self.others.values())), self._produce()
        arrived: dict[tuple[_Block, str], list[Token]] = {}
        slots = {
            buffer.name: self._buffer(buffer, "arriving", most * self.shards.rows)
            for buffer in self.buffers
            if most
        }

        def slot(block: _Block, buffer: Buffer, number: int) -> Chunk:
            first = number * self.shards.rows + block.row
            return slots[buffer.name][first : first + block.rows]

        for number in range(most):
            for block, buffer in self._all():
                if number < len(self.others[block]):
                    source = self.others[block][-1 - number]
                    arrived.setdefault((block, buffer.name), []).append(
                        add_transfer(
                            self.plan,
                            buffer[block.begin : block.end],
                            slot(block, buffer, number),
                            source,
                            block.owner,
                            [made[source, buffer.name]],
                            self.strategy,
                        )
                    )
        done = {}
        for block, buffer in self._all():
            own, tokens = made[block.owner, buffer.name], arrived.get((block, buffer.name), [])
            done[block, buffer.name] = own
            if tokens:
                done[block, buffer.name] = self.plan.put(
                    [slot(block, buffer, number) for number in range(len(tokens))],
                    buffer[block.begin : block.end],
                    src_rank=block.owner,
                    dst_rank=block.owner,
                    reduction="sum",
                    after=[own, *tokens],
                    realization=spelled(self.strategy.reducing),
                )
        return done

    def around(self) -> dict[tuple[_Block, str], Token]:
        """The sum of a block goes from rank to rank, to its own in the end."""
        by_tiles = self.strategy.combine is Combine.TILES
        made = {} if by_tiles else self._produce()
        done: dict[tuple[_Block, str], Token] = {}
        ways = {block: [*others, block.owner] for block, others in self.others.items()}
        for hop in range(self.shards.world_size):
            for block, buffer in self._all():
                stations = ways[block]
                if hop >= len(stations):
                    continue
                rank, chunk = stations[hop], buffer[block.begin : block.end]
                before = done.get((block, buffer.name))
                if before is not None:
                    after = [before] if by_tiles else [before, made[rank, buffer.name]]
                    before = self._pass_on(chunk, stations[hop - 1], rank, after, by_tiles)
                if by_tiles:
                    before = self.plan.produce(
                        chunk,
                        rank=rank,
                        reduction=None if before is None else "sum",
                        after=[] if before is None else [before],
                    )
                done[block, buffer.name] = before or made[rank, buffer.name]
        return done

    def _pass_on(
        self, chunk: Chunk, source: int, rank: int, after: list[Token], by_tiles: bool
    ) -> Token:
        """Brings a sum to a rank, and adds it to what is there unless tiles will add to it."""
        push = self.strategy.direction is Direction.PUSH
        add = self.plan.put if push else self.plan.get
        return add(
            chunk,
            chunk,
            src_rank=source,
            dst_rank=rank,
            reduction=None if by_tiles else "sum",
            after=after,
        )

    def side_by_side(
        self, done: dict[tuple[_Block, str], Token]
    ) -> dict[tuple[_Block, str], Token]:
        """Brings a rank's blocks together, as its tensors have them."""
        own = {
            buffer.name: self._buffer(buffer, "own", self.shards.rows) for buffer in self.buffers
        }
        result = {}
        for block, buffer in self._all():
            result[block, buffer.name] = self.plan.put(
                buffer[block.begin : block.end],
                own[buffer.name][block.row : block.row + block.rows],
                src_rank=block.owner,
                dst_rank=block.owner,
                after=[done[block, buffer.name]],
                realization=spelled(self.strategy.reducing),
            )
        for rank in range(self.shards.world_size):
            # Rows that stand for no element come last.
            rows = max(block.row + block.rows for block in self.blocks if block.owner == rank)
            for buffer in own.values():
                self.plan.output(buffer[:rows], rank=rank)
        return result

    def _all(self) -> Iterator[tuple[_Block, Buffer]]:
        return itertools.product(self.blocks, self.buffers)

    def _buffer(self, like: Buffer, name: str, rows: int) -> Buffer:
        return self.plan.buffer(f"{like.name}_{name}", (rows, *like.shape[1:]), like.dtype)
