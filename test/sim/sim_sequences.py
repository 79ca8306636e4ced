"""Programs whose tiles walk the steps of a sequence that ranks share: attention, and other kernels of that kind."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl
from sim_compile import compile_program

import syncopate
import syncopate.language as sy
from syncopate.dtypes import DTYPES
from syncopate.kernels import AttentionConfig, attention, bind_attention
from syncopate.plan.sequence import SequenceShards, Sharding, gather_sequence

__all__ = [
    "ATTENTIONS",
    "AttentionCase",
    "attend",
    "build_linear_attention",
    "build_two_pass_softmax",
]

Array = np.ndarray[Any, Any]
_STRATEGY = syncopate.Strategy()
_SMALL = AttentionConfig(block_m=64, block_n=32, num_warps=4, num_stages=2, num_ctas=3)


def attend(
    q: Array, k: Array, v: Array, positions: Array | None, head_dim: int
) -> tuple[Array, Array]:
    """Attention in float64: outputs [rows, heads · head_dim], and the log of the denominators, [heads, rows]."""
    rows, length = len(q), len(k)
    q, k, v = (x.astype(np.float64).reshape(len(x), -1, head_dim) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("rhd,chd->hrc", q, np.repeat(k, group, axis=1)) / np.sqrt(head_dim)
    if positions is not None:
        scores = np.where(np.arange(length) <= positions[:, None], scores, -np.inf)
    top = np.maximum(scores.max(axis=2, keepdims=True), -1e9)
    weights = np.exp(scores - top)
    total = weights.sum(axis=2, keepdims=True)
    out = np.einsum("hrc,chd->rhd", weights, np.repeat(v, group, axis=1))
    takes = total[:, :, 0].T > 0
    out = np.where(takes[:, :, None], out / np.where(takes, total[:, :, 0].T, 1)[:, :, None], 0)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[:, :, 0]
    return out.reshape(rows, -1), lse


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

    @property
    def shards(self) -> SequenceShards:
        """Who has what."""
        return SequenceShards(self.length, self.world, self.sharding)

    @functools.cache  # noqa: B019
    def build(self) -> Any:
        """Compiles it, once."""
        plan = syncopate.Plan("attention", [self.world])
        shape = (self.length, self.kv_heads * self.head_dim)
        k, v = (plan.buffer(name, shape, self.dtype) for name in "kv")
        gather_sequence(plan, [k, v], self.shards, self.strategy)
        bound = bind_attention(
            k, v, self.heads, self.head_dim, self.shards, self.config, causal=self.causal
        )
        return compile_program(attention, plan, **bound, strategy=self.strategy)

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


@triton.jit(do_not_specialize=["LENGTH"])
def two_pass_softmax(
    x_desc, y_desc, LENGTH, BM: tl.constexpr, BN: tl.constexpr, CTAS: tl.constexpr
):
    """The denominators of a softmax over rows, in one pass, and sums of values by its weights in a second one."""
    for t in tl.range(tl.program_id(0), tl.cdiv(64, BM), CTAS):
        m, _ = sy.tile(t, t)
        begin, end = sy.steps(0, tl.cdiv(LENGTH, BN))
        top = tl.full((BM,), float("-inf"), tl.float32)
        columns = tl.arange(0, BN)
        for i in tl.range(begin, end):
            n = sy.step(i)
            x = x_desc.load([m * BM, n * BN]).to(tl.float32)
            x = tl.where((n * BN + columns)[None, :] < LENGTH, x, float("-inf"))
            top = tl.maximum(top, tl.max(x, 1))
        total = tl.zeros((BM,), tl.float32)
        weighed = tl.zeros((BM,), tl.float32)
        for i in tl.range(begin, end):
            n = sy.step(i)
            x = x_desc.load([m * BM, n * BN]).to(tl.float32)
            inside = (n * BN + columns)[None, :] < LENGTH
            weights = tl.where(inside, tl.exp(x - top[:, None]), 0.0)
            total += tl.sum(weights, 1)
            weighed += tl.sum(weights * x, 1)
        tl.store(y_desc + m * BM + tl.arange(0, BM), weighed / total)


def build_two_pass_softmax(world: int, length: int) -> Any:
    """y = Σ softmax(x) x along rows, of columns that are gathered."""
    plan = syncopate.Plan("softmax", [world])
    x = plan.buffer("x", (64, length), "f16", shard_axis=1)
    plan.all_gather(x, axis=1)
    bind = {
        "x_desc": syncopate.Descriptor(x, (32, 32)),
        "y_desc": syncopate.Pointer(syncopate.Tensor("y", (64,), "f32", output=True)),
        "LENGTH": length,
        "BM": 32,
        "BN": 32,
        "CTAS": 2,
    }
    options = {"num_warps": 4, "num_stages": 2}
    return compile_program(two_pass_softmax, plan, bind=bind, tiles=(2,), ctas=2, options=options)


@triton.jit(do_not_specialize=["LENGTH"])
def linear_attention(
    q_ptr, k_desc, v_desc, o_ptr, LENGTH, ROWS, FIRST, C: tl.constexpr, D: tl.constexpr
):
    """Causal linear attention, without normalization, of the rank's own chunks: the state runs along the sequence."""
    h, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    begin, end = sy.steps(0, tl.cdiv(LENGTH, C), ordered=True)
    state = tl.zeros((D, D), tl.float32)
    inside = tl.arange(0, C)
    columns = h * D + tl.arange(0, D)
    first = tl.load(FIRST)
    for i in tl.range(begin, end):
        n = sy.step(i)
        k = k_desc.load([n * C, h * D])
        v = v_desc.load([n * C, h * D])
        rows = n * C + inside - first
        at = rows[:, None] * D * tl.num_programs(0) + columns[None, :]
        own = ((rows >= 0) & (rows < ROWS))[:, None] & (columns >= 0)[None, :]
        q = tl.load(q_ptr + at, mask=own, other=0.0)
        scores = tl.where(inside[:, None] >= inside[None, :], tl.dot(q, k.T), 0.0)
        out = tl.dot(scores.to(v.dtype), v) + tl.dot(q, state.to(q.dtype))
        tl.store(o_ptr + at, out.to(q.dtype), mask=own)
        state += tl.dot(k.T, v)


def build_linear_attention(world: int, length: int) -> Any:
    """o = causal(q kᵀ) v of the rank's own rows, of keys and values that are gathered."""
    plan = syncopate.Plan("linear_attention", [world])
    k, v = (plan.buffer(name, (length, 32), "f16", shard_axis=0) for name in "kv")
    plan.all_gather(k, algorithm="ring")
    plan.all_gather(v, algorithm="ring")
    rows = -(-length // world)
    q, o = (syncopate.Tensor(name, (rows, 32), "f16", output=name == "o") for name in "qo")
    bind = {
        "q_ptr": syncopate.Pointer(q),
        "k_desc": syncopate.Descriptor(k, (16, 16)),
        "v_desc": syncopate.Descriptor(v, (16, 16)),
        "o_ptr": syncopate.Pointer(o),
        "LENGTH": length,
        "ROWS": rows,
        "FIRST": syncopate.Pointer(syncopate.Tensor("first", (1,), "i32")),
        "C": 16,
        "D": 16,
    }
    options = {"num_warps": 4, "num_stages": 2}
    return compile_program(linear_attention, plan, bind=bind, tiles=(2,), ctas=2, options=options)
