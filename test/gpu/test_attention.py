"""Attention of a sequence that ranks share, on ranks of one GPU and on two GPUs, against torch in float32."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
import torch
from sequences import CALLS, SEQUENCES

from syncopate.runtime import load


@pytest.mark.gpu(2)
def test_two_processes():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = Path(__file__).parent / "run_two_gpus.py"
    run = subprocess.run(
        [*command, str(script), "--limit", "60", "--sequences"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAIL", "PASS"))]
    assert run.returncode == 0, run.stdout + run.stderr
    assert lines and not [line for line in lines if line.startswith("FAIL")]


@pytest.mark.gpu(1)
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", SEQUENCES.values(), ids=SEQUENCES)
def test_ranks_on_one_gpu(groups, case, world):
    torch.backends.cuda.matmul.allow_tf32 = False
    program = case.build(world, 96 // world)
    with load(program, groups(world)) as loaded:
        for call in range(CALLS):
            drawn = case.draw(world, call)
            loaded.acquire()
            given = [case.give(world, rank, drawn, loaded) for rank in range(world)]
            results = loaded(**{name: [own[name] for own in given] for name in given[0]})
            for rank, found in enumerate(results):
                case.check(world, rank, drawn, found)
        loaded.synchronize()
