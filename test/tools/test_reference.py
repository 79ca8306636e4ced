import subprocess
import sys


def test_committed_reference_is_up_to_date(root):
    command = [sys.executable, str(root / "tools" / "generate_reference.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
