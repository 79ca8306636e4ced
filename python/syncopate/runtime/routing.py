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
    none = shape.experts_per_rank
    others = (rank + 1 + torch.arange(world - 1, device=choices.device)) % world
    here = _local_experts(choices, rank, shape)
    # Tokens are sent in the order of the first of the receiver's experts that they have chosen.
    leaving = _local_experts(choices[rank], others[:, None, None], shape).amin(-1)
    coming = here.amin(-1)
    sorted_tokens, sorted_choices, ends = _sort_together(
        torch.cat([leaving, coming]), here.reshape(-1), none + 1
    )
    sent, arriving = sorted_tokens.split([world - 1, world])
    positions = torch.empty_like(arriving).scatter_(1, arriving, _range_like(arriving))
    # Own tokens are where they were.
    positions[rank] = _range_like(positions)[rank]
    places, experts = _place_choices(here, sorted_choices, ends, shape)
    rows, needs = _fill_blocks(places, positions, rank, shape)
    sizes = torch.cat(
        [(leaving < none).sum(-1), (coming < none).sum(-1)[(2 * rank - others) % world], needs]
    )
    return RoutedTokens(
        send_rows=sent.reshape(-1),
        words=torch.nn.functional.pad(sizes, (0, shape.words - len(sizes))).int(),
        rows=rows.int(),
        experts=experts.int(),
        used=(experts >= 0).sum(dim=0, keepdim=True).int(),
        places=torch.where(places < shape.blocks * shape.block_m, places, -1).int(),
    )


def _range_like(tensor: torch.Tensor) -> torch.Tensor:
    """0, 1, … along the last dimension."""
    return torch.arange(tensor.shape[-1], device=tensor.device).expand_as(tensor)


def _local_experts(
    choices: torch.Tensor, owner: torch.Tensor | int, shape: RoutingShape
) -> torch.Tensor:
    """Experts counted from the owner's first one; `experts_per_rank` for those of other ranks."""
    local = choices - owner * shape.experts_per_rank
    outside = (local < 0) | (local >= shape.experts_per_rank) | (choices < 0)
    return local.masked_fill(outside, shape.experts_per_rank)


def _sort_together(
    tokens: torch.Tensor, choices: torch.Tensor, keys: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sorts each row of `tokens`, and `choices`, stably, by one sort of short keys.

    Args:
        tokens: i64 [n, m], in [0, keys).
        choices: i64 [l], in [0, keys).
        keys: How many different values there are.

    Returns:
        What stands where in each row, i64 [n, m]; what stands where among the choices, i64 [l]; and for each key the
        end of its choices, i64 [keys].
    """
    count, length = tokens.shape
    segment = torch.arange(count, device=tokens.device)[:, None] * keys
    every = torch.cat([(tokens + segment).reshape(-1), choices + count * keys])
    # The fewer bits a key has, the fewer passes a sort takes.
    every = every.to(torch.int16 if (count + 1) * keys < 2**15 else torch.int32)
    values, order = every.sort(stable=True)
    first = count * length
    start = torch.arange(count, device=tokens.device)[:, None] * length
    wanted = torch.arange(count * keys, (count + 1) * keys, device=tokens.device, dtype=every.dtype)
    ends = torch.searchsorted(values[first:].contiguous(), wanted, right=True)
    return order[:first].view(count, length) - start, order[first:] - first, ends


def _place_choices(
    local: torch.Tensor, order: torch.Tensor, row_ends: torch.Tensor, shape: RoutingShape
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each choice stands among the rows of the rank's blocks, behind the last row if it is none of the rank's.

    Args:
        local: i64: the choices, as `_local_experts` gives them.
        order: i64: which choices stand where once they are sorted.
        row_ends: i64 [experts_per_rank + 1]: where those of each expert end there.
        shape: Sizes of the routing.

    Returns:
        i64 of the shape of `local`; and the expert of each block, i64 [blocks].
    """
    zero = row_ends.new_zeros(1)
    chosen = row_ends.diff(prepend=zero)
    # Choices of other ranks' experts come last, and have no blocks.
    block_ends = ((chosen + shape.block_m - 1) // shape.block_m)[:-1].cumsum(0)
    first_place = torch.cat([zero, block_ends]) * shape.block_m
    expert = local.reshape(-1)[order]
    place = _range_like(order) + (first_place - row_ends + chosen)[expert]
    place = place.masked_fill(expert == shape.experts_per_rank, shape.blocks * shape.block_m)
    places = torch.empty_like(place).scatter_(0, order, place)
    block = torch.arange(shape.blocks, device=local.device)
    experts = torch.searchsorted(block_ends, block, right=True)
    experts = experts.masked_fill(experts == shape.experts_per_rank, -1)
    return places.view_as(local), experts


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
