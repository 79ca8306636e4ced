"""Times the static checks on all-gathers of growing plans, as every compile runs them. Needs no GPU.

    python benchmark/static_checks.py

Prints a table in Markdown: transfers, and milliseconds of each check and of the whole pipeline, medians of some runs.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys

from syncopate._tools import find_tool

RANKS = 8
SPLITS = (18, 179, 1786)
CHECKS = ("CheckPlanPass", "CheckClaimsPass", "CheckKernelPass", "CheckTablesPass")
RUNS = 5


def write_plan(splits: int, algorithm: str, direction: str) -> str:
    """An all-gather on 8 ranks, each of whose 56 transfers is cut into `splits`."""
    rows = 8 * splits
    kind = f"!chunk.buffer<{RANKS * rows}x64xbf16>"
    inputs = [
        f"chunk.input %a[{rank * rows}, 0] sizes [{rows}, 64] on {rank} : {kind}"
        for rank in range(RANKS)
    ]
    strategy = f"strategy <splits = {splits}, algorithm = {algorithm}, direction = {direction}>"
    return "\n".join(
        [
            f"chunk.plan @p mesh [{RANKS}] {strategy} {{",
            f'%a = chunk.buffer "a" : {kind}',
            *inputs,
            f"%t = chunk.all_gather %a axis 0 group [{', '.join(map(str, range(RANKS)))}] : {kind}",
            f'chunk.kernel @k tiles [{-(-RANKS * rows // 128)}, 8] ctas 132 args(%a as "a") after(%t) : {kind} {{',
            'chunk.footprint read "a" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 64]',
            "}",
            "}",
        ]
    )


def time_passes(plan: str) -> dict[str, float]:
    """Milliseconds of each pass and of the whole, once."""
    command = [
        str(find_tool("syncopate-opt")),
        "--mlir-disable-threading",
        "--syncopate-plan-pipeline",
        "--mlir-timing",
    ]
    said = subprocess.run(command, input=plan, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"^ +([\d.]+) \( *[\d.]+%\) +(\w+)$", said, re.MULTILINE)
    return {name: 1e3 * float(seconds) for seconds, name in found}


def main() -> int:
    """Entry point."""
    print("| transfers | algorithm |", *(f"{name} |" for name in CHECKS), "all checks | pipeline |")
    print("|---" * (4 + len(CHECKS)) + "|")
    for splits in SPLITS:
        for algorithm, direction in (("direct", "push"), ("ring", "pull")):
            plan = write_plan(splits, algorithm, direction)
            runs = [time_passes(plan) for _ in range(RUNS)]
            times = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            columns = [*(times[name] for name in CHECKS), sum(times[name] for name in CHECKS)]
            words = [f"{value:.1f}" for value in (*columns, times["Total"])]
            transfers = RANKS * (RANKS - 1) * splits
            print(f"| {transfers:,} | {algorithm} {direction} | {' | '.join(words)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
