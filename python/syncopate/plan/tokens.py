"""Plans of a mixture of experts: each token goes to the ranks whose experts it was routed to.

How many tokens one rank has for another is known on the device only, when a call starts. So each transfer has the size
of all tokens of a rank, and reads how many rows it moves from a buffer; tiles read from the same buffer how many of the
transfers they need. `syncopate.runtime.routing` fills it from the experts that tokens have chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncopate.choices import Direction
from syncopate.errors import PlanError
from syncopate.plan.body import Buffer, Chunk
from syncopate.plan.builder import Plan
from syncopate.plan.templates import reduce_scatter_tiles
from syncopate.strategy import Strategy

__all__ = ["Dispatch", "RoutingShape", "combine_tokens", "dispatch_tokens"]


@dataclass(frozen=True)
class RoutingShape:
    """Sizes of what tokens are routed by, known when a program is compiled.

    Attributes:
        world_size: Number of ranks.
        tokens: Tokens of each rank; one that has fewer fills up with tokens that choose no expert.
        top_k: Experts that a token chooses at most.
        experts: All experts; each rank has as many of them, in order.
        block_m: Rows that a tile computes; all are of one expert.
        splits: Pieces that what one rank has for another is moved in, so that tiles need not wait for all of it.
    """

    world_size: int
    tokens: int
    top_k: int
    experts: int
    block_m: int = 128
    splits: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) is not int or value < 1:
                raise PlanError(f"{name}: expects a positive integer, but got {value!r}")
        if self.experts % self.world_size:
            raise PlanError(
                f"experts: expects a multiple of the {self.world_size} ranks, but got {self.experts}; add experts that "
                "nobody chooses"
            )
        if self.rows * self.top_k + self.experts_per_rank * self.block_m >= 2**31:
            raise PlanError(
                f"tokens: expects fewer than 2^31 rows in all, but {self.world_size} ranks have {self.tokens} tokens "
                f"each with {self.top_k} experts"
            )

    @property
    def experts_per_rank(self) -> int:
        """Experts of each rank."""
        return self.experts // self.world_size

    @property
    def rows(self) -> int:
        """Tokens of all ranks."""
        return self.world_size * self.tokens

    @property
    def piece(self) -> int:
        """Rows of a piece of what one rank has for another, the last one excepted."""
        return -(-self.tokens // self.splits)

    @property
    def blocks(self) -> int:
        """Blocks of rows that a rank's experts have at most: if all tokens choose them, and fill no block."""
        chosen = self.rows * self.top_k
        return (chosen + min(self.experts_per_rank, chosen) * (self.block_m - 1)) // self.block_m

    @property
    def words(self) -> int:
        """Numbers that a rank reads at run time: rows for and from each other rank, what blocks of rows need, padding.

        They are 16 bytes or a multiple, so that whatever stages them can use TMA.
        """
        return -(-(2 * (self.world_size - 1) + self.blocks) // 4) * 4


@dataclass(frozen=True)
class Dispatch:
    """What `dispatch_tokens` has added to a plan.

    Attributes:
        tokens: [world_size · tokens, width]: block r are the tokens of rank r. Those of the rank itself are all there,
            in their order, and are an input; those of others are the ones that it needs, first in their block.
        sends: [(world_size - 1) · tokens, width]: block j are the tokens for the rank j + 1 behind this one, an input.
        words: The buffer of numbers that are read at run time, an input.
        needs: The part of it that is for tiles, as `syncopate.compile` takes it.
    """

    tokens: Buffer
    sends: Buffer
    words: Buffer
    needs: Chunk


def dispatch_tokens(
    plan: Plan,
    shape: RoutingShape,
    width: int,
    dtype: str,
    *,
    name: str = "tokens",
    strategy: Strategy | None = None,
) -> Dispatch:
    """Brings tokens to the ranks that have their experts; a token goes to a rank once, for all its experts there.

    Args:
        plan: The plan.
        shape: Sizes of the routing.
        width: Elements of a token.
        dtype: Element type, as MLIR spells it.
        name: Name of the buffer of tokens, and the beginning of those of the others.
        strategy: The choices, of which the direction is made here; as for `templates.reduce_scatter_tiles`. The pieces
            are the routing's: tiles count them.

    Returns:
        The buffers.

    Raises:
        PlanError: The plan is for another number of ranks, or a rule of it is broken.
    """
    world, count = shape.world_size, shape.tokens
    if plan.world_size != world:
        raise PlanError(
            f"shape: expects the {plan.world_size} ranks of plan {plan.name}, but got {world}"
        )
    if world < 2:
        raise PlanError(f"shape: expects at least two ranks, but got {world}")
    strategy = strategy or Strategy()
    plan.follow(strategy)
    pushes = strategy.direction is Direction.PUSH
    tokens = plan.buffer(name, (shape.rows, width), dtype, shard_axis=0)
    sends = plan.buffer(f"{name}_sends", ((world - 1) * count, width), dtype)
    words = plan.buffer(f"{name}_words", (shape.words,), "i32")
    for rank in range(world):
        plan.input(sends[:], rank=rank)
        plan.input(words[:], rank=rank)
    # Piece by piece, since the first so many transfers to a rank are what a tile of it waits for.
    for past in range(0, count, shape.piece):
        end = min(past + shape.piece, count)
        for distance in range(1, world):
            for rank in range(world):
                first, slot = (distance - 1) * count, rank * count
                # Who carries it out reads its own number of the same rows.
                add, word = (plan.put, 0) if pushes else (plan.get, world - 1)
                add(
                    sends[first + past : first + end],
                    tokens[slot + past : slot + end],
                    src_rank=rank,
                    dst_rank=(rank + distance) % world,
                    rows=words[word + distance - 1],
                    past=past,
                )
    needs = 2 * (world - 1)
    return Dispatch(tokens, sends, words, words[needs : needs + shape.blocks])


def combine_tokens(
    plan: Plan,
    shape: RoutingShape,
    width: int,
    dtype: str,
    *,
    name: str = "combined",
    strategy: Strategy | None = None,
) -> Buffer:
    """Brings together, at the rank of each token, what experts of all ranks have made of it.

    Each rank's tiles first add up what its own experts have computed for a token, so a token comes back from a rank
    once. The parts of all tokens have a place whether a rank has any or not, and sizes are known when the plan is made:
    with eight experts for each token few parts are empty.

    Args:
        plan: The plan.
        shape: Sizes of the routing.
        width: Elements of what an expert makes of a token.
        dtype: Element type, as MLIR spells it.
        name: Name of the buffer.
        strategy: The choices, as for `templates.reduce_scatter_tiles`. With `Combine.TILES`, which is what they come to
            if nothing is said, rows of a tile have to divide those of a rank.

    Returns:
        The buffer of parts, [world_size · tokens, width], which tiles compute. A call gives back the sums of the rank's
        own tokens.

    Raises:
        PlanError: The plan is for another number of ranks, or a rule of it is broken.
    """
    if plan.world_size != shape.world_size:
        raise PlanError(
            f"shape: expects the {plan.world_size} ranks of plan {plan.name}, but got {shape.world_size}"
        )
    combined = plan.buffer(name, (shape.rows, width), dtype)
    reduce_scatter_tiles(plan, combined, strategy)
    return combined
