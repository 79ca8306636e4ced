"""Layers, styles and the pass of `syncopate.torch` on two processes of CPUs. Needs torch, and no GPU."""

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch_layer_checks import cases  # noqa: E402
from torch_ranks import run_on_ranks  # noqa: E402

pytestmark = pytest.mark.any_triton

CASES = cases()


@pytest.fixture(scope="module")
def outcomes():
    return run_on_ranks(CASES)


@pytest.mark.parametrize("name", CASES)
def test_on_two_ranks(outcomes, name):
    for rank, problem in enumerate(outcomes[name]):
        assert not problem, f"rank {rank}: {problem}"
