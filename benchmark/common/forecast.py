"""What a suite would do on GPUs that are not here: cases, ways, and what the cost model says each takes.

Every time is a prediction. What the model is known to be off by was measured on two ranks (`model_error.py`); nothing
is known of its errors on more, so these bars are what they would be if it was no worse there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmark.common import report
from benchmark.common.dry_bench import DryBench, received_bytes
from benchmark.common.programs import Way

from syncopate import GemmWorkload
from syncopate.choices import Combine, Direction, Realization
from syncopate.errors import SyncopateError
from syncopate.model import Machine, find_lower_bound, open_machine
from syncopate.tune.machines import find_gpu, find_model
from syncopate.workloads import GemmKind

if TYPE_CHECKING:
    from syncopate.runtime.session import Session

__all__ = [
    "PREDICTED",
    "ErrorBar",
    "Forecast",
    "add_dry_run",
    "describe_dry_run",
    "estimate_seconds",
    "find_dry_machine",
    "forecast_gemm",
    "predict_here",
    "read_errors",
    "write_forecasts",
]

PREDICTED: Final = "PREDICTED by the cost model: nothing of this was measured"

_NOTE: Final = (
    "Times in µs. *Off by* is the model's mean absolute error, and its worst, on rows of the same kind that it was not",
    "fitted to, all of two ranks (docs/results/model-error-w2-h200.md); of more ranks nothing is known. The bound is",
    "that of the tables: tiles without a stall, or the busiest link. Efficiency is max(computing alone, bytes at link",
    "peak) / ours. NCCL is scaled from two ranks; libraries multiply matrices as fast as our kernels, and attend as",
    "fast as cuDNN was measured to; of baselines with a dash the model says nothing.",
)
ERRORS: Final = Path(__file__).parents[2] / "docs" / "results" / "model-error-w2-h200.md"

SETUP_SECONDS: Final = 45.0
"""Of a run: starting ranks, their communicators, and the peak of the link."""
CASE_SECONDS: Final = 8.0
"""Of a shape: operands and references."""
PROGRAM_SECONDS: Final = 7.0
"""Of a program: compiling it on each rank, loading it, its first call."""
IDLE_US: Final = 1000.0
"""Around each timed call: a held GPU, and lining ranks up."""


@dataclass(frozen=True)
class ErrorBar:
    """By what predictions of one kind were off on rows that the machine was not fitted to.

    Attributes:
        mean: Of absolute relative errors.
        worst: The largest of them, with its sign: positive if the model said more.
    """

    mean: float
    worst: float


@dataclass
class Forecast:
    """One variant on one shape. Times are microseconds.

    Attributes:
        variant: As of `report.Row`.
        us: What the model says; None where it refuses.
        error: What it is known to be off by; None where that was never measured.
        bound_us: What no schedule of these tables can be faster than.
        baselines: By name; None for those that the model says nothing of.
        speedup: Fastest predicted baseline / us.
        efficiency: max(gemm_us, link_us) / us.
    """

    suite: str
    workload: str
    world_size: int
    shape: tuple[int, ...]
    variant: str
    default: bool
    us: float | None
    error: ErrorBar | None
    bound_us: float | None
    gemm_us: float
    comm_us: float
    link_us: float
    baselines: dict[str, float | None]
    speedup: float | None = field(init=False)
    efficiency: float | None = field(init=False)

    def __post_init__(self) -> None:
        known = [us for us in self.baselines.values() if us is not None]
        self.speedup = min(known) / self.us if self.us and known else None
        self.efficiency = max(self.gemm_us, self.link_us) / self.us if self.us else None


def add_dry_run(parser: argparse.ArgumentParser, more: str) -> None:
    """Adds the options of a run without GPUs."""
    parser.add_argument("--dry-run", action="store_true", help=more)
    parser.add_argument("--ranks", type=int, default=2, help="of a dry run (default: %(default)s)")
    parser.add_argument(
        "--machine", help="of a dry run, a preset or a file (default: H200s, as many as ranks)"
    )


def find_dry_machine(options: argparse.Namespace) -> Machine:
    """The machine of a dry run."""
    measured = "h200-w2" if options.ranks == 2 else f"h200-w{options.ranks}-predicted"
    return open_machine(options.machine or measured)


def describe_dry_run(machine: Machine) -> dict[str, str]:
    """What stands at the top of what a dry run writes, as `report.describe_run` says it of a run."""
    words = [word for word in sys.argv if word]
    words[0] = re.sub(r".*(?=benchmark/)", "", words[0])
    if "--out" in words:
        del words[words.index("--out") : words.index("--out") + 2]
    return {
        "gpu": "dry",
        "times": f"{PREDICTED}, of {machine.label}",
        "command": " ".join(["python", *words]),
    }


def read_errors(path: Path = ERRORS) -> dict[tuple[str, ...], ErrorBar]:
    """Errors by workload, realization, direction and who adds; and by workload alone."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if len(cells) == 10 and cells[7].endswith("%") and cells[9].endswith("%"):
            key = (cells[0],) if cells[1] == "all" else tuple(cells[:4])
            mean, worst = (float(cells[place].rstrip("%")) / 100 for place in (7, 9))
            found[key] = ErrorBar(mean, worst)
    return found


def forecast_gemm(
    name: str, workload: GemmWorkload, ways: Sequence[Way], default: Way, machine: Machine
) -> list[Forecast]:
    """The rows of a shape."""
    kind, packed, errors = GemmKind(workload.kind), workload.packed(), read_errors()
    bench, config = DryBench(workload, machine), packed.choose_config()
    tiled = [
        dataclasses.replace(way.candidate, config=way.candidate.config or config) for way in ways
    ]
    alone, found = bench.compare(tiled, 0, 0)
    baselines: dict[str, float | None] = {"cublas_nccl": alone.cublas_nccl_us}
    baselines["split_streams"] = None
    if kind in (GemmKind.AG_GEMM, GemmKind.GEMM_RS):
        baselines["async_tp"] = None
    rows = []
    for way, trial in zip(ways, tiled, strict=True):
        us = found[trial].us if trial in found else None
        bound = None
        if us is not None:
            schedule = packed.schedule(trial.strategy, trial.tiles)
            bound = find_lower_bound(schedule, packed.cost(trial.tiles, machine), machine).us
        rows.append(
            Forecast(
                suite=kind.value, workload=name, world_size=workload.world_size, shape=workload.shape,
                variant=way.name, default=way == default, us=us, error=find_error(errors, kind, way),
                bound_us=bound, gemm_us=alone.gemm_us, comm_us=alone.comm_us,
                link_us=received_bytes(workload) / (machine.topology.link_gbps * 1e3), baselines=baselines,
            )
        )  # fmt: skip
    return rows


def predict_here(
    session: Session, make: Callable[[Machine], Iterable[Forecast]]
) -> dict[str, float | None]:
    """Predicted times by variant for the machine at hand, on rank 0; none where nothing is known of it.

    Args:
        session: The ranks.
        make: Gives the rows of a shape on a machine.
    """
    if session.rank:
        return {}
    try:
        machine, why = find_model(None, find_gpu(), session.world_size)
        if machine is not None:
            return {row.variant: row.us for row in make(machine)}
    except SyncopateError as error:
        why = str(error)
    session.say(f"no predictions: {why}")
    return {}


def find_error(
    errors: dict[tuple[str, ...], ErrorBar], kind: GemmKind, way: Way
) -> ErrorBar | None:
    """What is known of such rows; of library calls nothing, as none were compared."""
    strategy = way.strategy
    realization = Realization(strategy.realization)
    if realization is Realization.NCCL:
        return None
    adds = Combine(strategy.combine or Combine.TILES).value if kind.sums else ""
    direction = Direction(strategy.direction).value
    return errors.get((kind.value, realization.value, direction, adds), errors.get((kind.value,)))


def estimate_seconds(rows: Sequence[Forecast], rounds: int, calls: int) -> float:
    """About how long the run takes on GPUs: shapes, programs, checked calls, and rounds of all ways and baselines."""
    seconds = SETUP_SECONDS
    for case in dict.fromkeys((row.workload, row.shape) for row in rows):
        ours = [row for row in rows if (row.workload, row.shape) == case]
        slowest = max(us for us in ours[0].baselines.values() if us is not None)
        # The GEMM twice, communication, the sequence twice, and splits in three numbers, where there are such.
        others = 5 + 3 * ("split_streams" in ours[0].baselines) + len(ours[0].baselines)
        times = [row.us for row in ours if row.us is not None]
        timed = sum(times) + others * slowest + (len(times) + others) * IDLE_US
        seconds += CASE_SECONDS + PROGRAM_SECONDS * len(times)
        seconds += (timed * (rounds + 2) + 2 * calls * sum(times)) / 1e6
    return seconds


def write_forecasts(
    options: argparse.Namespace, name: str, machine: Machine, rows: Sequence[Forecast]
) -> None:
    """Prints the table; writes JSON and table if a folder was given."""
    meta: dict[str, Any] = describe_dry_run(machine)
    seconds = estimate_seconds(rows, options.rounds, options.calls)
    meta["seconds_on_gpus"] = round(seconds)
    text = format_forecasts(name, meta, rows)
    print(text, end="")
    if options.out is None:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / f"{name}-w{options.ranks}-predicted"
    lines = [json.dumps(report.round_numbers(dataclasses.asdict(row))) for row in rows]
    listed = ",\n".join(lines)
    document = f'{{"meta": {json.dumps(meta)},\n"rows": [\n{listed}\n]}}\n'
    stem.with_suffix(".json").write_text(document, encoding="utf-8")
    stem.with_suffix(".md").write_text(text, encoding="utf-8")


def format_forecasts(name: str, meta: dict[str, Any], rows: Sequence[Forecast]) -> str:
    """A table for each shape, all variants, losses included."""
    lines = [
        f"# {name}, {rows[0].world_size} ranks: predictions",
        "",
        f"**{meta['times']}.**",
        "",
        f"    {meta['command']}",
        "",
        *_NOTE,
        f"On GPUs the run would take about {meta['seconds_on_gpus']} s.",
    ]
    for workload, shape in dict.fromkeys((row.workload, row.shape) for row in rows):
        chosen = [row for row in rows if (row.workload, row.shape) == (workload, shape)]
        first = chosen[0]
        named = ", ".join(
            f"{baseline} {report.format_us(us)}" for baseline, us in first.baselines.items()
        )
        lines += [
            "",
            f"## {workload}: {' x '.join(map(str, shape))}, one rank's",
            "",
            f"Alone: computing {report.format_us(first.gemm_us)}, NCCL {report.format_us(first.comm_us)}, "
            f"link {report.format_us(first.link_us)}; baselines: {named}",
            "",
            "| variant | µs | off by | bound | over the best baseline predicted | efficiency |",
            "|---|---|---|---|---|---|",
        ]
        for row in sorted(chosen, key=lambda row: row.us or math.inf):
            lines.append(f"| {' | '.join(_cells(row))} |")
    return "\n".join([*lines, "", *_summary(rows)]) + "\n"


def _cells(row: Forecast) -> Iterable[str]:
    yield row.variant + (" (default)" if row.default else "")
    yield "refused" if row.us is None else report.format_us(row.us)
    yield "?" if row.error is None else f"{row.error.mean:.1%}, worst {row.error.worst:+.1%}"
    yield report.format_us(row.bound_us)
    yield "-" if row.speedup is None else f"{row.speedup:.2f}x"
    yield "-" if row.efficiency is None else f"{row.efficiency:.2f}"


def _summary(rows: Sequence[Forecast]) -> Iterable[str]:
    """Geometric means over the shapes, of the default and of the best."""
    best: dict[tuple[Any, ...], Forecast] = {}
    for row in rows:
        case = (row.workload, row.shape)
        if row.speedup is not None and row.speedup > (
            best[case].speedup or 0 if case in best else 0
        ):
            best[case] = row
    defaults = [row for row in rows if row.default and row.speedup is not None]
    for what, some in (("the default", defaults), ("the best variant", list(best.values()))):
        if some:
            speedups = [row.speedup for row in some if row.speedup is not None]
            efficiencies = [row.efficiency for row in some if row.efficiency is not None]
            speedup = f"{statistics.geometric_mean(speedups):.2f}x over the best baseline predicted"
            efficiency = f"efficiency {statistics.geometric_mean(efficiencies):.2f}"
            yield f"Geometric means over {len(some)} shapes, of {what}: {speedup}, {efficiency}."
            yield ""
