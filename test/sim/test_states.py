"""Kernels of which the compiler knows nothing walk the steps of their tiles on the simulator: sound and right."""

import numpy as np
import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from sim_compile import compile_program
from sim_states import (
    build_gated_attention,
    build_linear_attention,
    build_sums_of_squares,
    build_two_pass_softmax,
)
from sim_steps import gemm_along_k
from sim_table import options_of

import syncopate
from syncopate import Strategy
from syncopate.plan.templates import reduce_scatter_tiles
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

PUSH, RING = Strategy(), Strategy(algorithm="ring")
DEDICATED = Strategy(realization="ldst_dedicated", comm_ctas=2)
WORLDS = [(2, PUSH), (3, DEDICATED), (4, RING)]


@pytest.mark.parametrize(("world", "strategy"), WORLDS)
def test_softmax_in_two_passes_walks_the_same_steps_twice(world, strategy):
    program = build_two_pass_softmax(world, 72 * world, strategy)
    for seed in range(2):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            x, v = (np.concatenate(inputs[name], axis=1).astype(np.float64) for name in "xv")
            weights = np.exp(x - x.max(axis=1, keepdims=True))
            expected = (weights * v).sum(axis=1) / weights.sum(axis=1)
            for y in outputs["y"]:
                assert np.abs(y - expected).max() < 1e-5


def _wait_for_one_buffer(_, rank, columns):
    """A step waits for what the first pass reads, not for what the second one reads besides."""
    steps = columns["steps"]
    several = steps["wait_end"] - steps["wait_begin"] > 1
    steps["wait_end"][several] = steps["wait_begin"][several] + 1
    return bool(several.any())


def test_second_pass_relies_on_what_the_first_has_waited_for():
    program = build_two_pass_softmax(2, 144, PUSH)
    assert not refuse_tables(program)
    broken = tables(_wait_for_one_buffer)(program)
    assert "without a wait for a transfer that brings what it reads" in refuse_tables(broken)
    verdicts = [simulate(broken, **options_of(seed)).verdict for seed in range(4)]
    assert any(finding.kind is Kind.RACE for verdict in verdicts for finding in verdict.findings)


@pytest.mark.parametrize(("world", "strategy"), WORLDS)
def test_linear_attention_keeps_the_order_of_its_steps(world, strategy):
    length = 27 * world + 2
    program = build_linear_attention(world, length, strategy)
    rows = -(-length // world)
    for rank in range(world):
        numbers = [step["step"] for step in program.rank_tables(rank)["steps"].rows()]
        assert numbers == list(range(-(-length // 16)))
    generator = np.random.default_rng(5)
    q, k, v = (generator.standard_normal((length, 32)).astype(np.float16) / 4 for _ in range(3))
    shards = [slice(rank * rows, (rank + 1) * rows) for rank in range(world)]
    padded = np.zeros((world * rows, 32), np.float16)
    padded[:length] = q
    inputs = {
        "q": [padded[own] for own in shards],
        "k": [k[own] for own in shards],
        "v": [v[own] for own in shards],
        "first": [np.array([own.start], np.int32) for own in shards],
    }
    result = simulate(program, inputs, seed=1, partial=["o"])
    assert result.verdict.ok, result.verdict
    for head in (slice(0, 16), slice(16, 32)):
        wide = [x[:, head].astype(np.float64) for x in (q, k, v)]
        expected = np.tril(wide[0] @ wide[1].T) @ wide[2]
        for own, o in zip(shards, result.outputs[0]["o"], strict=True):
            wanted = expected[own]
            assert np.abs(o[: len(wanted), head] - wanted).max() < 2e-2


@pytest.mark.parametrize(("world", "strategy"), WORLDS)
def test_state_that_fades_has_keys_in_their_order(world, strategy):
    length = 27 * world + 2
    program = build_gated_attention(world, length, strategy)
    generator = np.random.default_rng(6)
    k, v = (generator.standard_normal((length, 32)).astype(np.float16) / 4 for _ in "kv")
    decay = -generator.random((length, 2)).astype(np.float32) / 8
    rows = -(-length // world)
    cuts = range(rows, length, rows)
    given = {"k": k, "v": v, "decay": decay}
    result = simulate(program, {name: np.split(x, cuts) for name, x in given.items()}, seed=1)
    assert result.verdict.ok, result.verdict
    expected = np.zeros((2, 16, 16))
    for place in range(length):
        for head, state in enumerate(expected):
            own = slice(16 * head, 16 * head + 16)
            state *= np.exp(float(decay[place, head]))
            state += np.outer(k[place, own].astype(np.float64), v[place, own])
    for state in result.outputs[0]["state"]:
        # Keys are rounded to f16 once more after they have faded.
        assert np.abs(state - expected.reshape(32, 16)).max() < 2e-3


@pytest.mark.parametrize(("world", "strategy"), WORLDS[:2])
def test_steps_may_be_walked_once_for_each_head(world, strategy):
    program = build_sums_of_squares(world, 40 * world + 3, strategy)
    result = simulate(program, **options_of(1))
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        x = np.concatenate(inputs["x"]).astype(np.float64)
        for y in outputs["y"]:
            assert np.abs(y - (x * x).sum(axis=0).reshape(3, 64)).max() < 1e-4


@pytest.mark.parametrize(("world", "combine", "rows"), [(2, "role", 72), (3, "tiles", 64)])
def test_tile_that_walks_steps_may_compute_a_part_of_a_sum(world, combine, rows):
    """C = Σ gather(A) · Bᵀ over ranks: A comes along K, and rows of C go to the rank that has them."""
    m, n, k = world * rows, 72, 64 * world + 16
    plan = syncopate.Plan("both", [world])
    a = plan.buffer("a", (m, k), "f16", shard_axis=1)
    plan.all_gather(a, axis=1)
    c = plan.buffer("c", (m, n), "f16")
    reduce_scatter_tiles(plan, c, Strategy(combine=combine))
    bind = {
        "a_desc": syncopate.Descriptor(a, (64, 32)),
        "b_desc": syncopate.Descriptor(syncopate.Tensor("b", (n, k), "f16"), (64, 32)),
        "c_desc": syncopate.Descriptor(c, (64, 64)),
        "M": m,
        "N": n,
        "K": k,
        "BM": 64,
        "BN": 64,
        "BK": 32,
        "CTAS": syncopate.Ctas(),
    }
    options = {"num_warps": 4, "num_stages": 3}
    tiles = (-(-m // 64), 2)
    program = compile_program(gemm_along_k, plan, bind=bind, tiles=tiles, ctas=3, options=options)
    result = simulate(program, **options_of(0))
    assert result.verdict.ok, result.verdict
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        a = np.concatenate(inputs["a"], axis=1).astype(np.float64)
        total = sum(a @ b.astype(np.float64).T for b in inputs["b"])
        for rank, found in enumerate(outputs["c"]):
            own = total[rank * rows : (rank + 1) * rows]
            # Parts and sums are rounded to the 11 bits of f16.
            assert np.abs(found - own).max() < 2e-3 * np.abs(total).max()
