"""What `test_torch_operators.py` checks on two processes; each function is one check."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.checkpoint import checkpoint
from torch_attention_checks import attention_cases
from torch_cases import (
    CPU,
    EVERY,
    OPERATORS,
    ROWS,
    Block,
    K,
    N,
    Setting,
    close,
    everywhere,
    expect_error,
    make_case,
    world_name,
)

import syncopate.torch as st
from syncopate.agreement import Processes, expect_same
from syncopate.kernels import GemmConfig
from syncopate.torch import fused, programs, reference
from syncopate.workloads import GemmKind


def check_values_and_gradients(name: str, more: bool, setting: Setting = CPU) -> None:
    """Against autograd through products of all ranks' factors, for random gradients of all results."""
    case, rank = make_case(name, more=more, setting=setting), dist.get_rank()
    mine = [x.requires_grad_() for x in case.factors]
    outputs = case.call(*mine)
    cotangents = [torch.randn_like(out) for out in outputs]
    made = torch.autograd.grad(outputs, mine, cotangents)

    every = list(zip(*(everywhere(x) for x in mine), strict=True))
    leaves = [[x.double().requires_grad_() for x in factors] for factors in every]
    weights = list(zip(*(everywhere(x) for x in cotangents), strict=True))
    results = case.expect(leaves)
    for out, right in zip(outputs, results[rank], strict=True):
        close(out, right, setting.tolerance)
    loss = sum(
        (out * weight).sum()
        for outs, ws in zip(results, weights, strict=True)
        for out, weight in zip(outs, ws, strict=True)
    )
    flat = [x for factors in leaves for x in factors]
    rights = torch.autograd.grad(loss, flat)[rank * len(mine) : (rank + 1) * len(mine)]
    for grad, right, factor in zip(made, rights, mine, strict=True):
        close(grad, right, setting.tolerance)
        assert grad.dtype == factor.dtype
        if factor.t().is_contiguous():
            assert grad.stride() == factor.stride()


def check_direction(name: str, more: bool) -> None:
    """Gradients against differences of the sum of all ranks' losses, all factors moved at once."""
    case = make_case(name, more=more)
    mine = [x.requires_grad_() for x in case.factors]
    outputs = case.call(*mine)
    cotangents = [torch.randn_like(out) for out in outputs]
    grads = torch.autograd.grad(outputs, mine, cotangents)
    moves = [torch.randn_like(x) for x in mine]

    def loss(step: float) -> torch.Tensor:
        with torch.no_grad():
            outs = case.call(*(x + step * move for x, move in zip(mine, moves, strict=True)))
            made = sum((out * w).sum() for out, w in zip(outs, cotangents, strict=True))
        dist.all_reduce(made)
        return made

    step = 1e-4
    slope = (loss(step) - loss(-step)) / (2 * step)
    along = sum((grad * move).sum() for grad, move in zip(grads, moves, strict=True))
    dist.all_reduce(along)
    close(along, slope, 1e-8)


def check_some_gradients(name: str) -> None:
    """Each factor alone has the gradient that it has beside the other."""
    case = make_case(name)
    both = [x.clone().requires_grad_() for x in case.factors]
    (out,) = case.call(*both)
    weight = torch.randn_like(out)
    expected = torch.autograd.grad(out, both, weight)
    for number in range(2):
        factors = list(case.factors)
        factors[number] = factors[number].clone().requires_grad_()
        (out,) = case.call(*factors)
        (grad,) = torch.autograd.grad(out, [factors[number]], weight)
        assert torch.equal(grad, expected[number])


def check_replicated_gradient(setting: Setting = CPU) -> None:
    """What follows an all-reduce alike on all ranks gives each factor the gradient of the loss that all have."""
    torch.manual_seed(77)
    weight = setting.random(2 * setting.rows, setting.n)
    torch.manual_seed(5 + dist.get_rank())
    a = setting.random(2 * setting.rows, setting.k).requires_grad_()
    b = setting.random(setting.k, setting.n).requires_grad_()
    out = st.matmul_all_reduce(a, b, "sum", world_name())
    made = torch.autograd.grad(out, [a, b], weight)
    for grad, right in zip(made, torch.autograd.grad(a @ b, [a, b], weight), strict=True):
        close(grad, right, setting.tolerance)


def check_unused_results() -> None:
    """Results without a gradient take none."""
    case = make_case("all_gather_matmul", more=True)
    mine = [x.requires_grad_() for x in case.factors]
    outputs = case.call(*mine)
    assert len(outputs) == 4
    grads = torch.autograd.grad(outputs[1].sum(), mine, allow_unused=True)
    assert [grad is None for grad in grads] == [False, True, False, True]
    every = [torch.cat(everywhere(x)) for x in mine[:1]]
    close(grads[2], every[0].t() @ torch.ones_like(outputs[1]))
    (only,) = torch.autograd.grad(case.call(*mine)[3].sum(), mine[:1])
    close(only, torch.full_like(only, 2.0))


def check_opcheck(name: str) -> None:
    """Schema, fake tensors and registration of gradients, static and dynamic, as torch wants them."""
    torch.manual_seed(3)
    group, dtype = world_name(), torch.float64
    rows = 2 * ROWS
    a = torch.randn(rows, K, dtype=dtype, requires_grad=True)
    b = torch.randn(N, K, dtype=dtype).t().detach().requires_grad_()
    c = torch.randn(K, N, dtype=dtype, requires_grad=True)
    calls = {
        "all_gather_matmul": [(a, [b, c], group, True, ""), (a, [b], group, False, "auto")],
        "matmul_reduce_scatter": [(a, b, "sum", group, ""), (a, c, "avg", group, "")],
        "matmul_all_reduce": [(a, b, "sum", group, True, ""), (a, c, "avg", group, False, "")],
        "all_to_all_matmul": [(a, b, group, True, ""), (a, c, group, False, "")],
        "matmul_all_to_all": [(a, b, group, ""), (a, c, group, "")],
    }
    for args in calls[name]:
        torch.library.opcheck(getattr(OPERATORS, name).default, args)


def check_collectives() -> None:
    """Those that gradients use are as torch wants operators, and each has the gradient that its meaning has."""
    a, group = torch.randn(2 * ROWS, K, dtype=torch.float64, requires_grad=True), world_name()
    names = ("gather", "reduce_scatter", "all_reduce", "exchange")
    for operator in (getattr(OPERATORS, name).default for name in names):
        torch.library.opcheck(operator, (a, group))
        out = operator(a, group)
        weight, move = torch.randn_like(out), torch.randn_like(a)
        (grad,) = torch.autograd.grad(out, a, weight)
        # They are linear: what they make of a change, against what the gradient says.
        sums = torch.stack([(operator(move, group) * weight).sum(), (grad * move).sum()])
        dist.all_reduce(sums)
        close(sums[0], sums[1])


def check_compile(name: str, form: str) -> None:
    """One graph without a break, whatever the group is given as; the same values and gradients."""
    group = {
        "name": world_name(),
        "group": dist.group.WORLD,
        "mesh": init_device_mesh("cpu", (dist.get_world_size(),)),
    }[form]
    case = make_case(name, group=group)
    mine = [x.requires_grad_() for x in case.factors]

    def block(*factors):
        (out,) = case.call(*(x * 1.5 for x in factors))
        return torch.relu(out)

    # Other cases have the same function, which counts as compiling it again.
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    right, made = block(*mine), compiled(*mine)
    close(made, right)
    weight = torch.randn_like(right)
    pairs = [torch.autograd.grad(out, mine, weight) for out in (made, right)]
    for grad, expected in zip(*pairs, strict=True):
        close(grad, expected)


class Simulated:
    """Programs of the group, compiled for GPUs and executed by the simulator, each rank for both.

    Attributes:
        made: The names of their workloads.
    """

    def __init__(self) -> None:
        self.world_size = dist.get_world_size()
        self.made: list[str] = []

    def find(self, key, make, strategy):
        workload = make()
        assert workload.packed() is workload
        self.made.append(workload.name)
        tiles = GemmConfig(
            block_m=32, block_n=32, block_k=32, num_warps=4, num_stages=2, num_ctas=4
        )
        program = workload.compile(config=tiles)

        def call(**tensors):
            # The layout of a weight is part of what is passed.
            assert tensors["b"].shape == workload.weight_shape
            inputs = {
                name: [x.numpy() for x in everywhere(tensor)] for name, tensor in tensors.items()
            }
            result = program.simulate(inputs)
            assert result.verdict.ok, result.verdict
            outputs = {
                name: torch.from_numpy(each[dist.get_rank()]).to(tensors["a"].dtype)
                for name, each in result.outputs[0].items()
            }
            if workload.returns_a:
                moved = "a" if workload.kind is GemmKind.AG_GEMM else "received"
                return outputs["c"], outputs[moved]
            (output,) = outputs.values()
            return output

        return call


def check_simulated(name: str, more: bool, kinds: set[str]) -> None:
    """Values and gradients by the kernels that GPUs would run."""
    simulated = Simulated()
    setting = Setting(32, 64, 40, torch.float16, tolerance=3e-3)
    with ExitStack() as changes:
        changes.enter_context(patch.object(programs, "_programs", lambda name: simulated))
        for each in EVERY:
            changes.enter_context(patch.object(reference, each, getattr(fused, each)))
        check_values_and_gradients(name, more, setting)
    assert {made.split("-")[0] for made in simulated.made} == kinds, simulated.made


def check_rows_that_change() -> None:
    """One graph is for all numbers of rows, if torch is told so."""
    torch._dynamo.reset()
    block, counter = Block(world_name()), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, backend=counter, dynamic=True, fullgraph=True)
    for rows in (4, 6, 10):
        x = torch.randn(rows, ROWS, K, dtype=torch.float64, requires_grad=True)
        right, made = block(x), compiled(x)
        close(made, right)
        weight = torch.randn_like(right)
        pairs = [torch.autograd.grad(out, [x, block.up], weight) for out in (made, right)]
        for grad, expected in zip(*pairs, strict=True):
            close(grad, expected)
    assert counter.frame_count == 1, counter.frame_count


def check_export() -> None:
    """Operators stand in an exported program, which can be run."""
    block, x = Block(world_name()), torch.randn(4, ROWS, K, dtype=torch.float64)
    exported = torch.export.export(block, (x,))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert "syncopate.all_gather_matmul.default" in targets, targets
    assert "syncopate.matmul_reduce_scatter.default" in targets, targets
    close(exported.module()(x), block(x))


def check_checkpoint() -> None:
    """What is computed again in the backward gives the same gradients."""
    block = Block(world_name())
    x = torch.randn(2, ROWS, K, dtype=torch.float64, requires_grad=True)
    leaves = [x, block.up, block.down]
    right = torch.autograd.grad(block(x).square().sum(), leaves)
    made = torch.autograd.grad(checkpoint(block, x, use_reentrant=False).square().sum(), leaves)
    for grad, expected in zip(made, right, strict=True):
        assert torch.equal(grad, expected)


def check_autocast() -> None:
    """Products are in the type of autocast, gradients in that of the factors."""
    block = Block(world_name(), Setting(dtype=torch.float32))
    x = torch.randn(2, ROWS, K, requires_grad=True)
    for forward in (block, torch.compile(block, backend="aot_eager", fullgraph=True)):
        with torch.autocast("cpu", torch.bfloat16):
            out = forward(x)
        assert out.dtype == torch.bfloat16
        grads = torch.autograd.grad(out.float().square().sum(), [x, block.up, block.down])
        assert {grad.dtype for grad in grads} == {torch.float32}
        right = torch.autograd.grad(block(x).square().sum(), [x, block.up, block.down])
        for grad, expected in zip(grads, right, strict=True):
            close(grad, expected, 3e-2)


def check_dimensions() -> None:
    """Other dimensions than the first are gathered and scattered as torch does."""
    torch.manual_seed(9 + dist.get_rank())
    group, dtype = world_name(), torch.float64
    a, b = torch.randn(2, 4, 6, K, dtype=dtype), torch.randn(K, N, dtype=dtype)
    parts = list(zip(everywhere(a), everywhere(b), strict=True))
    for dim in (0, 1, 2, -2):
        whole, (c,) = st.all_gather_matmul(a, [b], dim, group)
        right = torch.cat([x for x, _ in parts], dim)
        assert torch.equal(whole, right)
        close(c, right @ b)
        out = st.matmul_reduce_scatter(a, b, "sum", dim, group)
        total = sum(x @ y for x, y in parts)
        close(out, total.chunk(dist.get_world_size(), dim)[dist.get_rank()])
    close(st.matmul_all_reduce(a, b, "sum", group), sum(x @ y for x, y in parts))
    mine = torch.cat([x.chunk(2)[dist.get_rank()] for x, _ in parts])
    close(st.all_to_all_matmul(a, b, group), mine @ b)
    right = torch.cat([(x @ y).chunk(2)[dist.get_rank()] for x, y in parts])
    close(st.matmul_all_to_all(a, b, group), right)


def check_other_operators() -> None:
    """The meaning is that of torch's own operators, of which the fallbacks run on CPUs."""
    import torch.distributed._symmetric_memory as symm_mem

    group = world_name()
    a, b = torch.randn(2, 4, K), torch.randn(K, N)
    for dim in (0, 1):
        right = symm_mem._fused_all_gather_matmul_fallback(a, [b, b], dim, group, return_A=True)
        made = st.all_gather_matmul(a, [b, b], dim, group, return_A=True)
        close(made[0], right[0], 1e-6)
        for c, expected in zip(made[1], right[1], strict=True):
            close(c, expected, 1e-6)
        for op in ("sum", "avg"):
            right = symm_mem._fused_matmul_reduce_scatter_fallback(a, b, op, dim, group)
            close(st.matmul_reduce_scatter(a, b, op, dim, group), right, 1e-6)


def check_comparison() -> None:
    """Ranks that do something else, or nothing, are named on all ranks."""
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    store = dist.PrefixStore("comparison", store)
    agreement = Processes(store, rank, 2, seconds=20)
    for number in range(3):
        expect_same(agreement, {"m": number, "n": 2})
    expect_error(
        lambda: expect_same(agreement, {"m": 10 + rank, "n": 2}),
        "rank 1 calls with m 11, but rank 0 with m 10; all ranks of a group have to make the same calls",
    )
    expect_same(agreement, {"m": 1})
    late = Processes(dist.PrefixStore("late", store), rank, 2, seconds=0.5)
    if rank == 0:
        expect_error(
            lambda: expect_same(late, {"m": 3}),
            "rank 1 has not made this call within 0.5 s: m 3",
        )
        expect_error(
            lambda: late.exchange("here"), "agree on nothing more: make the process group again"
        )


def check_refusals() -> None:
    """Errors come before anything is sent."""
    group = world_name()
    a, b = torch.randn(6, K), torch.randn(K, N)
    for call, text in (
        (lambda: st.all_gather_matmul(a, b, 0, group), "Bs: expects a sequence of matrices"),
        (lambda: st.all_gather_matmul(a, [], 0, group), "Bs: expects at least one matrix"),
        (lambda: st.all_gather_matmul(a, [b], 1, group), "gather_dim: expects one of the leading"),
        (lambda: st.all_gather_matmul(a, [b.t()], 0, group), "is passed as weight.t()"),
        (lambda: st.all_gather_matmul(a, [b.double()], 0, group), "B: expects torch.float32"),
        (lambda: st.all_gather_matmul(a, [b], 0, "nobody"), "group_name: expects the name"),
        (lambda: st.all_gather_matmul(a, [b], 0, 3), "group_name: expects the name of"),
        (
            lambda: st.all_gather_matmul(
                a, [b], 0, init_device_mesh("cpu", (2, 1), mesh_dim_names=("tp", "dp"))
            ),
            "expects a device mesh of one dimension, but got one of 2; pass one of them, such as mesh['tp']",
        ),
        (lambda: st.matmul_reduce_scatter(a[:5], b, "sum", 0, group), "expects a multiple of 2"),
        (lambda: st.matmul_reduce_scatter(a, b, "max", 0, group), "reduce_op: expects one of sum"),
        (lambda: st.matmul_all_reduce(a, b, "sum", group, strategy=3), "strategy: expects a"),
        (lambda: st.all_to_all_matmul(a[:3], b, group), "expects a multiple of 2"),
        (lambda: st.matmul_all_to_all(a[0], b, group), "A: expects at least two dimensions"),
        (lambda: st.matmul_all_reduce(None, b, "sum", group), "A: expects a torch tensor, but got"),
        (lambda: st.all_gather_matmul(a, [b], "0", group), "gather_dim: expects an integer, but"),
        (lambda: st.all_gather_matmul(a, [b], False, group), "gather_dim: expects an integer, but"),
        (
            lambda: st.matmul_all_reduce(a, b, "sum", group, strategy="x"),
            "strategy: expects a name",
        ),
        (lambda: st.all_gather_matmul(a, [b, b[:, :0]], 0, group), "Bs: expects elements, but got"),
        (lambda: st.all_gather_matmul(a.view(3, 2, K)[:0], [b], 1, group), "A_shard: expects elem"),
        (lambda: st.matmul_reduce_scatter(a[:0], b, "sum", 0, group), "A: expects elements, but"),
        (lambda: st.matmul_all_reduce(a.int(), b.int(), "avg", group), "A: expects floating-point"),
        (lambda: st.matmul_all_reduce(a.cfloat(), b.cfloat(), "sum", group), "A: expects floating"),
        (
            lambda: torch.func.jvp(lambda x: st.matmul_all_reduce(x, b, "sum", group), (a,), (a,)),
            "matmul_all_reduce: expects no forward-mode gradient",
        ),
    ):
        expect_error(call, text)


def check_one_rank() -> None:
    """A group of one rank is a product, which shares no memory with a factor."""
    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    a, b = torch.randn(4, K), torch.randn(K, N)
    whole, (c,) = st.all_gather_matmul(a, [b], 0, alone)
    assert torch.equal(whole, a) and whole.data_ptr() != a.data_ptr()
    close(c, a @ b, 1e-6)
    close(st.matmul_reduce_scatter(a, b, "avg", 0, alone), a @ b, 1e-6)
    first = dist.new_group([0])
    if dist.get_rank() == 1:
        expect_error(
            lambda: st.matmul_all_reduce(a, b, "sum", first),
            "group_name: expects a group of this rank, but it is not a member",
        )


def cases() -> dict[str, Callable[[], None]]:
    """All checks by name."""
    made: dict[str, Callable[[], None]] = {}
    for name, more in itertools.product(EVERY, (False, True)):
        if (name, more) == ("matmul_all_to_all", True):
            continue
        title = f"{name} {'more' if more else 'plain'}"
        made[f"values and gradients of {title}"] = partial(check_values_and_gradients, name, more)
        made[f"direction of {title}"] = partial(check_direction, name, more)
    for name in EVERY:
        made[f"gradients of single factors of {name}"] = partial(check_some_gradients, name)
        made[f"opcheck of {name}"] = partial(check_opcheck, name)
        for form in ("name", "group", "mesh"):
            made[f"compile of {name} by {form}"] = partial(check_compile, name, form)
    for name, more, kinds in (
        ("all_gather_matmul", False, {"ag_gemm", "gemm_rs"}),
        ("all_gather_matmul", True, {"ag_gemm", "gemm_rs"}),
        ("matmul_reduce_scatter", True, {"ag_gemm", "gemm_rs"}),
        ("matmul_all_reduce", True, {"gemm_ar"}),
        ("all_to_all_matmul", True, {"a2a_gemm", "gemm_a2a"}),
        ("matmul_all_to_all", False, {"a2a_gemm", "gemm_a2a"}),
    ):
        title = f"simulated {name} {'more' if more else 'plain'}"
        made[title] = partial(check_simulated, name, more, kinds)
    for check in (
        check_collectives,
        check_replicated_gradient,
        check_unused_results,
        check_rows_that_change,
        check_export,
        check_checkpoint,
        check_autocast,
        check_dimensions,
        check_other_operators,
        check_comparison,
        check_refusals,
        check_one_rank,
    ):
        made[check.__name__.removeprefix("check_").replace("_", " ")] = check
    return made | attention_cases()
