"""Attention of a sequence that ranks share, against torch's operators with NCCL.

    torchrun --nproc-per-node 8 benchmark/sequence_attention.py [--kinds hp,ring,double-ring,sp] [--out docs/results]

The shapes are those of papers: head-parallel attention with a batch of 2, 16 heads of 128 and 8192 elements of the
sequence for each rank; rings, and rings of rings of two ranks, with 32 heads and 4096 elements; and keys and values of
8 heads that come from all ranks to the queries of 32 (`sp`). What is causal is cut in zig-zag. A kind stands for all
whose names begin with it. In tables M is a rank's part of the sequence, N the width of all heads of all sequences, and
K the sequence. Writes
`<out>/sequence_attention-w<world>-<gpu>.json` and `.md`. Exits with 1 if a result is wrong. With `--dry-run` it says
what the cost model says of all that; the rates of attention alone are measured ones.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.attention import name_config
from benchmark.common import report
from benchmark.common.forecast import (
    Forecast,
    add_dry_run,
    find_dry_machine,
    predict_here,
    write_forecasts,
)
from benchmark.common.sequence_baselines import SequenceBaselines, SequenceData
from benchmark.common.suite import Shape, run_suite

from syncopate import Strategy
from syncopate.choices import Direction, Realization
from syncopate.errors import SyncopateError
from syncopate.kernels import AttentionConfig
from syncopate.model import KernelCost, Machine, find_lower_bound, predict, predict_gemm_us
from syncopate.plan.sequence import Sharding
from syncopate.runtime import ProcessGroup
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us
from syncopate.strategy_names import name_strategy
from syncopate.workloads import AttentionKind, AttentionWorkload
from syncopate.workloads.loaded_attention import LoadedAttention

SUITE: Final = "sequence_attention"
SETS: Final = 2
TOLERANCE: Final = 1e-2
"""An output that is off by more, relative to the reference, is wrong."""
INNER: Final = 2
"""Ranks of the inner rings."""

MEASURED: Final = Path(__file__).parent.parent / "docs" / "results" / "attention-w1-h200.json"
"""What `benchmark/attention.py` has measured on one H200."""
MEASURED_SHAPE: Final = "8192x32x32x128"
MEASURED_SHARED: Final = "8192x32x8x128"
MEASURED_LENGTH: Final = 8192
MEASURED_HEADS: Final = 32


def list_cases(kinds: Sequence[str], ranks: int) -> dict[str, AttentionWorkload]:
    """The workloads by name."""
    heads = (32, 32, 128)
    known = {
        "hp": AttentionWorkload(
            AttentionKind.ULYSSES, 16, 16, 128, 8192 * ranks, ranks, batch=2, dtype="f16"
        ),
        "ring": AttentionWorkload(AttentionKind.RING, *heads, 4096 * ranks, ranks, dtype="f16"),
        "ring-causal": AttentionWorkload(
            AttentionKind.RING, *heads, 4096 * ranks, ranks,
            dtype="f16", causal=True, sharding=Sharding.ZIGZAG,
        ),
    }  # fmt: skip
    if ranks > INNER and ranks % INNER == 0:
        known["double-ring"] = AttentionWorkload(
            AttentionKind.RING, *heads, 4096 * ranks, ranks, dtype="f16", node_size=INNER
        )
    for length in (8192, 32768, 131072):
        known[f"sp-{length}"] = AttentionWorkload(
            AttentionKind.SEQUENCE_PARALLEL, 32, 8, 128, length, ranks, dtype="f16"
        )
    known["sp-32768-causal"] = AttentionWorkload(
        AttentionKind.SEQUENCE_PARALLEL, 32, 8, 128, 32768, ranks,
        dtype="f16", causal=True, sharding=Sharding.ZIGZAG,
    )  # fmt: skip
    chosen = [
        name for kind in kinds for name in known if name == kind or name.startswith(f"{kind}-")
    ]
    return {name: known[name] for name in dict.fromkeys(chosen)}


def list_strategies(options: argparse.Namespace) -> list[Strategy]:
    """What is compared; the default first."""
    return [
        Strategy(realization=Realization(realization), direction=direction)
        for realization in options.realizations.split(",")
        for direction in Direction
    ]


def shape_of(workload: AttentionWorkload) -> Shape:
    """A rank's part of the sequence, the width of all heads, and the sequence."""
    return workload.rows, workload.row[0], workload.sequence


def received_bytes(workload: AttentionWorkload) -> int:
    """Bytes that a rank receives from others at least: queries, keys, values and outputs, or keys and values."""
    wide, narrow = (workload.rows * width * 2 for width in workload.row)
    if workload.kind is AttentionKind.ULYSSES:
        return 2 * (wide + narrow) * (workload.world_size - 1) // workload.world_size
    return 2 * narrow * (workload.world_size - 1)


@functools.cache
def read_measured(workload: AttentionWorkload) -> dict[str, float]:
    """Microseconds of attention alone at the measured shape that is like a workload, by what computes it."""
    shared = workload.heads != workload.kv_heads
    shape = MEASURED_SHARED if shared else MEASURED_SHAPE
    shape += "-causal" if workload.causal else ""
    rows = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]
    return {row["variant"]: row["us"] for row in rows if row["shape"] == shape}


def tile_cost(workload: AttentionWorkload, config: AttentionConfig) -> KernelCost:
    """A tile walks all keys, or half of them, at the rate of our kernel where it was measured."""
    tiles = MEASURED_HEADS * math.ceil(MEASURED_LENGTH / config.block_m)
    rounds = math.ceil(tiles / (132 * config.ctas_per_sm))
    per_key = read_measured(workload)[name_config(config)] / rounds / MEASURED_LENGTH
    return KernelCost(
        per_key * workload.sequence, tile_bytes=config.block_m * workload.head_dim * 2
    )


def forecast(
    name: str, workload: AttentionWorkload, machine: Machine, strategies: Sequence[Strategy]
) -> Iterator[Forecast]:
    """The rows of a workload."""
    ranks = workload.world_size
    # A rank has some heads for all of the sequence, or all heads for its part.
    pairs = workload.batch * workload.heads * workload.rows * workload.sequence
    sdpa = machine.sustained_us(
        read_measured(workload)["cudnn"] * pairs / (MEASURED_HEADS * MEASURED_LENGTH**2)
    )
    wide, narrow = (workload.rows * width * 2 for width in workload.row)
    if workload.kind is AttentionKind.ULYSSES:
        exchange = machine.find_collective("all_to_all", ranks)
        comm = 2 * (exchange.time_us(wide) + exchange.time_us(narrow))
    else:
        comm = 2 * machine.find_collective("all_gather", ranks).time_us(narrow * ranks)
    baselines: dict[str, float | None] = {"cudnn_nccl": sdpa + comm}
    if workload.gathers:
        baselines |= {"torch_cp": None}
    if workload.kind is AttentionKind.RING and not workload.causal:
        baselines |= {"ring_sdpa": None}
    for strategy in strategies:
        config = workload.choose_config(strategy)
        assert isinstance(config, AttentionConfig)
        cost, us, bound = tile_cost(workload, config), None, None
        tiles = workload.batch * workload.heads * math.ceil(workload.rows / config.block_m)
        alone = predict_gemm_us(machine, cost, tiles, 132 * config.ctas_per_sm)
        try:
            program = workload.compile(strategy, config=config, machine_code=False)
            us = predict(program, cost, machine).us
            bound = find_lower_bound(program, cost, machine).us
        except SyncopateError as error:
            print(f"{name} {name_strategy(strategy)}: {error}", file=sys.stderr)
        yield Forecast(
            suite=SUITE, workload=name, world_size=ranks, shape=shape_of(workload), variant=name_strategy(strategy),
            default=strategy == workload.default_strategy(), us=us, error=None, bound_us=bound,
            gemm_us=min(sdpa, alone), comm_us=comm,
            link_us=received_bytes(workload) / (machine.topology.link_gbps * 1e3), baselines=baselines,
        )  # fmt: skip


def measure(
    session: Session,
    name: str,
    workload: AttentionWorkload,
    peak: float,
    options: argparse.Namespace,
) -> tuple[list[report.Row], bool]:
    """The rows of a workload, and whether all our results were right."""
    session.say(f"{name}: {workload.name}")
    data = SequenceData(workload, session.rank, SETS, session.device)
    base = SequenceBaselines(workload, data)
    group, strategies = ProcessGroup(), list_strategies(options)
    good, errors = True, dict[str, float]()
    programs: dict[str, tuple[LoadedAttention, Callable[[int], torch.Tensor]]] = {}
    for strategy in strategies:
        variant = name_strategy(strategy)

        def load(strategy: Strategy = strategy) -> LoadedAttention:
            return workload.load(group, strategy, timeout=20.0)

        program = session.attempt(f"{name} {variant}", load)
        if program is None:
            continue

        def call(i: int, program: LoadedAttention = program) -> torch.Tensor:
            out: torch.Tensor = program(*data.rows[i])[0]
            return out

        def check(
            call: Callable[[int], torch.Tensor] = call, program: LoadedAttention = program
        ) -> float:
            error = data.check_rows(call, options.calls)
            program.synchronize()
            return error

        error = session.attempt(f"checking {name} {variant}", check)
        worst = session.maximum([math.inf if error is None or error != error else error])[0]
        if worst >= TOLERANCE:
            session.say(f"WRONG {name} {variant}: relative error {worst:.2e}")
            good = False
            program.close()
            continue
        errors[variant], programs[variant] = worst, (program, call)
    timed = list(checked_baselines(session, name, base, data))
    if not timed:
        session.say(f"WRONG {name}: no baseline runs")
        return [], False
    # The first of them once more, which says how far two measurements of one thing are apart.
    again = Candidate(f"{timed[0].name} again", timed[0].call)
    alone = [
        Candidate(f"{way} alone", call)
        for way, call in base.alone().items()
        if session.attempt(f"{name} {way} alone", functools.partial(call, 0)) is not None
    ]
    comm = Candidate("nccl", base.communicate)
    candidates = [Candidate(variant, call) for variant, (_, call) in programs.items()]
    session.compare([*alone, comm, *timed, *candidates, again], options.rounds, SETS)
    kernel_us = next((way.us for way in alone if way.name.startswith("kernel")), None)
    alone_us = min(way.us for way in alone)
    given = dict(zip("qkv", data.rows[0], strict=True))
    hosts = [measure_host_us(program, 10, **given) for program, _ in programs.values()]
    hosts = session.maximum([0.0, *hosts])[1:]
    predicted = predict_here(session, lambda machine: forecast(name, workload, machine, strategies))
    rows = [
        report.Row(
            suite=SUITE, workload=name, world_size=session.world_size, dtype=workload.dtype,
            **dict(zip("MNK", shape_of(workload), strict=True)), variant=way.name,
            realization=way.name.split("/")[0], direction=way.name.split("/")[1], splits=0,
            default=way.name == name_strategy(workload.default_strategy()), us=way.us,
            gemm_us=alone_us, local_gemm_us=kernel_us, comm_us=comm.us, link_us=received_bytes(workload) / peak * 1e6,
            baselines={each.name: each.us for each in timed}, rel_err=errors[way.name],
            calls_checked=options.calls, spread=abs(timed[0].us / again.us - 1), host_us=host_us,
            predicted_us=predicted.get(way.name),
        )
        for way, host_us in zip(candidates, hosts, strict=True)
    ]  # fmt: skip
    for program, _ in programs.values():
        program.close()
    return rows, good


def checked_baselines(
    session: Session, name: str, base: SequenceBaselines, data: SequenceData
) -> Iterator[Candidate]:
    """Those that run, and are right, on every rank."""
    calls: dict[str, Callable[[int], torch.Tensor]] = base.calls()
    for baseline, call in calls.items():
        error = session.attempt(f"{name} {baseline}", functools.partial(data.check_heads, call))
        if error is not None and session.agree(error < TOLERANCE):
            yield Candidate(baseline, call)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", default="hp,ring,double-ring,sp", help="comma-separated")
    parser.add_argument(
        "--realizations", default="ldst_colocated,tma_colocated,copy_engine", help="comma-separated"
    )
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds")
    parser.add_argument("--calls", type=int, default=20, help="checked calls of each program")
    parser.add_argument(
        "--budget", type=float, default=math.inf, help="start no further shape after these seconds"
    )
    parser.add_argument("--commit", default="", help="the commit, where git cannot tell")
    parser.add_argument("--out", type=Path, help="folder of the files; by default docs/results")
    add_dry_run(
        parser,
        "say what would be measured, and what the cost model says of it; files are written only if --out is given",
    )
    return parser.parse_args()


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    kinds = options.kinds.split(",")
    if options.dry_run:
        machine, rows = find_dry_machine(options), list[Forecast]()
        for name, workload in list_cases(kinds, options.ranks).items():
            rows += forecast(name, workload, machine, list_strategies(options))
        write_forecasts(options, SUITE, machine, rows)
        return 0
    options.out = options.out or Path("docs/results")
    session = Session()
    cases = list_cases(kinds, session.world_size)
    shapes = {name: shape_of(workload) for name, workload in cases.items()}

    def run(name: str, shape: Shape, peak: float) -> tuple[list[report.Row], bool]:
        return measure(session, name, cases[name], peak, options)

    return run_suite(SUITE, session, shapes, options, run, options.budget)


if __name__ == "__main__":
    sys.exit(main())
