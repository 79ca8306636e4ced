"""Compiled programs run on the simulator: right results and a clean verdict, whatever the interleaving."""

import json

import pytest
import sim_soak
from sim_faults import FORMS
from sim_programs import ag_gemm, largest_error
from sim_table import COMMON_WAYS, PROGRAMS, TRANSFERS, Way, check, options_of

import syncopate
from syncopate.demo import CHECK_RANKS, CHECK_SHAPE, CHECK_TILE, Choices, compile_ag_gemm
from syncopate.kernels import GemmConfig, gemm
from syncopate.kernels.bind import bind_gemm
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 2, 3, 4)
"""A sample: every policy, staged inputs, and signals that wrap around in two ways."""


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    for seed in SEEDS[:3] if case.world > 4 else SEEDS:
        check(case, seed)


def test_the_table_has_every_realization_algorithm_and_world_size():
    have = {(case.realization, case.algorithm, case.world) for case in PROGRAMS}
    assert have >= {(r, a, w) for r in TRANSFERS for a in COMMON_WAYS for w in (2, 3, 4, 8)}
    assert have >= {(r, a, 4) for r in TRANSFERS for a in Way}
    assert len({case.name for case in PROGRAMS}) == len(PROGRAMS)
    assert set(FORMS) <= set(PROGRAMS)


def test_seeds_spread_over_all_options():
    options = [options_of(seed) for seed in range(60)]
    assert len({o["scheduler"] for o in options}) == 3
    assert {o["staged"] for o in options} == {False, True}
    assert all(o["calls"] > 1 for o in options)
    # What wraps around meets every policy, and so does what is staged.
    assert len({o["scheduler"] for o in options if "first_epoch" in o}) == 3
    assert len({o["scheduler"] for o in options if o["staged"]}) == 3


def test_a_wrong_result_is_no_success(monkeypatch):
    case = PROGRAMS[0]
    monkeypatch.setattr(type(case), "error", lambda *_: 2 * case.tolerance)
    with pytest.raises(AssertionError, match="seed 1: wrong results"):
        check(case, 1)


def test_soak_runs_are_kept_by_version(tmp_path):
    path = tmp_path / "runs.json"
    for version, seeds in (("3.9.0", 1), ("3.6.0", 2), ("3.9.0", 3)):
        run = sim_soak.Soak(version, "2.0", "abc", "2020-01-01", 5, seeds, 100)
        sim_soak.record(run, path)
    kept = json.loads(path.read_text())
    assert [(run["triton"], run["seeds"]) for run in kept] == [("3.6.0", 2), ("3.9.0", 3)]


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_the_demonstration(realization):
    choices = Choices(realization=realization)
    program = compile_ag_gemm(CHECK_RANKS, CHECK_SHAPE, choices, **CHECK_TILE)
    result = simulate(program)
    assert result.verdict.ok, str(result.verdict)
    assert largest_error(result) < 5e-3


def test_a_seed_repeats_a_run():
    program = ag_gemm()
    runs = [simulate(program, calls=2, seed=7, trace=True) for _ in range(2)]
    assert runs[0].trace
    assert runs[0].trace == runs[1].trace
    assert simulate(program, calls=2, seed=8, trace=True).trace != runs[0].trace


@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
def test_a_chunk_of_input_and_what_was_brought(realization):
    """A rank forwards its own rows together with another's: both have to lie in the buffer."""
    config = GemmConfig(block_m=64, block_n=64, num_warps=4, num_ctas=2)
    plan = syncopate.Plan("mixed", [3])
    a = plan.buffer("a", (192, 64), "bf16", shard_axis=0)

    def put(begin, end, src, dst, after=()):
        return plan.put(a[begin:end], a[begin:end], src_rank=src, dst_rank=dst, after=after)

    first = put(0, 64, 0, 1)
    tokens = [first, put(0, 128, 1, 2, [first]), put(64, 128, 1, 0)]
    tokens += [put(128, 192, 2, rank) for rank in range(2)]
    with plan.claim(after=tokens):
        plan.all_gather(a)
    strategy = syncopate.Strategy(realization=realization)
    program = syncopate.compile(gemm, plan, **bind_gemm(a, 64, config), strategy=strategy)
    assert program.localized is None
    for seed in SEEDS:
        result = simulate(program, **options_of(seed))
        assert result.verdict.ok, str(result.verdict)
        assert largest_error(result) < 5e-3
