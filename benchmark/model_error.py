"""How far the cost model is off, on the measured rows of docs/results.

    python benchmark/model_error.py [--machine h200-w2] [--write docs/results/model-error-w2-h200.md]

Rows on which the machine was fitted are counted by themselves. Besides the errors it says how much slower the variant
that the model ranks first is than the one that was measured to be best, over the variants of each shape.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from benchmark.common.predictions import is_fitted, predict_local_us, predict_row, read_rows
from benchmark.common.tables import Measured

from syncopate.choices import Combine, Direction, Realization
from syncopate.model import Machine, open_machine

TARGET = 0.05


@dataclass(frozen=True)
class Predicted:
    """A row and what the model says of it, in microseconds."""

    row: Measured
    us: float

    @property
    def error(self) -> float:
        """Relative; positive if the model says more than was measured."""
        return self.us / self.row.us - 1


def main() -> int:
    """Prints; returns 1 if the mean absolute error on validation rows is above the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="h200-w2", help="a preset or a file")
    parser.add_argument("--tables", type=Path, default=Path("docs/results"))
    parser.add_argument("--write", type=Path, help="also write the report to a file")
    parser.add_argument("--rows", action="store_true", help="print every row")
    options = parser.parse_args()
    machine = open_machine(options.machine)
    begin = time.monotonic()
    rows = [Predicted(row, predict_row(machine, row).us) for row in read_rows(options.tables)]
    seconds = time.monotonic() - begin
    if options.rows:
        for found in sorted(rows, key=lambda found: found.error):
            row = found.row
            part = "fit" if is_fitted(row) else "validation"
            print(
                f"{found.error:+7.1%} {row.us:8.1f} {found.us:8.1f} {part:10} {row.workload.value} "
                f"{'x'.join(map(str, row.shape))} {row.way.name}"
            )
    command = " ".join(["python benchmark/model_error.py", *sys.argv[1:]])
    text = report(machine, rows, command)
    print(text)
    print(f"{len(rows)} predictions in {seconds:.1f} s, schedules included")
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    return int(mean_error(found for found in rows if not is_fitted(found.row)) > TARGET)


def report(machine: Machine, rows: Sequence[Predicted], command: str) -> str:
    """The report of a command as Markdown."""
    fitted = [found for found in rows if is_fitted(found.row)]
    others = [found for found in rows if not is_fitted(found.row)]
    shapes = {found.row.shape: found.row for found in rows}
    local = {
        part: np.mean(
            [abs(predict_local_us(machine, shape) / row.local_us - 1) for shape, row in some]
        )
        for part, some in (
            ("fit", [item for item in shapes.items() if is_fitted(item[1])]),
            ("validation", [item for item in shapes.items() if not is_fitted(item[1])]),
        )
    }
    lines = [
        f"# Errors of the cost model: {machine.label}",
        "",
        f"    {command}",
        "",
        "Mean absolute relative errors of predictions against the rows of [models-w2-h200.md](models-w2-h200.md) and",
        "[matrix-w2-h200.md](matrix-w2-h200.md), by whether the shape of a row was used to fit the machine. *Bias* is",
        "the mean of the signed errors of validation rows, positive where the model says more; *worst* is the largest",
        "error among them.",
        "",
        f"**Validation: {mean_error(others):.1%} over {len(others)} rows** (fit: {mean_error(fitted):.1%} over "
        f"{len(fitted)}). The local kernel alone: {local['validation']:.1%} (fit: {local['fit']:.1%}).",
        "",
        "| workload | realization | direction | adds | fit rows | fit | rows | validation | bias | worst |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    kinds: dict[tuple[str, str, str, str], list[Predicted]] = {}
    for found in rows:
        row = found.row
        strategy = row.way.strategy
        adds = Combine(strategy.combine or Combine.TILES).value if row.workload.sums else ""
        realization = Realization(strategy.realization).value
        key = (row.workload.value, realization, Direction(strategy.direction).value, adds)
        kinds.setdefault(key, []).append(found)
    lines += [_line(list(key), some) for key, some in sorted(kinds.items())]
    for name in dict.fromkeys(found.row.workload.value for found in rows):
        some = [found for found in rows if found.row.workload.value == name]
        lines.append(_line([f"**{name}**", "all", "", ""], some))
    lines += ["", *_ranking(others), ""]
    return "\n".join(lines)


def mean_error(rows: Iterable[Predicted]) -> float:
    """Mean absolute error."""
    return float(np.mean([abs(found.error) for found in rows]))


def _line(names: list[str], rows: Sequence[Predicted]) -> str:
    fitted = [found for found in rows if is_fitted(found.row)]
    others = [found for found in rows if not is_fitted(found.row)]
    cells = [*names, str(len(fitted)), f"{mean_error(fitted):.1%}" if fitted else ""]
    cells.append(str(len(others)))
    if others:
        worst = max((found.error for found in others), key=abs)
        bias = float(np.mean([found.error for found in others]))
        cells += [f"{mean_error(others):.1%}", f"{bias:+.1%}", f"{worst:+.1%}"]
    else:
        cells += ["", "", ""]
    return f"| {' | '.join(cells)} |"


def _ranking(rows: Sequence[Predicted]) -> list[str]:
    """What the variant that the model prefers loses to the best measured one."""
    groups: dict[tuple[str, str, tuple[int, int, int], float], list[Predicted]] = {}
    for found in rows:
        row = found.row
        # One table's rows of a shape were measured in the same run.
        groups.setdefault((row.workload.value, row.name, row.shape, row.local_us), []).append(found)
    losses = []
    for some in groups.values():
        if len(some) > 1:
            first = min(some, key=lambda found: found.us)
            best = min(some, key=lambda found: found.row.us)
            losses.append(first.row.us / best.row.us - 1)
    return [
        f"Over {len(losses)} validation shapes, each with the variants of one run, the variant that the model ranks",
        f"first loses {np.mean(losses):.1%} to the best measured on average, {max(losses):.1%} at most; it is "
        f"within 2 % at {sum(loss <= 0.02 for loss in losses)} of them.",
    ]


if __name__ == "__main__":
    sys.exit(main())
