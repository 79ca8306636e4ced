"""The operators of `syncopate.torch` with one process per GPU, as one test of the suite."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu(2)

LIMIT_S = 900


def test_two_processes():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = Path(__file__).parent / "run_two_gpus.py"
    run = subprocess.run(
        [*command, str(script), "--torch", "--limit", "120"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith(("FAIL", "PASS"))]
    assert run.returncode == 0, run.stdout + run.stderr
    assert lines and not [line for line in lines if line.startswith("FAIL")]
