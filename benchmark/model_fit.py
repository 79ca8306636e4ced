"""Fits a machine to measured programs, for where the machine itself was not measured.

    python benchmark/model_fit.py [--out python/syncopate/model/presets/h200-w2.json]

Uses the rows of `FIT_SHAPES` only; `model_error.py` says how far the others are off. Every number is changed in turn,
by less and less, as long as the mean absolute error gets smaller.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from benchmark.common.predictions import is_fitted, predict_local_us, predict_row, read_rows
from benchmark.common.tables import Measured

from syncopate import choices
from syncopate.abi import Realization
from syncopate.model import (
    CollectiveCurve,
    Combining,
    Curve,
    FlowDirection,
    GemmRate,
    Latencies,
    Machine,
    Provenance,
    Topology,
    TopologyKind,
    TransferCurve,
)
from syncopate.workloads import GemmKind

Values = dict[str, float]

LINK_GBPS = 387.0
"""The best of engine and SM copies of 256 MiB, as the tables have it: 64 MiB in 173.5 µs."""

ROLES = [role for role in Realization if role.is_device]

GEMM: Values = {
    "large_step": 0.69, "large_tile": 1.5, "narrow_step": 0.36, "narrow_tile": 1.0, "idle_gain": 0.25,
    "row_128": 1.03, "row_32": 1.22, "burst": 2500.0, "sustained": 1.12, "launch": 4.0,
}  # fmt: skip

COMMON: Values = {
    "call": 10.0, "produce": 1.5, "accumulate": 8.0, "staging": 5.0, "memory_gbps": 1500.0, "flag_remote": 1.5,
    "stream_wait": 3.0, "engine_op": 1.5, "engine_start": 5.0,
    "copy_engine.latency": 4.0, "copy_engine.push": 380.0, "copy_engine.slow": 0.03,
    "ldst_colocated.latency": 3.0, "ldst_colocated.push": 6.0, "ldst_colocated.slow": 0.05,
    "ldst_colocated.local": 8.0,
}  # fmt: skip
"""What rows of the default realization and of the engine, pushing, say. Rates are GB/s of one CTA, or of the engine."""

OTHERS: Values = {
    "copy_engine.pull": 380.0, "ldst_colocated.pull": 5.0, "ldst_colocated.reduce": 4.0, "ldst_colocated.atomic": 2.0,
    "tma_colocated.latency": 3.0, "tma_colocated.push": 5.0, "tma_colocated.pull": 5.0, "tma_colocated.atomic": 2.0,
    "tma_colocated.local": 8.0, "tma_colocated.slow": 0.1,
    "tma_dedicated.latency": 3.0, "tma_dedicated.push": 40.0, "tma_dedicated.pull": 40.0, "tma_dedicated.atomic": 20.0,
    "tma_dedicated.local": 60.0, "tma_dedicated.slow": 0.05,
    "ldst_dedicated.latency": 3.0, "ldst_dedicated.push": 40.0, "ldst_dedicated.pull": 10.0,
    "ldst_dedicated.atomic": 3.0, "ldst_dedicated.local": 60.0, "ldst_dedicated.slow": 0.05,
}  # fmt: skip


def main() -> int:
    """Fits and writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, default=Path("docs/results"))
    parser.add_argument(
        "--out", type=Path, default=Path("python/syncopate/model/presets/h200-w2.json")
    )
    options = parser.parse_args()
    rows = [row for row in read_rows(options.tables) if is_fitted(row)]
    collectives = fit_collectives(rows)
    values = {**GEMM, **COMMON, **OTHERS}
    alone = {row.shape: row.local_us for row in rows}

    def gemm_error(values: Values) -> float:
        machine = build(values, collectives)
        return mean_error([predict_local_us(machine, shape) / us for shape, us in alone.items()])

    search(values, list(GEMM), gemm_error, "the local kernel")
    usual = [row for row in rows if is_usual(row)]
    search(values, list(COMMON), error_of(usual, collectives), "push")
    for role in Realization:
        names = [name for name in OTHERS if name.startswith(f"{role.spelling}.")]
        mine = [row for row in rows if role_of(row) is role and not is_usual(row)]
        if mine:
            search(values, names, error_of(mine, collectives), role.spelling)
    for name, value in values.items():
        print(f"{name:28} {value:.4g}")
    data = build(values, collectives).to_json()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


def role_of(row: Measured) -> Realization:
    """Who carries out the transfers of a row."""
    return Realization[choices.Realization(row.way.strategy.realization).name]


def is_usual(row: Measured) -> bool:
    """Whether it is what most rows are: the default realization or the engine, pushing, nothing added at others."""
    strategy = row.way.strategy
    return (
        role_of(row) in (Realization.LDST_COLOCATED, Realization.COPY_ENGINE)
        and strategy.direction is choices.Direction.PUSH
        and strategy.combine is None
    )


def error_of(
    rows: Sequence[Measured], collectives: Sequence[CollectiveCurve]
) -> Callable[[Values], float]:
    """The mean absolute error of some rows, by the numbers of a machine."""

    def error(values: Values) -> float:
        machine = build(values, collectives)
        return mean_error([predict_row(machine, row).us / row.us for row in rows])

    return error


def mean_error(ratios: Sequence[float]) -> float:
    """Mean absolute error of predictions, given as parts of what was measured."""
    return float(np.mean([abs(ratio - 1) for ratio in ratios]))


def search(
    values: Values, names: Sequence[str], error: Callable[[Values], float], what: str
) -> None:
    """Changes the named numbers, one at a time, as long as the error gets smaller."""
    best = error(values)
    first = best
    for step in (0.5, 0.25, 0.12, 0.06, 0.03):
        for name in names:
            for factor in (1 + step, 1 / (1 + step)):
                while True:
                    trial = {**values, name: _limited(name, values[name] * factor)}
                    if trial[name] == values[name] or (found := error(trial)) >= best - 1e-6:
                        break
                    values[name], best = trial[name], found
    print(f"{what}: mean absolute error {first:.3%} to {best:.3%}", flush=True)


def _limited(name: str, value: float) -> float:
    """Keeps factors above 1, the engine below the link, and latencies at what the hardware can take."""
    if name in ("row_128", "row_32", "sustained"):
        return max(value, 1.001)
    if name == "idle_gain":
        return min(value, 0.5)
    if name.startswith("copy_engine.p"):
        return min(value, LINK_GBPS)
    low, high = {"call": (2.0, 30.0), "flag_remote": (0.8, 4.0), "stream_wait": (1.0, 8.0), "engine_op": (0.5, 4.0),
                 "launch": (2.0, 8.0), "engine_start": (2.0, 15.0), "memory_gbps": (800.0, 2300.0)}.get(
        name, (0.0, float("inf"))
    )  # fmt: skip
    if name.endswith(".latency"):
        low, high = 0.5, 10.0
    return min(max(value, low), high)


def fit_collectives(rows: Sequence[Measured]) -> tuple[CollectiveCurve, ...]:
    """NCCL alone, which the tables give by shape: the medians of each size."""
    names = {
        GemmKind.AG_GEMM: "all_gather",
        GemmKind.GEMM_RS: "reduce_scatter",
        GemmKind.GEMM_AR: "all_reduce",
        GemmKind.GEMM_A2A: "all_to_all",
    }
    curves = []
    for workload, name in names.items():
        times: dict[int, list[float]] = {}
        for row in rows:
            if row.workload is workload:
                m, n, k = row.shape
                nbytes = 2 * m * (k if workload is GemmKind.AG_GEMM else n)
                times.setdefault(nbytes, []).append(row.nccl_us)
        points = sorted((nbytes, float(np.median(some))) for nbytes, some in times.items())
        if len(points) == 1:
            # One point says nothing of the latency; that of the other collectives is at most this.
            points.insert(0, (0, 15.0))
        sizes, medians = zip(*points, strict=True)
        curve = Curve(tuple(sizes), tuple(np.maximum.accumulate(medians).tolist()))
        curves.append(CollectiveCurve(name, 2, curve))
    return tuple(curves)


def build(values: Values, collectives: Sequence[CollectiveCurve]) -> Machine:
    """The machine of some numbers."""
    v = values
    engine = Realization.COPY_ENGINE
    curves = [
        TransferCurve(
            engine, direction, Combining.COPY, 0,
            Curve.of_rate(v["copy_engine.latency"], v[f"copy_engine.{name}"]),
        )
        for direction, name in (
            (FlowDirection.PUSH, "push"), (FlowDirection.PULL, "pull"), (FlowDirection.LOCAL, "push"),
        )
    ]  # fmt: skip
    for role in ROLES:
        for direction in FlowDirection:
            for combining in Combining:
                curves.append(_role_curve(v, role, direction, combining))
    return Machine(
        name="H200, 2 ranks",
        source=Provenance.FITTED,
        sms=132,
        topology=Topology(TopologyKind.ALL_TO_ALL, LINK_GBPS),
        memory_gbps=round(v["memory_gbps"], 1),
        curves=tuple(curves),
        collectives=tuple(collectives),
        gemm_rates=(
            GemmRate(128, 256, 64, "bf16", round(v["large_step"], 5), round(v["large_tile"], 4)),
            GemmRate(128, 128, 64, "bf16", round(v["narrow_step"], 5), round(v["narrow_tile"], 4)),
        ),
        latencies=Latencies(
            launch=round(v["launch"], 3),
            call=round(v["call"], 3),
            staging=round(v["staging"], 3),
            # The fact that design notes give of a flag in global memory.
            flag_local=0.83,
            flag_remote=round(v["flag_remote"], 3),
            stream_wait=round(v["stream_wait"], 3),
            engine_op=round(v["engine_op"], 3),
            engine_start=round(v["engine_start"], 3),
            produce=round(v["produce"], 3),
            # No row hands tiles over: as much as one that is counted.
            hand_over=round(v["produce"], 3),
            accumulate=round(v["accumulate"], 3),
            # Of the kernel alone with 1 to 8 parts at three shapes; no tile of the rows has parts.
            store_part=150.0,
            add_part=26.0,
        ),
        idle_gain=round(v["idle_gain"], 4),
        row_slowdowns=((128, round(v["row_128"], 4)), (32, round(v["row_32"], 4))),
        burst_us=round(v["burst"], 1),
        sustained_slowdown=round(v["sustained"], 4),
        interference={role: round(v[f"{role.spelling}.slow"], 4) for role in (engine, *ROLES)},
    )


def _role_curve(
    v: Values, role: Realization, direction: FlowDirection, combining: Combining
) -> TransferCurve:
    """As many CTAs as fill the link, at the rate of one CTA each."""
    name = role.spelling
    local = direction is FlowDirection.LOCAL
    per_cta = v[f"{name}.local" if local else f"{name}.{direction.value}"]
    other = v.get(f"{name}.{combining.value}")
    if combining is not Combining.COPY and other is not None:
        per_cta = min(per_cta, other)
    peak = v["memory_gbps"] if local else LINK_GBPS
    ctas = max(1, round(peak / per_cta))
    latency = v[f"{name}.latency"]
    return TransferCurve(
        role,
        direction,
        combining,
        ctas,
        Curve.of_rate(round(latency, 3), round(ctas * per_cta, 2)),
    )


if __name__ == "__main__":
    sys.exit(main())
