"""What `test_torch_llama.py` checks on two processes: norm, MLP, attention, the example; each function is one check.

Expected values are those of whole layers, in float64, by products and a softmax written out here.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch_cases import close, everywhere, expect_error, world_name

import syncopate.torch as st

SEQUENCE, BATCH, FEATURES, HIDDEN = 6, 3, 12, 10
HEADS, KV_HEADS, HEAD_DIM = 8, 4, 6


def part(x: torch.Tensor, dim: int) -> torch.Tensor:
    """This rank's part of what all have."""
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()]


def stacked(*weights: torch.Tensor) -> torch.Tensor:
    """This rank's rows of several weights, one below the other."""
    return torch.cat([part(weight, 0) for weight in weights])


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    """A layer that all ranks have alike, if they are seeded so."""
    return nn.Linear(inputs, outputs, bias, dtype=torch.float64)


def tokens(dim: int = 0, length: int = SEQUENCE) -> torch.Tensor:
    x = torch.randn(length, BATCH, FEATURES, dtype=torch.float64)
    return x if dim == 0 else x.transpose(0, 1).contiguous()


def check_norm(whole: bool) -> None:
    """Values, and the sum of gradients over the sequence, which is the same on all ranks anyway if it is whole."""
    torch.manual_seed(41)
    x, weight, grad = tokens(), torch.randn(FEATURES, dtype=torch.float64), tokens()
    norm = st.SequenceParallelRMSNorm(FEATURES, world_name(), eps=1e-3, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(weight)
    weight.requires_grad_()
    right = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * weight
    (right_grad,) = torch.autograd.grad(right, weight, grad)
    mine = (lambda each: each) if whole else partial(part, dim=0)
    made = norm(mine(x), whole=whole)
    close(made, mine(right))
    made.backward(mine(grad))
    close(norm.weight.grad, right_grad)


def check_mlp(dim: int, bias: bool, whole: bool, fused: bool, compiled: bool = False) -> None:
    """Values and all gradients of a gated MLP."""
    torch._dynamo.reset()
    torch.manual_seed(42)
    gate, up = (linear(FEATURES, HIDDEN, bias) for _ in range(2))
    down, x, grad = linear(HIDDEN, FEATURES, bias), tokens(dim).requires_grad_(), tokens(dim)
    inner = gate(x)
    right = down(inner / (1 + (-inner).exp()) * up(x))
    leaves = [x, gate.weight, up.weight, down.weight]
    right_x, right_gate, right_up, right_down = torch.autograd.grad(right, leaves, grad)

    mlp = st.SequenceParallelMlp.from_linears(gate, up, down, world_name(), sequence_dim=dim)
    mlp.down.fuses_sum = fused
    call = torch.compile(mlp, backend="aot_eager", fullgraph=True) if compiled else mlp
    mine = (lambda each: each) if whole else partial(part, dim=dim)
    leaf = mine(x).detach().clone().requires_grad_()
    made = call(leaf, whole=whole)
    close(made, mine(right))
    made.backward(mine(grad))
    close(leaf.grad, mine(right_x))
    close(mlp.gate_up.weight.grad, stacked(right_gate, right_up))
    close(mlp.down.weight.grad, part(right_down, 1))


def turn(x: torch.Tensor, first: int = 0) -> torch.Tensor:
    """A rotation of neighbouring features by the place in the sequence, which comes first."""
    places = torch.arange(first, first + x.shape[0], dtype=x.dtype)
    return x * places.cos()[:, None, None, None] + x.roll(1, -1) * places.sin()[:, None, None, None]


def whole_attention(
    x: torch.Tensor, q: Any, k: Any, v: Any, out: Any, rotate: Any = turn
) -> torch.Tensor:
    """Causal attention of [sequence, batch, features], one head after the other."""
    queries, keys, values = (layer(x).unflatten(-1, (-1, HEAD_DIM)) for layer in (q, k, v))
    queries, keys = rotate(queries), rotate(keys)
    later = torch.ones(len(x), len(x)).triu(1).bool()
    each = []
    for head in range(HEADS):
        shared = head * KV_HEADS // HEADS
        scores = torch.einsum("ibd,jbd->bij", queries[:, :, head], keys[:, :, shared])
        scores = (scores * HEAD_DIM**-0.5).masked_fill(later, float("-inf"))
        each.append(torch.einsum("bij,jbd->ibd", scores.softmax(-1), values[:, :, shared]))
    return out(torch.cat(each, -1))


def attention_layers(bias: bool = False) -> list[nn.Linear]:
    """Those of queries, keys, values and outputs."""
    widths = [count * HEAD_DIM for count in (HEADS, KV_HEADS, KV_HEADS)]
    return [
        *(linear(FEATURES, width, bias) for width in widths),
        linear(HEADS * HEAD_DIM, FEATURES, bias),
    ]


def check_attention(dim: int, bias: bool, compiled: bool = False) -> None:
    """Values and all gradients of a part of a sequence."""
    torch._dynamo.reset()
    torch.manual_seed(43)
    layers, x, grad = attention_layers(bias), tokens().requires_grad_(), tokens()
    right = whole_attention(x, *layers)
    leaves = [x, *(layer.weight for layer in layers)]
    right_x, right_q, right_k, right_v, right_out = torch.autograd.grad(right, leaves, grad)

    attention = st.SequenceParallelAttention.from_linears(
        *layers, world_name(), head_dim=HEAD_DIM, sequence_dim=dim
    )
    call = torch.compile(attention, backend="aot_eager", fullgraph=True) if compiled else attention

    def mine(each: torch.Tensor) -> torch.Tensor:
        return part(each, 0).transpose(0, dim)

    def rotate(each: torch.Tensor) -> torch.Tensor:
        return turn(each.transpose(0, dim)).transpose(0, dim)

    leaf = mine(x).detach().clone().requires_grad_()
    made = call(leaf, rotate=rotate)
    close(made, mine(right))
    made.backward(mine(grad))
    close(leaf.grad, mine(right_x))
    close(attention.qkv.weight.grad, stacked(right_q, right_k, right_v))
    close(attention.out.weight.grad, part(right_out, 1))


def check_cache(fused: bool) -> None:
    """A prompt in parts, then one token at a time: as all of them at once."""
    torch.manual_seed(44)
    layers, prompt = attention_layers(), SEQUENCE - 2
    x = tokens()
    right = whole_attention(x, *layers)
    attention = st.SequenceParallelAttention.from_linears(*layers, world_name(), head_dim=HEAD_DIM)
    attention.out.fuses_sum = fused
    cache = attention.new_cache(BATCH, SEQUENCE + 3)
    with torch.no_grad():
        made = attention(part(x[:prompt], 0), rotate=turn, cache=cache, start=torch.tensor(0))
        close(made, part(right[:prompt], 0))
        for place in range(prompt, SEQUENCE):
            made = attention(
                x[place : place + 1],
                rotate=partial(turn, first=place),
                cache=cache,
                start=torch.tensor(place),
                whole=True,
            )
            close(made, right[place : place + 1])
    assert cache.keys.shape == (BATCH, KV_HEADS // 2, SEQUENCE + 3, HEAD_DIM)


def check_new_blocks() -> None:
    """New blocks have their parts' shapes; what does not fit is refused."""
    name, meta = world_name(), {"device": "meta"}
    mlp = st.SequenceParallelMlp(FEATURES, HIDDEN, name)
    assert mlp.gate_up.weight.shape == (HIDDEN, FEATURES) and mlp.gate_up.bias is None
    assert mlp.down.weight.shape == (FEATURES, HIDDEN // 2)
    attention = st.SequenceParallelAttention(FEATURES, 6, 2, name)
    assert attention.head_dim == 2 and attention.qkv.weight.shape == (10, FEATURES)
    assert attention(torch.randn(2, BATCH, FEATURES)).shape == (2, BATCH, FEATURES)
    block = st.SequenceParallelAttention
    for call, text in (
        (lambda: st.SequenceParallelMlp(FEATURES, 7, name), "hidden: expects a multiple of 2"),
        (lambda: block(FEATURES, 3, 3, name, **meta), "heads: expects a multiple of 2"),
        (lambda: block(FEATURES, 4, 3, name, **meta), "heads: expects a multiple of the 3 heads"),
        (lambda: block(FEATURES, 4, 1, name, **meta), "kv_heads: expects a multiple of 2"),
        (lambda: block(FEATURES, 8, 2, name, **meta), "heads: expects a divisor of 12 features"),
        (
            lambda: block(FEATURES, 4, 2, name, sequence_dim=2, **meta),
            "sequence_dim: expects 0 or 1, but got 2",
        ),
        (
            lambda: attention(tokens().float(), cache=attention.new_cache(BATCH, 12)),
            "start: expects the place of the first token",
        ),
        (
            lambda: st.ColumnParallelLinear.from_linears([linear(4, 2), linear(5, 2)], name),
            "linears: expects layers like Linear(in_features=4",
        ),
        (
            lambda: st.ColumnParallelLinear.from_linears([linear(4, 2), linear(4, 2, True)], name),
            "linears: expects layers like Linear(in_features=4",
        ),
        (
            lambda: st.ColumnParallelLinear.from_linears([linear(4, 3), linear(4, 3)], name),
            "out_features: expects a multiple of 2",
        ),
    ):
        expect_error(call, text)


def load_example() -> Any:
    """The module examples/torch_llama.py."""
    path = Path(__file__).parents[2] / "examples" / "torch_llama.py"
    spec = importlib.util.spec_from_file_location("torch_llama", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Features i and i + head_dim / 2 as a complex number, turned by place · 10000^(-2 i / head_dim)."""
    half = HEAD_DIM // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = torch.arange(len(x), dtype=x.dtype)[:, None, None, None] * rates
    turned = torch.complex(*x.split(half, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), -1)


def whole_logits(model: Any, embedding: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of every place, by the weights of all ranks."""

    def gathered(weight: torch.Tensor, *sizes: int) -> list[Callable[..., torch.Tensor]]:
        """Products with the matrices that each rank has rows of, one below the other."""
        each = [part.split(sizes) for part in everywhere(weight)]
        joined = [torch.cat(rows) for rows in zip(*each, strict=True)]
        return [lambda x, whole=whole: x @ whole.t() for whole in joined]

    def normed(norm: Any, x: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight

    def by_columns(weight: torch.Tensor) -> Callable[..., torch.Tensor]:
        whole = torch.cat(everywhere(weight), 1)
        return lambda x: x @ whole.t()

    x = embedding[tokens]
    for layer in model.layers:
        block, mlp = layer.attention, layer.mlp
        rows = [heads * HEAD_DIM for heads in (block.heads, block.kv_heads, block.kv_heads)]
        products = [*gathered(block.qkv.weight, *rows), by_columns(block.out.weight)]
        x = x + whole_attention(normed(layer.before, x), *products, rotate=rotary)
        gate, up = gathered(mlp.gate_up.weight, *[len(mlp.gate_up.weight) // 2] * 2)
        inner = normed(layer.between, x)
        x = x + by_columns(mlp.down.weight)(nn.functional.silu(gate(inner)) * up(inner))
    return normed(model.norm, x) @ embedding.t()


def check_model(way: str) -> None:
    """Loss, the gradient of the embedding, and logits of prompt and answer, against the whole model."""
    torch.manual_seed(45)
    example, vocabulary = load_example(), 14
    options = argparse.Namespace(
        features=HEADS * HEAD_DIM, hidden=HIDDEN, heads=HEADS, kv_heads=KV_HEADS, layers=2
    )
    options.vocabulary, options.seed = vocabulary, 3
    model = example.Llama(options, example.Way(way), dtype=torch.float64)
    torch.manual_seed(46)
    for name, weight in model.named_parameters():
        if "before" in name or "between" in name or name.startswith("norm"):
            nn.init.normal_(weight)
    text = torch.randint(vocabulary, (SEQUENCE + 1, BATCH))
    tokens, targets = text[:-1], text[1:]

    embedding = model.embedding.detach().clone().requires_grad_()
    logits = whole_logits(model, embedding, tokens)
    chosen = logits.log_softmax(-1).gather(-1, targets[..., None])
    right = -chosen.mean()
    (right_grad,) = torch.autograd.grad(right, embedding)
    # The example computes angles in float32.
    loss = model(tokens, targets)
    close(sum(everywhere(loss)), right, 1e-6)
    loss.backward()
    close(model.embedding.grad, right_grad, 1e-6)

    caches, prompt = model.new_caches(BATCH, SEQUENCE + 2), SEQUENCE - 2
    with torch.no_grad():
        close(model.answer(tokens[:prompt], caches, torch.tensor(0)), logits[prompt - 1], 1e-6)
        for place in range(prompt, SEQUENCE):
            made = model.answer(tokens[place : place + 1], caches, torch.tensor(place))
            close(made, logits[place], 1e-6)


def cases() -> dict[str, Callable[[], None]]:
    """All checks by name."""
    made: dict[str, Callable[[], None]] = {}
    for whole in (False, True):
        made[f"norm of {'all' if whole else 'a part'}"] = partial(check_norm, whole)
    for dim in (0, 1):
        for bias in (False, True):
            title = f"along {dim} {'with' if bias else 'without'} bias"
            made[f"mlp {title}"] = partial(check_mlp, dim, bias, False, True)
            made[f"attention {title}"] = partial(check_attention, dim, bias)
    made["compiled mlp"] = partial(check_mlp, 0, False, False, True, compiled=True)
    made["compiled attention"] = partial(check_attention, 0, False, compiled=True)
    for fused in (False, True):
        title = "fused sums" if fused else "sums by torch"
        made[f"mlp of all tokens by {title}"] = partial(check_mlp, 0, True, True, fused)
        made[f"cache by {title}"] = partial(check_cache, fused)
    for way in ("plain", "fused", "fused_sums"):
        made[f"model, {way}"] = partial(check_model, way)
    made["new blocks"] = check_new_blocks
    return made
