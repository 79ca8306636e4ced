"""Checks of `syncopate.torch` with one process per GPU; `run_two_gpus.py --torch` starts them.

What single operators give is checked as on CPUs, by `torch_checks`, against products in float64.
"""

from __future__ import annotations

import contextlib
import copy
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.utils.checkpoint import checkpoint
from torch_attention_checks import Attended, check_attention_gradients
from torch_cases import (
    EVERY,
    Block,
    Setting,
    close,
    everywhere,
    expect_error,
    make_case,
    world_name,
)
from torch_checks import check_replicated_gradient, check_values_and_gradients
from two_gpus import expect_none

import syncopate.torch as st
from syncopate.runtime import ProcessGroup

BF16 = Setting(512, 1024, 768, torch.bfloat16, "cuda", 1e-2)
"""Rows of a rank, K and N."""

SETTINGS = {
    "bf16": BF16,
    "f16": Setting(256, 512, 512, torch.float16, "cuda", 1e-2),
    "tf32": Setting(256, 512, 256, torch.float32, "cuda", 3e-3),
    "ragged": Setting(520, 200, 264, torch.bfloat16, "cuda", 1e-2),
    "padded": Setting(264, 197, 264, torch.bfloat16, "cuda", 1e-2),
    "odd": Setting(101, 197, 53, torch.bfloat16, "cuda", 1e-2),
    "default strategy": Setting(512, 512, 512, torch.bfloat16, "cuda", 1e-2, None),
    "copy engines": Setting(512, 512, 512, torch.bfloat16, "cuda", 1e-2, "copy_engine/push/2"),
}


def values(name: str, more: bool, setting: Setting) -> None:
    """Values and gradients, three times, so that programs are used again."""
    precision = torch.get_float32_matmul_precision()
    if setting.dtype == torch.float32:
        torch.set_float32_matmul_precision("high")
    try:
        for _ in range(3):
            check_values_and_gradients(name, more, setting)
    finally:
        torch.set_float32_matmul_precision(precision)


def rows_that_change() -> None:
    """More numbers of rows than are kept, ranks held up at random, results kept and checked late."""
    draw, rank, world = random.Random(4), dist.get_rank(), dist.get_world_size()
    group, k, n = world_name(), 256, 256
    sizes = [8 * draw.randrange(1, 60) for _ in range(3 * st.programs.ROWS_KEPT)]
    weights = [random_matrix(n, k, seed) for seed in range(world)]
    kept = []
    for call in range(60):
        rows = draw.choice(sizes)
        each = [random_matrix(rows, k, 1000 * call + seed) for seed in range(world)]
        if draw.randrange(world) == rank:
            torch.cuda._sleep(200_000)
        _, (c,) = st.all_gather_matmul(each[rank], [weights[rank].t()], 0, group, return_A=False)
        kept.append((c, torch.cat(each).float() @ weights[rank].float().T))
        wide = [random_matrix(world * rows, k, 2000 * call + seed) for seed in range(world)]
        out = st.matmul_reduce_scatter(wide[rank], weights[rank].t(), "sum", 0, group)
        total = sum(a.float() @ b.float().T for a, b in zip(wide, weights, strict=True))
        kept.append((out, total.chunk(world)[rank]))
    expect_none([~((c.float() - right).norm() < 1e-2 * right.norm()) for c, right in kept], "calls")


def random_matrix(rows: int, columns: int, seed: int) -> torch.Tensor:
    """The same in every process."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, device="cuda").bfloat16()


def results_stay() -> None:
    """What calls have given is not written again by later ones."""
    for name in EVERY:
        case = make_case(name, more=True, setting=BF16)
        outs = case.call(*case.factors)
        first = [out.clone() for out in outs]
        for _ in range(5):
            case.call(*(torch.randn_like(x) for x in case.factors))
        torch.cuda.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(first, outs, strict=True)), name


def make_block(group: Any) -> tuple[Block, torch.Tensor]:
    """A block, and what it takes."""
    return Block(group, BF16), BF16.random(BF16.rows, BF16.k).requires_grad_()


def gradients(
    forward: Callable[[torch.Tensor], torch.Tensor], block: Block, x: torch.Tensor
) -> Any:
    """A result of the block, and gradients of its square."""
    out = forward(x)
    return out, *torch.autograd.grad(out.float().square().mean(), [x, block.up, block.down])


def compiled(mode: str | None, form: str) -> None:
    """torch.compile gives the values of eager calls, in one graph, also when it replays CUDA graphs."""
    torch._dynamo.reset()
    # So that programs are loaded while torch warms up.
    st.close_programs()
    group = {
        "name": world_name(),
        "group": dist.group.WORLD,
        "mesh": init_device_mesh("cuda", (dist.get_world_size(),)),
    }[form]
    block, x = make_block(group)
    right = gradients(block, block, x)
    forward = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        made = [each.clone() for each in gradients(forward, block, x)]
        for one, other in zip(made, right, strict=True):
            close(one, other, 1e-2)


def fused_graphs() -> None:
    """The pass makes operators of what torch's sequence parallelism leaves in graphs."""
    torch._dynamo.reset()
    block, x = make_block(world_name())

    def plain(x: torch.Tensor) -> torch.Tensor:
        whole = funcol.all_gather_tensor_autograd(x, 0, world_name())
        out = torch.relu(whole @ block.up.t()) @ block.down.t()
        return funcol.reduce_scatter_tensor_autograd(out, "sum", 0, world_name())

    fusion = st.CollectiveFusion()
    compiled = torch.compile(plain, options={"post_grad_custom_pre_pass": fusion})
    right = gradients(plain, block, x)
    for one, other in zip(gradients(compiled, block, x), right, strict=True):
        close(one, other, 1e-2)
    assert fusion.fused == 4, fusion.fused


def layers() -> None:
    """Styles of torch's parallelize_module, against whole layers in float64."""
    torch.manual_seed(12)
    whole = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Linear(1024, 512)).cuda()
    x, weight = (torch.randn(2, 256, 512, device="cuda") for _ in range(2))
    right = copy.deepcopy(whole).double()
    leaf = x.double().requires_grad_()
    expected = right(leaf)
    expected.backward(weight.double())

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    styles = {"0": st.ColwiseParallel(), "1": st.RowwiseParallel()}
    made = parallelize_module(whole.bfloat16(), mesh, styles)
    world, rank = dist.get_world_size(), dist.get_rank()
    mine = x.bfloat16().chunk(world, 1)[rank].contiguous().requires_grad_()
    out = made(mine)
    close(out, expected.chunk(world, 1)[rank], 1e-2)
    out.backward(weight.bfloat16().chunk(world, 1)[rank])
    close(mine.grad, leaf.grad.chunk(world, 1)[rank], 1e-2)
    for one, other in zip(made.parameters(), right.parameters(), strict=True):
        close(one.grad.full_tensor(), other.grad, 1e-2)


def recomputed() -> None:
    """Checkpointing gives the same gradients."""
    block, x = make_block(world_name())
    right = gradients(block, block, x)
    made = gradients(lambda x: checkpoint(block, x, use_reentrant=False), block, x)
    for one, other in zip(made, right, strict=True):
        close(one, other, 1e-2)


def autocast() -> None:
    """float32 factors are multiplied in bfloat16, and have gradients in float32."""
    block, x = make_block(world_name())
    right = gradients(block, block, x)
    block.float()
    x = x.detach().float().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        out = block(x)
    assert out.dtype == torch.bfloat16
    made = torch.autograd.grad(out.float().square().mean(), [x, block.up, block.down])
    assert {grad.dtype for grad in made} == {torch.float32}
    for one, other in zip(made, right[1:], strict=True):
        close(one, other, 1e-2)


def captured(replays: int = 10_000) -> None:
    """A CUDA graph of forward and backward: many replays with changing factors, all checked; eager calls between."""
    block, x = make_block(world_name())
    inputs = [torch.randn_like(x) for _ in range(4)]
    expected = []
    # Gradients that were made on the default stream would bind later ones to it, which a capture forbids.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for each in inputs:
            with torch.no_grad():
                x.copy_(each)
            expected.append([out.clone() for out in gradients(block, block, x)])
    torch.cuda.current_stream().wait_stream(side)
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = gradients(block, block, x)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")

    def look(made: Any, right: Any) -> None:
        for out, expected_out in zip(made, right, strict=True):
            error = (out.float() - expected_out.float()).norm()
            wrong.add_(~(error < 1e-2 * expected_out.float().norm()))

    for replay in range(replays):
        number = replay % len(inputs)
        with torch.no_grad():
            x.copy_(inputs[number])
            if replay < 300 and replay % dist.get_world_size() == dist.get_rank():
                torch.cuda._sleep(100_000)
            graph.replay()
            look(outputs, expected[number])
            # So that a replay that writes nothing is seen.
            for out in outputs:
                out.fill_(float("nan"))
        if replay % 1000 == 999:
            eager = gradients(block, block, x)
            with torch.no_grad():
                look(eager, expected[number])
    expect_none([wrong], f"results of {replays} replays")
    del graph
    dist.barrier()
    st.close_programs()


def first_call_in_a_capture() -> None:
    """It is refused, and an eager call goes on."""
    a, b = BF16.random(64, 320), BF16.random(320, 64)
    stream = torch.cuda.Stream()
    with contextlib.suppress(RuntimeError):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
            expect_error(
                lambda: st.matmul_all_reduce(a, b, "sum", world_name()),
                "expects one call before a CUDA graph is captured",
            )
    right = sum(x.double() @ y.double() for x, y in zip(everywhere(a), everywhere(b), strict=True))
    close(st.matmul_all_reduce(a, b, "sum", world_name()), right, 1e-2)


def disagreement() -> None:
    """Ranks that pass other shapes are told so before anything runs."""
    rank = dist.get_rank()
    a, b = BF16.random(64 + 64 * rank, 448), BF16.random(448, 64)
    expect_error(
        lambda: st.all_gather_matmul(a, [b], 0, world_name()),
        f"rank 1 calls with m {128 * dist.get_world_size()}, but rank 0 with m {64 * dist.get_world_size()}",
    )
    whole, _ = st.all_gather_matmul(a[:64], [b], 0, world_name())
    assert torch.equal(whole, torch.cat(everywhere(a[:64].contiguous())))


def refused() -> None:
    """What kernels do not multiply, and where."""
    x = torch.randn(64, 64, device="cuda")
    for factor, text in (
        (x, "float32 is multiplied in TF32"),
        (x.double(), "A: expects one of torch.bfloat16"),
        (x.cpu(), "expects tensors on a GPU"),
    ):
        expect_error(lambda: st.matmul_all_reduce(factor, factor, "sum", world_name()), text)  # noqa: B023


def host_time() -> None:
    """Prints what a call takes on the host, beside that of the program under it."""
    case = make_case("all_gather_matmul", setting=BF16)
    a, b = (x.detach() for x in case.factors)
    group = world_name()
    for title, call in (
        ("function", lambda: st.all_gather_matmul(a, [b], 0, group, return_A=False)),
        (
            "operator",
            lambda: torch.ops.syncopate.all_gather_matmul(a, [b], group, False, "auto"),
        ),
        ("program", lambda: st.calls.run(st.fused.GemmKind.AG_GEMM, a, b, group, "auto")),
    ):
        times = []
        for _ in range(200):
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - start)
        if dist.get_rank() == 0:
            print(f"    {title}: {sorted(times)[100] / 1e3:.1f} us of host time", flush=True)


def attended(causal: bool, zigzag: bool) -> None:
    """Attention and its gradients, three times, so that programs are used again."""
    case = Attended(770, (8, 2), 128, Setting(dtype=torch.bfloat16, device="cuda", tolerance=2e-2))
    for _ in range(3):
        check_attention_gradients(case, causal, zigzag, of_lse=causal)
        if not zigzag:
            check_attention_gradients(case, causal, False, shares_heads=True)


def torch_checks() -> Iterator[tuple[str, Callable[[ProcessGroup], None]]]:
    """Every check with its name."""

    def bind(check: Callable[..., None], *args: Any) -> Callable[[ProcessGroup], None]:
        def run(group: ProcessGroup) -> None:
            torch.manual_seed(7 + dist.get_rank())
            check(*args)

        return run

    for title, setting in SETTINGS.items():
        for name in EVERY:
            for more in (False, True):
                if (name, more) != ("matmul_all_to_all", True):
                    form = "more" if more else "plain"
                    yield f"torch {title} {name} {form}", bind(values, name, more, setting)
    for causal, zigzag in ((False, False), (True, False), (True, True)):
        form = f"{'causal ' if causal else ''}{'zig-zag' if zigzag else 'contiguous'}"
        yield f"torch attention {form}", bind(attended, causal, zigzag)
    for form in ("name", "group", "mesh"):
        yield f"torch compile by {form}", bind(compiled, None, form)
    yield "torch compile reduce-overhead", bind(compiled, "reduce-overhead", "name")
    for check in (
        rows_that_change,
        results_stay,
        partial(check_replicated_gradient, BF16),
        fused_graphs,
        layers,
        recomputed,
        autocast,
        captured,
        first_call_in_a_capture,
        disagreement,
        refused,
        host_time,
    ):
        function = getattr(check, "func", check)
        yield f"torch {function.__name__.replace('_', ' ')}", bind(check)
