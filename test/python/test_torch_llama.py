"""Blocks of a model, and the model of examples/torch_llama.py, on two processes of CPUs. Needs torch, and no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch_block_checks import cases  # noqa: E402
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


def run_example(tmp_path, *arguments):
    """The report of the example on two processes, with sizes that are no powers of two."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    example = Path(__file__).parents[2] / "examples" / "torch_llama.py"
    sizes = "--layers 2 --features 24 --hidden 22 --heads 6 --kv-heads 2 --vocabulary 30 --sequence 10 --batch 3"
    out = tmp_path / "report.json"
    run = subprocess.run(
        [*command, str(example), *arguments, *sizes.split(), "--out", str(out)],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(out.read_text())


def test_example_trains_as_plain_torch_does(tmp_path):
    ways = run_example(tmp_path, "train", "--steps", "6", "--rate", "3e-3")["ways"]
    assert list(ways) == ["plain", "fused"]
    for way in ways.values():
        assert way["losses"] == pytest.approx(ways["plain"]["losses"], rel=1e-5)
        assert len(way["losses"]) == 6 and way["losses"][-1] < way["losses"][0]
        assert way["tokens_per_second"] == pytest.approx(10 * 3 * 1e3 / way["ms_per_step"])


def test_example_answers_as_plain_torch_does(tmp_path):
    report = run_example(tmp_path, "serve", "--answer", "4", "--rounds", "2")
    assert list(report["ways"]) == ["plain", "fused", "fused_sums"]
    for way in report["ways"].values():
        assert way["largest_logits_error"] < 1e-5
        assert way["prompt_tokens_per_second"] > 0 and way["answer_tokens_per_second"] > 0


def test_table_has_every_way(tmp_path):
    script = Path(__file__).parents[2] / "benchmark" / "llama.py"
    command = [sys.executable, str(script)]
    run = subprocess.run(
        [*command, "--dry-run", "--parts", "train,serve", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    data = json.loads((tmp_path / "llama-w2-dry.json").read_text(encoding="utf-8"))
    assert [(row["part"], row["way"]) for row in data["rows"]] == [
        ("train", "plain"),
        ("train", "fused"),
        ("serve", "plain"),
        ("serve", "fused"),
        ("serve", "fused_sums"),
    ]
    assert not data["wrong"] and not data["missing"]
    table = (tmp_path / "llama-w2-dry.md").read_text(encoding="utf-8")
    assert "times mean nothing here" in table and "| fused_sums |" in table
    (tmp_path / "llama-w2-dry.md").unlink()
    subprocess.run([*command, "--table", str(tmp_path / "llama-w2-dry.json")], check=True)
    assert (tmp_path / "llama-w2-dry.md").read_text(encoding="utf-8") == table


def test_part_that_fails_or_takes_too_long_is_said(tmp_path):
    script = Path(__file__).parents[2] / "benchmark" / "llama.py"
    given = ["--dry-run", "--parts", "train", "--budget", "0.5", "--out", str(tmp_path)]
    run = subprocess.run([sys.executable, str(script), *given], capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    data = json.loads((tmp_path / "llama-w2-dry.json").read_text(encoding="utf-8"))
    assert data["wrong"] == ["train: was ended after 0 s"] and data["rows"] == []
