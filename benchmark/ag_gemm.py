"""All-gather + GEMM against what people use today.

    torchrun --nproc-per-node 2 benchmark/ag_gemm.py [--quick] [--shapes 8192x3584x8192,…] [--out docs/results]

M is the number of gathered rows, N and K are one rank's. Writes `<out>/ag_gemm-w<world>-<gpu>.json` and `.md`. Exits
with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.common import baselines, report
from benchmark.common.data import GemmData
from benchmark.common.link import measure_link
from benchmark.common.programs import (
    SHAPES,
    Variant,
    build_program,
    tensor_names,
    variants,
)
from benchmark.common.session import Candidate, Session

from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.loaded import LoadedProgram, measure_host_us

SUITE = "ag_gemm"
TOLERANCE = 1e-2
SETS = 3


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    session = Session()
    started = time.monotonic()
    link = measure_link(session)
    peak = max(link.values())
    session.say("link " + ", ".join(f"{name} {rate / 1e9:.0f} GB/s" for name, rate in link.items()))
    meta: dict[str, Any] = {
        **report.describe_run(session.world_size, options.commit),
        "link_bytes_per_s": {k: round(v) for k, v in link.items()},
    }
    rows: list[report.Row] = []
    failed = False
    for name, shape in options.shapes.items():
        if time.monotonic() - started > options.budget:
            session.say(f"{name} {shape}: left out, {options.budget} s are over")
            continue
        done, good = measure_shape(session, name, shape, options, peak)
        rows += done
        failed = failed or not good
        if session.rank == 0 and rows:
            # After every shape, so that a run that is cut short leaves what it has.
            stem = options.out / report.file_stem(SUITE, session.world_size, meta["gpu"])
            report.write_json(stem.with_suffix(".json"), meta, rows)
            report.write_table(stem.with_suffix(".md"), meta, rows)
            print(report.format_table({}, done), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    session.say(f"{len(rows)} rows in {time.monotonic() - started:.0f} s")
    session.close()
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--shapes", default="", help="MxNxK or names, comma-separated; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="one split, fewer rounds")
    parser.add_argument("--rounds", type=int, default=0, help="timed rounds (default 21, quick 9)")
    parser.add_argument(
        "--calls", type=int, default=200, help="consecutive calls checked for each program"
    )
    parser.add_argument("--splits", default="", help="comma-separated (default 1,2,4; quick 1)")
    parser.add_argument(
        "--pauses", default="", help="comma-separated (default 500,1500; quick 500)"
    )
    parser.add_argument(
        "--only",
        default="",
        help="only variants whose name contains this, as ldst_colocated/push/1/zero-copy",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=math.inf,
        help="start no further shape after this many seconds",
    )
    parser.add_argument(
        "--commit", default="", help="what to write down as the commit, where git cannot tell"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    options.rounds = options.rounds or (9 if options.quick else 21)
    options.splits = [
        int(s) for s in (options.splits or ("1" if options.quick else "1,2,4")).split(",")
    ]
    options.pauses = [
        int(s) for s in (options.pauses or ("500" if options.quick else "500,1500")).split(",")
    ]
    wanted = [text for text in options.shapes.split(",") if text]
    options.shapes = (
        {text: SHAPES.get(text) or parse_shape(text) for text in wanted} if wanted else SHAPES
    )
    return options


def parse_shape(text: str) -> tuple[int, int, int]:
    """Reads MxNxK."""
    try:
        m, n, k = (int(part) for part in text.split("x"))
    except ValueError:
        raise SystemExit(
            f"--shapes: expects MxNxK or one of {', '.join(SHAPES)}, but got {text}"
        ) from None
    return m, n, k


def measure_shape(
    session: Session,
    workload: str,
    shape: tuple[int, int, int],
    options: argparse.Namespace,
    peak: float,
) -> tuple[list[report.Row], bool]:
    """All rows of one shape, and whether every result was right."""
    m, n, k = shape
    session.say(f"{workload}: M {m}, N {n}, K {k}")
    if m % session.world_size:
        raise SystemExit(
            f"--shapes: expects M to be a multiple of {session.world_size} ranks, as the baselines need, but got {m}"
        )
    data = GemmData(m, n, k, rank=session.rank, world_size=session.world_size, sets=SETS)
    out = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    gemms = baselines.gemm_candidates(data, out)
    gathering = baselines.all_gather_candidate(data)
    sequence = baselines.cublas_nccl(data, out)
    again = baselines.cublas_nccl(data, out, "cublas_nccl again")
    splits = [
        baselines.split_streams(data, out, p, session.world_size, session.rank)
        for p in baselines.SPLITS
    ]
    fused = (
        [async_tp]
        if (async_tp := _try(session, "async_tp", lambda: baselines.async_tp(data)))
        else []
    )

    programs = load_programs(session, shape, options)
    ways = [
        (variant, program)
        for base, program in programs
        for variant in (base, replace(base, zero_copy=True))
        if options.only in variant.name
    ]
    errors, good = check_programs(session, data, programs, options.calls)
    ours = [candidate(variant, program, data, out) for variant, program in ways]
    repeats = [candidate(*ways[0], data, out, " again")] if ways else []
    session.compare(
        [*gemms, gathering, sequence, *splits, *fused, *ours, again, *repeats], options.rounds, SETS
    )

    pairs = [(sequence, again), *zip(ours[:1], repeats, strict=True)]
    spread = max(abs(one.us / two.us - 1) for one, two in pairs)
    measured: dict[str, float | None] = {
        "cublas_nccl": min(sequence.us, again.us),
        "split_streams": min(candidate.us for candidate in splits),
        "async_tp": fused[0].us if fused else None,
    }
    received = (session.world_size - 1) * (m // session.world_size) * k * out.element_size()
    rows = []
    for (variant, program), timed in zip(ways, ours, strict=True):
        rows.append(
            report.Row(
                suite=SUITE, workload=workload, world_size=session.world_size, dtype="bf16", M=m, N=n, K=k,
                realization=variant.realization, direction=variant.direction, splits=variant.splits,
                pause=variant.pause, input="zero_copy" if variant.zero_copy else "plain",
                us=timed.us, gemm_us=min(g.us for g in gemms), local_gemm_us=gemms[-1].us,
                comm_us=gathering.us, link_us=received / peak * 1e6,
                baselines=measured, rel_err=errors[id(program)], calls_checked=options.calls, spread=spread,
                host_us=host_us(session, variant, program, data, out),
            )
        )  # fmt: skip
    for _, program in programs:
        program.close()
    return rows, good


def load_programs(
    session: Session, shape: tuple[int, int, int], options: argparse.Namespace
) -> list[tuple[Variant, LoadedProgram]]:
    """Compiles and loads every combination; a failure on any rank drops it on all."""
    group = ProcessGroup()
    loaded = []
    for variant in variants(options.splits, options.pauses):
        both = (variant, replace(variant, zero_copy=True))
        if not any(options.only in name for name in (way.name for way in both)):
            continue
        program = _try(
            session,
            variant.name,
            lambda v=variant: build_program(
                *shape,
                world_size=session.world_size,
                realization=v.realization,
                direction=v.direction,
                splits=v.splits,
                pause=v.pause,
            ),
        )
        if program is not None:
            loaded.append((variant, load(program, group)))
    return loaded


def _try(session: Session, what: str, make: Any) -> Any:
    """What `make` returns, or None on every rank if it raises on any."""
    result = None
    try:
        result = make()
    except Exception:
        print(f"{what} on rank {session.rank}:", flush=True)
        traceback.print_exc()
    return result if session.agree(result is not None) else None


def candidate(
    variant: Variant, loaded: LoadedProgram, data: GemmData, out: torch.Tensor, suffix: str = ""
) -> Candidate:
    """A variant as a candidate. A zero-copy input is written before the time starts, by whoever makes it."""
    a, b, c = tensor_names(loaded.program)
    fixed = {b: data.weight, c: out}
    if not variant.zero_copy:
        return Candidate(
            variant.name + suffix, lambda i: loaded(**{a: data.shards[i]}, **fixed), poison=out
        )

    def write(i: int) -> None:
        loaded.acquire()
        loaded.input(a).copy_(data.shards[i])

    return Candidate(variant.name + suffix, lambda i: loaded(**fixed), prepare=write, poison=out)


def check_programs(
    session: Session, data: GemmData, programs: Sequence[tuple[Variant, LoadedProgram]], calls: int
) -> tuple[dict[int, float], bool]:
    """The largest error of every program over consecutive calls, over the ranks."""
    errors: dict[int, float] = {}
    good = True
    for variant, loaded in programs:
        a, b, c = tensor_names(loaded.program)
        error = data.check_calls(
            lambda shard, out, p=loaded, a=a, b=b, c=c: p(**{a: shard, b: data.weight, c: out}),
            calls,
        )
        loaded.synchronize()
        # A NaN would get lost in a maximum.
        error = session.maximum([error if error == error else float("inf")])[0]
        errors[id(loaded)] = error
        if error >= TOLERANCE:
            good = False
            session.say(f"WRONG {variant.name}: relative error {error:.2e}")
    return errors, good


def host_us(
    session: Session, variant: Variant, loaded: LoadedProgram, data: GemmData, out: torch.Tensor
) -> float:
    """Host time of a call on the slowest rank."""
    a, b, c = tensor_names(loaded.program)
    inputs = {} if variant.zero_copy else {a: data.shards[0]}
    return session.maximum([measure_host_us(loaded, 20, **inputs, **{b: data.weight, c: out})])[0]


if __name__ == "__main__":
    sys.exit(main())
