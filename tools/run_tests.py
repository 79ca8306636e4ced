"""Runs the lit and the pytest suites and prints `N passed, N failed` last.

The exit code is zero if tests ran and none failed. Slow tests run with SYNCOPATE_SLOW_TESTS=1 in the environment.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "build" / "test-results"
NOTHING_COLLECTED = 5


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
        return f"{self.passed} passed, {self.failed} failed"


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


@dataclass(frozen=True)
class Suite:
    """One run of a test runner."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> Count:
        """Runs the suite; one that breaks down counts as a failed test."""
        print(f"== {self.name}", flush=True)
        report = RESULTS / f"{self.name.replace(' ', '-')}.xml"
        option = "--xunit-xml-output" if self.name == "lit" else "--junitxml"
        command = [sys.executable, *self.command, f"{option}={report}"]
        environment = {**os.environ, **self.environment}
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        count = count_tests(report) if report.exists() else Count()
        # A file that skips itself as a whole leaves pytest with "nothing collected".
        all_skipped = status == NOTHING_COLLECTED and count == Count(skipped=count.skipped)
        if status != 0 and count.failed == 0 and not (all_skipped and count.skipped):
            print(f"{self.name} ended with exit code {status}")
            count += Count(failed=1)
        return count


def list_suites() -> list[Suite]:
    """Returns what there is to run."""
    # More workers than this gain nothing, and each may import torch.
    jobs = f"-n{min(os.cpu_count() or 1, 8)}"
    suites = [
        Suite("lit", ["-c", "from lit.main import main; main()", "-v", "test"]),
        Suite("pytest", ["-m", "pytest", jobs, "--ignore=test/gpu"]),
        # Tests that share GPUs would wait for each other's kernels.
        Suite("pytest on gpus", ["-m", "pytest", "test/gpu"]),
    ]
    if os.environ.get("SYNCOPATE_SLOW_TESTS") == "1":
        command = ["-m", "pytest", jobs, "--ignore=test/gpu", "-m", "slow"]
        suites.append(Suite("slow pytest", command))
    oldest = Path(sys.prefix) / "oldest-triton"
    if oldest.exists():
        # pip installs the newest Triton; this runs the tests that depend on it with the oldest.
        command = ["-m", "pytest", jobs, "--ignore=test/gpu"]
        command += ["--ignore=test/tools", "--ignore=test/docs"]
        command += ["-m", "not slow and not any_triton"]
        suites.append(Suite("pytest with oldest triton", command, {"PYTHONPATH": str(oldest)}))
    return suites


def main() -> int:
    """Entry point."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    total = Count()
    for suite in list_suites():
        total += suite.run()
    (RESULTS / "summary").write_text(f"{total}\n", encoding="utf-8")
    if total.skipped:
        print(f"{total.skipped} skipped; the reasons are above")
    print(total)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
