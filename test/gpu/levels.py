"""GEMMs whose data go within nodes by any realization, and between nodes by NCCL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from library_calls import expect_small, relative_error
from workloads import random_matrix

import syncopate
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.runtime import ProcessGroup, load

KINDS = ("ag_gemm", "a2a_gemm", "gemm_rs", "gemm_ar", "calls_rs", "calls_ar")
"""Gathers and exchanges of inputs, sums of what tiles compute, and those by library calls of all ranks."""


@dataclass(frozen=True)
class Levels:
    """A GEMM, M by N by K on each rank, and what moves before or behind it."""

    kind: str
    shape: tuple[int, int, int]
    world: int
    program: syncopate.Program

    @property
    def before(self) -> bool:
        """Whether it moves before the GEMM."""
        return self.kind in ("ag_gemm", "a2a_gemm")

    @property
    def input(self) -> str:
        """Keyword of what a rank gives."""
        return "given" if self.kind == "a2a_gemm" else "a"

    def inputs(self, seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What all ranks give: their parts of A, and B."""
        m, n, k = self.shape
        rows = m // self.world if self.kind == "ag_gemm" else m
        a = [random_matrix((rows, k), 1000 * seed + rank) for rank in range(self.world)]
        b = [random_matrix((n, k), 1000 * seed + 500 + rank) for rank in range(self.world)]
        return a, b

    def expected(self, a: list[torch.Tensor], b: list[torch.Tensor], rank: int) -> torch.Tensor:
        """What a rank gets, in float32."""
        rows = self.shape[0] // self.world
        mine = slice(rank * rows, (rank + 1) * rows)
        if self.before:
            parts = a if self.kind == "ag_gemm" else [part[mine] for part in a]
            return torch.cat(parts).float() @ b[rank].float().T
        total = sum(x.float() @ y.float().T for x, y in zip(a, b, strict=True))
        return total[mine] if self.kind.endswith("rs") else total


def build(
    kind: str, mesh: Sequence[int], shape: tuple[int, int, int], ctas: int, realization: str
) -> Levels:
    """Compiles one.

    Args:
        kind: One of `KINDS`.
        mesh: Nodes, and ranks of each.
        shape: M, N and K; M is a multiple of the ranks.
        ctas: CTAs that compute.
        realization: Of transfers within nodes.
    """
    (m, n, k), world = shape, math.prod(mesh)
    calls = kind.startswith("calls")
    strategy = syncopate.Strategy(
        realization="nccl" if calls else realization,
        between=None if calls else "nccl",
        algorithm="hierarchical" if kind == "ag_gemm" and min(mesh) > 1 else "direct",
        splits=2,
        waves=(1,) if calls else (),
    )
    plan = syncopate.Plan(kind, list(mesh))
    config = GemmConfig(block_n=128, num_ctas=ctas)
    if kind == "ag_gemm":
        a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
        plan.all_gather(a, axis=0)
        bind = bind_gemm(a, n, config)
    elif kind == "a2a_gemm":
        given = plan.buffer("given", (m, k), "bf16")
        for rank in range(world):
            plan.input(given[:], rank=rank)
        a = plan.buffer("a", (m, k), "bf16")
        plan.all_to_all(given, a)
        bind = bind_gemm(a, n, config)
    else:
        c = plan.buffer("c", (m, n), "bf16")
        add = reduce_scatter_tiles if kind.endswith("rs") else all_reduce_tiles
        add(plan, c, strategy)
        bind = bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c)
    program = syncopate.compile(gemm, plan, **bind, strategy=strategy, timeout=30.0)
    return Levels(kind, shape, world, program)


def run(
    group: ProcessGroup, kind: str, mesh: Sequence[int], realization: str, captured: bool
) -> None:
    """Calls with fresh data, as called or in a CUDA graph, on one process for each rank."""
    rank, world = group.rank, group.world_size
    shape = (256 * world, 384, 200)
    work = build(kind, mesh, shape, group.sms_per_rank(0) - 16, realization)
    errors = []
    with load(work.program, group) as loaded:
        a, b = work.inputs(0)
        mine, weight = a[rank].clone(), b[rank].clone()
        given = {work.input: mine, "b": weight}
        out = loaded(**given)
        loaded.synchronize()
        errors.append(relative_error(out, work.expected(a, b, rank)))
        graph: Any = None
        if captured:
            group.barrier()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                out = loaded(**given)
        for call in range(1, 31):
            a, b = work.inputs(call)
            mine.copy_(a[rank])
            weight.copy_(b[rank])
            if graph is None:
                out = loaded(**given)
            else:
                out.fill_(float("nan"))
                graph.replay()
            errors.append(relative_error(out, work.expected(a, b, rank)))
        loaded.synchronize()
        expect_small(errors, kind)
        del graph
