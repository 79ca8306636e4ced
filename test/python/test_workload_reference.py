"""The results of workloads by torch, against simulated programs and numpy. Needs torch, and no GPU."""

import numpy as np
import pytest

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.workloads import GemmKind

torch = pytest.importorskip("torch")

from syncopate.workloads.reference import (  # noqa: E402
    draw_factor,
    draw_input,
    draw_weight,
    multiply,
)

CONFIG = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_stages=2, num_ctas=4)


@pytest.mark.parametrize("kind", list(GemmKind))
@pytest.mark.parametrize("world", [2, 3])
def test_reference_is_what_a_program_gives(kind, world):
    workload = GemmWorkload(kind, 96, 40, 64, world, "f16")
    seed = 11
    a = [draw_input(workload, rank, seed, "cpu").numpy() for rank in range(world)]
    b = [draw_weight(workload, rank, seed, "cpu").numpy() for rank in range(world)]
    assert not np.array_equal(b[0], b[1])
    program = workload.compile(config=CONFIG)
    result = program.simulate({"a": a, "b": b})
    assert result.verdict.ok, result.verdict
    (outputs,) = result.outputs[0].values()
    for rank, out in enumerate(outputs):
        right = multiply(workload, rank, seed, "cpu").numpy()
        assert right.shape == out.shape
        error = np.linalg.norm(out - right) / np.linalg.norm(right)
        assert error < 2e-3


@pytest.mark.parametrize("kind", list(GemmKind))
def test_result_follows_from_factors(kind):
    """With one B for several sets of inputs, as benchmarks have it."""
    world, seed, other = 3, 5, 9
    workload = GemmWorkload(kind, 96, 40, 64, world, "f32")
    products = [
        draw_factor(workload, rank, seed, "cpu").double()
        @ draw_weight(workload, rank, other, "cpu").double().T
        for rank in range(world)
    ]
    for rank in range(world):
        rows = slice(32 * rank, 32 * rank + 32)
        right = {
            GemmKind.AG_GEMM: lambda rank=rank: products[rank],
            GemmKind.A2A_GEMM: lambda rank=rank: products[rank],
            GemmKind.GEMM_AR: lambda: sum(products),
            GemmKind.GEMM_RS: lambda rows=rows: sum(products)[rows],
            GemmKind.GEMM_A2A: lambda rows=rows: torch.cat([one[rows] for one in products]),
        }[kind]()
        found = multiply(workload, rank, seed, "cpu", weight_seed=other)
        assert found.shape == right.shape
        assert (found - right).norm() < 1e-5 * right.norm()
        assert (multiply(workload, rank, seed, "cpu") - right).norm() > 0.1 * right.norm()


@pytest.mark.parametrize("kind", list(GemmKind))
@pytest.mark.parametrize(
    ("shape", "pitch"), [((96, 40, 64), None), ((96, 40, 52), 48), ((96, 50, 40), None)]
)
def test_weight_may_be_given_as_k_by_n(kind, shape, pitch):
    """On descriptors; with rows that are apart; and on pointers."""
    workload = GemmWorkload(kind, *shape, 2, "f16", transpose_b=True, weight_pitch=pitch)
    assert workload.packed() is workload
    a = [draw_input(workload, rank, 5, "cpu").numpy() for rank in range(2)]
    b = [draw_weight(workload, rank, 5, "cpu") for rank in range(2)]
    assert {tuple(each.shape) for each in b} == {(shape[2], shape[1])}
    assert {each.stride(0) for each in b} == {pitch or shape[1]}
    result = workload.compile(config=CONFIG).simulate({"a": a, "b": [each.numpy() for each in b]})
    assert result.verdict.ok, result.verdict
    (outputs,) = result.outputs[0].values()
    for rank, out in enumerate(outputs):
        right = multiply(workload, rank, 5, "cpu").numpy()
        assert np.linalg.norm(out - right) < 2e-3 * np.linalg.norm(right)


@pytest.mark.parametrize("kind", [kind for kind in GemmKind if kind.is_before])
@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine", "tma_dedicated", "nccl"])
@pytest.mark.parametrize("direction", ["push", "pull"])
def test_a_is_given_back_as_it_has_arrived(kind, realization, direction):
    """Calls follow one another without a barrier, so a peer's next one must not write over what is given back."""
    world = 3
    workload = GemmWorkload(kind, 96, 40, 64, world, "f16", returns_a=True)
    strategy = Strategy(realization=realization, direction=direction)
    program = workload.compile(strategy, config=CONFIG)
    calls = [
        {
            "a": [draw_input(workload, rank, seed, "cpu").numpy() for rank in range(world)],
            "b": [draw_weight(workload, rank, seed, "cpu").numpy() for rank in range(world)],
        }
        for seed in (21, 22, 23)
    ]
    result = program.simulate(calls)
    assert result.verdict.ok, result.verdict
    for seed, call, outputs in zip((21, 22, 23), calls, result.outputs, strict=True):
        name = "a" if kind is GemmKind.AG_GEMM else "received"
        for rank in range(world):
            right = np.concatenate(call["a"])
            if kind is GemmKind.A2A_GEMM:
                right = np.concatenate([a[32 * rank : 32 * rank + 32] for a in call["a"]])
            np.testing.assert_array_equal(outputs[name][rank], right)
            c = multiply(workload, rank, seed, "cpu").numpy()
            assert np.linalg.norm(outputs["c"][rank] - c) < 2e-3 * np.linalg.norm(c)


def test_blocks_of_a_gather_may_be_uneven():
    workload = GemmWorkload("ag_gemm", 100, 40, 64, 3)
    parts = [draw_input(workload, rank, 0, "cpu") for rank in range(3)]
    assert [len(part) for part in parts] == [34, 34, 32]
    whole = torch.cat(parts).float()
    right = whole @ draw_weight(workload, 1, 0, "cpu").float().T
    assert torch.equal(multiply(workload, 1, 0, "cpu"), right)
