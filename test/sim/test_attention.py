"""Attention, and other kernels that walk the steps of a sequence, run on the simulator: sound and right."""

import dataclasses

import numpy as np
import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from sim_sequences import ATTENTIONS, build_linear_attention, build_two_pass_softmax
from sim_table import options_of

from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

OUT = 4e-3
"""Weights are rounded to f16, or to the 8 bits of bf16, before they are summed up; outputs are of the order of 1."""
OUT_BF16 = 3e-2
LSE = 1e-5


@pytest.mark.parametrize("case", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention_is_sound_and_right(case):
    program = case.build()
    for seed in range(2):
        options = options_of(seed)
        result = simulate(program, case.draw(seed, options.pop("calls")), **options)
        assert result.verdict.ok, result.verdict
        assert result.outputs
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            out, lse = case.errors(inputs, outputs)
            assert out < (OUT_BF16 if case.dtype == "bf16" else OUT), f"seed {seed}: {out}"
            assert lse < LSE, f"seed {seed}: {lse}"


def _steps(program, rank):
    """The steps of each tile of a rank, by its coordinates."""
    tables_of_rank = {name: table.rows() for name, table in program.rank_tables(rank).items()}
    rows = tables_of_rank["steps"]
    return {
        (tile["c0"], tile["c1"]): rows[of_tile["begin"] : of_tile["end"]]
        for tile, of_tile in zip(tables_of_rank["tiles"], tables_of_rank["tile_steps"], strict=True)
    }


def test_causal_tile_waits_for_nothing_behind_its_diagonal():
    case = ATTENTIONS["ring, got, causal"]
    program, shards, config = case.build(), case.shards, case.config
    for rank in range(case.world):
        places = shards.positions(rank)
        for (_, m), steps in _steps(program, rank).items():
            last = places[m * config.block_m : (m + 1) * config.block_m].max()
            wanted = range(last // config.block_n + 1)
            assert sorted(step["step"] for step in steps) == list(wanted)
    # The first rank's keys come before all others': its tiles wait for no more than what lies across its end.
    waiting = [step for steps in _steps(program, 0).values() for step in steps]
    assert {s["step"] for s in waiting if s["wait_begin"] < s["wait_end"]} <= {1}


def test_zigzag_gives_ranks_about_as_many_steps():
    def spread(name):
        case = dataclasses.replace(ATTENTIONS[name], length=2050)
        counts = [sum(map(len, _steps(case.build(), rank).values())) for rank in range(case.world)]
        return max(counts) / min(counts)

    # Of a sequence that is cut in two, the second half has three times the pairs of the first.
    assert spread("zig-zag") < 1.1 < 2.5 < spread("gathered, causal")


def test_heads_share_their_lists_of_steps():
    case = ATTENTIONS["gathered"]
    for rank in range(case.world):
        of_rank = case.build().rank_tables(rank)
        # As CTAs have waited for the other rank before, or not.
        assert len(of_rank["steps"].values) == 2 * -(-case.length // case.config.block_n)
        assert len(of_rank["tile_steps"].values) == 2 * case.heads


@pytest.mark.parametrize("name", ["gathered, causal", "zig-zag ring, three ranks"])
def test_step_without_its_wait_is_found(name):
    def edit(_, rank, columns):
        columns["steps"]["wait_end"][:] = columns["steps"]["wait_begin"]
        return True

    case = ATTENTIONS[name]
    broken = tables(edit)(case.build())
    assert "without a wait for a transfer that brings what it reads" in refuse_tables(broken)
    verdicts = [simulate(broken, **options_of(seed)).verdict for seed in range(4)]
    assert any(finding.kind is Kind.RACE for verdict in verdicts for finding in verdict.findings)


def test_rank_that_says_other_places_is_found():
    """The tables are those of the shards; a rank that gives other places would take another number of steps."""
    case = ATTENTIONS["gathered, causal"]
    (inputs,) = case.draw(0, 1)
    inputs["positions"][0] = inputs["positions"][0] + 40
    verdict = simulate(case.build(), inputs, seed=0).verdict
    assert Kind.ASSERTION in {finding.kind for finding in verdict.findings}


@pytest.mark.parametrize(("world", "length"), [(2, 144), (3, 216)])
def test_softmax_in_two_passes_walks_the_same_steps_twice(world, length):
    program = build_two_pass_softmax(world, length)
    for seed in range(3):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            x = np.concatenate(inputs["x"], axis=1).astype(np.float64)
            weights = np.exp(x - x.max(axis=1, keepdims=True))
            expected = (weights * x).sum(axis=1) / weights.sum(axis=1)
            for y in outputs["y"]:
                assert np.abs(y - expected).max() < 1e-5


def test_linear_attention_keeps_the_order_of_its_steps():
    world, length = 3, 83
    program = build_linear_attention(world, length)
    rows = -(-length // world)
    for rank in range(world):
        numbers = [step["step"] for step in program.rank_tables(rank)["steps"].rows()]
        assert numbers == list(range(6))
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
