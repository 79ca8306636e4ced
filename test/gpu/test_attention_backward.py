"""Gradients of attention of a sequence that ranks of one GPU share, against those of torch in float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch

import syncopate
from syncopate.kernels import (
    AttentionConfig,
    attention_backward_kv,
    attention_backward_q,
    bind_attention_backward_kv,
    bind_attention_backward_q,
)
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence
from syncopate.plan.sequence_sums import reduce_sequence
from syncopate.runtime import load

pytestmark = pytest.mark.gpu(1)

CALLS = 10
TOLERANCE = 2e-2
"""Weights and their gradients are rounded to 8 bits before they are multiplied; relative to the largest gradient."""


@dataclass(frozen=True)
class Case:
    """Gradients in bf16, those of keys and values in float32; fields are as in `sequences.SequenceCase`."""

    length: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    sharding: Sharding = Sharding.CONTIGUOUS
    choices: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def shards(self, world: int) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, world, self.sharding)

    def build(self, world: int, ctas: int) -> tuple[Any, Any]:
        """Compiles the programs of queries, and of keys and values."""
        shards, width = self.shards(world), self.kv_heads * self.head_dim
        strategy = syncopate.Strategy(**self.choices, comm_ctas=4)
        programs = []
        for name, kernel in (("q", attention_backward_q), ("kv", attention_backward_kv)):
            plan = syncopate.Plan(f"backward_{name}", [world])
            k, v = (plan.buffer(name, (self.length, width), "bf16") for name in "kv")
            gather_sequence(plan, [k, v], shards, strategy)
            if name == "kv":
                dkv = plan.buffer("dkv", (self.length, 2 * width), "f32")
                reduce_sequence(plan, dkv, shards, strategy, causal=self.causal)
                config = AttentionConfig(
                    64 if self.head_dim <= 64 else 32, 128, num_stages=2, num_ctas=ctas
                )
                bound = bind_attention_backward_kv(
                    k, v, dkv, self.heads, self.head_dim, shards, config, causal=self.causal
                )
            else:
                config = AttentionConfig(block_n=64, num_stages=2, num_ctas=ctas)
                bound = bind_attention_backward_q(
                    k, v, self.heads, self.head_dim, shards, config, causal=self.causal
                )
            programs.append(syncopate.compile(kernel, plan, **bound, timeout=10.0))
        return programs[0], programs[1]

    def draw(self, world: int, seed: int) -> dict[str, torch.Tensor]:
        """Queries and gradients [ranks, rows, …] of all ranks, keys and values of the whole sequence."""
        generator = torch.Generator("cuda").manual_seed(seed)
        sizes = dict.fromkeys(
            ("q", "do"), (world, self.shards(world).rows, self.heads * self.head_dim)
        )
        sizes |= dict.fromkeys("kv", (self.length, self.kv_heads * self.head_dim))
        return {
            name: torch.randn(size, generator=generator, device="cuda").bfloat16()
            for name, size in sizes.items()
        }

    def differentiate(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, places: Any
    ) -> tuple[torch.Tensor, ...]:
        """O, the logarithms of the denominators, dQ, dK and dV, in float32, of queries at some places."""
        leaves = [x.float().requires_grad_() for x in (q, k, v)]
        heads = [x.view(len(x), -1, self.head_dim).transpose(0, 1) for x in leaves]
        group = self.heads // self.kv_heads
        queries, keys, values = heads[0], *(x.repeat_interleave(group, 0) for x in heads[1:])
        scores = queries @ keys.transpose(1, 2) * self.head_dim**-0.5
        if self.causal:
            hidden = torch.arange(self.length, device=q.device) > places[:, None]
            scores = scores.masked_fill(hidden, float("-inf"))
        out = (scores.softmax(2) @ values).transpose(0, 1).flatten(1)
        gradients = torch.autograd.grad(out, leaves, do.float())
        return out.detach(), scores.logsumexp(2).detach(), *gradients


def _give(case: Case, world: int, drawn: Mapping[str, torch.Tensor], loaded: Any) -> dict[str, Any]:
    """Keys and values of each rank; of several regions of a buffer each is written in place."""
    given: dict[str, Any] = {}
    for rank, name in ((rank, name) for rank in range(world) for name in "kv"):
        ranges = case.shards(world).ranges(rank)
        if len(ranges) == 1:
            own = drawn[name][slice(*ranges[0])].contiguous()
            given.setdefault(name, []).append(own)
            continue
        for begin, end in ranges:
            loaded.buffer(name, rank)[begin:end] = drawn[name][begin:end]
    return given


def _assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = (found.float() - expected).abs().max() / expected.abs().max()
    assert error < TOLERANCE, error


CASES = {
    "gathered": Case(2048, 8, 2, 128, False),
    "causal": Case(2048, 8, 2, 128, True),
    "odd length": Case(1501, 4, 4, 64, True, choices={"direction": "pull"}),
    "ring": Case(1536, 4, 2, 64, False, choices={"algorithm": "ring", "direction": "pull"}),
    "zig-zag ring": Case(2000, 8, 2, 128, True, Sharding.ZIGZAG, {"algorithm": "ring"}),
    "zig-zag, dedicated": Case(
        2000, 4, 1, 64, True, Sharding.ZIGZAG, {"realization": "ldst_dedicated"}
    ),
    "by engines": Case(2048, 4, 1, 128, True, choices={"realization": "copy_engine"}),
}


def _expect(
    case: Case, drawn: Mapping[str, torch.Tensor], places: list[torch.Tensor]
) -> tuple[dict[str, list[torch.Tensor]], list[torch.Tensor], torch.Tensor]:
    """What the forward pass leaves of each rank's rows; dQ of each rank; and dK and dV of the whole sequence."""
    rows: dict[str, list[torch.Tensor]] = {"o": [], "lse": []}
    of_q, of_keys, of_values = [], [], []
    for q, do, at in zip(drawn["q"], drawn["do"], places, strict=True):
        has = at >= 0
        out, lse, dq, dk, dv = case.differentiate(q[has], drawn["k"], drawn["v"], do[has], at[has])
        rows["o"].append(torch.zeros_like(q))
        rows["o"][-1][has] = out.bfloat16()
        rows["lse"].append(torch.zeros(case.heads, len(q), device="cuda"))
        rows["lse"][-1][:, has] = lse
        of_q.append(dq)
        of_keys.append(dk.view(case.length, case.kv_heads, case.head_dim))
        of_values.append(dv.view(case.length, case.kv_heads, case.head_dim))
    return rows, of_q, torch.stack([sum(of_keys), sum(of_values)], 2).flatten(1)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_torch_and_repeat(groups, case, world):
    torch.backends.cuda.matmul.allow_tf32 = False
    shards = case.shards(world)
    places = [torch.from_numpy(shards.positions(rank)).cuda() for rank in range(world)]
    ragged = world * shards.rows > case.length
    of_q, of_kv = case.build(world, 96 // world)
    last: list[torch.Tensor] = []
    with load(of_q, groups(world)) as first, load(of_kv, groups(world)) as second:
        for call in range(CALLS):
            # Every second call gets what the one before got.
            drawn = case.draw(world, call // 2)
            rows, expected_q, expected_kv = _expect(case, drawn, places)
            rows |= {name: list(drawn[name]) for name in ("q", "do")}
            takes = {"positions": places} if case.causal else {}
            first.acquire()
            found = first(**rows, **_give(case, world, drawn, first), **takes)
            for (dq, _), expected, at in zip(found, expected_q, places, strict=True):
                _assert_close(dq[at >= 0], expected)
            del rows["o"]
            rows["delta"] = [delta for _, delta in found]
            takes = {"positions": places} if case.causal or ragged else {}
            second.acquire()
            sums = second(**rows, **_give(case, world, drawn, second), **takes)
            for own, at in zip(sums, places, strict=True):
                _assert_close(own, expected_kv[at[at >= 0].long()])
            if call % 2:
                assert all(torch.equal(a, b) for a, b in zip(sums, last, strict=True))
            last = [own.clone() for own in sums]
        first.synchronize()
        second.synchronize()
