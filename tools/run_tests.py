"""Runs the lit and the pytest suite and prints `N passed, N failed` last.

The exit code is zero if tests ran and none failed.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "build" / "test-results"


@dataclass(frozen=True)
class Count:
    """Tests of one or more suites."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def count_tests(report: Path) -> Count:
    """Counts the test cases of a report in JUnit's form."""
    count = Count()
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            count += Count(failed=1)
        elif case.find("skipped") is not None:
            count += Count(skipped=1)
        else:
            count += Count(passed=1)
    return count


def run_suite(name: str, command: list[str], report: Path) -> Count:
    """Runs a suite; one that breaks down counts as a failed test."""
    print(f"== {name}", flush=True)
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    count = count_tests(report) if report.exists() else Count()
    if status != 0 and count.failed == 0:
        print(f"{name} ended with exit code {status}")
        count += Count(failed=1)
    return count


def main() -> int:
    """Entry point."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    jobs = str(os.cpu_count() or 1)
    lit, pytest = RESULTS / "lit.xml", RESULTS / "pytest.xml"
    lit_main = "from lit.main import main; main()"
    suites: list[tuple[str, list[str], Path]] = [
        (
            "lit",
            [
                sys.executable,
                "-c",
                lit_main,
                "-v",
                f"-j{jobs}",
                f"--xunit-xml-output={lit}",
                "test",
            ],
            lit,
        ),
        ("pytest", [sys.executable, "-m", "pytest", "-n", jobs, f"--junitxml={pytest}"], pytest),
    ]
    total = Count()
    for suite in suites:
        total += run_suite(*suite)
    (RESULTS / "summary").write_text(f"{total}\n", encoding="utf-8")
    print(total)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
