"""Compiled programs run on the simulator: right results and a clean verdict, whatever the interleaving."""

import pytest
from sim_programs import ALGORITHMS, REALIZATIONS, ag_gemm, largest_error

from syncopate.demo import CHECK_RANKS, CHECK_SHAPE, Choices, compile_ag_gemm
from syncopate.kernels import GemmConfig
from syncopate.sim.simulate import simulate

SCHEDULES = [("random", 0), ("random", 1), ("random", 2), ("late", 3), ("early", 4)]


def run_and_check(program, tolerance=5e-3, **options):
    result = simulate(program, **options)
    assert result.verdict.ok, str(result.verdict)
    assert len(result.outputs) == len(result.inputs)
    assert largest_error(result) < tolerance
    return result


@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("world", [2, 3])
def test_every_realization_and_algorithm(realization, algorithm, world):
    program = ag_gemm(realization, algorithm, world, (64 * world, 64, 128))
    for policy, seed in SCHEDULES:
        run_and_check(program, calls=3, seed=seed, scheduler=policy)


@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize("algorithm", ["direct_push", "direct_pull"])
def test_staged_inputs(realization, algorithm):
    program = ag_gemm(realization, algorithm, 3, (192, 64, 128))
    run_and_check(program, calls=3, seed=5, staged=True)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_first_tiles_that_wait(realization):
    """In the order of their rows, a rank's first tile is another rank's, so that the pipeline's prologue waits."""
    program = ag_gemm(realization, "ring_pull", 3, (192, 64, 192), order="grouped")
    for seed in range(3):
        run_and_check(program, calls=2, seed=seed)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_chunks_that_are_no_whole_tiles(realization):
    program = ag_gemm(realization, "direct_push", 3, (200, 104, 136), splits=2)
    for seed in range(3):
        run_and_check(program, calls=2, seed=seed)


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "tolerance"),
    [("f16", None, 1e-3), ("f8E4M3FN", "bf16", 5e-3), ("f8E5M2", "f16", 1e-3), ("f32", None, 1e-6)],
)
def test_element_types(dtype, out_dtype, tolerance):
    config = GemmConfig(block_m=64, block_n=32, block_k=32, num_warps=4, num_ctas=2)
    program = ag_gemm(shape=(128, 64, 64), dtype=dtype, out_dtype=out_dtype, config=config)
    run_and_check(program, tolerance, calls=2)


@pytest.mark.parametrize(
    ("target", "realization"), [("sm_90", "ldst_colocated"), ("sm_80", "copy_engine")]
)
def test_kernels_on_pointers(target, realization):
    program = ag_gemm(realization, shape=(128, 64, 128), pointers=True, target=target)
    for seed in range(2):
        run_and_check(program, calls=2, seed=seed)


@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize("algorithm", ["direct_push", "ring_pull"])
def test_signals_wrap_around(realization, algorithm):
    program = ag_gemm(realization, algorithm, 3, (192, 64, 128))
    for first in (2**31 - 2, 2**32 - 2, 2**30):
        run_and_check(program, calls=4, seed=first % 7, first_epoch=first)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_the_demonstration(realization):
    program = compile_ag_gemm(
        CHECK_RANKS,
        CHECK_SHAPE,
        Choices(realization=realization),
        block_n=64,
        num_warps=4,
        num_ctas=8,
    )
    run_and_check(program)


def test_a_seed_repeats_a_run():
    program = ag_gemm()
    runs = [simulate(program, calls=2, seed=7, trace=True) for _ in range(2)]
    assert runs[0].trace
    assert runs[0].trace == runs[1].trace
    assert simulate(program, calls=2, seed=8, trace=True).trace != runs[0].trace
