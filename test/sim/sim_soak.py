"""Runs the good programs of the table with many seeds, and keeps what it ran for docs/checks.md.

    python test/sim/sim_soak.py --seeds 1000 --jobs 8

Each program runs with the seeds 0, 1, …, in rounds of some seeds, so that a run that is stopped has treated all alike.
A finding ends it with the program and the seed. With --record, the numbers go to docs/results/simulator.json every
round, and `tools/generate_checks.py` puts them into the page.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

# Matrices are small, and the threads of one process would wait for those of another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import triton
from run_records import ROOT, current_commit, keep_run, read_runs
from sim_table import PROGRAMS, check

SEEDS_PER_ROUND = 25
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
    keep_run(asdict(soak), path)


def _check_round(number: int, first: int, last: int) -> int:
    """Checks one program with some seeds; in one go, since translating its kernel is kept for a few programs only."""
    return sum(check(PROGRAMS[number], seed) for seed in range(first, last))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="for each program")
    parser.add_argument("--first", type=int, default=0, help="seed; earlier ones are in the record")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="after which no round is begun")
    parser.add_argument("--record", metavar="FILE", nargs="?", const=RECORD, type=Path)
    parser.add_argument("--commit", help="of the sources, if they are no repository")
    arguments = parser.parse_args()
    commit = arguments.commit or current_commit()
    start, steps = time.monotonic(), 0
    if arguments.first:
        # What was run with the seeds before, of the same sources and the same Triton.
        (before,) = (
            run
            for run in (Soak(**kept) for kept in read_runs(arguments.record or RECORD))
            if (run.triton, run.commit, run.seeds) == (triton.__version__, commit, arguments.first)
        )
        steps = before.steps
    for case in PROGRAMS:
        case.build()
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("fork")) as pool:
        for first in range(arguments.first, arguments.seeds, SEEDS_PER_ROUND):
            if arguments.minutes and time.monotonic() - start > 60 * arguments.minutes:
                break
            seeds = min(first + SEEDS_PER_ROUND, arguments.seeds)
            numbers = range(len(PROGRAMS))
            steps += sum(pool.map(_check_round, numbers, repeat(first), repeat(seeds)))
            print(f"{seeds} seeds of {len(PROGRAMS)} programs", flush=True)
            if arguments.record:
                versions = (triton.__version__, np.__version__, commit)
                today = datetime.date.today().isoformat()
                record(Soak(*versions, today, len(PROGRAMS), seeds, steps), arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
