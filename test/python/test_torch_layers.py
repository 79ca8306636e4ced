"""Layers, styles and the pass of `syncopate.torch` on two processes of CPUs. Needs torch, and no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch_layer_checks import cases, check_inductor  # noqa: E402
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


def test_example_trains_as_plain_torch_does():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    sizes = ["--tokens", "64", "--features", "32", "--hidden", "96", "--steps", "6"]
    example = Path(__file__).parents[2] / "examples" / "torch_mlp.py"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, str(example), *sizes], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "by fused operators" in run.stdout


@pytest.mark.parametrize("arguments", [["torch_mlp.py"], ["torch_llama.py", "train"]])
def test_examples_say_how_they_are_started(arguments):
    example, *rest = arguments
    path = Path(__file__).parents[2] / "examples" / example
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    run = subprocess.run(
        [sys.executable, str(path), *rest], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 2, run.stderr
    assert f"start it by torchrun --nproc-per-node 2 examples/{example}" in run.stderr


@pytest.mark.slow
def test_compiled_code_gives_the_same():
    (outcome,) = run_on_ranks({"inductor": check_inductor}).values()
    assert outcome == ["", ""], outcome


def test_page_runs_as_it_says(tmp_path):
    """The first program of docs/torch.md, on CPUs and smaller."""
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    code = page.split("```python gpu\n")[1].split("```")[0]
    changes = (
        ('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n', ""),
        ('"nccl"', '"gloo"'),
        ('"cuda"', '"cpu"'),
        ("8192", "64"),
        ("4096", "32"),
        ("14336", "96"),
    )
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    script = tmp_path / "first.py"
    script.write_text(code + "assert y.shape == x.shape and up.grad.abs().sum() > 0\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "SYNCOPATE_TORCH_FALLBACK": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run([*command, str(script)], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
