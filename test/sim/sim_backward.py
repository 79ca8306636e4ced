"""Programs of the gradients of attention of a sequence that ranks share, and these gradients in float64."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sim_compile import MACHINE_CODE, compile_program
from sim_sequences import attend, workload_of

import syncopate
from syncopate.dtypes import DTYPES
from syncopate.kernels import (
    AttentionConfig,
    attention_backward_kv,
    attention_backward_q,
    bind_attention_backward_kv,
    bind_attention_backward_q,
)
from syncopate.plan.sequence import SequenceShards, Sharding
from syncopate.workloads import AttentionGradients

__all__ = ["BACKWARD", "BackwardCase", "Given", "differentiate"]

Array = np.ndarray[Any, Any]
_STRATEGY = syncopate.Strategy()
_SMALL = AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=2, num_ctas=3)


def differentiate(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    positions: Array | None,
    head_dim: int,
    firsts: Array | None = None,
    dlse: Array | None = None,
) -> tuple[Array, Array]:
    """Gradients in float64, of what `attend` computes: dQ like q, and [keys, kv_heads, 2, head_dim] of keys and values.

    Args:
        q: Queries, [rows, heads · head_dim].
        k: Keys, [length, kv_heads · head_dim].
        v: Values.
        do: The gradient of the output.
        positions: Of the queries, if they take the keys up to there only; -1 for none.
        head_dim: Elements of a head.
        firsts: The first keys that queries take, if these are not the first of all.
        dlse: The gradients of the logarithms, [heads, rows], if they have any.
    """
    out, lse = attend(q, k, v, positions, head_dim, firsts)
    q, k, v, do, out = (
        x.astype(np.float64).reshape(len(x), -1, head_dim) for x in (q, k, v, do, out)
    )
    kv_heads = k.shape[1]
    group = q.shape[1] // kv_heads
    scale = head_dim**-0.5
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    takes = np.isfinite(lse)[:, :, None]
    kept = np.ones((len(q), len(k)), bool)
    if positions is not None:
        kept = np.arange(len(k)) <= positions[:, None]
    if firsts is not None:
        kept &= np.arange(len(k)) >= firsts[:, None]
    exponents = scale * np.einsum("rhd,chd->hrc", q, k) - np.where(takes[..., 0], lse, 0)[..., None]
    weights = np.where(kept & takes, np.exp(exponents), 0)
    delta = np.einsum("rhd,rhd->hr", do, out)[:, :, None]
    if dlse is not None:
        delta = delta - dlse[:, :, None]
    ds = scale * weights * (np.einsum("rhd,chd->hrc", do, v) - delta)
    dq = np.einsum("hrc,chd->rhd", ds, k).reshape(len(q), -1)
    both = np.stack([np.einsum("hrc,rhd->chd", ds, q), np.einsum("hrc,rhd->chd", weights, do)], 2)
    return dq, both.reshape(len(k), kv_heads, group, 2, head_dim).sum(axis=2)


@dataclass(frozen=True)
class Given:
    """What the gradients are computed of: by rank, but for keys and values."""

    q: Sequence[Array]
    k: Array
    v: Array
    o: Sequence[Array]
    do: Sequence[Array]
    lse: Sequence[Array]
    dlse: Sequence[Array] | None = None


@dataclass(frozen=True)
class BackwardCase:
    """The gradients of attention of the queries that each rank has.

    Attributes:
        world: Number of ranks.
        length: Of the sequence.
        heads: Of the queries.
        kv_heads: Of keys and values.
        head_dim: Elements of a head.
        causal: Whether a query takes keys up to its own place only.
        sharding: Who has which part of the sequence.
        strategy: The choices.
        kept: Whether each rank keeps all keys and values for their gradients when it computes those of queries. One
            rank alone, whose kernels are not fused with anything, always has them.
        dtype: Element type.
        sums: That of the gradients of keys and values.
        config: Tiles and steps.
        node_size: Of a ring, ranks of a node.
        cu_seqlens: Where sequences begin that stand one behind another, and where the last one ends.
        of_lse: Whether the logarithms have gradients.
    """

    world: int
    length: int
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 64
    causal: bool = False
    sharding: Sharding = Sharding.CONTIGUOUS
    strategy: syncopate.Strategy = _STRATEGY
    kept: bool = False
    dtype: str = "f16"
    sums: str = "f32"
    config: AttentionConfig = _SMALL
    node_size: int | None = None
    cu_seqlens: tuple[int, ...] | None = None
    of_lse: bool = False

    @property
    def shards(self) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, self.world, self.sharding)

    @property
    def gradients(self) -> AttentionGradients:
        """Those of a workload, which has several ranks."""
        work = workload_of(self, self.node_size)
        return AttentionGradients(work, self.kept, self.sums, self.of_lse)

    @functools.cache  # noqa: B019
    def build(self) -> tuple[Any, Any]:
        """Compiles the programs of queries, and of keys and values, once."""
        if self.world == 1:
            return self._build_alone()
        return self.gradients.compile(
            self.strategy,
            config_q=self.config,
            config_kv=self.config,
            machine_code=MACHINE_CODE,
        )

    def _build_alone(self) -> tuple[Any, Any]:
        """The kernels without communication."""
        shape = (self.length, self.kv_heads * self.head_dim)
        k, v = (syncopate.Tensor(name, shape, self.dtype) for name in "kv")
        dkv = syncopate.Tensor("dkv", (self.length, 2 * shape[1]), self.sums, output=True)
        common = (self.heads, self.head_dim, self.shards, self.config)
        of_q = bind_attention_backward_q(k, v, *common, causal=self.causal)
        of_kv = bind_attention_backward_kv(k, v, dkv, *common, causal=self.causal)
        return (
            compile_program(attention_backward_q, syncopate.Plan("backward_q", [1]), **of_q),
            compile_program(attention_backward_kv, syncopate.Plan("backward_kv", [1]), **of_kv),
        )

    def round(self, values: Array) -> Array:
        """To the numbers of the element type, of those that numpy knows."""
        if self.dtype == "bf16":
            return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
        return values.astype(DTYPES[self.dtype].numpy)

    def draw(self, seed: int) -> Given:
        """Random values. Those of rows that stand for no query are not zero."""
        generator = np.random.default_rng(seed)

        def random(rows: int, heads: int) -> Array:
            return self.round(generator.standard_normal((rows, heads * self.head_dim)))

        ranks, rows = range(self.world), self.shards.rows
        k, v = (random(self.length, self.kv_heads) for _ in "kv")
        q, do = ([random(rows, self.heads) for _ in ranks] for _ in range(2))
        results = [
            attend(q[rank], k, v, last, self.head_dim, first)
            for rank in ranks
            for last, first in [self.taken(rank)]
        ]
        o = [self.round(out) for out, _ in results]
        lse = [lse.astype(np.float32) for _, lse in results]
        dlse = [generator.standard_normal(own.shape).astype(np.float32) for own in lse]
        return Given(q, k, v, o, do, lse, dlse if self.of_lse else None)

    def taken(self, rank: int) -> tuple[Array | None, Array | None]:
        """The last and the first keys that a rank's queries take; None where these are those of all."""
        places = self.shards.positions(rank)
        if self.cu_seqlens is None:
            return (places if self.causal else None), None
        last, first = np.full(len(places), -1), np.zeros(len(places), int)
        for begin, end in itertools.pairwise(self.cu_seqlens):
            inside = (begin <= places) & (places < end)
            last[inside] = places[inside] if self.causal else end - 1
            first[inside] = begin
        return last, first

    def keys(self, given: Given, *, kept: bool) -> dict[str, list[Array]]:
        """Keys and values as a program takes them, of each rank its own, or all."""
        parts = [self.shards.ranges(rank) for rank in range(self.world)]
        return {
            name: [
                whole if kept or len(own) > 1 else whole[slice(*own[0])] if own else whole[:0]
                for own in parts
            ]
            for name, whole in (("k", given.k), ("v", given.v))
        }

    def expected(self, given: Given) -> tuple[list[Array], Array]:
        """By rank, dQ; and the gradients of keys and values, of which each rank has some."""
        of_q, of_kv = [], np.zeros((self.length, self.kv_heads, 2, self.head_dim))
        for rank, (q, do) in enumerate(zip(given.q, given.do, strict=True)):
            has = self.shards.positions(rank) >= 0
            last, first = (None if keys is None else keys[has] for keys in self.taken(rank))
            dlse = None if given.dlse is None else given.dlse[rank][:, has]
            dq, dkv = differentiate(
                q[has], given.k, given.v, do[has], last, self.head_dim, first, dlse
            )
            of_q.append(dq)
            of_kv += dkv
        return of_q, of_kv


_RING = {"algorithm": "ring"}
BACKWARD: dict[str, BackwardCase] = {
    "alone": BackwardCase(1, 101, heads=2, causal=True, kept=True),
    # Odd lengths: blocks of keys lie across shards, and the last rank has rows that stand for no query.
    "gathered": BackwardCase(2, 135),
    "causal": BackwardCase(2, 135, heads=4, kv_heads=2, causal=True, kept=True),
    "ring, causal": BackwardCase(
        3, 196, causal=True, strategy=syncopate.Strategy(**_RING, direction="pull")
    ),
    "ring, pushed": BackwardCase(3, 163, strategy=syncopate.Strategy(**_RING)),
    "ring, added by tiles": BackwardCase(
        3,
        190,
        causal=True,
        strategy=syncopate.Strategy(**_RING, combine="tiles", realization="copy_engine"),
        kept=True,
    ),
    # Keys of all ranks come before sums, of which some tiles of the last blocks are done first.
    "zig-zag, got": BackwardCase(
        4,
        253,
        heads=1,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=syncopate.Strategy(direction="pull"),
    ),
    "zig-zag ring, bf16": BackwardCase(
        2,
        101,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=syncopate.Strategy(**_RING, realization="ldst_dedicated", comm_ctas=2),
        dtype="bf16",
        kept=True,
    ),
    "double ring, zig-zag": BackwardCase(
        4,
        170,
        heads=1,
        causal=True,
        sharding=Sharding.ZIGZAG,
        strategy=syncopate.Strategy(**_RING, direction="pull"),
        kept=True,
        node_size=2,
    ),
    # Sequences end within blocks of queries and keys, and shards; one has one element.
    "packed ring, causal": BackwardCase(
        3,
        205,
        causal=True,
        strategy=syncopate.Strategy(**_RING),
        kept=True,
        cu_seqlens=(0, 17, 90, 91, 205),
        of_lse=True,
    ),
    "packed zig-zag": BackwardCase(
        2, 139, heads=1, sharding=Sharding.ZIGZAG, cu_seqlens=(0, 70, 70, 100, 139)
    ),
    "heads of 256": BackwardCase(2, 75, heads=1, head_dim=256, causal=True, kept=True, of_lse=True),
    "heads of 128, engines, sums in bf16": BackwardCase(
        2,
        101,
        head_dim=128,
        causal=True,
        strategy=syncopate.Strategy(realization="copy_engine"),
        dtype="bf16",
        sums="bf16",
    ),
}
