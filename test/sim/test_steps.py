"""Kernels that wait within a tile run on the simulator: sound, right, in the order of the schedule."""

import numpy as np
import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from sim_steps import build_gemm, gemm_error
from sim_table import options_of

import syncopate
from syncopate import Strategy
from syncopate.errors import PlanError, SyncopateError
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

ULPS = 2**-10
"""Outputs are below 128 in f16, whose numbers there are 2⁻⁴ apart; sums in float32 are far closer."""
TOLERANCE = 64 * ULPS

CASES = {
    "straddling steps": (2, (130, 72, 272), Strategy(), {}),
    "three ranks, engine": (3, (130, 72, 328), Strategy(realization="copy_engine"), {"stages": 4}),
    "ring, tma, one cta": (
        4,
        (64, 72, 256),
        Strategy(algorithm="ring", realization="tma_colocated"),
        {"stages": 2, "ctas": 1},
    ),
    "pull, dedicated, one stage": (
        2,
        (130, 72, 272),
        Strategy(direction="pull", realization="ldst_dedicated", comm_ctas=2),
        {"stages": 1},
    ),
    "in pieces": (3, (130, 72, 264), Strategy(splits=3), {"ctas": 2}),
    "the kernel's own order": (2, (66, 72, 272), Strategy(order="grouped"), {"ctas": 2}),
    "flattened": (2, (130, 72, 272), Strategy(), {"flatten": True, "stages": 4}),
    "one step": (2, (130, 72, 16), Strategy(), {"stages": 4}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gemm_that_gathers_along_k_is_sound_and_right(case):
    world, shape, strategy, options = case
    program = build_gemm(world, shape, strategy, **options)
    for seed in range(3):
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, result.verdict
        error = gemm_error(result)
        assert error < TOLERANCE, f"seed {seed}: {error}"


def _steps(program, rank, position):
    of_tile = program.rank_tables(rank)["tile_steps"].rows()[position]
    return program.rank_tables(rank)["steps"].rows()[of_tile["begin"] : of_tile["end"]]


def test_own_steps_come_first_and_each_chunk_is_waited_for_once():
    program = build_gemm(3, (130, 72, 192), Strategy(algorithm="ring", splits=1))
    for rank in range(3):
        for position in range(6):
            steps = _steps(program, rank, position)
            assert sorted(step["step"] for step in steps) == list(range(6))
            assert [step["step"] for step in steps[:2]] == [2 * rank, 2 * rank + 1]
            waits = [i for i, step in enumerate(steps) if step["wait_begin"] < step["wait_end"]]
            # A CTA has waited for all when it comes to its second tile.
            assert waits == ([2, 4] if position < 3 else [])
    # Around the ring, what comes from farther away arrives later.
    assert [step["step"] for step in _steps(program, 0, 0)] == [0, 1, 4, 5, 2, 3]


def test_lists_are_shared_and_the_natural_order_is_kept_on_request():
    program = build_gemm(2, (322, 200, 272), Strategy(order="grouped"), ctas=7)
    for rank in range(2):
        assert len(program.rank_tables(rank)["tile_steps"].values) == 6 * 4
        assert len(program.rank_tables(rank)["steps"].values) == 2 * 9
        for position in (0, 23):
            numbers = [step["step"] for step in _steps(program, rank, position)]
            assert numbers == list(range(9))


def test_explain_says_at_which_step_a_tile_waits():
    text = build_gemm(2, (130, 72, 256), Strategy(splits=1)).explain()
    assert "its tiles walk up to 8 steps, 48 in all" in text
    assert "tile (0, 0) before step 0, after 4 of 8" in text


def _no_wait_of_a_step(_, rank, columns):
    steps = columns["steps"]
    had = bool((steps["wait_end"] > steps["wait_begin"]).any())
    steps["wait_end"][:] = steps["wait_begin"]
    return had


def _one_step_late(_, rank, columns):
    steps = columns["steps"]
    for name in ("wait_begin", "wait_end"):
        steps[name][1:] = steps[name][:-1].copy()
        steps[name][0] = 0
    return True


@pytest.mark.parametrize("edit", [_no_wait_of_a_step, _one_step_late], ids=["none", "late"])
@pytest.mark.parametrize("flatten", [False, True], ids=["nested", "flattened"])
def test_step_without_its_wait_is_refused_and_a_race(edit, flatten):
    program = build_gemm(2, (130, 72, 272), Strategy(), flatten=flatten)
    assert not refuse_tables(program)
    broken = tables(edit)(program)
    assert "without a wait for a transfer that brings what it reads" in refuse_tables(broken)
    verdicts = [simulate(broken, **options_of(seed)).verdict for seed in range(4)]
    assert any(finding.kind is Kind.RACE for verdict in verdicts for finding in verdict.findings)


def _step_twice(_, rank, columns):
    columns["steps"]["step"][0] = columns["steps"]["step"][1]
    return True


def test_step_that_is_taken_twice_is_refused():
    broken = tables(_step_twice)(build_gemm(2, (66, 72, 272), Strategy()))
    assert "to name each step of its tile once" in refuse_tables(broken)


def test_steps_that_are_not_the_kernels_are_found():
    """K has nine blocks, and the caller says eight."""
    program = build_gemm(2, (66, 72, 272), Strategy(), steps=[syncopate.Steps(lambda m, n: (0, 8))])
    result = simulate(program, seed=0)
    assert Kind.ASSERTION in {finding.kind for finding in result.verdict.findings}
    assert gemm_error(result) > TOLERANCE


def test_steps_may_differ_between_ranks():
    same = [syncopate.Steps(lambda m, n: ((0, m - 5), (9, m + 9)), rank) for rank in range(2)]
    program = build_gemm(2, (130, 72, 272), Strategy(), steps=same)
    result = simulate(program, seed=1)
    assert result.verdict.ok, result.verdict
    assert gemm_error(result) < TOLERANCE


def test_footprint_by_hand_takes_the_step():
    given = syncopate.Footprint("a_desc", lambda m, n, k: (m * 64, k * 32), (64, 32))
    program = build_gemm(2, (130, 72, 272), Strategy(), footprints=[given])
    inferred = build_gemm(2, (130, 72, 272), Strategy())
    for rank in range(2):
        for name, table in program.rank_tables(rank).items():
            assert np.array_equal(table.values, inferred.rank_tables(rank)[name].values)


def test_wrong_steps_are_refused():
    with pytest.raises(SyncopateError, match=r"expects a sequence of syncopate\.Steps"):
        build_gemm(2, (66, 72, 272), Strategy(), steps=[(0, 9)])
    with pytest.raises(SyncopateError, match="as a function of 2 tile coordinates"):
        build_gemm(2, (66, 72, 272), Strategy(), steps=[syncopate.Steps(lambda m: (0, 9))])
    with pytest.raises(PlanError, match="or of each of the 2 ranks"):
        build_gemm(2, (66, 72, 272), Strategy(), steps=[syncopate.Steps(lambda m, n: (0, 9), 1)])
    with pytest.raises(SyncopateError, match="steps: expects a rank, but got -1"):
        syncopate.Steps(lambda m: (0, 1), -1)
