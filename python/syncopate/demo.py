"""The demonstration: all-gather + GEMM from plan to cubin, then run or checked."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syncopate.bench import count_gpus, run_bench
from syncopate.errors import SyncopateError

CHECK_SHAPE = (512, 512, 512)
CHECK_RANKS = 4
CHECK_CALLS = 3
TOLERANCE = 2.0**-8  # the output is bf16
CHECK_TILE = {"block_m": 128, "block_n": 128, "block_k": 64, "num_warps": 8, "num_ctas": 8}
GPU_SHAPE = (8192, 3584, 8192)
GPU_ROUNDS = 50


@dataclass(frozen=True)
class Choices:
    """What the demonstration lets its user choose."""

    algorithm: str = "direct"
    direction: str = "push"
    realization: str = "ldst_colocated"
    splits: int = 1


def compile_ag_gemm(
    world: int,
    shape: tuple[int, int, int],
    choices: Choices,
    target: Any = "sm_90",
    **tile: int,
) -> Any:
    """C = gather(A) Bᵀ on `world` ranks.

    Args:
      world: number of ranks; each holds 1/world of the rows of A.
      shape: M, N and K, where N is what one rank has of it.
      choices: algorithm, direction, realization and splits.
      target: what to compile for.
      **tile: fields of `GemmConfig` that differ from its defaults.
    """
    from syncopate import Plan, Strategy, compile
    from syncopate.kernels import GemmConfig, gemm
    from syncopate.kernels.bind import bind_gemm

    m, n, k = shape
    plan = Plan("ag_gemm", mesh=[world])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    strategy = Strategy(choices.algorithm, choices.direction, choices.realization, choices.splits)
    arguments = bind_gemm(a, n, GemmConfig(**tile))
    return compile(gemm, plan, **arguments, strategy=strategy, target=target)


def run_demo(out: Path, choices: Choices, *, seeds: int) -> int:
    """Compiles, saves every stage to `out`, then runs or checks; returns the exit code.

    Raises:
      SyncopateError: `out` cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SyncopateError(f"out: cannot make the folder {out}: {error.strerror}") from None
    m, n, k = CHECK_SHAPE
    print(f"AG-GEMM {m} x {n} x {k}, bf16, {CHECK_RANKS} ranks, {choices.algorithm} ", end="")
    print(f"{choices.direction}, {choices.realization}")
    start = time.perf_counter()
    program = compile_ag_gemm(CHECK_RANKS, CHECK_SHAPE, choices, **CHECK_TILE)
    seconds = time.perf_counter() - start
    cubin = len(program.image.cubin)
    print(f"  compiled for sm_90 to a cubin of {cubin} bytes in {seconds:.1f} s, no GPU used")
    try:
        stages = save_stages(program, out)
    except OSError as error:
        raise SyncopateError(f"out: cannot write {error.filename}: {error.strerror}") from None
    for name, what in stages.items():
        print(f"    {out / name!s:<32} {what}")
    if count_gpus() >= 2:
        return _run_on_gpus(choices)
    return _check_on_cpu(program, seeds)


def save_stages(program: Any, out: Path) -> dict[str, str]:
    """Writes what `program` went through to a folder; returns file names and what they hold."""
    from syncopate.show import draw_schedule

    out.mkdir(parents=True, exist_ok=True)
    title = f"{program.name} on {program.world_size} ranks"
    files: list[tuple[str, str, str | bytes]] = [
        ("plan.mlir", "the chunk plan as written", program.ir["plan"]),
        ("input.mlir", "plan, kernel and device functions: one module", program.ir["input"]),
        ("lowered.mlir", "the same after all passes, with tables", program.ir["lowered"]),
        ("fused.mlir", "the fused kernel, TritonGPU IR in generic form", program.ir["fused"]),
        ("fused.ttgir", "the same as Triton prints it", program.ir["ttgir"]),
        ("fused.ptx", "PTX", program.ir["ptx"]),
        ("fused.cubin", "machine code, one for all ranks", program.image.cubin),
        ("tables.json", "schedule tables of every rank", format_json(program)),
        ("tables.txt", "the same to read", format_tables(program)),
        ("schedule.svg", "a picture: tiles, chunks and waits", draw_schedule(program, title=title)),
        ("explain.txt", "what overlaps what, and why", program.explain() + "\n"),
    ]
    for name, _, content in files:
        data = content if isinstance(content, bytes) else content.encode()
        (out / name).write_bytes(data)
    return {name: what for name, what, _ in files}


def format_json(program: Any) -> str:
    """The schedule tables of every rank as JSON, a row of a table on a line."""
    ranks = []
    for rank in range(program.world_size):
        tables = []
        for name, table in program.rank_tables(rank).items():
            rows = ",\n    ".join(map(json.dumps, table.values.tolist()))
            rows = f"\n    {rows}\n  " if rows else ""
            columns = json.dumps(list(table.columns))
            tables.append(f'  "{name}": {{"columns": {columns}, "rows": [{rows}]}}')
        ranks.append(f'"rank {rank}": {{\n' + ",\n".join(tables) + "\n}")
    return "{\n" + ",\n".join(ranks) + "\n}\n"


def format_tables(program: Any) -> str:
    """The schedule tables of every rank as aligned text."""
    parts = []
    for rank in range(program.world_size):
        for name, table in program.rank_tables(rank).items():
            rows = [list(map(str, row)) for row in table.values.tolist()]
            columns = [list(column) for column in zip(table.columns, *rows, strict=True)]
            widths = [max(map(len, column)) for column in columns]
            lines = [f"rank {rank}, {name}"]
            for cells in (table.columns, *rows):
                padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
                lines.append("  " + "  ".join(padded))
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _check_on_cpu(program: Any, seeds: int) -> int:
    from syncopate.sim import Policy

    print(f"  fewer than 2 GPUs: simulating the fused kernel on {program.world_size} ranks")
    start = time.perf_counter()
    worst, steps, findings = 0.0, 0, []
    for seed in range(seeds):
        policy = Policy.of_seed(seed)
        result = program.simulate(calls=CHECK_CALLS, seed=seed, scheduler=policy)
        steps += result.verdict.steps
        findings += result.verdict.findings
        if findings:
            break
        # Unlike `max`, this keeps a NaN.
        worst = float(np.maximum(worst, compare_with_numpy(result)))
    plural = "s" if seed else ""
    print(
        f"    {seed + 1} interleaving{plural} of {CHECK_CALLS} calls each, {steps} steps, ", end=""
    )
    print(f"{time.perf_counter() - start:.1f} s")
    for finding in findings:
        print(f"    {finding}")
    right = not findings and worst < TOLERANCE
    print(f"    races, deadlocks and other findings: {len(findings)}")
    print(f"    max relative error {worst:.1e}: {'right' if right else 'WRONG'}")
    return 0 if right else 1


def compare_with_numpy(result: Any) -> float:
    """The largest error of the outputs of a simulation against float64, relative to the largest element."""
    worst = 0.0
    for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
        whole = np.concatenate(inputs["a"]).astype(np.float64)
        for b, c in zip(inputs["b"], outputs["c"], strict=True):
            expected = whole @ b.T.astype(np.float64)
            worst = float(np.maximum(worst, np.abs(c - expected).max() / np.abs(expected).max()))
    return worst


def _run_on_gpus(choices: Choices) -> int:
    from syncopate import Strategy
    from syncopate.strategy_names import name_strategy
    from syncopate.workloads import GemmWorkload

    # A power of two divides the rows.
    ranks = 1 << min(count_gpus(), 8).bit_length() - 1
    print(f"  running on {ranks} GPUs", flush=True)
    strategy = Strategy(choices.algorithm, choices.direction, choices.realization, choices.splits)
    workload = GemmWorkload("ag_gemm", *GPU_SHAPE, ranks)
    outcome = run_bench(workload, name_strategy(strategy), GPU_ROUNDS)
    print(outcome.text)
    return int(outcome.code)
