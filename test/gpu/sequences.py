"""Attention of a sequence that ranks share, and what torch makes of it in float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import syncopate
from syncopate.choices import Algorithm
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.runtime import ProcessGroup, load
from syncopate.workloads import AttentionKind, AttentionWorkload

__all__ = ["SEQUENCES", "SequenceCase", "sequence_checks"]

CALLS = 20


@dataclass(frozen=True)
class SequenceCase:
    """Attention in bf16.

    Attributes:
        length: Of the sequence.
        heads: Of the queries.
        kv_heads: Of keys and values.
        head_dim: Elements of a head.
        causal: Whether a query takes keys up to its own place only.
        sharding: Who has which part of the sequence.
        choices: Fields of the strategy.
        groups: In how many groups heads come.
    """

    length: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    sharding: Sharding
    choices: Mapping[str, Any]
    groups: int | None = None

    def shards(self, world: int) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, world, self.sharding)

    def build(self, world: int, num_ctas: int) -> Any:
        """Compiles it."""
        strategy = syncopate.Strategy(**self.choices, comm_ctas=4)
        is_ring = strategy.algorithm is Algorithm.RING
        workload = AttentionWorkload(
            AttentionKind.RING if is_ring else AttentionKind.SEQUENCE_PARALLEL,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.length,
            world,
            causal=self.causal,
            sharding=self.sharding,
            groups=self.groups,
        )
        config = dataclasses.replace(workload.choose_config(strategy), num_ctas=num_ctas)
        return workload.compile(strategy, config=config, timeout=10.0)

    def draw(self, world: int, seed: int) -> dict[str, torch.Tensor]:
        """Queries [ranks, rows, …] of all ranks, keys and values of the whole sequence; the same on every rank."""
        generator = torch.Generator("cuda").manual_seed(seed)
        sizes = {"q": (world, self.shards(world).rows, self.heads * self.head_dim)}
        sizes |= dict.fromkeys("kv", (self.length, self.kv_heads * self.head_dim))
        return {
            name: torch.randn(size, generator=generator, device="cuda").bfloat16()
            for name, size in sizes.items()
        }

    def give(
        self, world: int, rank: int, drawn: Mapping[str, torch.Tensor], loaded: Any
    ) -> dict[str, torch.Tensor]:
        """The arguments of a rank's call. Of several regions of a buffer it writes its own in place."""
        shards = self.shards(world)
        given = {"q": drawn["q"][rank]}
        for name in "kv":
            ranges = shards.ranges(rank)
            if len(ranges) == 1:
                given[name] = drawn[name][slice(*ranges[0])].contiguous()
                continue
            for begin, end in ranges:
                loaded.buffer(name, rank)[begin:end] = drawn[name][begin:end]
        if self.causal:
            given["positions"] = torch.from_numpy(shards.positions(rank)).cuda()
        return given

    def check(
        self,
        world: int,
        rank: int,
        drawn: Mapping[str, torch.Tensor],
        found: tuple[torch.Tensor, ...],
    ) -> None:
        """Compares a rank's outputs and logarithms with torch's, of rows that stand for an element."""
        places = torch.from_numpy(self.shards(world).positions(rank)).cuda()
        q = self._split(drawn["q"][rank], self.heads)
        group = self.heads // self.kv_heads
        k, v = (
            self._split(drawn[name], self.kv_heads).repeat_interleave(group, 0) for name in "kv"
        )
        kept = torch.arange(self.length, device="cuda") <= places[:, None]
        kept = kept if self.causal else torch.ones_like(kept)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=kept)
        scores = (q @ k.transpose(1, 2) * self.head_dim**-0.5).masked_fill(~kept, float("-inf"))
        o, lse = found
        has = places >= 0
        # Weights and outputs are rounded to 8 bits; outputs are at most of the order of 1.
        torch.testing.assert_close(
            o[has].float(), out.transpose(0, 1).flatten(1)[has], rtol=2e-2, atol=2e-2
        )
        torch.testing.assert_close(lse[:, has], scores.logsumexp(2)[:, has], rtol=1e-4, atol=1e-4)

    def _split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.float().view(len(x), heads, self.head_dim).transpose(0, 1)


_CONTIGUOUS, _ZIGZAG = Sharding.CONTIGUOUS, Sharding.ZIGZAG
SEQUENCES = {
    "gathered": SequenceCase(4096, 8, 2, 128, False, _CONTIGUOUS, {}),
    "gathered, causal": SequenceCase(4096, 8, 2, 128, True, _CONTIGUOUS, {}),
    "odd length": SequenceCase(3001, 4, 4, 64, True, _CONTIGUOUS, {"splits": 3}),
    "by engines": SequenceCase(4096, 4, 1, 128, False, _CONTIGUOUS, {"realization": "copy_engine"}),
    "by tma": SequenceCase(2560, 4, 4, 64, True, _CONTIGUOUS, {"realization": "tma_dedicated"}),
    "ring": SequenceCase(3072, 4, 2, 64, True, _CONTIGUOUS, {"algorithm": "ring"}),
    "zig-zag ring": SequenceCase(
        4000, 8, 2, 128, True, _ZIGZAG, {"algorithm": "ring", "direction": "pull"}
    ),
    "heads in groups": SequenceCase(
        4096, 8, 4, 128, False, _CONTIGUOUS, {"realization": "copy_engine"}, groups=4
    ),
    "heads in groups around a ring": SequenceCase(
        3072, 4, 2, 64, True, _ZIGZAG, {"algorithm": "ring"}, groups=2
    ),
    "heads of 256": SequenceCase(2048, 2, 1, 256, True, _CONTIGUOUS, {}),
}


def sequence_checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """All cases, each as a check of one rank of a group."""

    def make(case: SequenceCase) -> Callable[[ProcessGroup], None]:
        def run(group: ProcessGroup) -> None:
            world, rank = group.world_size, group.rank
            torch.backends.cuda.matmul.allow_tf32 = False
            with load(case.build(world, group.sms_per_rank(0) - 4), group) as loaded:
                for call in range(CALLS):
                    drawn = case.draw(world, call)
                    loaded.acquire()
                    found = loaded(**case.give(world, rank, drawn, loaded))
                    case.check(world, rank, drawn, found)
                loaded.synchronize()

        return run

    for name, case in SEQUENCES.items():
        yield f"attention, {name}", make(case)
