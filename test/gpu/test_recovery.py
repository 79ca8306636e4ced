"""A rank that is killed amid calls of programs: `recovery.py` as tests of the suite."""

import subprocess
import sys
from pathlib import Path

import pytest


def recover(*options):
    """Runs the script, whose exit status says whether the error came in time and results were right."""
    script = Path(__file__).parent / "recovery.py"
    run = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, timeout=400
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "DeviceWaitTimeout" in run.stdout, run.stdout


@pytest.mark.gpu(2)
@pytest.mark.parametrize("realization", ["ldst_colocated", "copy_engine"])
@pytest.mark.parametrize("killed", [0, 1])
def test_two_gpus_go_on_with_a_new_process(realization, killed):
    recover("--realization", realization, "--kill", str(killed))


@pytest.mark.gpu(1)
def test_one_gpu_goes_on_with_a_new_process():
    recover("--where", "one-gpu")
