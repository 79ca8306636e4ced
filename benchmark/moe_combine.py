"""Grouped GEMM + combine of what experts have computed against what people use today.

    torchrun --nproc-per-node 2 benchmark/moe_combine.py [--shapes 8192x7168x2048,…] [--top-k 8] [--experts 256]

M are the tokens of all ranks, N the columns that an expert computes, which are those of the result, K those of its
input, whose rows are in blocks of experts for ours and by expert for the baseline. The result are the weighted sums of
a rank's own tokens. Writes `<out>/moe_combine-w<world>-<gpu>.json` and `.md`; the default of `out` is docs/results.
Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import torch.distributed as dist
from benchmark.common import report
from benchmark.common.experts import (
    SETS,
    TOLERANCE,
    Sizes,
    Sorted,
    gather,
    parse,
    torch_grouped,
    triton_grouped,
)
from benchmark.common.suite import Shape, run_suite

import syncopate
from syncopate.kernels import GemmConfig, bind_combine_rows, combine_rows
from syncopate.plan.tokens import combine_tokens
from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.loaded import LoadedProgram
from syncopate.runtime.routing import route_tokens
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us

SUITE = "moe_combine"
REALIZATIONS = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "copy_engine")


class Data:
    """Several routings, what this rank's experts multiply in either layout, and what becomes of its tokens."""

    def __init__(self, sizes: Sizes) -> None:
        generator = torch.Generator("cuda").manual_seed(sizes.rank)
        self.shape = shape = sizes.shape(1)
        local = shape.experts_per_rank
        self.weights = torch.randn(
            (local * sizes.n, sizes.k), generator=generator, device="cuda"
        ).bfloat16()
        self.counts, self.routed, self.sorted, self.rows, self.blocks, self.references = (
            [] for _ in range(6)
        )
        for _ in range(SETS):
            scores, own = torch.rand(
                (shape.tokens, sizes.experts), generator=generator, device="cuda"
            ).topk(sizes.top_k)
            choices, counts = gather(own), gather(scores)
            routed = route_tokens(choices, sizes.rank, shape)
            order = Sorted(choices, sizes)
            rows = torch.randn(
                (len(order.order), sizes.k), generator=generator, device="cuda"
            ).bfloat16()
            places = routed.places.flatten()[order.order].long()
            blocks = rows.new_zeros((shape.blocks * shape.block_m, sizes.k))
            blocks[places] = rows
            total = torch.zeros((sizes.m, sizes.n), device="cuda")
            parts = zip(
                rows.split(order.per_expert),
                order.tokens.split(order.per_expert),
                counts.flatten()[order.order].split(order.per_expert),
                self.weights.view(local, sizes.n, sizes.k),
                strict=True,
            )
            for part, tokens, count, weights in parts:
                total.index_add_(0, tokens, count[:, None] * (part.float() @ weights.float().T))
            block = torch.empty((shape.tokens, sizes.n), device="cuda")
            dist.reduce_scatter_tensor(block, total)
            self.counts.append(counts)
            self.routed.append(routed)
            self.sorted.append(order)
            self.rows.append(rows)
            self.blocks.append(blocks)
            self.references.append(block)

    def check(self, call: Callable[[int], torch.Tensor]) -> float:
        """The largest relative error of one call after another."""
        errors = []
        for i in range(2 * SETS):
            reference = self.references[i % SETS]
            errors.append((call(i % SETS).float() - reference).norm() / reference.norm())
        return float(torch.stack(errors).max())


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse(__doc__.splitlines()[0], "2,8")
    session = Session()

    def measure(name: str, shape: Shape, peak: float) -> tuple[list[report.Row], bool]:
        sizes = Sizes(session.world_size, session.rank, *shape, options.top_k, options.experts)
        return measure_shape(session, name, sizes, options, peak)

    return run_suite(SUITE, session, options.shapes, options, measure)


@dataclass
class Way:
    """A program that was checked."""

    realization: str
    splits: int
    program: LoadedProgram
    error: float
    timed: Candidate


def measure_shape(
    session: Session, workload: str, sizes: Sizes, options: argparse.Namespace, peak: float
) -> tuple[list[report.Row], bool]:
    """All rows of one shape, and whether every result was right."""
    session.say(f"{SUITE} {workload}: M {sizes.m}, N {sizes.n}, K {sizes.k}")
    data = Data(sizes)
    m = data.shape.blocks * data.shape.block_m
    product = triton_grouped(data.weights, sizes.n, m)
    every_row = torch.arange(m, dtype=torch.int32, device="cuda")

    def multiply(i: int) -> torch.Tensor:
        return product(data.blocks[i], every_row, data.routed[i])

    gemm, alone, sequence = baselines(data, sizes)
    again = Candidate(f"{sequence.name} again", sequence.call)
    ways, good = [], True
    for realization in REALIZATIONS:
        for splits in options.splits:
            if options.only not in realization:
                continue
            program = build(session, sizes, realization, splits)
            if program is None:
                continue

            def call(i: int, program: LoadedProgram = program) -> torch.Tensor:
                out: torch.Tensor = program(
                    y=multiply(i), places=data.routed[i].places, weights=data.counts[i]
                )
                return out

            error = data.check(call)
            program.synchronize()
            error = session.maximum([error if error == error else float("inf")])[0]
            name = f"{realization}/{splits}"
            if error >= TOLERANCE:
                good = False
                session.say(f"WRONG {name}: relative error {error:.2e}")
            ways.append(Way(realization, splits, program, error, Candidate(name, call)))
    kernel = Candidate("grouped_gemm", multiply)
    candidates = [gemm, kernel, alone, sequence, *(way.timed for way in ways), again]
    session.compare(candidates, options.rounds, SETS)
    received = (sizes.world - 1) * data.shape.tokens * sizes.n * 2
    y = multiply(0)
    rows = [
        report.Row(
            suite=SUITE, workload=workload, world_size=sizes.world, dtype="bf16", M=sizes.m, N=sizes.n, K=sizes.k,
            variant=f"{way.realization}/push/{way.splits}", realization=way.realization, direction="push",
            splits=way.splits, default=False,
            us=way.timed.us, gemm_us=min(kernel.us, gemm.us), local_gemm_us=kernel.us, comm_us=alone.us,
            link_us=received / peak * 1e6, baselines={sequence.name: min(sequence.us, again.us)}, rel_err=way.error,
            calls_checked=2 * SETS, spread=abs(sequence.us / again.us - 1),
            host_us=session.maximum(
                [measure_host_us(way.program, 20, y=y, places=data.routed[0].places, weights=data.counts[0])]
            )[0],
        )
        for way in ways
    ]  # fmt: skip
    for way in ways:
        way.program.close()
    return rows, good


def build(session: Session, sizes: Sizes, realization: str, splits: int) -> LoadedProgram | None:
    """Compiles and loads a variant; None on every rank if that fails on any."""
    plan = syncopate.Plan("moe", [sizes.world])
    dedicated = realization.endswith("dedicated")
    shape = sizes.shape(1)
    strategy = syncopate.Strategy(
        realization=realization,
        splits=splits,
        reducing="ldst_dedicated" if dedicated else "ldst_colocated",
    )
    combined = combine_tokens(plan, shape, sizes.n, "bf16", strategy=strategy)
    ctas = 132 - strategy.count_dedicated([strategy.reducing or strategy.realization])
    config = GemmConfig(block_m=32, block_n=128, num_warps=4, num_ctas=ctas)
    loaded = None
    try:
        program = syncopate.compile(
            combine_rows,
            plan,
            **bind_combine_rows(combined, shape, config),
            strategy=strategy,
            timeout=20.0,
        )
        loaded = load(program, ProcessGroup())
    except syncopate.SyncopateError as error:
        print(f"{realization}/{splits} on rank {session.rank}: {error}", flush=True)
    return loaded if session.agree(loaded is not None) else None


def baselines(data: Data, sizes: Sizes) -> tuple[Candidate, Candidate, Candidate]:
    """The grouped GEMM alone; NCCL's all-to-all alone; grouped GEMM, sort, all-to-all, sort, weighted sum."""
    local, count = sizes.experts // sizes.world, data.shape.tokens
    name, product = torch_grouped(data.weights.view(local, sizes.n, sizes.k))
    back = torch.empty((count * sizes.top_k, sizes.n), dtype=torch.bfloat16, device="cuda")
    by_choice = torch.empty_like(back)
    # Rows by expert go back by source; what comes by expert goes to its choice.
    by_source = [order.regroup.argsort(dim=0) for order in data.sorted]
    counts = [counts[sizes.rank].bfloat16()[:, None, :] for counts in data.counts]

    def exchange(i: int, rows: torch.Tensor) -> torch.Tensor:
        order = data.sorted[i]
        dist.all_to_all_single(back, rows, order.send_splits, order.receive_splits)
        return back

    def sequence(i: int) -> torch.Tensor:
        order = data.sorted[i]
        made = product(data.rows[i], order.offsets)
        by_choice[order.own_order] = exchange(i, made[by_source[i]])
        return (counts[i] @ by_choice.view(count, sizes.top_k, sizes.n)).squeeze(1)

    ready = torch.randn(
        (max(len(order.order) for order in data.sorted), sizes.n), device="cuda"
    ).bfloat16()
    return (
        Candidate(name, lambda i: product(data.rows[i], data.sorted[i].offsets)),
        Candidate("nccl", lambda i: exchange(i, ready[: len(data.sorted[i].order)])),
        Candidate(f"{name}_nccl", sequence),
    )


if __name__ == "__main__":
    sys.exit(main())
