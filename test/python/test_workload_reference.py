"""The results of workloads by torch, against simulated programs and numpy. Needs torch, and no GPU."""

import numpy as np
import pytest

from syncopate import GemmWorkload
from syncopate.kernels import GemmConfig
from syncopate.workloads import GemmKind

torch = pytest.importorskip("torch")

from syncopate.workloads.reference import draw_input, draw_weight, multiply  # noqa: E402

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


def test_blocks_of_a_gather_may_be_uneven():
    workload = GemmWorkload("ag_gemm", 100, 40, 64, 3)
    parts = [draw_input(workload, rank, 0, "cpu") for rank in range(3)]
    assert [len(part) for part in parts] == [34, 34, 32]
    whole = torch.cat(parts).float()
    right = whole @ draw_weight(workload, 1, 0, "cpu").float().T
    assert torch.equal(multiply(workload, 1, 0, "cpu"), right)
