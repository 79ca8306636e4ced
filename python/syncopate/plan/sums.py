"""How the parts of a sum that tiles compute are brought together: the transfers of templates."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from syncopate.choices import Combine, Direction
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk, Token
from syncopate.plan.builder import Plan, shard
from syncopate.plan.kinds import Collective
from syncopate.strategy import Strategy

__all__ = ["Sums", "add_transfer", "give_back", "produce_everywhere", "spelled"]


def spelled(choice: enum.Enum | str | None) -> str | None:
    """A choice as chunk IR spells it, None where passes are to choose."""
    return str(choice.value) if isinstance(choice, enum.Enum) else choice


def add_transfer(
    plan: Plan,
    src: Chunk,
    dst: Chunk,
    src_rank: int,
    dst_rank: int,
    after: Sequence[Token],
    strategy: Strategy,
    realization: str | None = None,
) -> Token:
    """Adds a transfer between ranks, carried out by the side that a strategy says."""
    add = plan.put if strategy.direction is Direction.PUSH else plan.get
    return add(src, dst, src_rank=src_rank, dst_rank=dst_rank, after=after, realization=realization)


def produce_everywhere(plan: Plan, buffer: Buffer) -> list[Token]:
    """Says that the tiles of every rank compute all of a buffer; returns by rank the token of its tiles."""
    return [plan.produce(buffer[:], rank=rank) for rank in range(plan.world_size)]


def give_back(plan: Plan, kind: Collective, buffer: Buffer) -> None:
    """Has a call give back what a collective leaves in a buffer: a rank's block of a scattered sum, else all of it."""
    blocks: Sequence[Chunk | None] = [buffer[:]] * plan.world_size
    if kind is Collective.REDUCE_SCATTER:
        blocks = shard(buffer, 0, plan.world_size)
    for rank, block in enumerate(blocks):
        if block is not None:
            plan.output(block, rank=rank)


class Sums:
    """Adds the parts of every rank's block at that rank, or everywhere, as a strategy says."""

    def __init__(self, plan: Plan, buffer: Buffer, strategy: Strategy) -> None:
        if plan.world_size < 2:
            raise PlanError(f"mesh: expects at least 2 ranks to add up, but got {plan.world_size}")
        plan.follow(strategy)
        self.plan, self.buffer, self.strategy = plan, buffer, strategy
        # Of the last ranks there may be none; no block has more rows than the first.
        self.blocks = [block for block in shard(buffer, 0, plan.world_size) if block is not None]
        self._slot_rows = self.blocks[0].sizes[0]
        plan.expect_transfers(len(self.blocks) * (plan.world_size - 1))

    def add(self, combine: Combine | None) -> list[Token]:
        """Adds the parts of each block at its rank; returns by block that it is done.

        Args:
            combine: Who adds. If it is left out, a role does so in each node and then between nodes, where a strategy
                has transfers between nodes, and else tiles do.

        Raises:
            PlanError: There are such transfers, and somebody else is to add.
        """
        if self.strategy.between is not None:
            if combine not in (None, Combine.ROLE):
                raise PlanError(
                    f"combine: expects a role to add where transfers between nodes have a realization of their own, "
                    f"but got {combine}; leave it out"
                )
            return self._by_levels()
        if combine in (None, Combine.TILES):
            return self._by_tiles()
        return self._by_role() if combine is Combine.ROLE else self._at_destination()

    def _by_tiles(self) -> list[Token]:
        """Own tiles add to what has arrived from the next rank, to which a role has added what others have sent."""
        ranks = range(self.plan.world_size)
        made = {
            (rank, owner): self.plan.produce(self.blocks[owner], rank=rank)
            for rank in ranks
            for owner in range(len(self.blocks))
            if rank != owner
        }
        slots = self._slots(len(ranks) - 2)

        def bring(owner: int, distance: int) -> Token:
            source, block = self._source(owner, distance), self.blocks[owner]
            target = block if distance == 1 else self._slot(slots, owner, distance - 2)
            return self._move(block, target, source, owner, [made[source, owner]])

        sums = [
            self._add(slots, owner, arrived) if slots else self.plan.join(arrived)
            for owner, arrived in self._bring_all(bring)
        ]
        return [
            self.plan.produce(self.blocks[owner], rank=owner, reduction="sum", after=[token])
            for owner, token in enumerate(sums)
        ]

    def _by_role(self) -> list[Token]:
        """A role adds to what own tiles have computed."""
        ranks = range(self.plan.world_size)
        made = produce_everywhere(self.plan, self.buffer)
        if len(ranks) == 2 and self.strategy.direction is Direction.PULL:
            return [
                self.plan.get(
                    block,
                    block,
                    src_rank=1 - owner,
                    dst_rank=owner,
                    reduction="sum",
                    after=made,
                    realization=spelled(self.strategy.reducing),
                )
                for owner, block in enumerate(self.blocks)
            ]
        slots = self._slots(len(ranks) - 1)

        def bring(owner: int, distance: int) -> Token:
            source = self._source(owner, distance)
            slot = self._slot(slots, owner, distance - 1)
            return self._move(self.blocks[owner], slot, source, owner, [made[source]])

        return [
            self._add(slots, owner, [made[owner], *arrived])
            for owner, arrived in self._bring_all(bring)
        ]

    def _by_levels(self) -> list[Token]:
        """A role adds the parts of its node, of each block that a rank at its place has; then those of other nodes.

        So what goes between nodes goes once.
        """
        world, places = self.plan.world_size, self.plan.mesh[-1]
        nodes = world // places
        made = produce_everywhere(self.plan, self.buffer)
        near = self._slots(nodes * (places - 1), "near")
        far = self._slots(nodes - 1, "arriving")

        def slots_of(node: int) -> range:
            return range(node * (places - 1), (node + 1) * (places - 1))

        arrived: dict[tuple[int, int], list[Token]] = {}
        for distance in range(1, places):
            for rank in range(world):
                node, place = divmod(rank, places)
                source = node * places + (place - distance) % places
                for owner in range(place, len(self.blocks), places):
                    slot = self._slot(near, owner, slots_of(owner // places)[distance - 1])
                    token = self._move(self.blocks[owner], slot, source, rank, [made[source]])
                    arrived.setdefault((rank, owner), []).append(token)
        added = {
            (rank, owner): self._add(
                near, owner, [made[rank], *tokens], rank, slots_of(owner // places)
            )
            for (rank, owner), tokens in arrived.items()
        }
        done = []
        for owner in range(len(self.blocks)):
            tokens = []
            for distance in range(1, nodes):
                source = (owner + distance * places) % world
                slot = self._slot(far, owner, distance - 1)
                after = [added.get((source, owner), made[source])]
                tokens.append(self._move(self.blocks[owner], slot, source, owner, after))
            mine = added.get((owner, owner), made[owner])
            done.append(self._add(far, owner, [mine, *tokens]) if far else mine)
        return done

    def _at_destination(self) -> list[Token]:
        """All others add to what own tiles have computed, in any order."""
        if self.strategy.direction is not Direction.PUSH:
            raise PlanError(
                f"direction: expects push with Combine.DESTINATION, but got {spelled(self.strategy.direction)}: who "
                "gets adds in order; use Combine.ROLE"
            )
        made = produce_everywhere(self.plan, self.buffer)

        def bring(owner: int, distance: int) -> Token:
            source, block = self._source(owner, distance), self.blocks[owner]
            return self.plan.put(
                block,
                block,
                src_rank=source,
                dst_rank=owner,
                reduction="sum",
                unordered=True,
                after=[made[source], made[owner]],
            )

        return [self.plan.join(arrived) for _, arrived in self._bring_all(bring)]

    def everywhere(self) -> list[Token]:
        """Adds all parts at every rank, in the order of the ranks; returns by rank that it is done."""
        world, rows = self.plan.world_size, self.buffer.shape[0]
        made = produce_everywhere(self.plan, self.buffer)
        shape = ((world - 1) * rows, *self.buffer.shape[1:])
        slots = self.plan.buffer(f"{self.buffer.name}_arriving", shape, self.buffer.dtype)
        # What others send comes in the order of their ranks; a rank's own part stands where it is computed.
        arriving: list[list[Token]] = [[] for _ in range(world)]
        leaving: list[list[Token]] = [[] for _ in range(world)]
        for distance in range(1, world):
            for source in range(world):
                rank = (source + distance) % world
                begin = (source - (source > rank)) * rows
                slot = slots[begin : begin + rows]
                token = self._move(self.buffer[:], slot, source, rank, [made[source]])
                arriving[rank].append(token)
                leaving[source].append(token)
        parts = [slots[number * rows : (number + 1) * rows] for number in range(world - 1)]
        return [
            self.plan.put(
                parts,
                self.buffer[:],
                src_rank=rank,
                dst_rank=rank,
                reduction="sum",
                behind=rank,
                after=[made[rank], *arriving[rank], *leaving[rank]],
                realization=spelled(self.strategy.reducing),
            )
            for rank in range(world)
        ]

    def peers(self, rank: int) -> Iterator[int]:
        """All other ranks, the next one first."""
        world = self.plan.world_size
        return ((rank + distance) % world for distance in range(1, world))

    def _move(self, src: Chunk, dst: Chunk, source: int, rank: int, after: list[Token]) -> Token:
        return add_transfer(self.plan, src, dst, source, rank, after, self.strategy)

    def _bring_all(self, bring: Callable[[int, int], Token]) -> Iterator[tuple[int, list[Token]]]:
        """Moves the parts of all blocks: what goes to the next rank first, then to the one after it.

        All is on its way before anything comes after it, so that who adds does not keep others' parts waiting.
        """
        owners = range(len(self.blocks))
        distances = range(1, self.plan.world_size)
        tokens = [[bring(owner, distance) for owner in owners] for distance in distances]
        for owner in owners:
            yield owner, [those[owner] for those in tokens]

    def _add(
        self,
        slots: Buffer | None,
        owner: int,
        after: Sequence[Token],
        rank: int | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Token:
        """Adds what is in slots to the block of a rank: at that rank if no other is given, and all of them."""
        assert slots is not None
        if numbers is None:
            numbers = range(slots.shape[0] // self._slot_rows)
        at = owner if rank is None else rank
        return self.plan.put(
            [self._slot(slots, owner, number) for number in numbers],
            self.blocks[owner],
            src_rank=at,
            dst_rank=at,
            reduction="sum",
            after=after,
            realization=spelled(self.strategy.reducing),
        )

    def _source(self, owner: int, distance: int) -> int:
        return (owner - distance) % self.plan.world_size

    def _slots(self, count: int, name: str = "arriving") -> Buffer | None:
        if count == 0:
            return None
        shape = (count * self._slot_rows, *self.buffer.shape[1:])
        return self.plan.buffer(f"{self.buffer.name}_{name}", shape, self.buffer.dtype)

    def _slot(self, slots: Buffer | None, owner: int, number: int) -> Chunk:
        assert slots is not None
        first = number * self._slot_rows
        return slots[first : first + self.blocks[owner].sizes[0]]
