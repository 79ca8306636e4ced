"""What the cost model says of machines that no program of ours has run on. Every number is a prediction.

    python benchmark/model_machines.py [--write docs/results/model-predictions.md]

The shapes are those of a 70B model's MLP cut among 8 ranks. Speed-up is over the GEMM, and then the transfers alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import syncopate
from syncopate.kernels import GemmConfig
from syncopate.model import (
    KernelCost,
    Machine,
    Topology,
    WaveModel,
    find_lower_bound,
    find_preset,
    gemm_cost,
    predict,
    predict_gemm_us,
)
from syncopate.workloads import GemmKind, GemmWorkload

SHAPES = {GemmKind.AG_GEMM: (8192, 3584, 8192), GemmKind.GEMM_RS: (8192, 8192, 3584)}
REALIZATIONS = ("copy_engine", "ldst_colocated", "tma_colocated", "tma_dedicated")
MACHINES = {
    "h200-w2": (2, "direct"),
    "h100-w8-predicted": (8, "direct"),
    "b200-w8-predicted": (8, "direct"),
    "rtx4090-pcie-w8-predicted": (8, "direct"),
    "h100-w64-predicted": (64, "hierarchical"),
}
"""Preset, ranks, and algorithm of gathers. Tables of more ranks are too large to simulate in seconds."""

CLUSTERS = (64, 128, 256, 512, 1024)
"""GPUs in nodes of 8, for FlashOverlap's closed form, which needs no tables."""


@dataclass(frozen=True)
class Cell:
    """One prediction, in microseconds."""

    workload: GemmKind
    realization: str
    us: float
    bound_us: float
    gemm_us: float
    apart_us: float


def main() -> int:
    """Prints, and writes if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [
        "# Predictions of the cost model",
        "",
        "    python benchmark/model_machines.py --write docs/results/model-predictions.md",
        "",
        "**Nothing here was measured on the machine that it is about, but for the first, to whose programs the model",
        "was fitted**: others are its numbers, scaled by data sheets ([model.md](../model.md)). Per rank, bf16; µs.",
        "*Apart* is the GEMM alone and then the same transfers alone, predicted likewise; *bound* is the larger of the",
        "two at their peaks. Shapes are those of a 70B model's MLP among 8 ranks.",
    ]
    for name, (ranks, algorithm) in MACHINES.items():
        machine = find_preset(name)
        lines += ["", f"## {name}, {ranks} ranks: {machine.label}", ""]
        lines += [
            "| workload | M, N, K | realization | predicted | GEMM | apart | speed-up | bound |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        begin = time.monotonic()
        for cell in cells(machine, ranks, algorithm):
            m, n, k = SHAPES[cell.workload]
            lines.append(
                f"| {cell.workload.value} | {m}, {n}, {k} | {cell.realization} | {cell.us:.0f} | {cell.gemm_us:.0f} | "
                f"{cell.apart_us:.0f} | {cell.apart_us / cell.us:.2f}x | {cell.bound_us:.0f} |"
            )
        print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    lines += [
        "",
        "## GEMM and all-reduce by NCCL, in groups of waves: FlashOverlap's closed form",
        "",
    ]
    lines += [
        "(8192, 8192, 3584) on every rank; nodes of 8 H100, 400 Gbit/s for each GPU. **Predicted from data"
    ]
    lines += [
        "sheets**, and from curves of NCCL for 2 ranks, scaled to so many; *bound* is the paper's.",
        "",
    ]
    lines += [
        "| GPUs | GEMM | all-reduce | one after the other | best groups | predicted | speed-up | bound |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [cluster_line(gpus) for gpus in CLUSTERS]
    text = "\n".join([*lines, ""])
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    return 0


def cluster_line(gpus: int) -> str:
    """A row of the closed form."""
    machine = find_preset(f"h100-w{gpus}-predicted")
    m, n, k = SHAPES[GemmKind.GEMM_RS]
    config = GemmConfig()
    cost = gemm_cost(
        machine, k, block_m=config.block_m, block_n=config.block_n, block_k=config.block_k
    )
    rows, columns = config.tiles(m, n)
    gemm_us = predict_gemm_us(machine, cost, rows * columns)
    curve = machine.find_collective("all_reduce", gpus)
    model = WaveModel(gemm_us, rows * columns, cost.tile_bytes, machine.sms, curve)
    whole = curve.time_us(2 * m * n)
    best = model.find_groups()
    groups = " + ".join(map(str, best.waves))
    return (
        f"| {gpus} | {gemm_us:.0f} | {whole:.0f} | {gemm_us + whole:.0f} | {groups} | {best.us:.0f} | "
        f"{(gemm_us + whole) / best.us:.2f}x | {model.bound_us():.0f} |"
    )


def cells(machine: Machine, ranks: int, algorithm: str) -> Iterator[Cell]:
    """The predictions for one machine."""
    assert isinstance(machine.topology, Topology)
    size = machine.topology.node_size
    node_size = size if 1 < size < ranks else None
    target = syncopate.Target(num_sms=machine.sms)
    for kind, shape in SHAPES.items():
        m, n, k = shape
        config = GemmConfig.choose(m, n, num_sms=machine.sms)
        workload = GemmWorkload(kind, m, n, k, ranks, node_size=node_size)
        cost = workload.cost(config, machine)
        rows, columns = config.tiles(m, n)
        parts = config.count_parts(m, n, k, machine.sms)
        gemm_us = predict_gemm_us(machine, cost, rows * columns, parts=parts)
        for realization in REALIZATIONS:
            strategy = syncopate.Strategy(
                algorithm=algorithm if kind is GemmKind.AG_GEMM else "direct",
                realization=realization,
                group_m=config.group_m,
            )
            schedule = workload.schedule(strategy, config, target)
            alone = predict(schedule, KernelCost(1e-3), machine)
            yield Cell(
                kind,
                realization,
                predict(schedule, cost, machine).us,
                find_lower_bound(schedule, cost, machine).us,
                gemm_us,
                gemm_us + alone.us,
            )


if __name__ == "__main__":
    sys.exit(main())
