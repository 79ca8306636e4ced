"""A GEMM fused with what moves before or after it, against what people use today.

    torchrun --nproc-per-node 2 benchmark/gemm.py gemm_rs [--shapes 8192x8192x3584,…] [--out docs/results]

M, N and K are those of one rank's GEMM. Writes `<out>/<workload>-w<world>-<gpu>.json` and `.md`. Exits with 1 if a
result is wrong, or has other bits in another call.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.common import report
from benchmark.common.baselines import Baselines
from benchmark.common.data import SETS, TOLERANCE, GemmData, make_data
from benchmark.common.dry_bench import received_bytes
from benchmark.common.forecast import (
    add_dry_run,
    find_dry_machine,
    forecast_gemm,
    predict_here,
    write_forecasts,
)
from benchmark.common.programs import NCCL, REALIZATIONS, Way, strategies
from benchmark.common.shapes import find_shapes
from benchmark.common.suite import Shape, run_suite

from syncopate import Target, tune
from syncopate.choices import Direction, Realization
from syncopate.runtime import ProcessGroup
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us
from syncopate.tune import Auto, Effort, GemmSubject, choose
from syncopate.workloads import GemmKind, GemmWorkload
from syncopate.workloads.loaded import LoadedGemm


@dataclasses.dataclass
class Entry:
    """A way that was compiled and checked."""

    way: Way
    program: LoadedGemm
    error: float
    candidate: Candidate
    host_us: float


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    if options.dry_run:
        return dry_run(options)
    options.out = options.out or Path("docs/results")
    session = Session()
    shapes = find_shapes(options.workload, options.shapes, session.world_size)

    def measure(name: str, shape: Shape, peak: float) -> tuple[list[report.Row], bool]:
        return measure_shape(session, name, shape, options, peak)

    return run_suite(options.workload.value, session, shapes, options, measure, options.budget)


def dry_run(options: argparse.Namespace) -> int:
    """Says what would be measured, and what the cost model says of it; returns the exit status."""
    machine, rows = find_dry_machine(options), []
    for name, shape in find_shapes(options.workload, options.shapes, options.ranks).items():
        workload = GemmWorkload(options.workload, *shape, options.ranks)
        ways = list_ways(workload, options)
        rows += forecast_gemm(name, workload, ways, default_way(workload), machine)
    write_forecasts(options, options.workload.value, machine, rows)
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser.add_argument("workload", type=GemmKind, help=", ".join(kind.value for kind in GemmKind))
    parser.add_argument("--shapes", default="", help="MxNxK or (parts of) names, comma-separated")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds")
    parser.add_argument("--calls", type=int, default=60, help="checked calls of each program")
    parser.add_argument(
        "--realizations", default=",".join((*REALIZATIONS, NCCL)), help="comma-separated"
    )
    parser.add_argument("--splits", type=numbers, default=[0], help="comma-separated")
    parser.add_argument(
        "--comm-ctas", type=numbers, default=[0], help="comma-separated; 0: by realization"
    )
    parser.add_argument(
        "--waves",
        type=lambda text: [
            tuple(map(int, filter(None, way.split("+")))) for way in text.split(",")
        ],
        default=[()],
        help="of library calls: waves of tiles in each, as 1+2+2, comma-separated; the last number goes on",
    )
    parser.add_argument(
        "--slots",
        type=lambda text: text.split(","),
        default=["rows", "tiles"],
        help="what a library call takes at a time: rows, tiles or both",
    )
    parser.add_argument("--pauses", type=numbers, default=[500], help="ns, comma-separated")
    parser.add_argument("--zero-copy", action="store_true", help="also from symmetric inputs")
    parser.add_argument("--only", default="", help="only variants whose name contains this")
    parser.add_argument(
        "--auto",
        nargs="?",
        const="model",
        choices=("model", "measure"),
        help="also what the tuner chooses: from its cache, by the model, or by measurement",
    )
    parser.add_argument(
        "--tuning-budget", type=float, default=60.0, help="seconds of it for each shape"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=math.inf,
        help="start no further shape after these many seconds",
    )
    parser.add_argument(
        "--commit", default="", help="what to write down as the commit, where git cannot tell"
    )
    parser.add_argument("--out", type=Path, help="folder of the files; by default docs/results")
    add_dry_run(
        parser,
        "say what would be measured, and what the cost model says of it; files are written only if --out is given",
    )
    return parser.parse_args()


def default_way(workload: GemmWorkload) -> Way:
    """The default strategy."""
    packed = workload.packed()
    return Way(tune.Candidate(packed.default_strategy(packed.choose_config())))


def measure_shape(
    session: Session,
    name: str,
    shape: tuple[int, int, int],
    options: argparse.Namespace,
    peak: float,
) -> tuple[list[report.Row], bool]:
    """All rows of one shape, and whether every result was right and the same bits every time."""
    kind = options.workload
    m, n, k = shape
    workload = GemmWorkload(kind, m, n, k, session.world_size)
    default = default_way(workload)
    session.say(f"{kind.value} {name}: M {m}, N {n}, K {k}")
    data = make_data(workload, session)
    baselines = Baselines(workload, data, session)
    gemms, alone = baselines.gemms(), baselines.communication()
    sequence, again = baselines.sequence(), baselines.sequence("cublas_nccl again")
    splits = baselines.split_streams()
    async_tp = session.attempt("async_tp", baselines.async_tp)
    entries, good = load_all(session, workload, data, options)
    candidates = [*gemms, alone, sequence, *splits, *([async_tp] if async_tp else [])]
    candidates += [entry.candidate for entry in entries] + [again]
    session.compare(candidates, options.rounds, SETS)

    predicted = predict_entries(session, workload, entries)
    measured: dict[str, float | None] = {
        "cublas_nccl": min(sequence.us, again.us),
        "split_streams": min((way.us for way in splits), default=None),
        "async_tp": async_tp.us if async_tp else None,
    }
    rows = [
        report.Row(
            suite=kind.value, workload=name, world_size=session.world_size, dtype="bf16", M=m, N=n, K=k,
            variant=entry.way.name, realization=Realization(entry.way.strategy.realization).value,
            direction=Direction(entry.way.strategy.direction).value, splits=entry.way.strategy.splits,
            default=entry.way == default,
            us=entry.candidate.us, gemm_us=min(way.us for way in gemms), local_gemm_us=gemms[-1].us,
            comm_us=alone.us, link_us=received_bytes(workload) / peak * 1e6, baselines=measured,
            rel_err=entry.error, calls_checked=options.calls, spread=abs(sequence.us / again.us - 1),
            host_us=entry.host_us, predicted_us=predicted.get(entry.way.name),
        )
        for entry in entries
    ]  # fmt: skip
    for program in {id(entry.program): entry.program for entry in entries}.values():
        program.close()
    return rows, good


def predict_entries(
    session: Session, workload: GemmWorkload, entries: Sequence[Entry]
) -> dict[str, float | None]:
    """What the model says of each way, on rank 0, where something is known of the machine."""
    ways = [entry.way for entry in entries if not entry.way.zero_copy]
    return predict_here(
        session,
        lambda machine: forecast_gemm("", workload, ways, default_way(workload), machine),
    )


def load_all(
    session: Session,
    workload: GemmWorkload,
    data: GemmData,
    options: argparse.Namespace,
) -> tuple[list[Entry], bool]:
    """Compiles, loads and checks every strategy; one that fails on any rank is dropped on all."""
    group, entries, good = ProcessGroup(), [], True
    ways = list_ways(workload, options)
    if options.auto is not None:
        ways += choose_way(session, workload, options)
    for way in ways:
        strategy = way.strategy

        def make(way: Way = way) -> LoadedGemm:
            return workload.load(group, way.strategy, config=way.candidate.config, timeout=20.0)

        program = session.attempt(way.name, make)
        if program is None:
            continue

        def call(given: torch.Tensor, program: LoadedGemm = program) -> torch.Tensor:
            out: torch.Tensor = program(a=given, b=data.weight)
            return out

        session.say(f"checking {way.name}")
        error, same = data.check_calls(call, options.calls)
        program.synchronize()
        # A NaN would get lost in a maximum.
        error = session.maximum([error if error == error else float("inf")])[0]
        if error >= TOLERANCE or not session.agree(same):
            good = False
            session.say(f"WRONG {way.name}: relative error {error:.2e}, same bits: {same}")
        entries += [
            make_entry(session, this, program, error, data)
            for this in (
                [way]
                if way.candidate.config
                else [way, Way(tune.Candidate(strategy), zero_copy=True)]
            )
            if not this.zero_copy or (options.zero_copy and takes_symmetric(program))
        ]
    return entries, good


def list_ways(workload: GemmWorkload, options: argparse.Namespace) -> list[Way]:
    """What is compared, but for what a tuner chooses."""
    packed = workload.packed()
    ways = [
        Way(tune.Candidate(strategy))
        for strategy in strategies(
            options.workload,
            options.realizations.split(","),
            options.splits,
            options.comm_ctas,
            options.pauses,
            options.waves,
            options.slots,
            base=packed.default_strategy(packed.choose_config()),
        )
    ]
    return [way for way in ways if options.only in way.name]


def choose_way(session: Session, workload: GemmWorkload, options: argparse.Namespace) -> list[Way]:
    """What a tuner chooses, if it can."""
    auto = Auto(measure=options.auto == "measure", effort=Effort(budget=options.tuning_budget))
    subject = GemmSubject(workload.packed(), Target.current())
    tuned = session.attempt("auto", lambda: choose(subject, auto))
    if tuned is None:
        return []
    session.say(str(tuned))
    return [Way(tuned.chosen)]


def make_entry(
    session: Session, way: Way, program: LoadedGemm, error: float, data: GemmData
) -> Entry:
    """A way with what times it. A zero-copy input is written before the time starts, by whoever makes it."""
    tensors = {"b": data.weight} if way.zero_copy else {"a": data.inputs[0], "b": data.weight}
    host_us = session.maximum([measure_host_us(program, 20, **tensors)])[0]

    def plain(i: int) -> torch.Tensor:
        out: torch.Tensor = program(a=data.inputs[i], b=data.weight)
        return out

    def symmetric(i: int) -> torch.Tensor:
        out: torch.Tensor = program(b=data.weight)
        return out

    def write(i: int) -> None:
        program.loaded.acquire()
        program.loaded.input("a").copy_(data.inputs[i])

    candidate = (
        Candidate(way.name, symmetric, prepare=write)
        if way.zero_copy
        else Candidate(way.name, plain)
    )
    return Entry(way, program, error, candidate, host_us)


def takes_symmetric(program: LoadedGemm) -> bool:
    """Whether an input can be written where calls read it."""
    moves = any(program.loaded.program.buffers[0].inputs)
    return moves and program.workload.packed() == program.workload


if __name__ == "__main__":
    sys.exit(main())
