"""Routings: what every rank finds out alone fits together, for random choices and for hard ones."""

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from moe_programs import SHAPES

from syncopate.errors import SyncopateError
from syncopate.runtime.routing import route_tokens

pytestmark = pytest.mark.any_triton

EMPTY = -9


def draw(shape, seed):
    """Choices: distinct ones, all the same, none, or anything."""
    generator = torch.Generator().manual_seed(seed)
    size = (shape.world_size, shape.tokens, shape.top_k)
    if seed % 4 == 0:
        scores = torch.rand((*size[:2], shape.experts), generator=generator)
        return scores.topk(shape.top_k).indices
    if seed % 4 == 1:
        return torch.full(size, seed % shape.experts)
    if seed % 4 == 2:
        return torch.full(size, -1)
    return torch.randint(-1, shape.experts, size, generator=generator, dtype=torch.int32)


def carry_out(shape, routed, rank):
    """Does what the plan does to the tokens of a rank, on their numbers.

    Returns:
        What is in the buffer in the end, and which rows each transfer has brought, in the order of the plan.
    """
    count, world = shape.tokens, shape.world_size
    buffer = np.full(shape.rows, EMPTY)
    own = slice(rank * count, (rank + 1) * count)
    buffer[own] = np.arange(shape.rows)[own]
    brought = []
    for past in range(0, count, shape.piece):
        for distance in range(1, world):
            source = (rank - distance) % world
            rows = int(routed[source].words[distance - 1])
            # The receiver counts the same.
            assert rows == routed[rank].words[world - 1 + distance - 1]
            rows -= past
            rows = min(max(rows, 0), min(shape.piece, count - past))
            sent = routed[source].send_rows.reshape(world - 1, count)[distance - 1].numpy()
            at = source * count + past
            buffer[at : at + rows] = source * count + sent[past : past + rows]
            brought.append(range(at, at + rows))
    return buffer, brought


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_every_choice_finds_its_token_and_its_expert(shape, seed):
    choices = draw(shape, seed)
    routed = [route_tokens(choices, rank, shape) for rank in range(shape.world_size)]
    local = shape.experts_per_rank
    flat = choices.reshape(shape.rows, shape.top_k).numpy()
    for rank, mine in enumerate(routed):
        buffer, brought = carry_out(shape, routed, rank)
        rows, experts = mine.rows.numpy(), mine.experts.numpy()
        places = mine.places.reshape(shape.rows, shape.top_k).numpy()
        here = (flat >= rank * local) & (flat < (rank + 1) * local)
        assert ((places >= 0) == here).all()
        for token, number in np.argwhere(here):
            place = places[token, number]
            assert buffer[rows[place]] == token
            assert experts[place // shape.block_m] == flat[token, number] - rank * local
        # No place is taken twice, and no row is computed for nobody.
        assert len(np.unique(places[here])) == here.sum() == (rows >= 0).sum()
        used = int(mine.used)
        assert (experts[:used] >= 0).all()
        assert (experts[used:] == -1).all()
        assert (np.diff(experts[:used]) >= 0).all()
        first = 2 * (shape.world_size - 1)
        needs = mine.words[first : first + shape.blocks].numpy()
        assert (mine.words[first + shape.blocks :] == 0).all()
        own = range(rank * shape.tokens, (rank + 1) * shape.tokens)
        for block, need in enumerate(needs):
            there = set(own).union(*brought[:need])
            block_rows = rows[block * shape.block_m : (block + 1) * shape.block_m]
            assert set(block_rows[block_rows >= 0].tolist()) <= there
            # And it waits for no more than that.
            assert need == 0 or set(block_rows.tolist()) & set(brought[need - 1])


@pytest.mark.parametrize("seed", range(4))
def test_a_token_is_sent_to_a_rank_once(seed):
    shape = SHAPES[1]
    choices = draw(shape, seed)
    owners = (choices // shape.experts_per_rank).numpy()
    for rank in range(shape.world_size):
        words = route_tokens(choices, rank, shape).words.numpy()
        for distance in range(1, shape.world_size):
            peer = (rank + distance) % shape.world_size
            wanted = (owners[rank] == peer) & (choices[rank] >= 0).numpy()
            assert words[distance - 1] == wanted.any(-1).sum()


def test_route_tokens_names_what_is_wrong():
    shape = SHAPES[0]
    good = draw(shape, 0)
    with pytest.raises(SyncopateError, match=r"choices: expects integers of shape \[2, 40, 2\]"):
        route_tokens(good[:, 1:], 0, shape)
    with pytest.raises(SyncopateError, match="choices: expects integers"):
        route_tokens(good.float(), 0, shape)
    with pytest.raises(SyncopateError, match=r"rank: expects one in \[0, 2\), but got 2"):
        route_tokens(good, 2, shape)
