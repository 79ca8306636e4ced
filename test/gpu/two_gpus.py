"""Checks with one process per GPU; `run_two_gpus.py` starts them.

Each check takes the group and returns nothing or raises; every rank runs the same checks in the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from profiled import STEP_US, check_profile, profiled_program
from workloads import (
    GATHER_CASES,
    GATHER_SHAPES,
    GEMM_CASES,
    GEMM_SIZES,
    MIXED_CASES,
    Workload,
    gather_workload,
    gemm_sizes,
    gemm_workload,
    mixed_workload,
    random_matrix,
)

from syncopate.abi import Realization
from syncopate.errors import DeviceWaitTimeout
from syncopate.runtime import ProcessGroup, load

Make = Callable[[ProcessGroup], Workload]
LARGE = (4096, 1024)
ODD = GATHER_SHAPES[1]


def gather(
    algorithm: str,
    realization: Realization,
    shape: tuple[int, int],
    num_ctas: int = 0,
    **options: Any,
) -> Make:
    """A recipe for a gather that fills the GPU."""
    return lambda group: gather_workload(
        group.world_size,
        algorithm,
        realization,
        shape,
        num_ctas or group.sms_per_rank(0),
        **options,
    )


def gemm(algorithm: str, realization: str, splits: int, size: tuple[int, int, int]) -> Make:
    """A recipe for a GEMM that fills the GPU."""
    return lambda group: gemm_workload(
        group.world_size, algorithm, realization, size, group.sms_per_rank(0), splits=splits
    )


def mixed(algorithm: str, mix: tuple[str, ...]) -> Make:
    """A recipe for a GEMM whose transfers have several realizations."""
    return lambda group: mixed_workload(
        group.world_size, algorithm, mix, gemm_sizes(*mix)[-1], group.sms_per_rank(0)
    )


def expect_none(wrong: list[torch.Tensor], what: str) -> None:
    """Fails the check if any is true, on every rank if on any: the ranks have to go on together."""
    bad = torch.stack(wrong).sum().reshape(1)
    mine = int(bad.item())
    dist.all_reduce(bad)
    if bad.item():
        raise AssertionError(
            f"{what}: {mine} of {len(wrong)} wrong here, {int(bad.item())} on all ranks"
        )


def many_calls(group: ProcessGroup, make: Make) -> None:
    """400 calls with fresh data, one rank held up at random, checked in batches."""
    work, rank = make(group), group.rank
    with load(work.program, group) as loaded:
        for batch in range(20):
            kept = []
            for call in range(20):
                whole, out = work.random(100 * batch + call), work.poisoned()
                mine = work.shard(whole, rank)
                if call % group.world_size == rank:
                    torch.cuda._sleep(50_000 * (call % 5))
                loaded(a=mine, **work.tensors(rank), **{work.output: out})
                kept.append((whole, out))
            loaded.synchronize()
            expect_none([work.wrong(out, whole, rank) for whole, out in kept], f"batch {batch}")


def zero_copy(group: ProcessGroup, make: Make) -> None:
    """200 calls whose input is written into the symmetric buffer."""
    work, rank = make(group), group.rank
    with load(work.program, group) as loaded:
        wrong = []
        for call in range(200):
            whole, out = work.random(call), work.poisoned()
            loaded.acquire()
            loaded.input("a").copy_(work.shard(whole, rank))
            loaded(**work.tensors(rank), **{work.output: out})
            wrong.append(work.wrong(out, whole, rank))
        loaded.synchronize()
        expect_none(wrong, "calls")


def graph(group: ProcessGroup, make: Make) -> None:
    """One capture, 1000 replays with changing inputs, then an ordinary call."""
    work, rank = make(group), group.rank
    with load(work.program, group) as loaded:
        mine, out = work.shard(work.random(0), rank), work.poisoned()
        passed = {"a": mine, **work.tensors(rank), work.output: out}
        loaded(**passed)
        loaded.synchronize()
        group.barrier()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            loaded(**passed)
        wrong = []
        for replay in range(1001):
            whole = work.random(replay)
            mine.copy_(work.shard(whole, rank))
            out.fill_(float("nan"))
            if replay < 1000:
                captured.replay()
            else:
                loaded(**passed)
            wrong.append(work.wrong(out, whole, rank))
            if replay % 50 == 0:
                loaded.synchronize()
        loaded.synchronize()
        expect_none(wrong, "replays")


def two_programs(group: ProcessGroup) -> None:
    """Two programs take turns on one stream and run side by side on two."""
    first, second = (
        gather("push", Realization.LDST_COLOCATED, ODD, num_ctas=60)(group),
        gather("pull", Realization.COPY_ENGINE, ODD, num_ctas=60)(group),
    )
    side, wrong, rank = torch.cuda.Stream(), [], group.rank
    with load(first.program, group) as one, load(second.program, group) as two:
        for call in range(100):
            a, b = first.random(call), second.random(1000 + call)
            mine, out_two = second.shard(b, rank), second.poisoned()
            side.wait_stream(torch.cuda.current_stream())
            out_one = one(a=first.shard(a, rank))
            with torch.cuda.stream(side if call % 2 else torch.cuda.current_stream()):
                two(a=mine, out=out_two)
            torch.cuda.current_stream().wait_stream(side)
            wrong += [first.wrong(out_one, a, rank), second.wrong(out_two, b, rank)]
        one.synchronize()
        expect_none(wrong, "outputs")


def missing_rank(group: ProcessGroup, make: Make) -> None:
    """The last rank makes no call: the others get an error in time, and even a device-wide wait returns."""
    work, rank = make(group), group.rank
    loaded = load(work.program, group)
    timed_out = rank == group.world_size - 1
    if not timed_out:
        loaded(a=work.shard(work.random(0), rank), **work.tensors(rank))
        torch.cuda.synchronize()
        try:
            loaded.synchronize()
        except DeviceWaitTimeout as error:
            timed_out = True
            print(f"    rank {rank}: {error}", flush=True)
    expect_none([torch.tensor(not timed_out, device="cuda")], "DeviceWaitTimeout")
    loaded.close()
    group.barrier()


def profile(group: ProcessGroup, kind: str, realization: str) -> None:
    """A profile of a call: clocks of GPUs of their own go together as well as the call itself can say."""
    world, rank = group.world_size, group.rank
    program = profiled_program(kind, realization, world, group.sms_per_rank(0) - 4)
    rows = 2048 // world if kind == "ag_gemm" else 2048
    given = {"a": random_matrix((rows, 512), rank), "b": random_matrix((1024, 512), 100 + rank)}
    with load(program, group) as loaded:
        for _ in range(3):
            loaded(**given)
        made = loaded.profile(**given)
        bounds = [offset.within_ns / 1e3 for offset in made.clocks.offsets]
        print(f"    rank {rank}: {made.run.clock}", flush=True)
        # Without bounds nothing is known of the order of what two GPUs do.
        check_profile(program, made, within_us=STEP_US + max(bounds))


def checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""

    def bind(
        check: Callable[[ProcessGroup, Make], None], make: Make
    ) -> Callable[[ProcessGroup], None]:
        return lambda group: check(group, make)

    for algorithm, realization in GATHER_CASES:
        case = f"{algorithm} {realization.name.lower()}"
        for shape in (LARGE, ODD):
            yield (
                f"gather {case} {shape} many calls",
                bind(many_calls, gather(algorithm, realization, shape)),
            )
        yield f"gather {case} zero-copy", bind(zero_copy, gather(algorithm, realization, ODD))
        yield f"gather {case} graph", bind(graph, gather(algorithm, realization, ODD))
    yield "gather two programs", two_programs
    for kind, realization in (("ag_gemm", "ldst_colocated"), ("gemm_rs", "tma_dedicated")):
        yield (
            f"profile {kind} {realization}",
            functools.partial(profile, kind=kind, realization=realization),
        )
    for algorithm, realization in GATHER_CASES:
        make = gather(algorithm, realization, ODD, timeout_ns=500_000_000)
        yield (
            f"gather {algorithm} {realization.name.lower()} missing rank",
            bind(missing_rank, make),
        )
    for algorithm, name, splits in GEMM_CASES:
        for size in gemm_sizes(name):
            yield (
                f"gemm {algorithm} {name} {splits} {size} many calls",
                bind(many_calls, gemm(algorithm, name, splits, size)),
            )
        yield (
            f"gemm {algorithm} {name} {splits} graph",
            bind(graph, gemm(algorithm, name, splits, GEMM_SIZES[1])),
        )
    for algorithm, mix in MIXED_CASES:
        words = "+".join(mix)
        yield f"mixed {algorithm} {words} many calls", bind(many_calls, mixed(algorithm, mix))
        yield f"mixed {algorithm} {words} graph", bind(graph, mixed(algorithm, mix))
