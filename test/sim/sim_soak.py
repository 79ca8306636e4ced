"""Runs the good programs of the table with many seeds, and keeps what it ran for docs/checks.md.

    python test/sim/sim_soak.py --seeds 1000

Each program runs with the seeds 0, 1, …, round by round, so that a run that is stopped has treated all alike. A finding
ends it with the program and the seed. With --record, the numbers go to docs/results/simulator.json every round, and
`tools/generate_checks.py` puts them into the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

# Matrices are small, and the threads of one process would wait for those of another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import triton  # noqa: E402
from sim_table import PROGRAMS, check  # noqa: E402

RECORD = ROOT / "docs" / "results" / "simulator.json"


@dataclass(frozen=True)
class Soak:
    """What one run has shown.

    Attributes:
        triton: Its version.
        numpy: Its version.
        commit: Of this repository.
        date: When it ended.
        programs: How many.
        seeds: With how many seeds each.
        steps: Scheduler's steps in all; every one is a choice of who goes on.
    """

    triton: str
    numpy: str
    commit: str
    date: str
    programs: int
    seeds: int
    steps: int


def record(soak: Soak, path: Path) -> None:
    """Puts a run in the place of an earlier one with the same Triton."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [old for old in kept if old["triton"] != soak.triton] + [asdict(soak)]
    kept.sort(key=lambda run: run["triton"])
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _commit() -> str:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="for each program")
    parser.add_argument("--minutes", type=float, help="after which no round is begun")
    parser.add_argument("--record", action="store_true", help=f"keep the numbers in {RECORD.name}")
    arguments = parser.parse_args()
    commit = _commit()
    start, steps = time.monotonic(), 0
    for seed in range(arguments.seeds):
        if arguments.minutes and time.monotonic() - start > 60 * arguments.minutes:
            break
        steps += sum(check(case, seed) for case in PROGRAMS)
        seeds = seed + 1
        print(f"{seeds} seeds of {len(PROGRAMS)} programs", flush=True)
        if arguments.record:
            versions = (triton.__version__, np.__version__, commit)
            today = datetime.date.today().isoformat()
            record(Soak(*versions, today, len(PROGRAMS), seeds, steps), RECORD)
    return 0


if __name__ == "__main__":
    sys.exit(main())
