"""Tunings by measurement, and checks of what is chosen, with one process per GPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.distributed as dist
from workloads import TOLERANCE

import syncopate
from syncopate import GemmWorkload
from syncopate.kernels import GemmConfig, bind_gemm, gemm
from syncopate.runtime import ProcessGroup
from syncopate.tune import Auto, Effort, GemmSubject, Origin, TuningCache, choose
from syncopate.tune.space import TILES, Axis, Candidate, Space
from syncopate.workloads import GemmKind
from syncopate.workloads.reference import draw_input, draw_weight, multiply

SHAPE = (1024, 768, 512)
EFFORT = Effort(budget=40.0, top=3, rounds=3, final_rounds=3, finalists=2)


def make_auto(folder: str) -> Auto:
    """How to choose, with what is kept in a folder of rank 0's, which all ranks see."""
    shared = [folder]
    dist.broadcast_object_list(shared)
    return Auto(measure=True, effort=EFFORT, cache=TuningCache(shared[0]), progress=False)


def tune_workload(kind: GemmKind, group: ProcessGroup) -> None:
    """Compiles by measurement, again from the cache, and compares results with torch's."""
    workload = GemmWorkload(kind, *SHAPE, group.world_size)
    with tempfile.TemporaryDirectory() as folder:
        auto = make_auto(folder)
        first, again = (
            workload.compile(auto, target=syncopate.Target.current(), timeout=10.0)
            for _ in range(2)
        )
        dist.barrier()
    report = first.tuning
    assert report.origin is Origin.MEASUREMENT and len(report.measured) > 2, report
    assert again.tuning.origin is Origin.CACHE and again.strategy == first.strategy
    strategies = [None] * group.world_size
    dist.all_gather_object(strategies, (report.chosen, report.measured))
    assert all(other == strategies[0] for other in strategies)
    with first.load(group) as loaded:
        for seed in range(3):
            a = draw_input(workload, group.rank, seed, "cuda")
            out = loaded(a=a, b=draw_weight(workload, group.rank, seed, "cuda"))
            right = multiply(workload, group.rank, seed, "cuda")
            assert (out.float() - right).norm() < TOLERANCE * right.norm()
        loaded.synchronize()


def drop_broken(group: ProcessGroup) -> None:
    """A candidate that does not fit on the GPU is dropped by all, and one that another rank cannot compile."""
    workload = GemmWorkload("gemm_rs", *SHAPE, group.world_size)
    subject = GemmSubject(workload, syncopate.Target.current())
    default = subject.space.default
    large = Candidate(default.strategy, GemmConfig(num_stages=6))
    engine = default.having(realization="copy_engine")
    movers = ((default.value("realization"), default.value("direction")),)
    movers += ((engine.value("realization"), engine.value("direction")),)
    axes = (
        Axis(("realization", "direction"), movers),
        Axis((TILES,), ((large.config,),), modelled=False),
    )

    class Broken(GemmSubject):
        @property
        def space(self):
            return Space(default, axes)

        def compile(self, candidate):
            if candidate.strategy == engine.strategy and group.rank == 1:
                raise RuntimeError("this rank cannot")
            return super().compile(candidate)

    with tempfile.TemporaryDirectory() as folder:
        broken = Broken(workload, subject.target)
        report = choose(broken, make_auto(folder))
        dist.barrier()
    assert "shared memory" in report.failed[large.name], report
    measured = {one.candidate for one in report.measured}
    assert large not in measured and engine not in measured and default in measured


def tune_plan(group: ProcessGroup) -> None:
    """`syncopate.compile` by measurement: results are those of the default."""
    m, n, k = SHAPE
    plan = syncopate.Plan("ag_gemm", mesh=[group.world_size])
    a = plan.buffer("a", (m, k), "bf16", shard_axis=0)
    plan.all_gather(a, axis=0)
    arguments = bind_gemm(a, n, GemmConfig(block_n=128, num_warps=4))
    target = syncopate.Target.current()
    with tempfile.TemporaryDirectory() as folder:
        auto = make_auto(folder)
        program = syncopate.compile(
            gemm, plan, **arguments, strategy=auto, target=target, timeout=10.0
        )
        dist.barrier()
    assert program.tuning.origin is Origin.MEASUREMENT and len(program.tuning.measured) > 2
    assert not program.tuning.failed, program.tuning
    x = torch.randn(m // group.world_size, k, device="cuda").bfloat16()
    weight = torch.randn(n, k, device="cuda").bfloat16()
    whole = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)
    dist.all_gather_into_tensor(whole, x)
    with program.load(group) as loaded:
        out = loaded(a=x, b=weight)
        loaded.synchronize()
    right = whole.float() @ weight.float().T
    assert (out.float() - right).norm() < TOLERANCE * right.norm()


def tune_checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""
    for kind in GemmKind:
        yield f"tune {kind.value}", partial(tune_workload, kind)
    yield "tune and drop", drop_broken
    yield "tune plan", tune_plan
