"""Plans of GSPMD, Domino and Mercury, each fused with its GEMM, against the plain execution of the same plan.

    torchrun --nproc-per-node 2 benchmark/imported_plans.py [--cases gspmd-up,domino] [--shapes 8192x8192x3584]

Plain is what overlap of kernels is: the plan's transfers in steps on a side stream, by sends and receives of NCCL or by
copies between GPUs, pieces of the GEMM by cuBLAS on the main stream, and events between them; the fastest of all ways
to cut it counts. Sequential is the same with the GEMM in one piece. A shape is M, the width of the model, and one
rank's part of the width between the two products of an MLP block. Writes `<out>/imported_plans-w<world>-<gpu>.json` and
`.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmark.common.imported_cases import CASES, Case, Way, make_case
from benchmark.common.plain_plan import predict_us
from benchmark.common.report import format_us
from benchmark.common.study import Study, format_head, format_table, make_parser, remake, spell

from syncopate import Strategy
from syncopate.choices import Direction, Realization
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import gemm_cost, predict, predict_gemm_us

SHAPES = ((8192, 8192, 3584),)
_NOTE = (
    "Times in µs, medians of interleaved calls, slowest rank. *Plain* is the plan's transfers in steps on a side "
    "stream and pieces of the GEMM on the main one: by sends and receives of NCCL, or by copies between GPUs; the "
    "number behind says in how many pieces each transfer is. *Sequential* is the same with the GEMM in one piece. The "
    "best of each counts. *Fused* is one kernel that carries the same plan out; behind *workload* stands that of the "
    "workload that the file's collective and product are, whose own steps bring the same about."
)


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    if options.table:
        return remake(options.table, make_table)
    study = Study("imported_plans", options, make_table)
    rows: list[Mapping[str, Any]] = []
    wanted = list(itertools.product(options.shapes, options.cases))
    missing = [f"{name} {spell(shape)}" for shape, name in wanted]
    for shape, name in wanted:
        if study.over():
            break
        case = make_case(name, study.world_size, *shape)
        study.say(f"{case.name} {spell(case.shape)}")
        rows.append(measure(study, case))
        missing.remove(f"{name} {spell(shape)}")
        study.write(rows, missing)
    study.write(rows, missing)
    return study.close()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--cases",
        type=lambda text: text.split(","),
        default=list(CASES),
        help=f"comma-separated, of {', '.join(CASES)}",
    )
    parser.add_argument(
        "--shapes",
        type=lambda text: [tuple(map(int, shape.split("x"))) for shape in text.split(",")],
        default=SHAPES,
        help="comma-separated",
    )
    parser.add_argument(
        "--realizations",
        type=lambda text: [Realization(name) for name in text.split(",")],
        default=[
            Realization.LDST_COLOCATED,
            Realization.TMA_COLOCATED,
            Realization.COPY_ENGINE,
        ],
        help="comma-separated",
    )
    options = parser.parse_args()
    for name in options.cases:
        if name not in CASES:
            parser.error(f"--cases: expects some of {', '.join(CASES)}, but got {name}")
    return options


def list_ways(options: argparse.Namespace, case: Case) -> list[Way]:
    """Fused programs: by what the plan leaves open, which is who moves the data, in how many pieces, and by whom."""
    directions = [Direction.PUSH] if case.workload is None else list(Direction)
    # A sum moves when its tiles are done, so it wants smaller pieces.
    pieces = (1, 4) if case.reads else (4, 16, 32)
    ways = [
        Way(Strategy(realization=realization, direction=direction, splits=splits))
        for realization, direction, splits in itertools.product(
            options.realizations, directions, pieces
        )
    ]
    if case.workload is not None and not case.reads:
        strategies = itertools.product(options.realizations, directions)
        ways += [Way(Strategy(realization=r, direction=d), of_workload=True) for r, d in strategies]
    return ways


def measure(study: Study, case: Case) -> dict[str, Any]:
    """The row of a case; predictions in a dry run."""
    ways = list_ways(study.options, case)
    config = GemmConfig.choose(*case.shape[:2], 2 * case.shape[2])
    if study.session is None:
        found = predict_case(study, case, config, ways)
    else:
        from benchmark.common.imported_bench import ImportedBench

        bench = ImportedBench(study.session, case, config)
        found = bench.measure(ways, study.options.rounds, study.options.calls)
        study.note_wrong(case.name, bench.wrong)
    return summarize(case, **found)


def predict_case(
    study: Study, case: Case, config: GemmConfig, ways: Sequence[Way]
) -> dict[str, Any]:
    """What the cost model says of all ways."""
    machine, (m, n, k) = study.machine, case.shape
    cost = gemm_cost(
        machine, k, block_m=config.block_m, block_n=config.block_n, block_k=config.block_k
    )
    fused = {}
    for way in ways:
        try:
            fused[way.name] = predict(case.schedule(way, config), cost, machine).us
        except SyncopateError as error:
            study.say(f"{case.name} {way.name}: {error}")
    plain = {
        f"streams/{splits}": predict_us(case.read(splits), cost, config, n, machine)
        for splits in case.splits
    }
    whole = predict_us(case.read_sequence(), cost, config, n, machine)
    tiles = config.tiles(m, n)
    return {
        "gemm_us": predict_gemm_us(machine, cost, tiles[0] * tiles[1]),
        "sequential": {"streams/sequential": whole},
        "plain": plain,
        "fused": fused,
        "errors": {},
        "spread": None,
    }


def summarize(
    case: Case,
    *,
    gemm_us: float,
    sequential: Mapping[str, float],
    plain: Mapping[str, float],
    fused: Mapping[str, float],
    errors: Mapping[str, float],
    spread: float | None,
) -> dict[str, Any]:
    """The row of a case, of what each way took by its name."""
    best = {
        what: min(times, key=times.__getitem__, default=None)
        for what, times in (("sequential", sequential), ("plain", plain), ("fused", fused))
    }
    return {
        "case": case.name, "system": case.system, "shape": list(case.shape), "collective": case.collective,
        "gemm_us": gemm_us, "sequential": dict(sequential), "plain": dict(plain), "fused": dict(fused), "best": best,
        "errors": dict(errors), "spread": spread,
    }  # fmt: skip


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    lines = format_head("Plans of other systems, fused and plain", document, _NOTE)
    columns = [
        "plan", "from", "M, N, K", "GEMM alone", "sequential", "by", "plain", "by", "fused", "by",
        "fused over plain", "over sequential", "rel. error", "spread",
    ]  # fmt: skip
    lines += format_table(columns, [list(_cells(row)) for row in document["rows"]])
    for row in document["rows"]:
        ways = [
            [name, what, format_us(us)]
            for what in ("sequential", "plain", "fused")
            for name, us in sorted(row[what].items(), key=lambda item: item[1])
        ]
        lines += ["", f"## {row['case']}: M, N, K {spell(row['shape'], ', ')}"]
        lines += format_table(["way", "", "µs"], ways)
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    best, times = row["best"], dict[str, Any]()
    yield from (row["case"], row["system"], spell(row["shape"], ", "), format_us(row["gemm_us"]))
    for what in ("sequential", "plain", "fused"):
        times[what] = row[what][best[what]] if best[what] else None
        yield format_us(times[what])
        yield best[what] or "-"
    for what in ("plain", "sequential"):
        known = times["fused"] and times[what]
        yield f"{times[what] / times['fused']:.2f}x" if known else "-"
    error = row["errors"].get(best["fused"])
    yield "-" if error is None else f"{error:.1e}"
    yield "-" if row["spread"] is None else f"{row['spread']:.1%}"


if __name__ == "__main__":
    sys.exit(main())
