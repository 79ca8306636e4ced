"""Times how long the tables of a program of another shape take, and where the time goes. Needs no GPU.

    python benchmark/schedule_build.py

Prints a table in Markdown, in milliseconds of processor time of the one thread that works, medians of some runs: for 8
ranks with about 1,000 tiles each of plans that gather or reduce, the passes that make tables, those that check, and
`syncopate.compile` from the plan in Python to the program with all that is around them, of which so much in C++ passes.
Every run has another number of rows, so that no schedule is found among those made before, and the same kernel.

"tables" is the build that the goal of one millisecond is for: from the plan as it was written, bound to its kernel with
the regions that tiles access, to the complete tables of all ranks, checked by no pass beside those that make them.
`--most 1` ends with 1 if its least run takes more than so many milliseconds for some plan.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import syncopate
import syncopate.ir
from syncopate.choices import Combine
from syncopate.compiler.schedules import schedule_statistics
from syncopate.ir import new_context, parse
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.mlir.passmanager import PassManager
from syncopate.plan.templates import reduce_scatter_tiles

RANKS = 8
N, K = 2048, 1024
RUNS = 15
# 128 rows of tiles, from which each run takes some rows away.
MOST_ROWS = 128 * 128

TRANSFERS = "chunk-expand-spmd,chunk-decompose-collectives,chunk-split-transfers"
PLAN_CHECKS = "chunk-check-plan,chunk-check-claims"
TABLES = (
    "chunk-separate-inputs,chunk-order-tiles,chunk-use-tile-ring,chunk-allocate-signals,chunk-place-waits,"
    "chunk-build-tables"
)

PIPELINES = {
    "tables": f"chunk.plan({TRANSFERS},chunk-assign-realization,{TABLES})",
    "with plan checks": f"chunk.plan({TRANSFERS},{PLAN_CHECKS},chunk-assign-realization,chunk-check-kernel,{TABLES})",
    "with all checks": f"chunk.plan({TRANSFERS},{PLAN_CHECKS},chunk-assign-realization,chunk-check-kernel,{TABLES},"
    "chunk-check-tables)",
}


def make_gather(rows: int) -> tuple[Any, dict[str, Any]]:
    """GEMM of what is gathered."""
    plan = syncopate.Plan("gather", [RANKS])
    a = plan.buffer("a", (rows, K), "bf16", shard_axis=0)
    plan.all_gather(a)
    return plan, bind_gemm(a, N, GemmConfig())


def make_sum(rows: int) -> tuple[Any, dict[str, Any]]:
    """GEMM whose parts are reduced and scattered."""
    plan = syncopate.Plan("sum", [RANKS])
    c = plan.buffer("c", (rows, N), "bf16")
    reduce_scatter_tiles(plan, c, syncopate.Strategy(combine=Combine.ROLE))
    return plan, bind_gemm(syncopate.Tensor("a", (rows, K), "bf16"), N, GemmConfig(), c=c)


class TimedPasses:
    """Stands for MLIR's pass manager in `syncopate.ir`, and adds up how long passes run."""

    seconds = 0.0

    def __init__(self, manager: PassManager) -> None:
        self._manager = manager

    @classmethod
    def parse(cls, pipeline: str) -> TimedPasses:
        """A manager of the passes that a pipeline names."""
        return cls(PassManager.parse(pipeline))

    def enable_verifier(self, enable: bool) -> None:
        """Whether MLIR's verifier runs between passes."""
        self._manager.enable_verifier(enable)

    def run(self, operation: Any) -> None:
        """Runs the passes."""
        begin = time.thread_time()
        try:
            self._manager.run(operation)
        finally:
            TimedPasses.seconds += time.thread_time() - begin


def measure(run: Callable[[int], Any]) -> float:
    """Milliseconds, given how many rows are to be taken away."""
    times = []
    for number in range(1, RUNS + 1):
        begin = time.thread_time()
        run(RANKS * number)
        times.append(time.thread_time() - begin)
    return 1e3 * statistics.median(times)


def _discard(make: Callable[[int], Any], rows: int) -> None:
    make(MOST_ROWS - rows)


def measure_pipeline(texts: list[str], pipeline: str) -> list[float]:
    """Milliseconds of passes alone for each of some plans whose footprints are known."""
    times = []
    for text in texts:
        context = new_context()
        module = parse(text, context)
        with context:
            manager = PassManager.parse(f"builtin.module({pipeline})")
            manager.enable_verifier(False)
            begin = time.thread_time()
            manager.run(module.operation)
            times.append(1e3 * (time.thread_time() - begin))
    return times


def with_footprints(program: syncopate.Program) -> str:
    """The plan of a program, bound to its kernel, with the regions that tiles access written out."""
    context = new_context()
    module = parse(program.ir["input"], context)
    with context:
        PassManager.parse("builtin.module(chunk-infer-tile-footprints)").run(module.operation)
        for op in list(module.body.operations)[1:]:
            op.operation.erase()
    return str(module)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, help="milliseconds that tables may take")
    most, late = parser.parse_args().most, False
    columns = [
        *PIPELINES,
        "plan in Python",
        "compile",
        "its passes",
        "compile, unchecked tables",
        "its passes",
        "compile again",
    ]
    print("| plan | tiles | transfers |", " | ".join(columns), "|")
    print("|---" * (3 + len(columns)) + "|")
    for name, make in (("all-gather", make_gather), ("reduce-scatter", make_sum)):

        def build(
            rows: int, check: bool = True, skipped: int = 0, make: Any = make
        ) -> syncopate.Program:
            plan, arguments = make(MOST_ROWS - rows - skipped)
            return syncopate.compile(gemm, plan, **arguments, check_tables=check)

        first = build(0)
        texts = [with_footprints(build(RANKS * number)) for number in range(1, RUNS + 1)]
        runs = [measure_pipeline(texts, pipeline) for pipeline in PIPELINES.values()]
        late |= most is not None and min(runs[0]) > most
        times = [statistics.median(run) for run in runs]
        times.append(measure(functools.partial(_discard, make)))
        before = schedule_statistics.misses
        for check in (True, False):
            TimedPasses.seconds = 0.0
            other = RANKS * RUNS if check else 0
            with mock.patch.object(syncopate.ir, "PassManager", TimedPasses):
                times.append(measure(functools.partial(build, check=check, skipped=other)))
            times.append(1e3 * TimedPasses.seconds / RUNS)
        assert schedule_statistics.misses == before + 2 * RUNS
        times.append(measure(functools.partial(build, check=False)))
        assert schedule_statistics.misses == before + 2 * RUNS
        tiles, transfers = len(first.rank_tables(0)["tiles"].values), first.signal_layout.data_twin
        words = [f"{value:.2f}" for value in times]
        print(f"| {name} | {tiles:,} | {transfers} |", " | ".join(words), "|", flush=True)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
