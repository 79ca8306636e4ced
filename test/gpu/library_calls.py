"""GEMMs whose results library calls bring together, and checks of them with one process per GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import triton
from triton.tools.tensor_descriptor import TensorDescriptor
from workloads import random_matrix

import syncopate
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig, add_activate, add_rms_norm, bind_gemm, gemm
from syncopate.plan.templates import all_reduce_tiles, all_to_all_tiles, reduce_scatter_tiles
from syncopate.runtime import ProcessGroup, load

KINDS = ("all_reduce", "reduce_scatter", "all_to_all")
EPSILON = 1e-5


@dataclass(frozen=True)
class Calls:
    """A GEMM of one collective, M by N by K on each rank."""

    kind: str
    shape: tuple[int, int, int]
    world: int
    program: syncopate.Program

    def inputs(self, seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """A and B of all ranks."""
        m, n, k = self.shape
        a = [random_matrix((m, k), 1000 * seed + rank) for rank in range(self.world)]
        b = [random_matrix((n, k), 1000 * seed + 500 + rank) for rank in range(self.world)]
        return a, b

    def expected(self, a: list[torch.Tensor], b: list[torch.Tensor], rank: int) -> torch.Tensor:
        """What a rank gets, in float32."""
        rows = -(-self.shape[0] // self.world)
        mine = slice(rank * rows, (rank + 1) * rows)
        if self.kind == "all_to_all":
            pairs = zip(a, b, strict=True)
            return torch.cat([x[mine].float() @ y.float().T for x, y in pairs])
        total = sum(x.float() @ y.float().T for x, y in zip(a, b, strict=True))
        return total if self.kind == "all_reduce" else total[mine]


def build(
    kind: str,
    world: int,
    shape: tuple[int, int, int],
    ctas: int,
    *,
    waves: tuple[int, ...] = (),
    slots: str = "rows",
    block_n: int = 128,
    timeout: float = 20.0,
) -> Calls:
    """Compiles one."""
    m, n, k = shape
    strategy = syncopate.Strategy(realization="nccl", waves=waves, slots=slots)
    plan = syncopate.Plan(kind, [world])
    c = plan.buffer("c", (m, n), "bf16")
    if kind == "all_reduce":
        all_reduce_tiles(plan, c, strategy)
    elif kind == "reduce_scatter":
        reduce_scatter_tiles(plan, c, strategy)
    else:
        all_to_all_tiles(plan, c, plan.buffer("received", (m, n), "bf16"))
    config = GemmConfig(block_n=block_n, num_ctas=ctas)
    bind = bind_gemm(syncopate.Tensor("a", (m, k), "bf16"), n, config, c=c)
    program = syncopate.compile(gemm, plan, **bind, strategy=strategy, timeout=timeout)
    return Calls(kind, shape, world, program)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The norm of the difference; a NaN stays one."""
    return (found.float() - expected).norm() / expected.norm()


# Checks with one process per GPU.

Make = Callable[[ProcessGroup], Calls]


def expect_small(errors: list[torch.Tensor], what: str) -> None:
    """Fails on every rank if an error is large on any."""
    bad = (~(torch.stack(errors) < 1e-2)).sum().reshape(1)
    dist.all_reduce(bad)
    if bad.item():
        raise AssertionError(
            f"{what}: {bad.item()} of {len(errors)} wrong, here up to {max(errors)}"
        )


def many_calls(group: ProcessGroup, make: Make) -> None:
    """Calls with fresh data, one rank held up at random."""
    work, rank = make(group), group.rank
    with load(work.program, group) as loaded:
        errors = []
        for call in range(60):
            a, b = work.inputs(call)
            if call % group.world_size == rank:
                torch.cuda._sleep(50_000 * (call % 5))
            errors.append(relative_error(loaded(a=a[rank], b=b[rank]), work.expected(a, b, rank)))
        loaded.synchronize()
        expect_small(errors, "calls")


def back_to_back(group: ProcessGroup, make: Make) -> None:
    """Calls behind one another, without anything in between that would bring ranks together."""
    work, rank = make(group), group.rank
    a, b = work.inputs(1)
    other, _ = work.inputs(2)
    with load(work.program, group) as loaded:
        for _ in range(300):
            loaded(a=other[rank], b=b[rank])
        error = relative_error(loaded(a=a[rank], b=b[rank]), work.expected(a, b, rank))
        loaded.synchronize()
        expect_small([error], "the last call")


def graph(group: ProcessGroup, make: Make) -> None:
    """One capture, replays with changing inputs, then an ordinary call."""
    work, rank = make(group), group.rank
    with load(work.program, group) as loaded:
        a, b = work.inputs(0)
        mine, weight = a[rank].clone(), b[rank].clone()
        loaded(a=mine, b=weight)
        loaded.synchronize()
        group.barrier()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):
            out = loaded(a=mine, b=weight)
        errors = []
        for replay in range(201):
            a, b = work.inputs(replay)
            mine.copy_(a[rank])
            weight.copy_(b[rank])
            out.fill_(float("nan"))
            if replay < 200:
                captured.replay()
            else:
                loaded(a=mine, b=weight)
            errors.append(relative_error(out, work.expected(a, b, rank)))
        loaded.synchronize()
        expect_small(errors, "replays")


def read_slots(group: ProcessGroup, make: Make) -> None:
    """What comes next reads the slots: bias, activation and residual; residual and RMSNorm."""
    work, rank = make(group), group.rank
    name = "received" if work.kind == "all_to_all" else "c"
    spec = next(buffer for buffer in work.program.buffers if buffer.name == name)
    columns = spec.slots.tile[1]
    with load(work.program, group, remap=False) as loaded:
        rows = loaded.slots(name)
        errors = []
        for call in range(20):
            a, b = work.inputs(call)
            expected = work.expected(a, b, rank)
            m, n = expected.shape
            bias, weight = random_matrix((2, n), call)
            residual = random_matrix((m, n), 77 + call)
            slots = loaded(a=a[rank], b=b[rank])
            y, total, normed = (torch.empty_like(residual) for _ in range(3))
            grid = (triton.cdiv(m, 16), triton.cdiv(n, 128))
            add_activate[grid](
                slots, rows, bias, residual, y, m, n,
                ACTIVATION="relu", SLOT_N=columns, BLOCK_M=16, BLOCK_N=128,
            )  # fmt: skip
            errors.append(relative_error(y, (expected + bias.float()).relu() + residual.float()))
            width = triton.next_power_of_2(n)
            add_rms_norm[(64,)](
                slots, residual, weight, total, TensorDescriptor.from_tensor(normed, [1, width]), m, n,
                EPSILON=EPSILON, BLOCK_M=1, BLOCK_N=width, NUM_SMS=64, x_rows_ptr=rows, SLOT_N=columns,
            )  # fmt: skip
            added = expected + residual.float()
            scale = torch.rsqrt(added.square().mean(1, keepdim=True) + EPSILON)
            errors.append(relative_error(total, added))
            errors.append(relative_error(normed, added * scale * weight.float()))
        loaded.synchronize()
        expect_small(errors, "outputs")


def absent_rank(group: ProcessGroup, make: Make, late: bool) -> None:
    """The last rank makes its call late, or not at all: every rank that calls gets an error, and can go on after it."""
    work, rank = make(group), group.rank
    limit = work.program.timeout_ns / 1e9
    loaded = load(work.program, group)
    absent = rank == group.world_size - 1
    a, b = work.inputs(1)
    found: str | None = None
    if absent:
        time.sleep(4 * limit)
    if late or not absent:
        loaded(a=a[rank], b=b[rank])
        try:
            loaded.synchronize()
        except SyncopateError as error:
            found = type(error).__name__
            print(f"    rank {rank}: {error}", flush=True)
    loaded.close()
    group.barrier()
    wanted = "DeviceWaitTimeout" if not absent else "PeerFault" if late else None
    with load(work.program, group) as again:
        error = relative_error(again(a=a[rank], b=b[rank]), work.expected(a, b, rank))
        again.synchronize()
    expect_small([error, torch.full_like(error, float(found != wanted))], f"{found}, {wanted}")


def call_checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""

    def recipe(kind: str, shape: tuple[int, int, int], **options: Any) -> Make:
        def make(group: ProcessGroup) -> Calls:
            ctas = group.sms_per_rank(0) - options.get("spare", 8)
            given = {name: value for name, value in options.items() if name != "spare"}
            return build(kind, group.world_size, shape, ctas, **given)

        return make

    large = (2048, 1536, 512)
    for kind in KINDS:
        odd = (640, 648, 136) if kind == "all_to_all" else (717, 648, 136)
        for slots in ("rows", "tiles"):
            for shape, waves in ((large, ()), (large, (1,)), (odd, (1, 2))):
                make = recipe(kind, shape, waves=waves, slots=slots)
                name = f"nccl {kind} {slots} {shape} waves {waves} many calls"
                yield name, partial(many_calls, make=make)
            make = recipe(kind, large, waves=(1,), slots=slots)
            yield f"nccl {kind} {slots} back to back", partial(back_to_back, make=make)
            yield f"nccl {kind} {slots} graph", partial(graph, make=make)
            make = recipe(kind, odd, slots=slots)
            if kind != "all_to_all" or slots == "tiles":
                yield f"nccl {kind} {slots} read slots", partial(read_slots, make=make)
        # No multiprocessor is left, so calls start when the last tiles are done.
        make = recipe(kind, large, spare=0)
        yield f"nccl {kind} on all SMs many calls", partial(many_calls, make=make)
        make = recipe(kind, large, timeout=0.5)
        yield f"nccl {kind} late rank", partial(absent_rank, make=make, late=True)
        yield f"nccl {kind} missing rank", partial(absent_rank, make=make, late=False)
