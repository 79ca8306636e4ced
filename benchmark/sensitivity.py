"""What a call takes by realization, pieces, multiprocessors that move data, and tile order, at one shape each.

    torchrun --nproc-per-node 2 benchmark/sensitivity.py [--kinds ag_gemm,gemm_rs] [--budget 120]
    python benchmark/sensitivity.py --plot docs/results/sensitivity-w2-h200.json

Writes `<out>/sensitivity-w<world>-<gpu>.json` and `.md`; `--plot` draws pictures of such a file into `sensitivity/`
beside it, and needs matplotlib, but neither GPU nor torch. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmark.common.bench import Measured, default_trial, facts
from benchmark.common.report import format_us
from benchmark.common.study import Study, format_head, format_table, make_parser, remake, spell

from syncopate import GemmWorkload, tune
from syncopate.choices import Direction, Realization, TileOrder
from syncopate.workloads import GemmKind

SHAPES = {
    GemmKind.AG_GEMM: (8192, 3584, 8192),
    GemmKind.GEMM_RS: (8192, 8192, 3584),
    GemmKind.GEMM_AR: (8192, 8192, 3584),
    GemmKind.A2A_GEMM: (8192, 8192, 4096),
}
SPLITS = (1, 2, 4, 8, 16)
COMM_CTAS = (2, 4, 8, 16, 32)
DEDICATED = (Realization.LDST_DEDICATED, Realization.TMA_DEDICATED)
ORDERS = tuple(order for order in TileOrder if order.value != "given")
_NOTE = (
    "Times in µs, medians of few calls of one program after another, slowest rank; what is not varied is as by "
    "default. *Drift* is by how much the default strategy took longer at the end of a workload's trials than at their "
    "beginning."
)


@dataclass(frozen=True)
class Point:
    """One trial on an axis.

    Attributes:
        axis: What is varied: splits, comm_ctas or order.
        series: What a line of the plot has in common.
        at: Where on the axis.
        trial: The trial.
    """

    axis: str
    series: str
    at: int | str
    trial: tune.Candidate


def main() -> int:
    """Measures and writes, or draws; returns the exit status."""
    options = parse()
    if options.table:
        return remake(options.table, make_table)
    if options.plot:
        from benchmark.common.plots import draw_sensitivity

        return draw_sensitivity(options.plot)
    study = Study("sensitivity", options, make_table)
    rows: list[Mapping[str, Any]] = []
    missing = [kind.value for kind in options.kinds]
    for i, kind in enumerate(options.kinds):
        if study.over():
            break
        row = measure_kind(study, kind, study.share(len(options.kinds) - i))
        rows.append(row)
        missing.remove(kind.value)
        if row["left_out"]:
            missing.append(f"{row['left_out']} trials of {kind.value}, refused or for want of time")
        study.write(rows, missing)
    study.write(rows, missing)
    return study.close()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--kinds",
        type=lambda text: [GemmKind(name) for name in text.split(",")],
        default=list(SHAPES),
        help="comma-separated",
    )
    parser.add_argument("--plot", type=Path, help="draw what this JSON has, and nothing else")
    parser.set_defaults(few=7)
    return parser.parse_args()


def measure_kind(study: Study, kind: GemmKind, seconds: float) -> dict[str, Any]:
    """All axes of one workload."""
    options = study.options
    workload = GemmWorkload(kind, *SHAPES[kind], study.world_size)
    study.say(workload.name)
    bench = study.bench(workload)
    over = study.until(seconds)
    default = default_trial(workload)
    alone, first = bench.compare([default], options.rounds, options.calls)
    points = list(find_points(kind, default))
    # In rounds over the axes, so that each has something if the time is short.
    axes = [[point.trial for point in points if point.axis == axis] for axis in AXES]
    mixed = [one for some in itertools.zip_longest(*axes) for one in some if one is not None]
    trials = list(dict.fromkeys(mixed))
    before = bench.survey([default], options.few)
    tried = bench.survey(trials, options.few, over)
    after = bench.survey([default], options.few)
    study.note_wrong(bench.workload.name, bench.wrong)
    bench.close()
    return {
        "kind": kind.value, "shape": list(workload.shape), **dataclasses.asdict(alone),
        "default_us": first[default].us if first else None,
        "drift": after[default].us / before[default].us - 1 if before and after else None,
        "left_out": len(trials) - len(tried),
        "points": [describe(point, tried[point.trial]) for point in points if point.trial in tried],
    }  # fmt: skip


AXES = ("splits", "comm_ctas", "order")


def find_points(kind: GemmKind, default: tune.Candidate) -> Iterator[Point]:
    """The trials of all axes."""
    moving: list[Realization] = [one for one in Realization if one is not Realization.NCCL]
    for realization, direction, splits in itertools.product(moving, Direction, SPLITS):
        trial = default.having(realization=realization, direction=direction, splits=splits)
        yield Point("splits", f"{realization.value}/{direction.value}", splits, trial)
    for realization, direction, ctas in itertools.product(DEDICATED, Direction, COMM_CTAS):
        trial = default.having(realization=realization, direction=direction, comm_ctas=ctas)
        yield Point("comm_ctas", f"{realization.value}/{direction.value}", ctas, trial)
    if not kind.is_before:
        for ctas in COMM_CTAS:
            trial = default.having(realization=Realization.NCCL, combine=None, comm_ctas=ctas)
            yield Point("comm_ctas", "nccl", ctas, trial)
    for realization, direction, order in itertools.product(moving, Direction, ORDERS):
        trial = default.having(realization=realization, direction=direction, order=order)
        yield Point("order", f"{realization.value}/{direction.value}", order.value, trial)


def describe(point: Point, found: Measured) -> dict[str, Any]:
    """A point as plain data."""
    name = facts(point.trial)["variant"]
    place = {"axis": point.axis, "series": point.series, "at": point.at}
    return {**place, "variant": name, "us": found.us, "rel_err": found.rel_err}


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown: for each workload and axis a table of series by places."""
    lines = format_head("Sensitivity", document, _NOTE)
    for row in document["rows"]:
        drift = f"{row['drift']:+.1%}" if row["drift"] is not None else "-"
        lines += [
            "",
            f"## {row['kind']}: M, N, K {spell(row['shape'], ', ')}",
            "",
            f"GEMM alone {format_us(row['gemm_us'])}, cuBLAS and NCCL {format_us(row['cublas_nccl_us'])}, default "
            f"strategy {format_us(row['default_us'])}; drift {drift}",
        ]
        for axis in AXES:
            lines += _axis_table(axis, [one for one in row["points"] if one["axis"] == axis])
    return "\n".join(lines) + "\n"


def _axis_table(axis: str, points: Sequence[Mapping[str, Any]]) -> list[str]:
    if not points:
        return []
    places = list(dict.fromkeys(one["at"] for one in points))
    places = places if axis == "order" else sorted(places)
    times = {(one["series"], one["at"]): one["us"] for one in points}
    return format_table(
        [f"by {axis}", *map(str, places)],
        [
            [series, *(format_us(times.get((series, at))) for at in places)]
            for series in dict.fromkeys(one["series"] for one in points)
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
