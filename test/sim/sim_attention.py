"""Flash attention over gathered keys: two products in flight, one of them with an operand in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl
from sim_compile import compile_program

import syncopate
import syncopate.language as sy
from syncopate.sim.simulate import Result

LENGTH, WIDTH = 256, 64


@triton.jit
def attention(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    scale,
    N,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One tile of rows per CTA; the softmax is computed online, in base 2."""
    m, _ = sy.tile(tl.program_id(0), tl.program_id(0))
    q = q_desc.load([m * TILE, 0])
    top = tl.full((TILE,), float("-inf"), tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    out = tl.zeros((TILE, 64), tl.float32)
    rows = m * TILE + tl.arange(0, TILE)
    for n in range(0, N, BLOCK):
        scores = tl.dot(q, k_desc.load([n, 0]).T) * scale
        if CAUSAL:
            columns = n + tl.arange(0, BLOCK)
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -1.0e6)
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.math.exp2(scores - new_top[:, None])
        shrink = tl.math.exp2(top - new_top)
        total = total * shrink + tl.sum(weights, 1)
        v = v_desc.load([n, 0])
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None])
        top = new_top
    o_desc.store([m * TILE, 0], (out / total[:, None]).to(o_desc.dtype))


def build_attention(causal: bool, strategy: syncopate.Strategy, world: int) -> Any:
    """o = softmax(q gather(k)ᵀ) v; each rank has its own q and v."""
    plan = syncopate.Plan("attention", [world])
    k = plan.buffer("k", (LENGTH, WIDTH), "f16", shard_axis=0)
    plan.all_gather(k)
    q, v, o = (syncopate.Tensor(name, (LENGTH, WIDTH), "f16", output=name == "o") for name in "qvo")
    named = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": o}
    bind = {name: syncopate.Descriptor(source, (64, 64)) for name, source in named.items()}
    bind |= {
        "scale": WIDTH**-0.5 / np.log(2).item(),
        "N": LENGTH,
        "TILE": 64,
        "BLOCK": 64,
        "CAUSAL": causal,
    }
    return compile_program(
        attention,
        plan,
        bind=bind,
        tiles=(4,),
        ctas=4,
        footprints=[syncopate.Footprint("k_desc", lambda m: (0, 0), (LENGTH, WIDTH))],
        options={"num_warps": 4, "num_stages": 3},
        strategy=strategy,
    )


def attention_error(result: Result, causal: bool) -> float:
    """The largest difference from a float64 reference."""
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        k = np.concatenate(inputs["k"])
        for q, v, o in zip(inputs["q"], inputs["v"], outputs["o"], strict=True):
            worst = float(np.maximum(worst, np.abs(o - _attend(q, k, v, causal)).max()))
    return worst


def _attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
    scores = q.astype(np.float64) @ k.T.astype(np.float64) * WIDTH**-0.5
    if causal:
        scores[np.triu_indices(LENGTH, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)
