"""A process that is killed amid exchanges: the other one gets an error in time, and goes on with a new one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

pytestmark = pytest.mark.any_triton


def test_group_goes_on_with_a_new_process(tmp_path):
    script = Path(__file__).parents[1] / "gpu" / "recovery.py"
    out = tmp_path / "report.json"
    given = ["--where=cpu", "--kill=0", "--limit=3", f"--out={out}"]
    run = subprocess.run(
        [sys.executable, str(script), *given], capture_output=True, text=True, timeout=400
    )
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(out.read_text())
    assert "SyncopateError: rank 0 has not made this call within 3 s" in report["error"]
    assert report["status"] == [0, 0]
    assert 0 < report["error_s"] < 4 and report["recovery_s"] > 0
