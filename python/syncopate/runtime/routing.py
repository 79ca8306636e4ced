"""From the experts that tokens have chosen to what a program of `syncopate.plan.tokens` reads, on the device.

Every rank works out the whole routing from the choices of all tokens, so ranks need to exchange nothing but these. All
sizes are those of the `RoutingShape`, whatever the choices. So nothing waits for the host, and a CUDA graph can hold
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from syncopate.errors import SyncopateError
from syncopate.plan.tokens import RoutingShape

__all__ = ["RoutedTokens", "route_tokens"]


@dataclass(frozen=True)
class RoutedTokens:
    """A routing as one rank needs it.

    Attributes:
        send_rows: i64 [(world_size - 1) · tokens]: which of the rank's tokens are the rows of `Dispatch.sends`. Rows
            behind those that are sent are other tokens.
        words: i32 [shape.words]: `Dispatch.words`.
        rows: i32 [shape.blocks · block_m]: rows of `Dispatch.tokens` that the rank's experts compute, block by block;
            -1 where a block is not full.
        experts: i32 [shape.blocks]: expert of each block, counted from the rank's first one; -1 behind the last block.
        used: i32 [1]: how many blocks there are.
        places: i32 [world_size, tokens, top_k]: where in `rows` each choice of each token stands; -1 for an expert of
            another rank.
    """

    send_rows: torch.Tensor
    words: torch.Tensor
    rows: torch.Tensor
    experts: torch.Tensor
    used: torch.Tensor
    places: torch.Tensor


def route_tokens(choices: torch.Tensor, rank: int, shape: RoutingShape) -> RoutedTokens:
    """Works out what goes where.

    Args:
        choices: Integers [world_size, tokens, top_k], on the rank's device: experts that the tokens of each rank have
            chosen; what is below zero is no choice.
        rank: The rank.
        shape: Sizes of the routing.

    Returns:
        The routing, on the same device. It is the same for the same choices.

    Raises:
        SyncopateError: The choices do not have the sizes of `shape`, or are no integers.
    """
    world, count = shape.world_size, shape.tokens
    wanted = (world, count, shape.top_k)
    if tuple(choices.shape) != wanted or choices.is_floating_point():
        raise SyncopateError(
            f"choices: expects integers of shape {list(wanted)}, but got {choices.dtype} {list(choices.shape)}"
        )
    if not 0 <= rank < world:
        raise SyncopateError(f"rank: expects one in [0, {world}), but got {rank}")
    choices = choices.long()
    others = (rank + 1 + torch.arange(world - 1, device=choices.device)) % world
    sent, counts = _order_tokens(choices[rank].expand(world - 1, -1, -1), others, shape)
    owners = torch.full((world,), rank, device=choices.device)
    arriving, received = _order_tokens(choices, owners, shape)
    positions = torch.empty_like(arriving).scatter_(1, arriving, _range_like(arriving))
    # Own tokens are where they were.
    positions[rank] = _range_like(positions)[rank]
    places, experts = _place_choices(choices, rank, shape)
    rows, needs = _fill_blocks(places, positions, rank, shape)
    return RoutedTokens(
        send_rows=sent.reshape(-1),
        words=torch.cat([counts, received[(2 * rank - others) % world], needs]).int(),
        rows=rows.int(),
        experts=experts.int(),
        used=(experts >= 0).sum(dim=0, keepdim=True).int(),
        places=torch.where(places < shape.blocks * shape.block_m, places, -1).int(),
    )


def _range_like(tensor: torch.Tensor) -> torch.Tensor:
    """0, 1, … along the last dimension."""
    return torch.arange(tensor.shape[-1], device=tensor.device).expand_as(tensor)


def _order_tokens(
    choices: torch.Tensor, owners: torch.Tensor, shape: RoutingShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """The order in which tokens are sent to ranks: by the first of the rank's experts that a token has chosen.

    Args:
        choices: i64 [n, tokens, top_k].
        owners: i64 [n]: the rank that each row of them is sent to.
        shape: Sizes of the routing.

    Returns:
        Tokens, those last that have chosen none of the rank's experts, i64 [n, tokens]; how many have, i64 [n].
    """
    local, none = _local_experts(choices, owners[:, None, None], shape), shape.experts_per_rank
    first = local.amin(-1)
    return first.argsort(dim=-1, stable=True), (first < none).sum(-1)


def _local_experts(
    choices: torch.Tensor, owner: torch.Tensor | int, shape: RoutingShape
) -> torch.Tensor:
    """Experts counted from the owner's first one; `experts_per_rank` for those of other ranks."""
    local = choices - owner * shape.experts_per_rank
    outside = (local < 0) | (local >= shape.experts_per_rank) | (choices < 0)
    return local.masked_fill(outside, shape.experts_per_rank)


def _place_choices(
    choices: torch.Tensor, rank: int, shape: RoutingShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each choice stands among the rows of the rank's blocks, behind the last row if it is none of the rank's.

    Returns:
        i64 of the shape of `choices`; and the expert of each block, i64 [blocks].
    """
    local = _local_experts(choices, rank, shape).reshape(-1)
    order = local.argsort(dim=0, stable=True)
    chosen = torch.zeros(shape.experts_per_rank + 1, dtype=torch.long, device=local.device)
    chosen.scatter_add_(0, local, torch.ones_like(local))
    blocks = (chosen + shape.block_m - 1) // shape.block_m
    # Choices of other ranks' experts come last, and have no blocks.
    block_ends, row_ends = blocks[:-1].cumsum(0), chosen.cumsum(0)
    expert = local[order]
    first_block = torch.cat([block_ends.new_zeros(1), block_ends])[expert]
    number = _range_like(order) - (row_ends - chosen)[expert]
    place = first_block * shape.block_m + number
    place = place.masked_fill(expert == shape.experts_per_rank, shape.blocks * shape.block_m)
    places = torch.empty_like(place).scatter_(0, order, place)
    block = torch.arange(shape.blocks, device=local.device)
    experts = torch.searchsorted(block_ends, block, right=True)
    experts = experts.masked_fill(experts == shape.experts_per_rank, -1)
    return places.view_as(choices), experts


def _fill_blocks(
    places: torch.Tensor, positions: torch.Tensor, rank: int, shape: RoutingShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """The row of the buffer of tokens at each place, and how many transfers to the rank each block needs.

    Args:
        places: From `_place_choices`.
        positions: i64 [world_size, tokens]: where each token stands in the block of its rank.
        rank: The rank.
        shape: Sizes of the routing.

    Returns:
        i64 [blocks · block_m] and [blocks].
    """
    world = shape.world_size
    source = torch.arange(world, device=places.device)[:, None]
    row = source * shape.tokens + positions
    # Transfers to a rank stand in the plan by their pieces, and then by how far behind it their source is.
    need = positions // shape.piece * (world - 1) + (rank - source - 1) % world + 1
    need = need.masked_fill(source == rank, 0)
    last = shape.blocks * shape.block_m

    def spread(values: torch.Tensor, fill: int) -> torch.Tensor:
        # The entry behind the last one takes what has no place.
        filled = values.new_full((last + 1,), fill)
        filled.scatter_(0, places.reshape(-1), values[..., None].expand_as(places).reshape(-1))
        return filled[:last]

    needs = spread(need, 0).view(shape.blocks, shape.block_m).amax(-1)
    return spread(row, -1), needs
