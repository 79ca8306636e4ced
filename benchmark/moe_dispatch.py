"""Dispatch of tokens to experts + grouped GEMM against what people use today.

    torchrun --nproc-per-node 2 benchmark/moe_dispatch.py [--shapes 8192x7168x2048,…] [--top-k 8] [--experts 256]

M are the tokens of all ranks, N the columns that an expert computes, K the width of a token. `routed` rows are of calls
that start when all know how many rows everybody has for everybody, and where each goes; `choices` rows are of calls
that begin with the experts that each rank's own tokens have chosen. The baseline of each knows no more. Ours make their
tables in a CUDA graph; the baseline cannot, since NCCL wants numbers of rows on the host. Writes
`<out>/moe_dispatch-w<world>-<gpu>.json` and `.md`; the default of `out` is docs/results. Exits with 1 if a result is
wrong.
"""

from __future__ import annotations

import argparse
import functools
import itertools
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
from syncopate.kernels import GemmConfig, bind_grouped_gemm, grouped_gemm
from syncopate.plan.tokens import RoutingShape, dispatch_tokens
from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.loaded import LoadedProgram
from syncopate.runtime.routing import RoutedTokens, route_tokens
from syncopate.runtime.session import Session
from syncopate.runtime.timing import Candidate, measure_host_us

SUITE = "moe_dispatch"
REALIZATIONS = ("ldst_colocated", "ldst_dedicated", "tma_colocated", "tma_dedicated")
DIRECTIONS = ("push", "pull")
DEFAULT = ("ldst_colocated", "push", 1)


class Data:
    """This rank's tokens and weights, several routings, and what each gives, expert by expert in float32."""

    def __init__(self, sizes: Sizes) -> None:
        generator = torch.Generator("cuda").manual_seed(sizes.rank)
        shape = sizes.shape(1)
        count, local = shape.tokens, shape.experts_per_rank

        def draw(rows: int) -> torch.Tensor:
            return torch.randn((rows, sizes.k), generator=generator, device="cuda").bfloat16()

        self.tokens = [draw(count) for _ in range(SETS)]
        self.weights = draw(local * sizes.n)
        scores = [
            torch.rand((count, sizes.experts), generator=generator, device="cuda")
            for _ in range(SETS)
        ]
        self.own_choices = [score.topk(sizes.top_k).indices for score in scores]
        self.choices = [gather(own) for own in self.own_choices]
        everyone = [gather(tokens).flatten(0, 1) for tokens in self.tokens]
        self.sorted = [Sorted(choices, sizes) for choices in self.choices]
        self.references = []
        for tokens, order in zip(everyone, self.sorted, strict=True):
            rows = tokens[order.tokens]
            parts = rows.split(order.per_expert)
            weights = self.weights.view(local, sizes.n, sizes.k)
            self.references.append(
                torch.cat([a.float() @ b.float().T for a, b in zip(parts, weights, strict=True)])
            )

    def check(self, call: Callable[[int], torch.Tensor], splits: int, sizes: Sizes) -> float:
        """The largest relative error of one call after another, of the rows of each expert in the order of tokens."""
        errors = []
        for i in range(2 * SETS):
            which = i % SETS
            out = call(which)
            routed = route_tokens(self.choices[which], sizes.rank, sizes.shape(splits))
            places = routed.places.flatten()[self.sorted[which].order].long()
            reference = self.references[which]
            errors.append((out[places].float() - reference).norm() / reference.norm())
        return float(torch.stack(errors).max())


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse(__doc__.splitlines()[0], "1,4")
    session = Session()

    def measure(name: str, shape: Shape, peak: float) -> tuple[list[report.Row], bool]:
        sizes = Sizes(session.world_size, session.rank, *shape, options.top_k, options.experts)
        return measure_shape(session, name, sizes, options, peak)

    return run_suite(SUITE, session, options.shapes, options, measure)


@dataclass
class Way:
    """A program that was checked, and how it is called: with tables that are there, or from choices on."""

    realization: str
    direction: str
    splits: int
    program: LoadedProgram
    error: float
    timed: dict[str, Candidate]


def measure_shape(
    session: Session, workload: str, sizes: Sizes, options: argparse.Namespace, peak: float
) -> tuple[list[report.Row], bool]:
    """All rows of one shape, and whether every result was right."""
    session.say(f"{SUITE} {workload}: M {sizes.m}, N {sizes.n}, K {sizes.k}")
    data = Data(sizes)
    gemms, alone, sequences = baselines(data, sizes)
    sequence = sequences["routed"]
    again = Candidate(f"{sequence.name} again", sequence.call)
    ways, good = [], True
    for realization, direction, splits in itertools.product(
        REALIZATIONS, DIRECTIONS, options.splits
    ):
        if options.only not in realization:
            continue
        program = build(session, sizes, realization, direction, splits)
        if program is None:
            continue
        calls = callers(program, data, sizes, splits)
        error = max(data.check(call, splits, sizes) for call in calls.values())
        program.synchronize()
        error = session.maximum([error if error == error else float("inf")])[0]
        name = f"{realization}/{direction}/{splits}"
        if error >= TOLERANCE:
            good = False
            session.say(f"WRONG {name}: relative error {error:.2e}")
        timed = {what: Candidate(f"{name}, {what}", call) for what, call in calls.items()}
        ways.append(Way(realization, direction, splits, program, error, timed))
    kernels = local_kernel(data, sizes)
    every = [candidate for way in ways for candidate in way.timed.values()]
    session.compare(
        [*gemms, kernels, alone, *sequences.values(), *every, again], options.rounds, SETS
    )
    received = sum(_tokens_received(choices, sizes) for choices in data.choices) / SETS
    link_us = session.maximum([received * sizes.k * 2 / peak * 1e6])[0]
    rows = [
        report.Row(
            suite=SUITE, workload=workload, world_size=sizes.world, dtype="bf16", M=sizes.m, N=sizes.n, K=sizes.k,
            variant=f"{way.realization}/{way.direction}/{way.splits}/{what}", realization=way.realization,
            direction=way.direction, splits=way.splits, us=timed.us,
            default=(way.realization, way.direction, way.splits) == DEFAULT,
            gemm_us=min(kernels.us, *(gemm.us for gemm in gemms)), local_gemm_us=kernels.us, comm_us=alone.us,
            link_us=link_us, baselines={sequences[what].name: sequences[what].us}, rel_err=way.error,
            calls_checked=2 * SETS, spread=abs(sequence.us / again.us - 1), host_us=host_us(session, way, data, sizes),
        )
        for way in ways
        for what, timed in way.timed.items()
    ]  # fmt: skip
    for way in ways:
        way.program.close()
    return rows, good


def _tokens_received(choices: torch.Tensor, sizes: Sizes) -> int:
    """Tokens of other ranks that chose an expert of this one."""
    hit = (choices // (sizes.experts // sizes.world) == sizes.rank).any(-1)
    hit[sizes.rank] = False
    return int(hit.sum())


def build(
    session: Session, sizes: Sizes, realization: str, direction: str, splits: int
) -> LoadedProgram | None:
    """Compiles and loads a variant; None on every rank if that fails on any."""
    plan = syncopate.Plan("moe", [sizes.world])
    shape = sizes.shape(splits)
    strategy = syncopate.Strategy(direction=direction, realization=realization)
    dispatch = dispatch_tokens(plan, shape, sizes.k, "bf16", strategy=strategy)
    config = GemmConfig(num_ctas=132 - strategy.count_dedicated())
    loaded = None
    try:
        program = syncopate.compile(
            grouped_gemm,
            plan,
            **bind_grouped_gemm(dispatch, shape, sizes.n, config),
            strategy=strategy,
            timeout=20.0,
        )
        loaded = load(program, ProcessGroup())
    except syncopate.SyncopateError as error:
        print(f"{realization}/{direction}/{splits} on rank {session.rank}: {error}", flush=True)
    return loaded if session.agree(loaded is not None) else None


def callers(
    program: LoadedProgram, data: Data, sizes: Sizes, splits: int
) -> dict[str, Callable[[int], torch.Tensor]]:
    """How to call a program with input set i, by what the call begins with."""
    shape = sizes.shape(splits)
    known = [route_tokens(choices, sizes.rank, shape) for choices in data.choices]
    sends = program.input("tokens_sends")
    # One output for all calls: a new one would be as large as the most that any routing could need.
    out = torch.empty((shape.blocks * shape.block_m, sizes.n), dtype=torch.bfloat16, device="cuda")

    def run(i: int, routed: RoutedTokens) -> torch.Tensor:
        program.acquire()
        torch.index_select(data.tokens[i], 0, routed.send_rows, out=sends)
        program(
            tokens=data.tokens[i],
            tokens_words=routed.words,
            rows=routed.rows,
            experts=routed.experts,
            used=routed.used,
            b=data.weights,
            c=out,
        )
        return out

    graphs = [capture(functools.partial(route, own, sizes, shape)) for own in data.own_choices]

    def begin_with_choices(i: int) -> torch.Tensor:
        graph, routed = graphs[i]
        graph.replay()
        return run(i, routed)

    return {"routed": lambda i: run(i, known[i]), "choices": begin_with_choices}


def route(own_choices: torch.Tensor, sizes: Sizes, shape: RoutingShape) -> RoutedTokens:
    """The routing, from what this rank's tokens have chosen."""
    return route_tokens(gather(own_choices), sizes.rank, shape)


def capture(make: Callable[[], RoutedTokens]) -> tuple[torch.cuda.CUDAGraph, RoutedTokens]:
    """A CUDA graph of a function, and where it puts its result."""
    make()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = make()
    return graph, result


def host_us(session: Session, way: Way, data: Data, sizes: Sizes) -> float:
    """Host time of a call whose tables are there."""
    routed = route_tokens(data.choices[0], sizes.rank, sizes.shape(way.splits))
    tensors = {
        "tokens": data.tokens[0],
        "tokens_words": routed.words,
        "rows": routed.rows,
        "experts": routed.experts,
        "used": routed.used,
        "b": data.weights,
    }
    return session.maximum([measure_host_us(way.program, 20, **tensors)])[0]


def local_kernel(data: Data, sizes: Sizes) -> Candidate:
    """Our kernel under plain Triton, on tokens that are all there."""
    shape = sizes.shape(1)
    known = [route_tokens(choices, sizes.rank, shape) for choices in data.choices]
    everyone = torch.randn((shape.rows, sizes.k), device="cuda").bfloat16()
    product = triton_grouped(data.weights, sizes.n, shape.blocks * shape.block_m)
    return Candidate("grouped_gemm", lambda i: product(everyone, known[i].rows, known[i]))


def baselines(data: Data, sizes: Sizes) -> tuple[list[Candidate], Candidate, dict[str, Candidate]]:
    """The grouped GEMM alone; NCCL's all-to-all alone; sort, all-to-all, sort, grouped GEMM one after another.

    The last ones by what a call begins with.
    """
    local, world = sizes.experts // sizes.world, sizes.world
    name, product = torch_grouped(data.weights.view(local, sizes.n, sizes.k))
    width = max(sum(order.receive_splits) for order in data.sorted)
    arrived = torch.empty((width, sizes.k), dtype=torch.bfloat16, device="cuda")

    def exchange(rows: torch.Tensor, send: list[int], receive: list[int]) -> torch.Tensor:
        out = arrived[: sum(receive)]
        dist.all_to_all_single(out, rows, receive, send)
        return out

    def exchange_known(i: int, rows: torch.Tensor) -> torch.Tensor:
        return exchange(rows, data.sorted[i].send_splits, data.sorted[i].receive_splits)

    ready = [data.tokens[i][data.sorted[i].send] for i in range(SETS)]

    def sequence(i: int) -> torch.Tensor:
        order = data.sorted[i]
        rows = exchange_known(i, data.tokens[i][order.send])
        return product(rows[order.regroup], order.offsets)

    def sequence_from_choices(i: int) -> torch.Tensor:
        chosen = data.own_choices[i].flatten()
        order = chosen.argsort(stable=True)
        leaving = torch.zeros(sizes.experts, dtype=torch.long, device="cuda")
        leaving.scatter_add_(0, chosen, torch.ones_like(chosen))
        coming = torch.empty_like(leaving)
        dist.all_to_all_single(coming, leaving)
        # By destination and its expert, and by source and this rank's expert.
        totals = torch.stack([leaving, coming]).view(2, world, local).sum(-1)
        send, receive = totals.tolist()
        rows = exchange(data.tokens[i][order // sizes.top_k], send, receive)
        expert = torch.arange(local, device="cuda").repeat(world)
        expert = expert.repeat_interleave(coming, output_size=sum(receive))
        offsets = coming.view(world, local).sum(0).cumsum(0).int()
        return product(rows[expert.argsort(stable=True)], offsets)

    def alone(i: int) -> torch.Tensor:
        order = data.sorted[i]
        return product(arrived[: sum(order.receive_splits)], order.offsets)

    return (
        [Candidate(name, alone)],
        Candidate("nccl", lambda i: exchange_known(i, ready[i])),
        {
            "routed": Candidate(f"nccl_{name}", sequence),
            "choices": Candidate(f"nccl_{name}_from_choices", sequence_from_choices),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
