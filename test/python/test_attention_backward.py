"""The kernels of the gradients of attention, as they are chosen for Hopper, and what their binding refuses."""

import re

import pytest

import syncopate
from syncopate.compiler.budgets import SPILL_LIMIT, read_resources
from syncopate.errors import SyncopateError
from syncopate.kernels import (
    attention_backward_kv,
    attention_backward_q,
    bind_attention_backward_kv,
    bind_attention_backward_q,
)
from syncopate.plan.sequence import SequenceShards, gather_sequence
from syncopate.plan.sequence_sums import reduce_sequence

SHARDS = SequenceShards(4096, 2)


def _gather(head_dim):
    plan = syncopate.Plan("backward", [2])
    k, v = (plan.buffer(name, (SHARDS.length, 2 * head_dim), "bf16") for name in "kv")
    gather_sequence(plan, [k, v], SHARDS)
    return plan, k, v


def _check(program, products, stack=64):
    """Products are asynchronous, so that what belongs to other queries or keys goes on; next to nothing spills."""
    dots = re.findall(r"ttng\.warp_group_dot\"\(.*?isAsync = (\w+)", program.ir["fused"])
    assert dots == ["true"] * products
    assert read_resources(program.image.cubin).stack_bytes <= stack


def test_kernel_of_queries_fits_beside_a_role():
    plan, k, v = _gather(128)
    bound = bind_attention_backward_q(k, v, 8, 128, SHARDS, causal=True)
    _check(syncopate.compile(attention_backward_q, plan, **bound), 3)


def test_kernel_of_keys_fits_beside_a_role():
    plan, k, v = _gather(128)
    dkv = plan.buffer("dkv", (SHARDS.length, 4 * 128), "f32")
    reduce_sequence(plan, dkv, SHARDS, causal=True)
    bound = bind_attention_backward_kv(k, v, dkv, 8, 128, SHARDS, causal=True)
    _check(syncopate.compile(attention_backward_kv, plan, **bound), 4)


def test_kernel_of_keys_of_wide_heads_fits_beside_a_role():
    """What spills is the role's, which adds sums, and of tiles what is outside of their loops."""
    plan, k, v = _gather(256)
    dkv = plan.buffer("dkv", (SHARDS.length, 4 * 256), "f32")
    reduce_sequence(plan, dkv, SHARDS)
    bound = bind_attention_backward_kv(k, v, dkv, 8, 256, SHARDS)
    _check(syncopate.compile(attention_backward_kv, plan, **bound), 5, stack=SPILL_LIMIT)


@pytest.mark.parametrize(
    ("head_dim", "of_queries", "of_keys"),
    [
        (64, (128, 128, 3), (64, 128, 3)),
        (128, (128, 64, 2), (32, 128, 2)),
        (256, (64, 32, 2), (16, 64, 2)),
    ],
)
def test_blocks_are_those_whose_registers_were_looked_at(head_dim, of_queries, of_keys):
    plan, k, v = _gather(head_dim)
    dkv = plan.buffer("dkv", (SHARDS.length, 4 * head_dim), "f32")
    for bound, blocks in (
        (bind_attention_backward_q(k, v, 8, head_dim, SHARDS), of_queries),
        (bind_attention_backward_kv(k, v, dkv, 8, head_dim, SHARDS), of_keys),
    ):
        found = bound["bind"]["BLOCK_M"], bound["bind"]["BLOCK_N"], bound["options"]["num_stages"]
        assert found == blocks


@pytest.mark.parametrize("scale", [0.0, float("nan")])
def test_scale_that_is_not_positive_is_refused(scale):
    plan, k, v = _gather(64)
    dkv = plan.buffer("dkv", (SHARDS.length, 4 * 64), "f32")
    with pytest.raises(SyncopateError, match="scale: expects a positive number"):
        bind_attention_backward_q(k, v, 8, 64, SHARDS, scale=scale)
    with pytest.raises(SyncopateError, match="scale: expects a positive number"):
        bind_attention_backward_kv(k, v, dkv, 8, 64, SHARDS, scale=scale)


def test_wrong_gradients_are_refused():
    plan, k, v = _gather(64)
    dkv = plan.buffer("dkv", (SHARDS.length, 2 * 64), "f32")
    with pytest.raises(SyncopateError, match=r"dkv: expects \[4096, 256\], twice what the keys"):
        bind_attention_backward_kv(k, v, dkv, 8, 64, SHARDS)
    with pytest.raises(SyncopateError, match="heads: expects a multiple of the 2 heads"):
        bind_attention_backward_q(k, v, 3, 64, SHARDS)
