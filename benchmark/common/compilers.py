"""Compiles programs ahead in processes of their own, into the cache on disk, so that ranks do not wait for each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, wait

from syncopate import GemmWorkload, tune
from syncopate.choices import TileOrder
from syncopate.compiler import Program
from syncopate.errors import SyncopateError

__all__ = ["Compilers", "compile_trial", "find_codes"]

MOST_PROCESSES = 16
TIMEOUT_S = 20.0


def find_codes(trials: Iterable[tune.Candidate]) -> list[tune.Candidate]:
    """One trial for each that may have code of its own: orders, waves, pauses and groups of rows are in tables."""
    codes = {
        trial.having(order=TileOrder.ARRIVAL, waves=(), pause=500, group_m=8): trial
        for trial in trials
    }
    return list(codes.values())


class Compilers:
    """The processes; they start with the first work that is worth it."""

    def __init__(self, processes: int | None = None) -> None:
        """Starts nothing yet.

        Args:
            processes: How many; half of the cores if it is left out, 16 at most.
        """
        cores = os.cpu_count() or 1
        self._processes = processes or min(MOST_PROCESSES, max(cores // 2, 1))
        self._pool: ProcessPoolExecutor | None = None
        self._done: set[tuple[GemmWorkload, tune.Candidate]] = set()

    def compile(self, workload: GemmWorkload, trials: Iterable[tune.Candidate]) -> None:
        """Compiles what has not been compiled; who needs what the compiler refuses finds out by compiling it again."""
        work = [(workload, trial) for trial in find_codes(trials)]
        work = [one for one in work if one not in self._done]
        self._done.update(work)
        if len(work) < 2 or self._processes < 2:
            return
        if self._pool is None:
            # Forking a process that uses CUDA is not allowed.
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, spawn)
        done, _ = wait([self._pool.submit(_compile, *one) for one in work])
        for error in {repr(future.exception()) for future in done if future.exception()}:
            # Ranks then compile themselves, one program after another.
            print(f"compiling ahead failed: {error}", flush=True)

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown()


def compile_trial(workload: GemmWorkload, trial: tune.Candidate) -> Program:
    """The program of a trial.

    Raises:
        SyncopateError: The compiler refuses it.
    """
    packed = workload.packed()
    return packed.compile(trial.strategy, config=trial.tiles, timeout=TIMEOUT_S)


def _compile(workload: GemmWorkload, trial: tune.Candidate) -> bool:
    try:
        compile_trial(workload, trial)
    except SyncopateError:
        return False
    return True
