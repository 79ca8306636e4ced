"""How steady calls are, what energy they take, and what they do to an unrelated kernel beside them, by realization.

    torchrun --nproc-per-node 2 benchmark/steadiness.py [--kinds ag_gemm,gemm_rs] [--steady-calls 10000] [--budget 240]

For each realization, in the direction that is faster: 50th and 99th percentile of calls back to back, energy of a call,
and the slow-down of a copy that memory limits and of a small product on another stream, and of the calls beside them.
Writes `<out>/steadiness-w<world>-<gpu>.json` and `.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmark.common.bench import Bench, Measured, default_trial, facts
from benchmark.common.report import format_us
from benchmark.common.study import Study, format_head, format_table, make_parser, remake, spell

from syncopate import GemmWorkload, tune
from syncopate.choices import Direction, Realization
from syncopate.workloads import GemmKind

SHAPES = {GemmKind.AG_GEMM: (8192, 3584, 8192), GemmKind.GEMM_RS: (8192, 8192, 3584)}
OTHERS = ("copy", "product")
BASELINE = "cuBLAS and NCCL"
_NOTE = (
    "Times in µs of calls back to back, from the end of one to the end of the next, of the slowest rank each. Energy "
    "is that of one GPU for one call, the mean over the GPUs, all that it took meanwhile. *Beside* are factors: what "
    "a copy of 256 MiB within the GPU, or a product of 2048 x 2048 x 2048, takes longer while the calls run on another "
    "stream, and what a call takes longer while copies or products do; - is where one ended before the other."
)


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    if options.table:
        return remake(options.table, make_table)
    study = Study("steadiness", options, make_table)
    rows: list[Mapping[str, Any]] = []
    missing = [kind.value for kind in options.kinds]
    for kind in options.kinds:
        if study.over():
            break
        workload = GemmWorkload(kind, *SHAPES[kind], study.world_size)
        study.say(workload.name)
        bench = study.bench(workload)
        tried = bench.survey(list(find_trials(kind, default_trial(workload))), options.few)
        chosen = choose(tried)
        missing.remove(kind.value)
        missing += [
            f"{kind.value} {name}" for name in (BASELINE, *(one.name for one in chosen.values()))
        ]
        for row in measure(study, bench, chosen):
            rows.append({"kind": kind.value, "shape": list(workload.shape), **row})
            missing.remove(f"{kind.value} {row['name']}")
            study.write(rows, missing)
        study.note_wrong(bench.workload.name, bench.wrong)
        bench.close()
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
    parser.add_argument("--steady-calls", type=int, default=10_000, help="calls back to back")
    return parser.parse_args()


def find_trials(kind: GemmKind, default: tune.Candidate) -> Iterator[tune.Candidate]:
    """Every realization, in both directions."""
    moving: list[Realization] = [one for one in Realization if one is not Realization.NCCL]
    for realization, direction in itertools.product(moving, Direction):
        yield default.having(realization=realization, direction=direction)
    if not kind.is_before:
        yield default.having(realization=Realization.NCCL, combine=None, comm_ctas=16)


def choose(tried: Mapping[tune.Candidate, Measured]) -> dict[Realization, tune.Candidate]:
    """The faster direction of each realization."""
    best: dict[Realization, tune.Candidate] = {}
    for trial, found in tried.items():
        realization = Realization(trial.strategy.realization)
        if realization not in best or found.us < tried[best[realization]].us:
            best[realization] = trial
    return best


def measure(
    study: Study, bench: Bench, chosen: Mapping[Realization, tune.Candidate]
) -> Iterator[dict[str, Any]]:
    """The rows of a workload, as long as there is time; in a dry run what the model says of a call."""
    options = study.options
    if study.session is None:
        for trial, found in bench.survey(list(chosen.values()), 1).items():
            yield {"name": trial.name, **facts(trial), "p50_us": found.us}
        return
    import torch
    from benchmark.common.beside import Work, make_others, measure_beside, measure_steadiness
    from benchmark.common.data import SETS
    from benchmark.common.energy import SOURCE, EnergyCounter
    from benchmark.common.gpu_bench import GpuBench

    from syncopate.runtime.timing import Candidate

    assert isinstance(bench, GpuBench)
    session = study.session
    energy: EnergyCounter | None = None
    try:
        energy = EnergyCounter(str(torch.cuda.get_device_properties().uuid))
        study.meta["energy"] = SOURCE
    except OSError as error:
        study.meta["energy"] = f"not counted: {error}"
    others = make_others(session)

    def row(candidate: Candidate) -> dict[str, Any]:
        work = Work(candidate.name, lambda i: candidate.call(i % SETS))
        found: dict[str, Any] = measure_steadiness(session, work, options.steady_calls, energy)
        for other in others:
            found[f"{other.name}_slowdown"] = measure_beside(session, other, work)
            found[f"slowdown_by_{other.name}"] = measure_beside(session, work, other)
        study.say(f"{work.name}: p50 {found['p50_us']:.1f}, p99 {found['p99_us']:.1f}")
        return {"name": work.name, **found}

    yield row(bench.baselines.sequence(BASELINE))
    for trial in chosen.values():
        if study.over():
            return
        for loaded in bench.load([trial], options.calls):
            yield {**row(loaded.candidate), **facts(trial)}
            loaded.program.synchronize()
            loaded.program.close()


def make_table(document: Mapping[str, Any]) -> str:
    """The document as Markdown."""
    lines = format_head("Steadiness, energy, and work beside", document, _NOTE)
    kinds = dict.fromkeys((row["kind"], tuple(row["shape"])) for row in document["rows"])
    for kind, shape in kinds:
        rows = [row for row in document["rows"] if row["kind"] == kind]
        lines += ["", f"## {kind}: M, N, K {spell(shape, ', ')}"]
        columns = ["", "p50", "p99", "p99 / p50", "longest", "J", "copy beside", "product beside"]
        columns += [f"beside {name}" for name in OTHERS]
        lines += format_table(columns, [_cells(row) for row in rows])
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    def number(name: str, form: str) -> str:
        value = row.get(name)
        return "-" if value is None else format(value, form)

    ratio = f"{row['p99_us'] / row['p50_us']:.3f}" if "p99_us" in row else "-"
    return [
        row["name"],
        *(format_us(row.get(name)) for name in ("p50_us", "p99_us")),
        ratio,
        format_us(row.get("max_us")),
        number("joules", ".3f"),
        *(number(f"{name}_slowdown", ".2f") for name in OTHERS),
        *(number(f"slowdown_by_{name}", ".2f") for name in OTHERS),
    ]


if __name__ == "__main__":
    sys.exit(main())
