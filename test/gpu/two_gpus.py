"""Checks of the runtime with one process per GPU; `run_two_gpus.py` starts them.

Each check takes the group and returns nothing or raises; every rank runs the same checks in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from gather import CASES, gather_program

from syncopate.errors import DeviceWaitTimeout
from syncopate.runtime import ProcessGroup, load
from syncopate.runtime.interface import ProgramData, Realization

SHAPES = [(4096, 1024), (509, 250)]
CTAS = 132


def make(
    group: ProcessGroup, algorithm: str, realization: Realization, shape, **options
) -> ProgramData:
    """The gather program for this group."""
    return gather_program(
        group.world_size,
        algorithm,
        realization,
        shape,
        num_ctas=options.pop("num_ctas", CTAS),
        **options,
    )


def matrix(shape, seed: int) -> torch.Tensor:
    """The same random matrix on every rank."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").bfloat16()


def shard(program: ProgramData, whole: torch.Tensor, rank: int) -> torch.Tensor:
    """This rank's rows."""
    region = program.buffers[0].inputs[rank][0]
    return whole[region.offsets[0] : region.offsets[0] + region.sizes[0]].clone()


def poisoned(shape) -> torch.Tensor:
    """An output that no correct result equals."""
    return torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda")


def expect(condition: bool, what: object) -> None:
    """Fails the check, on every rank if on any: the ranks have to go on together."""
    bad = torch.tensor([0 if condition else 1], device="cuda")
    dist.all_reduce(bad)
    if bad.item():
        raise AssertionError(f"{what} ({'here' if not condition else 'on another rank'})")


def many_calls(group: ProcessGroup, algorithm: str, realization: Realization, shape) -> None:
    """400 calls with fresh data, one rank held up at random, checked in batches."""
    program = make(group, algorithm, realization, shape)
    with load(program, group) as loaded:
        for batch in range(20):
            kept = []
            for call in range(20):
                whole, out = matrix(shape, 100 * batch + call), poisoned(shape)
                mine = shard(program, whole, group.rank)
                if call % group.world_size == group.rank:
                    torch.cuda._sleep(50_000 * (call % 5))
                loaded(a=mine, out=out)
                kept.append((whole, out))
            loaded.synchronize()
            expect(all(torch.equal(out, whole) for whole, out in kept), f"batch {batch}")


def zero_copy(group: ProcessGroup, algorithm: str, realization: Realization, shape) -> None:
    """200 calls whose input is written into the symmetric buffer."""
    program = make(group, algorithm, realization, shape)
    with load(program, group) as loaded:
        kept = []
        for call in range(200):
            whole, out = matrix(shape, call), poisoned(shape)
            loaded.acquire()
            loaded.input("a").copy_(shard(program, whole, group.rank))
            loaded(out=out)
            kept.append(torch.equal(out, whole))
        loaded.synchronize()
        expect(all(kept), f"calls {[i for i, ok in enumerate(kept) if not ok][:5]}")


def graph(group: ProcessGroup, algorithm: str, realization: Realization, shape) -> None:
    """One capture, 1000 replays with changing inputs, then ordinary calls."""
    program = make(group, algorithm, realization, shape)
    with load(program, group) as loaded:
        mine, out = shard(program, matrix(shape, 0), group.rank), poisoned(shape)
        loaded(a=mine, out=out)
        loaded.synchronize()
        group.barrier()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            loaded(a=mine, out=out)
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for replay in range(1000):
            whole = matrix(shape, replay)
            mine.copy_(shard(program, whole, group.rank))
            out.fill_(float("nan"))
            captured.replay()
            wrong += (out != whole).any()
        loaded.synchronize()
        expect(wrong.item() == 0, f"{wrong.item()} replays of 1000")
        whole = matrix(shape, 5000)
        result = loaded(a=shard(program, whole, group.rank))
        loaded.synchronize()
        expect(torch.equal(result, whole), "call after replays")


def two_programs(group: ProcessGroup) -> None:
    """Two programs take turns on one stream and run side by side on two."""
    shape = SHAPES[1]
    first = make(group, "push", Realization.LDST_COLOCATED, shape, num_ctas=60)
    second = make(group, "pull", Realization.COPY_ENGINE, shape, num_ctas=60)
    side = torch.cuda.Stream()
    with load(first, group) as one, load(second, group) as two:
        good = True
        for call in range(100):
            a, b = matrix(shape, call), matrix(shape, 1000 + call)
            mine, out_two = shard(second, b, group.rank), poisoned(shape)
            side.wait_stream(torch.cuda.current_stream())
            out_one = one(a=shard(first, a, group.rank))
            with torch.cuda.stream(side if call % 2 else torch.cuda.current_stream()):
                two(a=mine, out=out_two)
            torch.cuda.current_stream().wait_stream(side)
            good = good and torch.equal(out_one, a) and torch.equal(out_two, b)
        expect(good, "an output")


def missing_rank(group: ProcessGroup, algorithm: str, realization: Realization) -> None:
    """The last rank makes no call: the others get an error in time, and even a device-wide wait returns."""
    shape = SHAPES[1]
    program = make(group, algorithm, realization, shape, timeout_ns=500_000_000)
    loaded = load(program, group)
    caught = None
    if group.rank != group.world_size - 1:
        loaded(a=shard(program, matrix(shape, 0), group.rank))
        torch.cuda.synchronize()
        try:
            loaded.synchronize()
        except DeviceWaitTimeout as error:
            caught = error
            print(f"    rank {group.rank}: {error}", flush=True)
    good = caught is not None or group.rank == group.world_size - 1
    expect(good, "no DeviceWaitTimeout")
    loaded.close()
    group.barrier()


def checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""

    def bind(check: Callable[..., None], *args: object) -> Callable[[ProcessGroup], None]:
        return lambda group: check(group, *args)

    for algorithm, realization in CASES:
        case = f"{algorithm}-{realization.name.lower()}"
        for shape in SHAPES:
            yield f"many_calls {case} {shape}", bind(many_calls, algorithm, realization, shape)
        yield f"zero_copy {case}", bind(zero_copy, algorithm, realization, SHAPES[1])
        yield f"graph {case}", bind(graph, algorithm, realization, SHAPES[1])
    yield "two_programs", two_programs
    for algorithm, realization in CASES:
        yield (
            f"missing_rank {algorithm}-{realization.name.lower()}",
            bind(missing_rank, algorithm, realization),
        )
