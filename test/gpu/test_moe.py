"""Tokens go to experts, are multiplied there, and come back, on ranks of one GPU: calls in a row, each routed anew."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch

import syncopate
from syncopate.choices import Combine
from syncopate.kernels import (
    GemmConfig,
    bind_combine_rows,
    bind_grouped_gemm,
    combine_rows,
    grouped_gemm,
)
from syncopate.plan.tokens import RoutingShape, combine_tokens, dispatch_tokens
from syncopate.runtime import load
from syncopate.runtime.routing import route_tokens

pytestmark = pytest.mark.gpu(1)

CASES = [
    ("ldst_colocated", "push", 1, 200, 512, 256),
    ("ldst_colocated", "push", 4, 333, 328, 200),
    ("ldst_colocated", "pull", 2, 333, 512, 256),
    ("ldst_dedicated", "push", 3, 333, 512, 256),
    ("tma_colocated", "push", 2, 333, 512, 256),
    ("tma_dedicated", "pull", 3, 200, 328, 200),
]
TOP_K, EXPERTS_PER_RANK = 4, 8
CALLS = 30


def routings(shape):
    """Choices of experts [ranks, tokens, top_k], fresh for every call: random ones, and those that are hard."""
    size = (shape.world_size, shape.tokens, shape.top_k)
    generator = torch.Generator("cuda").manual_seed(shape.tokens)
    for call in range(CALLS):
        scores = torch.rand((*size[:2], shape.experts), generator=generator, device="cuda")
        choices = scores.topk(shape.top_k).indices
        if call % 6 == 1:
            choices = torch.full_like(choices, call % shape.experts)
        elif call % 6 == 3:
            choices = choices % shape.experts_per_rank
        elif call % 6 == 5:
            choices = torch.full_like(choices, -1)
            choices[:, ::17] = scores[:, ::17].topk(shape.top_k).indices
        yield choices


def expect(tokens, weights, choices, routed, shape, n):
    """What a rank computes, choice by choice, in float32; and which of its rows are used."""
    out = torch.zeros((shape.blocks * shape.block_m, n), device="cuda")
    places = routed.places.view(shape.rows, shape.top_k)
    for k in range(shape.top_k):
        mine = (places[:, k] >= 0).nonzero()[:, 0]
        local = choices.view(shape.rows, shape.top_k)[mine, k] % shape.experts_per_rank
        for expert in local.unique().tolist():
            which = mine[local == expert]
            weight = weights[expert * n : (expert + 1) * n].float()
            out[places[which, k].long()] = tokens[which].float() @ weight.T
    return out, (routed.experts >= 0).repeat_interleave(shape.block_m)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(("realization", "direction", "splits", "count", "width", "n"), CASES)
def test_dispatch_is_right_for_every_routing(
    groups, world, realization, direction, splits, count, width, n
):
    shape = RoutingShape(world, count, TOP_K, world * EXPERTS_PER_RANK, 64, splits)
    plan = syncopate.Plan("dispatch", [world])
    strategy = syncopate.Strategy(
        direction=direction, realization=realization, comm_ctas=16 // world
    )
    dispatch = dispatch_tokens(plan, shape, width, "bf16", strategy=strategy)
    config = GemmConfig(block_m=64, block_n=128, num_ctas=96 // world)
    program = syncopate.compile(
        grouped_gemm,
        plan,
        **bind_grouped_gemm(dispatch, shape, n, config),
        timeout=10.0,
    )
    generator = torch.Generator("cuda").manual_seed(world)

    def draw(*size):
        return torch.randn(size, generator=generator, device="cuda").bfloat16()

    weights = [draw(EXPERTS_PER_RANK * n, width) for _ in range(world)]
    with load(program, groups(world)) as loaded:
        checks = []
        for choices in routings(shape):
            tokens = [draw(count, width) for _ in range(world)]
            routed = [route_tokens(choices, rank, shape) for rank in range(world)]
            outputs = loaded(
                tokens=tokens,
                tokens_sends=[x[r.send_rows] for x, r in zip(tokens, routed, strict=True)],
                tokens_words=[r.words for r in routed],
                rows=[r.rows for r in routed],
                experts=[r.experts for r in routed],
                used=[r.used for r in routed],
                b=weights,
            )
            # Looked at only when all calls are under way, so that they follow one another.
            checks.append((tokens, choices, routed, outputs))
        for call, (tokens, choices, routed, outputs) in enumerate(checks):
            everyone = torch.cat(tokens)
            for rank, out in enumerate(outputs):
                right, used = expect(everyone, weights[rank], choices, routed[rank], shape, n)
                # A row of weights is as long as a token, so no right value is larger than this.
                error = (out[used].float() - right[used]).norm() / max(right[used].norm().item(), 1)
                assert error.item() < 1e-2, f"call {call}, rank {rank}"
        loaded.synchronize()


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    ("combine", "realization", "count", "n"),
    [
        (Combine.TILES, "ldst_colocated", 192, 256),
        (Combine.TILES, "copy_engine", 192, 328),
        (Combine.ROLE, "ldst_dedicated", 333, 200),
    ],
)
def test_combine_is_right_for_every_routing(groups, world, combine, realization, count, n):
    shape = RoutingShape(world, count, TOP_K, world * EXPERTS_PER_RANK, 64)
    plan = syncopate.Plan("combine", [world])
    dedicated = realization.endswith("dedicated")
    combined = combine_tokens(
        plan,
        shape,
        n,
        "bf16",
        strategy=syncopate.Strategy(
            realization=realization,
            splits=2,
            comm_ctas=16 // world,
            combine=combine,
            reducing="ldst_dedicated" if dedicated else "ldst_colocated",
        ),
    )
    config = GemmConfig(block_m=32, block_n=128, num_warps=4, num_ctas=96 // world)
    program = syncopate.compile(
        combine_rows,
        plan,
        **bind_combine_rows(combined, shape, config),
        timeout=10.0,
    )
    generator = torch.Generator("cuda").manual_seed(world)
    with load(program, groups(world)) as loaded:
        for call, choices in enumerate(routings(shape)):
            routed = [route_tokens(choices, rank, shape) for rank in range(world)]
            weights = torch.rand(choices.shape, generator=generator, device="cuda")
            made = []
            for one in routed:
                size = (shape.blocks * shape.block_m, n)
                y = torch.randn(size, generator=generator, device="cuda").bfloat16()
                # What no choice stands at was never computed, and must not be read.
                y[one.rows < 0] = float("nan")
                made.append(y)
            outputs = loaded(y=made, places=[r.places for r in routed], weights=[weights] * world)
            total = torch.zeros((shape.rows, n), device="cuda")
            for one, y in zip(routed, made, strict=True):
                places = one.places.view(shape.rows, shape.top_k)
                token, number = (places >= 0).nonzero(as_tuple=True)
                weight = weights.view(shape.rows, shape.top_k)[token, number, None]
                total.index_add_(0, token, weight * y[places[token, number].long()].float())
            for rank, out in enumerate(outputs):
                right = total[rank * count : (rank + 1) * count]
                error = (out.float() - right).norm() / max(right.norm().item(), 1)
                assert error.item() < 1e-2, f"call {call}, rank {rank}"
        loaded.synchronize()


@pytest.mark.parametrize("world", [2])
def test_a_graph_routes_anew_at_every_replay(groups, world):
    count, width, n = 200, 512, 256
    shape = RoutingShape(world, count, TOP_K, world * EXPERTS_PER_RANK, 64, 2)
    plan = syncopate.Plan("dispatch", [world])
    dispatch = dispatch_tokens(plan, shape, width, "bf16")
    config = GemmConfig(block_m=64, block_n=128, num_ctas=96 // world)
    program = syncopate.compile(
        grouped_gemm, plan, **bind_grouped_gemm(dispatch, shape, n, config), timeout=10.0
    )
    tokens = [
        torch.empty((count, width), dtype=torch.bfloat16, device="cuda") for _ in range(world)
    ]
    weights = [
        torch.randn((EXPERTS_PER_RANK * n, width), device="cuda").bfloat16() for _ in range(world)
    ]
    choices = torch.zeros((world, count, TOP_K), dtype=torch.long, device="cuda")

    def step(loaded):
        routed = [route_tokens(choices, rank, shape) for rank in range(world)]
        outputs = loaded(
            tokens=tokens,
            tokens_sends=[x[r.send_rows] for x, r in zip(tokens, routed, strict=True)],
            tokens_words=[r.words for r in routed],
            rows=[r.rows for r in routed],
            experts=[r.experts for r in routed],
            used=[r.used for r in routed],
            b=weights,
        )
        return routed, outputs

    with load(program, groups(world)) as loaded:
        step(loaded)
        loaded.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            routed, outputs = step(loaded)
        for fresh in routings(shape):
            choices.copy_(fresh)
            for x in tokens:
                x.normal_()
            graph.replay()
            torch.cuda.synchronize()
            everyone = torch.cat(tokens)
            for rank, out in enumerate(outputs):
                right, used = expect(everyone, weights[rank], choices, routed[rank], shape, n)
                error = (out[used].float() - right[used]).norm() / max(right[used].norm().item(), 1)
                assert error.item() < 1e-2, f"rank {rank}"
        loaded.check()
