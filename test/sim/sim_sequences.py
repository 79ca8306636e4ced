"""Programs of attention, whose tiles walk the steps of a sequence that ranks share."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import MACHINE_CODE

import syncopate
from syncopate.choices import Algorithm
from syncopate.dtypes import DTYPES
from syncopate.kernels import AttentionConfig
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.workloads import AttentionKind, AttentionWorkload

__all__ = ["ATTENTIONS", "AttentionCase", "attend"]

Array = np.ndarray[Any, Any]
_STRATEGY = syncopate.Strategy()
_SMALL = AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=2, num_ctas=3)


def attend(
    q: Array,
    k: Array,
    v: Array,
    positions: Array | None,
    head_dim: int,
    firsts: Array | None = None,
) -> tuple[Array, Array]:
    """Attention in float64: outputs [rows, heads · head_dim], and the log of the denominators, [heads, rows].

    `positions` are the last keys that queries take, and `firsts` the first ones.
    """
    rows, length = len(q), len(k)
    q, k, v = (x.astype(np.float64).reshape(len(x), -1, head_dim) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("rhd,chd->hrc", q, np.repeat(k, group, axis=1)) / np.sqrt(head_dim)
    if positions is not None:
        scores = np.where(np.arange(length) <= positions[:, None], scores, -np.inf)
    if firsts is not None:
        scores = np.where(np.arange(length) >= firsts[:, None], scores, -np.inf)
    top = np.maximum(scores.max(axis=2, keepdims=True), -1e9)
    weights = np.exp(scores - top)
    total = weights.sum(axis=2, keepdims=True)
    out = np.einsum("hrc,chd->rhd", weights, np.repeat(v, group, axis=1))
    takes = total[:, :, 0].T > 0
    out = np.where(takes[:, :, None], out / np.where(takes, total[:, :, 0].T, 1)[:, :, None], 0)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[:, :, 0]
    return out.reshape(rows, -1), lse


def workload_of(case: Any, node_size: int | None = None) -> AttentionWorkload:
    """The workload of a case that has its sizes and choices: around a ring if its strategy is one."""
    is_ring = case.strategy.algorithm is Algorithm.RING
    return AttentionWorkload(
        AttentionKind.RING if is_ring else AttentionKind.SEQUENCE_PARALLEL,
        case.heads,
        case.kv_heads,
        case.head_dim,
        case.length,
        case.world,
        causal=case.causal,
        dtype=case.dtype,
        sharding=case.sharding,
        cu_seqlens=getattr(case, "cu_seqlens", None),
        node_size=node_size,
        groups=getattr(case, "groups", None),
    )


@dataclass(frozen=True)
class AttentionCase:
    """Attention of the queries that each rank has, with keys and values that are gathered meanwhile.

    Attributes:
        world: Number of ranks.
        length: Of the sequence.
        heads: Of the queries.
        kv_heads: Of keys and values.
        head_dim: Elements of a head.
        causal: Whether a query takes keys up to its own place only.
        sharding: Who has which part of the sequence.
        strategy: The choices.
        config: Tiles and steps.
        dtype: Element type.
        groups: In how many groups heads come.
    """

    world: int
    length: int
    heads: int = 2
    kv_heads: int = 2
    head_dim: int = 64
    causal: bool = False
    sharding: Sharding = Sharding.CONTIGUOUS
    strategy: syncopate.Strategy = _STRATEGY
    config: AttentionConfig = _SMALL
    dtype: str = "f16"
    groups: int | None = None

    @property
    def shards(self) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, self.world, self.sharding)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        return workload_of(self).compile(
            self.strategy, config=self.config, machine_code=MACHINE_CODE
        )

    def draw(self, seed: int, calls: int) -> list[dict[str, list[Array]]]:
        """Random inputs of some calls, as `simulate` takes them."""
        generator = np.random.default_rng(seed)
        return [self._draw(generator) for _ in range(calls)]

    def _draw(self, generator: np.random.Generator) -> dict[str, list[Array]]:
        ranks, shards = range(self.world), self.shards

        def random(rows: int, heads: int) -> Array:
            return self._round(generator.standard_normal((rows, heads * self.head_dim)))

        given = {"q": [random(shards.rows, self.heads) for _ in ranks]}
        for name in "kv":
            whole = random(self.length, self.kv_heads)
            ranges = [shards.ranges(rank) for rank in ranks]
            given[name] = [
                whole if len(own) > 1 else whole[slice(*own[0])] if own else whole[:0]
                for own in ranges
            ]
        if self.causal:
            given["positions"] = [shards.positions(rank) for rank in ranks]
        return given

    def _round(self, values: Array) -> Array:
        """To the numbers of the element type, of those that numpy knows."""
        if self.dtype == "bf16":
            return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
        return values.astype(DTYPES[self.dtype].numpy)

    def errors(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[float, float]:
        """The largest differences of outputs and of logarithms from float64, of rows that stand for an element."""
        whole = {}
        for name in "kv":
            given = inputs[name]
            split = self.sharding is Sharding.CONTIGUOUS
            whole[name] = np.concatenate(given) if split else given[0]
            for rank, own in enumerate(given):
                if not split:
                    for begin, end in self.shards.ranges(rank):
                        whole[name][begin:end] = own[begin:end]
        worst = [0.0, 0.0]
        for rank in range(self.world):
            places = self.shards.positions(rank)
            out, lse = attend(
                inputs["q"][rank],
                whole["k"],
                whole["v"],
                places if self.causal else None,
                self.head_dim,
            )
            has = places >= 0
            found = np.asarray(outputs["o"][rank], np.float64)
            worst[0] = float(np.maximum(worst[0], np.abs(found - out)[has].max(initial=0)))
            found = np.asarray(outputs["lse"][rank], np.float64)[:, has]
            worst[1] = float(np.maximum(worst[1], np.abs(found - lse[:, has]).max(initial=0)))
        return worst[0], worst[1]


_RING = {"algorithm": "ring"}
ATTENTIONS: dict[str, AttentionCase] = {
    # Odd lengths: blocks of keys lie across shards, and shards end within tiles.
    "gathered": AttentionCase(2, 135, heads=4),
    "gathered, causal": AttentionCase(2, 135, heads=4, causal=True),
    "gathered by engines, three ranks": AttentionCase(
        3, 205, strategy=syncopate.Strategy(realization="copy_engine")
    ),
    "gathered by tma, pulled": AttentionCase(
        3,
        205,
        causal=True,
        strategy=syncopate.Strategy(realization="tma_dedicated", direction="pull", comm_ctas=2),
    ),
    "gathered in place": AttentionCase(2, 128, kv_heads=1),
    "four ranks, one of them without queries": AttentionCase(4, 97, causal=True),
    "ring": AttentionCase(3, 203, strategy=syncopate.Strategy(**_RING)),
    "ring, got, causal": AttentionCase(
        4, 255, causal=True, strategy=syncopate.Strategy(**_RING, direction="pull")
    ),
    "ring in pieces, bf16": AttentionCase(
        2, 193, dtype="bf16", strategy=syncopate.Strategy(**_RING, splits=2)
    ),
    "heads in groups": AttentionCase(3, 97, heads=4, kv_heads=2, groups=2),
    "causal heads in groups around a ring": AttentionCase(
        3,
        130,
        heads=4,
        kv_heads=4,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=syncopate.Strategy(**_RING),
        groups=4,
    ),
    "zig-zag": AttentionCase(2, 135, causal=True, sharding=Sharding.ZIGZAG),
    "zig-zag ring, three ranks": AttentionCase(
        3,
        250,
        heads=4,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=syncopate.Strategy(**_RING),
    ),
    "heads of 128": AttentionCase(2, 101, heads=2, kv_heads=1, head_dim=128, causal=True),
    "heads of 256": AttentionCase(2, 101, heads=1, kv_heads=1, head_dim=256, dtype="bf16"),
    "three stages": AttentionCase(
        2,
        230,
        causal=True,
        config=AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=3, num_ctas=2),
    ),
}
