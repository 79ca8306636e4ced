import subprocess
import sys


def test_committed_page_of_checks_is_up_to_date(root):
    command = [sys.executable, str(root / "tools" / "generate_checks.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
