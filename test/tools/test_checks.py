import re
import subprocess
import sys

from syncopate.sim.findings import Kind


def test_committed_page_of_checks_is_up_to_date(root):
    command = [sys.executable, str(root / "tools" / "generate_checks.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_page_explains_every_kind_of_finding(root):
    page = (root / "docs" / "checks.md").read_text(encoding="utf-8")
    table = page.partition("| finding | what |\n|---|---|\n")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted(kind.value for kind in Kind)
