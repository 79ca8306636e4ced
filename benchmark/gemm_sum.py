"""GEMM + reduce-scatter and GEMM + all-reduce against what people use today.

    torchrun --nproc-per-node 2 benchmark/gemm_sum.py [--collective all_reduce] [--shapes 8192x8192x3584,…] [--out DIR]

M and N are those of the sum, K is one rank's. Writes `<out>/gemm_rs-w<world>-<gpu>.json` and `.md`, or `gemm_ar-…`;
the default of `out` is docs/results. Exits with 1 if a result is wrong or not the same bits every time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import torch.distributed as dist
from benchmark.common import report
from benchmark.common.link import measure_link
from benchmark.common.session import Candidate, Session

import syncopate
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import Combine, all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.loaded import LoadedProgram, measure_host_us

SETS = 3
TOLERANCE = 1e-2
REALIZATIONS = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "tma_dedicated", "copy_engine")
SHAPES = {
    "8b-slice": (8192, 4096, 1792),
    "70b-slice": (8192, 8192, 3584),
    "70b-k4096": (8192, 8192, 4096),
    "qwen2-72b-slice": (8192, 8192, 3696),
}


@dataclass(frozen=True)
class Variant:
    """One way to run a plan."""

    combine: Combine
    realization: str
    direction: str
    splits: int

    @property
    def name(self) -> str:
        """For tables and messages."""
        return f"{self.realization}, {self.combine.value}/{self.direction}/{self.splits}"


class Data:
    """This rank's factors of several sums, and the sums: by NCCL in float32, so in another order than ours."""

    def __init__(self, shape: tuple[int, int, int], session: Session, all_reduce: bool) -> None:
        m, n, k = shape
        generator = torch.Generator("cuda").manual_seed(session.rank)

        def draw(rows: int) -> torch.Tensor:
            return torch.randn((rows, k), generator=generator, device="cuda").bfloat16()

        self.a = [draw(m) for _ in range(SETS)]
        self.b = draw(n)
        self.references = []
        for a in self.a:
            total = a.float() @ self.b.float().T
            dist.all_reduce(total)
            rows = m // session.world_size
            block = total[session.rank * rows : (session.rank + 1) * rows]
            self.references.append(total if all_reduce else block.clone())

    def check(self, call: Callable[[int], torch.Tensor], calls: int) -> tuple[float, bool]:
        """The largest relative error over consecutive calls, and whether equal inputs gave equal bits."""
        errors, first, same = [], {}, True
        for i in range(calls):
            which = i % SETS
            out = call(which).clone()
            reference = self.references[which]
            errors.append((out.float() - reference).norm() / reference.norm())
            same = same and torch.equal(first.setdefault(which, out), out)
        return float(torch.stack(errors).max()), same


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    session = Session()
    link = measure_link(session)
    meta: dict[str, Any] = {
        **report.describe_run(session.world_size, options.commit),
        "link_bytes_per_s": {name: round(rate) for name, rate in link.items()},
    }
    suite = "gemm_ar" if options.all_reduce else "gemm_rs"
    rows: list[report.Row] = []
    good = True
    for workload, shape in options.shapes.items():
        done, right = measure_shape(session, suite, workload, shape, options, max(link.values()))
        rows += done
        good = good and right
        if session.rank == 0 and rows:
            stem = options.out / report.file_stem(suite, session.world_size, meta["gpu"])
            report.write_json(stem.with_suffix(".json"), meta, rows)
            report.write_table(stem.with_suffix(".md"), meta, rows)
            print(report.format_table({}, done), flush=True)
        torch.cuda.empty_cache()
    session.close()
    return 0 if good else 1


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--collective", choices=("reduce_scatter", "all_reduce"), default="reduce_scatter"
    )
    parser.add_argument("--shapes", default="", help="MxNxK or names, comma-separated")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=60, help="checked calls of each program")
    parser.add_argument("--splits", default="4,8", help="comma-separated")
    parser.add_argument("--only", default="", help="only variants whose name contains this")
    parser.add_argument("--commit", default="", help="what to write down as the commit")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    options.all_reduce = options.collective == "all_reduce"
    options.splits = [int(text) for text in options.splits.split(",")]
    names = [text for text in options.shapes.split(",") if text]
    shapes = {name: SHAPES.get(name) or tuple(map(int, name.split("x"))) for name in names}
    options.shapes = shapes or SHAPES
    return options


def measure_shape(
    session: Session,
    suite: str,
    workload: str,
    shape: tuple[int, int, int],
    options: argparse.Namespace,
    peak: float,
) -> tuple[list[report.Row], bool]:
    """All rows of one shape, and whether every result was right and the same bits every time."""
    m, n, k = shape
    session.say(f"{suite} {workload}: M {m}, N {n}, K {k}")
    data = Data(shape, session, options.all_reduce)
    gemms, alone, sequence, others = baselines(session, data, shape, options.all_reduce)
    again = Candidate("cublas_nccl again", sequence.call)
    good = True
    ours: list[tuple[Variant, LoadedProgram, Candidate, float]] = []
    for variant in variants(options):
        program = build(session, shape, variant, options.all_reduce)
        if program is None:
            continue

        def call(i: int, program: LoadedProgram = program) -> torch.Tensor:
            out: torch.Tensor = program(a=data.a[i], b=data.b)
            return out

        error, same = data.check(call, options.calls)
        program.synchronize()
        error = session.maximum([error if error == error else float("inf")])[0]
        if error >= TOLERANCE or not session.agree(same):
            good = False
            session.say(f"WRONG {variant.name}: relative error {error:.2e}, same bits: {same}")
        ours.append((variant, program, Candidate(variant.name, call), error))
    candidates = [*gemms, alone, sequence, *others, *(way[2] for way in ours), again]
    session.compare(candidates, options.rounds, SETS)
    spread = abs(sequence.us / again.us - 1)
    measured: dict[str, float | None] = {"cublas_nccl": min(sequence.us, again.us)}
    measured |= {candidate.name: candidate.us for candidate in others}
    shots = 2 if options.all_reduce else 1
    received = shots * (session.world_size - 1) * (m // session.world_size) * n * 2
    rows = [
        report.Row(
            suite=suite, workload=workload, world_size=session.world_size, dtype="bf16", M=m, N=n, K=k,
            realization=f"{variant.realization}, {variant.combine.value}", direction=variant.direction,
            splits=variant.splits, pause=500, input="plain", us=timed.us, gemm_us=min(g.us for g in gemms),
            local_gemm_us=gemms[-1].us, comm_us=alone.us, link_us=received / peak * 1e6, baselines=measured,
            rel_err=error, calls_checked=options.calls, spread=spread,
            host_us=session.maximum([measure_host_us(program, 20, a=data.a[0], b=data.b)])[0],
        )
        for variant, program, timed, error in ours
    ]  # fmt: skip
    for _, program, _, _ in ours:
        program.close()
    return rows, good


def variants(options: argparse.Namespace) -> list[Variant]:
    """Every way that is compared."""
    ways = [
        Variant(Combine.TILES, realization, direction, splits)
        for realization in REALIZATIONS
        for direction in ("push", "pull")
        for splits in options.splits
    ]
    ways += [Variant(Combine.ROLE, "ldst_colocated", "pull", splits) for splits in options.splits]
    ways += [
        Variant(Combine.DESTINATION, realization, "push", splits)
        for realization in REALIZATIONS
        if realization != "copy_engine"
        for splits in options.splits
    ]
    return [way for way in ways if options.only in way.name]


def build(
    session: Session, shape: tuple[int, int, int], variant: Variant, all_reduce: bool
) -> LoadedProgram | None:
    """Compiles and loads a variant; None on every rank if that fails on any."""
    m, n, k = shape
    plan = syncopate.Plan("gemm_sum", [session.world_size])
    c = plan.buffer("c", (m, n), "bf16")
    dedicated = variant.realization.endswith("dedicated")
    (all_reduce_tiles if all_reduce else reduce_scatter_tiles)(
        plan,
        c,
        splits=variant.splits,
        combine=variant.combine,
        direction=variant.direction,
        realization=variant.realization,
        reducing="ldst_dedicated" if dedicated else "ldst_colocated",
    )
    strategy = syncopate.Strategy()
    config = GemmConfig(num_ctas=132 - strategy.comm_ctas if dedicated else 132)
    loaded = None
    try:
        program = syncopate.compile(
            gemm,
            plan,
            **bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c),
            strategy=strategy,
            timeout=20.0,
        )
        loaded = load(program, ProcessGroup())
    except syncopate.SyncopateError as error:
        print(f"{variant.name} on rank {session.rank}: {error}", flush=True)
    return loaded if session.agree(loaded is not None) else None


def baselines(
    session: Session, data: Data, shape: tuple[int, int, int], all_reduce: bool
) -> tuple[list[Candidate], Candidate, Candidate, list[Candidate]]:
    """The GEMM alone, by cuBLAS and by our kernel; NCCL alone; one after the other; AsyncTP and split streams."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, n, k = shape
    full = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    block = torch.empty((m // session.world_size, n), dtype=torch.bfloat16, device="cuda")
    config = GemmConfig()
    a = [TensorDescriptor.from_tensor(x, [config.block_m, config.block_k]) for x in data.a]
    b = TensorDescriptor.from_tensor(data.b, [config.block_n, config.block_k])
    c = TensorDescriptor.from_tensor(full, [config.block_m, config.block_n])

    def cublas(i: int) -> torch.Tensor:
        return torch.mm(data.a[i], data.b.T, out=full)

    def triton(i: int) -> torch.Tensor:
        gemm[(config.num_ctas,)](a[i], b, c, m, n, k, **config.constexprs(), **config.options())
        return full

    def nccl(_: int) -> torch.Tensor:
        if all_reduce:
            dist.all_reduce(full)
            return full
        dist.reduce_scatter_tensor(block, full)
        return block

    def sequence(i: int) -> torch.Tensor:
        cublas(i)
        return nccl(i)

    others = [] if all_reduce else [async_tp(data), split_streams(session, data, block, 4)]
    gemms = [Candidate("gemm_cublas", cublas), Candidate("gemm_triton", triton)]
    return gemms, Candidate("nccl", nccl), Candidate("cublas_nccl", sequence), others


def async_tp(data: Data) -> Candidate:
    """AsyncTP, the fused operator of torch over symmetric memory."""
    name = dist.group.WORLD.group_name

    def call(i: int) -> torch.Tensor:
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(  # type: ignore[no-any-return]
            data.a[i], data.b.T, "sum", 0, name
        )

    call(0)
    return Candidate("async_tp", call)


def split_streams(session: Session, data: Data, block: torch.Tensor, pieces: int) -> Candidate:
    """The GEMM in pieces of every block's rows; NCCL reduces each on a second stream while the next is computed."""
    world, (rows, n) = session.world_size, block.shape
    side = torch.cuda.Stream(priority=-1)
    step = rows // pieces
    parts = [
        torch.empty((world * step, n), dtype=block.dtype, device="cuda") for _ in range(pieces)
    ]
    computed = [torch.cuda.Event() for _ in parts]
    done = torch.cuda.Event()

    def call(i: int) -> torch.Tensor:
        by_rank = data.a[i].view(world, rows, -1)
        for piece, (part, event) in enumerate(zip(parts, computed, strict=True)):
            some = slice(piece * step, (piece + 1) * step)
            for rank in range(world):
                out = part[rank * step : (rank + 1) * step]
                torch.mm(by_rank[rank, some], data.b.T, out=out)
            event.record()
            with torch.cuda.stream(side):
                side.wait_event(event)
                dist.reduce_scatter_tensor(block[some], part)
        with torch.cuda.stream(side):
            done.record()
        torch.cuda.current_stream().wait_event(done)
        return block

    return Candidate(f"split_streams/{pieces}", call)


if __name__ == "__main__":
    sys.exit(main())
