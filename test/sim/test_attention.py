"""Attention runs on the simulator: sound and right."""

import dataclasses

import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from sim_sequences import ATTENTIONS
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
        case = dataclasses.replace(ATTENTIONS[name], length=2055)
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
