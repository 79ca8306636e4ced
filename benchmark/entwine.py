"""GEMM + reduce-scatter by tile order and multiprocessors: what Entwine's paper (arXiv 2609.11562) measures.

    torchrun --nproc-per-node 2 benchmark/entwine.py [--shapes llama3-70b-of-8-m8192,…] [--budget 200]

For each shape: the tile orders with 8 multiprocessors that move data and the default tiles, and with multiprocessors,
tiles and realization chosen together with the order, by measuring all of them; the best of other realizations; cuBLAS,
then NCCL. Then how evenly each order computes what each peer gets, on 2 ranks and in the model of 8. Writes
`<out>/entwine-w<world>-<gpu>.json` and `.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from benchmark.common.bench import Bench, Measured, default_trial, facts
from benchmark.common.entwine_tables import make_table
from benchmark.common.evenness import measure_evenness
from benchmark.common.shapes import find_shapes
from benchmark.common.study import Study, make_parser, remake

from syncopate import GemmWorkload, tune
from syncopate.choices import Combine, Direction, Realization, TileOrder
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset
from syncopate.workloads import GemmKind

MODELS = ("llama3-70b", "llama3-8b", "qwen2-72b", "llama3-405b")
SHAPES = ",".join([*(f"{model}-of-8-m8192" for model in MODELS), "k4096"])
ORDERS = (TileOrder.ARRIVAL, TileOrder.GROUPED, TileOrder.PACED)
DEDICATED = (Realization.LDST_DEDICATED, Realization.TMA_DEDICATED)
OTHERS = (
    (Realization.COPY_ENGINE, Direction.PULL),
    (Realization.COPY_ENGINE, Direction.PUSH),
    (Realization.LDST_COLOCATED, Direction.PUSH),
    (Realization.LDST_COLOCATED, Direction.PULL),
    (Realization.TMA_COLOCATED, Direction.PULL),
)
ADDERS = {"tiles": None, "roles": Combine.ROLE}
FIXED_CTAS = 8
READY_PIECES = 16
"""Of each transfer, where it is measured when they are ready: many, so that copies wait for tiles, not for copies."""
CONFIGS = (GemmConfig(), GemmConfig(block_n=128, num_warps=4, num_stages=4))

Tried = Mapping[tune.Candidate, Measured]


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    if options.table:
        return remake(options.table, make_table)
    study = Study("entwine", options, make_table)
    shapes = find_shapes(GemmKind.GEMM_RS, options.shapes, study.world_size)
    rows: list[dict[str, Any]] = []
    missing = list(shapes)
    for i, (name, shape) in enumerate(shapes.items()):
        if study.over():
            break
        seconds = study.share(len(shapes) - i)
        rows.append(measure_row(study, name, shape, seconds, i < options.even))
        missing.remove(name)
        study.write(rows, missing, evenness=[])
    evenness: list[dict[str, Any]] = []
    if study.rank == 0:
        # It needs no GPU, so it takes place whatever the time.
        try:
            evenness += find_evenness(study, list(shapes.items())[: options.even])
        except SyncopateError as error:
            missing.append(str(error))
    study.write(rows, missing, evenness=evenness)
    return study.close()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK or (parts of) names")
    parser.add_argument(
        "--comm-ctas",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[4, 8, 16, 24],
        help="multiprocessors that move data, to choose from",
    )
    parser.add_argument("--even", type=int, default=2, help="shapes to show evenness of")
    return parser.parse_args()


def measure_row(
    study: Study, name: str, shape: tuple[int, int, int], seconds: float, even: bool
) -> dict[str, Any]:
    """One shape: everything few times, and the best again; if it is wanted, how evenly orders compute."""
    options = study.options
    workload = GemmWorkload(GemmKind.GEMM_RS, *shape, study.world_size)
    bench = study.bench(workload)
    study.say(f"{name}: {workload.name}")
    default = default_trial(workload)
    dedicated = list(dedicated_trials(default, options.comm_ctas))
    trials = [*dedicated, *other_trials(default)]
    tried = bench.survey(trials, options.few, study.until(seconds * 2 / 3))
    fixed = choose(tried, lambda one: one in dedicated and is_fixed(one, default))
    joint = choose(tried, lambda one: one in dedicated)
    role = choose(tried, lambda one: one in dedicated and one.strategy.combine is Combine.ROLE)
    anything = min(tried, key=lambda one: tried[one].us, default=None)
    finalists = [*fixed.values(), *joint.values(), *role.values()]
    finalists += [anything] if anything else []
    alone, finals = bench.compare(list(dict.fromkeys(finalists)), options.rounds, options.calls)
    ready = list(measure_orders(study, bench, default)) if even else []
    study.note_wrong(bench.workload.name, bench.wrong)
    bench.close()
    best = min(finals, key=lambda one: finals[one].us, default=None)
    return {
        "name": name, "shape": list(shape), "ranks": study.world_size, **dataclasses.asdict(alone),
        "default_tiles": facts(default)["tiles"], "best_baseline_us": alone.best_us,
        "fixed": describe(fixed, finals), "joint": describe(joint, finals), "role": describe(role, finals),
        "alike": {
            who: find_alike(workload, dedicated[0].having(combine=combine))
            for who, combine in ADDERS.items()
        },
        "best": {**facts(best), **dataclasses.asdict(finals[best])} if best else None,
        "tried": [{**facts(one), "us": found.us} for one, found in tried.items()],
        "of": len(trials), "ready": ready,
    }  # fmt: skip


def measure_orders(study: Study, bench: Bench, default: tune.Candidate) -> Iterator[dict[str, Any]]:
    """When what a rank computes for others is ready, by order and by who adds; nothing in a dry run."""
    if study.session is None:
        return
    from benchmark.common.gpu_bench import GpuBench
    from benchmark.common.ready import measure_ready

    assert isinstance(bench, GpuBench)
    engine = default.having(
        realization=Realization.COPY_ENGINE, direction=Direction.PUSH, splits=READY_PIECES
    )
    for (who, combine), order in itertools.product(ADDERS.items(), ORDERS):
        ranks = measure_ready(bench, engine.having(combine=combine, order=order))
        if ranks is not None:
            yield {"adds": who, "order": order.value, "ranks": ranks}


def dedicated_trials(default: tune.Candidate, ctas: Sequence[int]) -> Iterator[tune.Candidate]:
    """Orders, realizations that have multiprocessors of their own, how many, tiles, and who adds; fixed ones first."""
    configs = dict.fromkeys([default.tiles, *CONFIGS])
    counts = dict.fromkeys([FIXED_CTAS, *ctas])
    combines = dict.fromkeys([default.strategy.combine, Combine.ROLE])
    axes = itertools.product(combines, configs, counts, DEDICATED, ORDERS)
    for combine, config, count, realization, order in axes:
        yield tune.Candidate(default.strategy, config).having(
            combine=combine, realization=realization, comm_ctas=count, order=order
        )


def other_trials(default: tune.Candidate) -> Iterator[tune.Candidate]:
    """Orders by realizations without multiprocessors of their own."""
    for (realization, direction), order in itertools.product(OTHERS, ORDERS):
        yield default.having(realization=realization, direction=direction, order=order)


def is_fixed(trial: tune.Candidate, default: tune.Candidate) -> bool:
    """Whether it has eight multiprocessors that move data, and the tiles that are chosen without looking at them."""
    strategy = trial.strategy
    return (
        strategy.comm_ctas == FIXED_CTAS
        and trial.tiles == default.tiles
        and strategy.combine == default.strategy.combine
    )


def find_alike(workload: GemmWorkload, trial: tune.Candidate) -> list[list[str]]:
    """The orders, those together that give all ranks the same tiles one after another."""
    alike: dict[bytes, list[str]] = {}
    for order in ORDERS:
        one = trial.having(order=order)
        schedule = workload.packed().schedule(one.strategy, one.tiles)
        tables = (schedule.rank_tables(rank)["tiles"] for rank in range(workload.world_size))
        numbers = np.concatenate([table.values[:, :2] for table in tables])
        alike.setdefault(numbers.tobytes(), []).append(order.value)
    return list(alike.values())


def choose(
    tried: Tried, suits: Callable[[tune.Candidate], bool]
) -> dict[TileOrder, tune.Candidate]:
    """The best trial of each order among those that suit."""
    best: dict[TileOrder, tune.Candidate] = {}
    for trial, found in tried.items():
        order = TileOrder(trial.strategy.order)
        if suits(trial) and (order not in best or found.us < tried[best[order]].us):
            best[order] = trial
    return best


def describe(chosen: Mapping[TileOrder, tune.Candidate], finals: Tried) -> dict[str, Any]:
    """By order: what was chosen, and what it took in the comparison."""
    return {
        order.value: {**facts(trial), **dataclasses.asdict(finals[trial])}
        for order, trial in chosen.items()
        if trial in finals
    }


def find_evenness(
    study: Study, shapes: Sequence[tuple[str, tuple[int, int, int]]]
) -> Iterator[dict[str, Any]]:
    """Every order on the ranks of the run, and in the model of eight."""
    machines = {study.world_size: study.machine, 8: find_preset("h100-w8-predicted")}
    for (name, shape), (ranks, machine) in itertools.product(shapes, machines.items()):
        workload = GemmWorkload(GemmKind.GEMM_RS, *shape, ranks)
        for order in ORDERS:
            trial = default_trial(workload).having(
                realization=Realization.LDST_DEDICATED, order=order
            )
            yield {"name": name, **measure_evenness(workload, trial, machine)}


if __name__ == "__main__":
    sys.exit(main())
