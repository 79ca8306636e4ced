"""Gradients of attention of a sequence that ranks of one GPU share, against those of torch in float32."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch

import syncopate
from syncopate.choices import Algorithm
from syncopate.kernels import AttentionConfig
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.runtime import LocalGroup
from syncopate.workloads import AttentionGradients, AttentionKind, AttentionWorkload
from syncopate.workloads.loaded_gradients import LoadedGradients

pytestmark = pytest.mark.gpu(1)

CALLS = 10
TOLERANCE = 2e-2
"""Weights and their gradients are rounded to 8 bits before they are multiplied; relative to the largest gradient."""


@dataclass(frozen=True)
class Case:
    """Gradients in bf16; fields are as in `sequences.SequenceCase`, `AttentionGradients` and `AttentionWorkload`."""

    length: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    sharding: Sharding = Sharding.CONTIGUOUS
    choices: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keeps: bool = True
    node_size: int | None = None
    cu_seqlens: tuple[int, ...] | None = None

    def shards(self, world: int) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, world, self.sharding)

    def load(self, group: LocalGroup, ctas: int) -> LoadedGradients:
        """Compiles the programs, and loads them."""
        strategy = syncopate.Strategy(**self.choices, comm_ctas=4)
        is_ring = strategy.algorithm is Algorithm.RING
        workload = AttentionWorkload(
            AttentionKind.RING if is_ring else AttentionKind.SEQUENCE_PARALLEL,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.length,
            group.world_size,
            causal=self.causal,
            sharding=self.sharding,
            cu_seqlens=self.cu_seqlens,
            node_size=self.node_size,
        )
        return _load(AttentionGradients(workload, self.keeps), group, strategy, ctas)

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
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        do: torch.Tensor,
        places: torch.Tensor,
        dlse: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """O, the logarithms of the denominators, dQ, dK and dV, in float32, of queries at some places.

        `dlse` are the gradients of the logarithms, if they have any.
        """
        leaves = [x.float().requires_grad_() for x in (q, k, v)]
        heads = [x.view(len(x), -1, self.head_dim).transpose(0, 1) for x in leaves]
        group = self.heads // self.kv_heads
        queries, keys, values = heads[0], *(x.repeat_interleave(group, 0) for x in heads[1:])
        scores = queries @ keys.transpose(1, 2) * self.head_dim**-0.5
        every = torch.arange(self.length, device=q.device)
        if self.causal:
            scores = scores.masked_fill(every > places[:, None], float("-inf"))
        if self.cu_seqlens is not None:
            bounds = torch.tensor(self.cu_seqlens, device=q.device)
            mine, theirs = (torch.searchsorted(bounds, at, right=True) for at in (places, every))
            scores = scores.masked_fill(mine[:, None] != theirs, float("-inf"))
        out = (scores.softmax(2) @ values).transpose(0, 1).flatten(1)
        logs = scores.logsumexp(2)
        outputs, cotangents = [out], [do.float()]
        if dlse is not None:
            outputs, cotangents = [out, logs], [do.float(), dlse]
        gradients = torch.autograd.grad(outputs, leaves, cotangents)
        return out.detach(), logs.detach(), *gradients


def _load(
    gradients: AttentionGradients, group: LocalGroup, strategy: syncopate.Strategy, ctas: int
) -> LoadedGradients:
    """By the tiles that are chosen, and as many CTAs as ranks of one GPU leave each other."""
    head_dim = gradients.workload.head_dim
    of_q, of_kv = (
        dataclasses.replace(config, num_ctas=ctas)
        for config in (
            AttentionConfig.choose_backward_q(head_dim),
            AttentionConfig.choose_backward_kv(head_dim),
        )
    )
    return gradients.load(group, strategy, config_q=of_q, config_kv=of_kv, timeout=10.0)


def _own(case: Case, places: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """A rank's keys or values; rows that stand for none are zeros, and left out where the rank has one block."""
    if case.sharding is Sharding.CONTIGUOUS:
        return whole[places[places >= 0].long()]
    return torch.where(places[:, None] >= 0, whole[places.long()], 0)


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
    "gathered again": Case(1501, 4, 2, 64, True, keeps=False),
    "zig-zag ring, gathered again": Case(
        2000, 8, 2, 128, True, Sharding.ZIGZAG, {"algorithm": "ring"}, keeps=False
    ),
    "packed": Case(1501, 4, 2, 64, True, cu_seqlens=(0, 300, 301, 1501)),
    "packed zig-zag ring": Case(
        2000,
        *(8, 2, 128, False, Sharding.ZIGZAG, {"algorithm": "ring"}),
        cu_seqlens=(0, 900, 1100, 2000),
    ),
    "heads of 256": Case(1001, 4, 2, 256, True),
}
DOUBLE_RING = Case(2002, 4, 2, 64, True, Sharding.ZIGZAG, {"algorithm": "ring"}, node_size=2)


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
        of_keys.append(dk)
        of_values.append(dv)
    return rows, of_q, torch.stack([sum(of_keys), sum(of_values)])


@pytest.mark.parametrize(
    ("case", "world"),
    [*itertools.product(CASES.values(), (2, 3)), (DOUBLE_RING, 4)],
    ids=[*(f"{name}-{world}" for name in CASES for world in (2, 3)), "double ring-4"],
)
def test_gradients_are_those_of_torch_and_repeat(groups, case, world):
    torch.backends.cuda.matmul.allow_tf32 = False
    shards = case.shards(world)
    places = [torch.from_numpy(shards.positions(rank)).cuda() for rank in range(world)]
    last: list[torch.Tensor] = []
    with case.load(groups(world), 96 // world) as loaded:
        for call in range(CALLS):
            # Every second call gets what the one before got.
            drawn = case.draw(world, call // 2)
            rows, expected_q, expected_kv = _expect(case, drawn, places)
            rows |= {name: list(drawn[name]) for name in ("q", "do")}
            rows |= {name: [_own(case, at, drawn[name]) for at in places] for name in "kv"}
            found = loaded(**rows)
            for gradients, expected, at in zip(found, expected_q, places, strict=True):
                dq, *dkv = gradients
                has = at >= 0
                _assert_close(dq[has], expected)
                for own, whole in zip(dkv, expected_kv, strict=True):
                    own_has = has[: len(own)]
                    _assert_close(own[own_has], whole[at[has].long()])
                    assert not own[~own_has].any()
            made = [own for _, *dkv in found for own in dkv]
            if call % 2:
                assert all(torch.equal(a, b) for a, b in zip(made, last, strict=True))
            last = made
        loaded.synchronize()


@pytest.mark.parametrize("kv_heads", [2, 1])
def test_gradients_of_heads_are_those_of_torch(groups, kv_heads):
    torch.backends.cuda.matmul.allow_tf32 = False
    world, heads, head_dim, length = 2, 4, 128, 1001
    work = AttentionWorkload("ulysses", heads, kv_heads, head_dim, length, world, causal=True)
    case = Case(length, heads, kv_heads, head_dim, True)
    gradients, strategy = AttentionGradients(work, of_lse=True), syncopate.Strategy()
    rows = [slice(*work.shards.ranges(rank)[0]) for rank in range(world)]
    generator = torch.Generator("cuda").manual_seed(11)
    with _load(gradients, groups(world), strategy, 96 // world) as loaded:
        for _ in range(CALLS):
            q, k, v, do = (
                torch.randn(length, n * head_dim, generator=generator, device="cuda").bfloat16()
                for n in (heads, kv_heads, kv_heads, heads)
            )
            dlse = torch.randn(heads, length, generator=generator, device="cuda")
            places = torch.arange(length, device="cuda")
            out, lse, *expected = case.differentiate(q, k, v, do, places, dlse)
            whole = {"q": q, "k": k, "v": v, "o": out.bfloat16(), "do": do}
            given = {name: [each[part] for part in rows] for name, each in whole.items()}
            # Cloned, since rows of an odd length may start anywhere, and kernels want multiples of 16 bytes.
            logs = {
                name: [own.clone() for own in each.chunk(world)]
                for name, each in (("lse", lse), ("dlse", dlse))
            }
            for part, found in zip(rows, loaded(**given, **logs), strict=True):
                for own, right in zip(found, expected, strict=True):
                    _assert_close(own, right[part])
        loaded.synchronize()
