"""The operators of `syncopate.torch` on two processes of CPUs, by the reference path. Needs torch, and no GPU."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch_checks import cases  # noqa: E402
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


def test_package_alone_imports_no_torch():
    code = "import sys, syncopate; assert 'torch' not in sys.modules; import syncopate.torch, torch"
    code += "; assert torch.mm and syncopate.torch.all_gather_matmul is not None"
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
