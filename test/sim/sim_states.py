"""Kernels with loops inside their tiles that no pass knows of: a softmax, linear attentions, sums of squares.

They are ordinary kernels with two markers. What is here is all that the project has of them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from sim_compile import compile_program

import syncopate
import syncopate.language as sy

__all__ = [
    "build_gated_attention",
    "build_linear_attention",
    "build_sums_of_squares",
    "build_two_pass_softmax",
]


def _compile(
    kernel: Any,
    plan: syncopate.Plan,
    bind: dict[str, Any],
    tiles: int,
    strategy: syncopate.Strategy,
) -> Any:
    """A kernel of so many tiles, each by a CTA of its own."""
    return compile_program(
        kernel,
        plan,
        bind=bind,
        tiles=(tiles,),
        ctas=tiles,
        strategy=strategy,
        options={"num_warps": 4, "num_stages": 2},
    )


@triton.jit(do_not_specialize=["LENGTH"])
def two_pass_softmax(
    x_desc, v_desc, y_desc, LENGTH, BM: tl.constexpr, BN: tl.constexpr, CTAS: tl.constexpr
):
    """The greatest of each row in a first pass; in a second one its softmax, by which values of its own are weighed."""
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
            v = v_desc.load([m * BM, n * BN]).to(tl.float32)
            inside = (n * BN + columns)[None, :] < LENGTH
            weights = tl.where(inside, tl.exp(x - top[:, None]), 0.0)
            total += tl.sum(weights, 1)
            weighed += tl.sum(weights * v, 1)
        tl.store(y_desc + m * BM + tl.arange(0, BM), weighed / total)


def build_two_pass_softmax(world: int, length: int, strategy: syncopate.Strategy) -> Any:
    """y = Σ softmax(x) v along rows, of columns that are gathered."""
    plan = syncopate.Plan("softmax", [world])
    x, v = (plan.buffer(name, (64, length), "f16", shard_axis=1) for name in "xv")
    plan.all_gather(x, axis=1)
    # What the second pass alone reads comes by another way, and so with a flag of its own.
    plan.all_gather(v, axis=1, direction="pull", algorithm="direct")
    bind = {
        "x_desc": syncopate.Descriptor(x, (32, 32)),
        "v_desc": syncopate.Descriptor(v, (32, 32)),
        "y_desc": syncopate.Pointer(syncopate.Tensor("y", (64,), "f32", output=True)),
        "LENGTH": length,
        "BM": 32,
        "BN": 32,
        "CTAS": 2,
    }
    return _compile(two_pass_softmax, plan, bind, 2, strategy)


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


def build_linear_attention(world: int, length: int, strategy: syncopate.Strategy) -> Any:
    """o = causal(q kᵀ) v of the rank's own rows, of keys and values that are gathered."""
    plan = syncopate.Plan("linear_attention", [world])
    k, v = (plan.buffer(name, (length, 32), "f16", shard_axis=0) for name in "kv")
    plan.all_gather(k)
    plan.all_gather(v)
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
    return _compile(linear_attention, plan, bind, 2, strategy)


@triton.jit(do_not_specialize=["LENGTH"])
def gated_attention(
    k_desc,
    v_desc,
    decay_ptr,
    state_ptr,
    LENGTH,
    C: tl.constexpr,
    D: tl.constexpr,
    HEADS: tl.constexpr,
):
    """The state that gated linear attention ends with: each chunk fades what stands, by what its own decays say."""
    h, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    begin, end = sy.steps(0, tl.cdiv(LENGTH, C), ordered=True)
    state = tl.zeros((D, D), tl.float32)
    for i in tl.range(begin, end):
        n = sy.step(i)
        rows = n * C + tl.arange(0, C)
        g = tl.load(decay_ptr + rows * HEADS + h, mask=rows < LENGTH, other=0.0)
        faded = tl.cumsum(g, 0)
        whole = tl.sum(g, 0)
        k = k_desc.load([n * C, h * D])
        v = v_desc.load([n * C, h * D])
        left = (k.to(tl.float32) * tl.exp(whole - faded)[:, None]).to(k.dtype)
        state = tl.dot(left.T, v, state * tl.exp(whole))
    inside = tl.arange(0, D)
    at = (h * D + inside)[:, None] * D + inside[None, :]
    tl.store(state_ptr + at, state)


def build_gated_attention(world: int, length: int, strategy: syncopate.Strategy) -> Any:
    """The last state of two heads, f32 [2 · 16, 16], of keys, values and logarithms of decays that are gathered."""
    plan = syncopate.Plan("gated_attention", [world])
    k, v = (plan.buffer(name, (length, 32), "f16", shard_axis=0) for name in "kv")
    decay = plan.buffer("decay", (length, 2), "f32", shard_axis=0)
    for buffer in (k, v, decay):
        plan.all_gather(buffer)
    state = syncopate.Tensor("state", (32, 16), "f32", output=True)
    bind = {
        "k_desc": syncopate.Descriptor(k, (16, 16)),
        "v_desc": syncopate.Descriptor(v, (16, 16)),
        "decay_ptr": syncopate.Pointer(decay),
        "state_ptr": syncopate.Pointer(state),
        "LENGTH": length,
        "C": 16,
        "D": 16,
        "HEADS": 2,
    }
    return _compile(gated_attention, plan, bind, 2, strategy)


@triton.jit(do_not_specialize=["LENGTH"])
def sums_of_squares(
    x_ptr,
    y_ptr,
    LENGTH,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CTAS: tl.constexpr,
):
    """Sums along a sequence, of some columns of one head after another: all steps are taken once for each head."""
    for t in tl.range(tl.program_id(0), WIDTH // BM, CTAS):
        m, _ = sy.tile(t, t)
        begin, end = sy.steps(0, tl.cdiv(LENGTH, BN))
        columns = m * BM + tl.arange(0, BM)
        for h in range(HEADS):
            total = tl.zeros((BM,), tl.float32)
            for i in tl.range(begin, end):
                rows = sy.step(i) * BN + tl.arange(0, BN)
                at = rows[:, None] * (HEADS * WIDTH) + (h * WIDTH + columns)[None, :]
                x = tl.load(x_ptr + at, mask=(rows < LENGTH)[:, None], other=0.0).to(tl.float32)
                total += tl.sum(x * x, 0)
            tl.store(y_ptr + h * WIDTH + columns, total)


def build_sums_of_squares(world: int, length: int, strategy: syncopate.Strategy) -> Any:
    """y = Σ x² of three heads of 64 columns, of rows that are gathered, by pointers."""
    heads, width = 3, 64
    plan = syncopate.Plan("sums_of_squares", [world])
    x = plan.buffer("x", (length, heads * width), "f16", shard_axis=0)
    plan.all_gather(x)
    bind = {
        "x_ptr": syncopate.Pointer(x),
        "y_ptr": syncopate.Pointer(syncopate.Tensor("y", (heads, width), "f32", output=True)),
        "LENGTH": length,
        "WIDTH": width,
        "HEADS": heads,
        "BM": 32,
        "BN": 16,
        "CTAS": 1,
    }
    return compile_program(
        sums_of_squares,
        plan,
        bind=bind,
        tiles=(2,),
        ctas=1,
        strategy=strategy,
        options={"num_warps": 4, "num_stages": 2},
    )
