"""What `test_torch_layers.py` checks on two processes: layers, styles, and the pass; each function is one check.

Expected values are those of plain layers on whole tensors, or of the same functions before the pass.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import parallel as plain
from torch.fx.experimental.proxy_tensor import make_fx
from torch_cases import close, expect_error, world_name

import syncopate.torch as st
from syncopate.torch.operators import FALLBACK_VARIABLE

BATCH, SEQUENCE, FEATURES, HIDDEN = 4, 8, 6, 10


class Mlp(nn.Module):
    """Two layers as they are before they are divided."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(FEATURES, HIDDEN, bias, dtype=torch.float64)
        self.down = nn.Linear(HIDDEN, FEATURES, bias, dtype=torch.float64)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


def same_mlp(bias: bool = True) -> tuple[Mlp, torch.Tensor, torch.Tensor]:
    """The layers, what they take and the gradient of what they give, alike on all ranks."""
    torch.manual_seed(31)
    x = torch.randn(BATCH, SEQUENCE, FEATURES, dtype=torch.float64)
    return Mlp(bias), x, torch.randn_like(x)


def part(x: torch.Tensor, dim: int | None) -> torch.Tensor:
    """This rank's part of what all have."""
    return x if dim is None else x.chunk(dist.get_world_size(), dim)[dist.get_rank()]


def whole_gradients(mlp: Mlp, x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    """The result and all gradients, of x first."""
    x = x.clone().requires_grad_()
    out = mlp(x)
    return [out.detach(), *torch.autograd.grad(out, [x, *mlp.parameters()], weight)]


PARTS = {"up.weight": 0, "up.bias": 0, "down.weight": 1, "down.bias": None}
"""The dimension of which a rank has its part."""


def check_pair(dim: int | None, bias: bool, compiled: bool) -> None:
    """A pair of layers gives each rank its part of all values and gradients of whole layers."""
    torch._dynamo.reset()
    mlp, x, weight = same_mlp(bias)
    right = whole_gradients(mlp, x, weight)
    names = [name for name, _ in mlp.named_parameters()]
    group = world_name()
    layers = Mlp(bias)
    layers.up = st.ColumnParallelLinear.from_linear(mlp.up, group, sequence_dim=dim)
    layers.down = st.RowParallelLinear.from_linear(mlp.down, group, sequence_dim=dim)
    assert f"sequence_dim={dim}" in repr(layers.up)
    mine = part(x, dim).clone().requires_grad_()
    forward = torch.compile(layers, backend="aot_eager", fullgraph=True) if compiled else layers
    out = forward(mine)
    close(out, part(right[0], dim))
    made = torch.autograd.grad(out, [mine, *layers.parameters()], part(weight, dim))
    close(made[0], part(right[1], dim))
    for name, grad, expected in zip(names, made[1:], right[2:], strict=True):
        close(grad, part(expected, PARTS[name]))


def check_style(dim: int | None) -> None:
    """Styles make parameters DTensors, whose gradients are those of whole layers."""
    mlp, x, weight = same_mlp()
    right = whole_gradients(mlp, x, weight)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    made = plain.parallelize_module(
        copy.deepcopy(mlp),
        mesh,
        {
            "up": st.ColwiseParallel(sequence_dim=dim),
            "down": st.RowwiseParallel(sequence_dim=dim),
        },
    )
    assert isinstance(made.up, st.ColumnParallelLinear)
    mine = part(x, dim).clone().requires_grad_()
    out = made(mine)
    close(out, part(right[0], dim))
    out.backward(part(weight, dim))
    close(mine.grad, part(right[1], dim))
    for (name, parameter), expected in zip(made.named_parameters(), right[2:], strict=True):
        assert isinstance(parameter, DTensor) and isinstance(parameter.grad, DTensor), name
        close(parameter.grad.full_tensor(), expected)
        close(parameter.full_tensor(), dict(mlp.named_parameters())[name])
    placements = [tuple(parameter.placements) for parameter in made.parameters()]
    assert placements == [(Shard(0),), (Shard(0),), (Shard(1),), (Replicate(),)]
    expect_error(
        lambda: plain.parallelize_module(nn.ReLU(), mesh, st.ColwiseParallel()),
        "ColwiseParallel: expects an nn.Linear, but got ReLU",
    )


def check_new_layers() -> None:
    """New layers have their parts' shapes; features that ranks do not divide are refused."""
    layer = st.RowParallelLinear(HIDDEN, FEATURES, world_name(), dtype=torch.float64)
    assert layer.weight.shape == (FEATURES, HIDDEN // 2) and not layer.bias.any()
    assert layer.weight.std() > 0.05
    layer = st.ColumnParallelLinear(FEATURES, HIDDEN, world_name(), bias=False)
    assert layer.weight.shape == (HIDDEN // 2, FEATURES) and layer.bias is None
    for features in (7, 0):
        expect_error(
            lambda features=features: st.ColumnParallelLinear(FEATURES, features, world_name()),
            f"out_features: expects a multiple of 2, the number of ranks, but got {features}",
        )
    for heads in ((2, 0), (0, 2)):
        expect_error(
            lambda heads=heads: st.SequenceParallelAttention(FEATURES, *heads, world_name()),
            f"heads: expects a multiple of the {heads[1]} heads of keys, but got {heads[0]}",
        )


def check_layers_under_autocast() -> None:
    """What comes out has the type of autocast, as of nn.Linear, and gradients that of the parameters."""
    for dim in (0, None):
        layers = Mlp(True).float()
        layers.up = st.ColumnParallelLinear.from_linear(layers.up, world_name(), sequence_dim=dim)
        layers.down = st.RowParallelLinear.from_linear(layers.down, world_name(), sequence_dim=dim)
        with torch.autocast("cpu", torch.bfloat16):
            out = layers(torch.randn(2, 2, FEATURES))
        assert out.dtype == torch.bfloat16
        out.float().sum().backward()
        assert {parameter.grad.dtype for parameter in layers.parameters()} == {torch.float32}


# The pass.


def counts(graph: torch.fx.Graph) -> dict[str, int]:
    """How many collectives and fused operators are in a graph."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        name = str(node.target)
        if name.startswith(("syncopate.", "_c10d_functional.")):
            found[name.split(".")[1]] = found.get(name.split(".")[1], 0) + 1
    return found


class Graphs:
    """A backend of torch.compile that applies the pass, and keeps what is in its graphs."""

    def __init__(self) -> None:
        self.found: list[dict[str, int]] = []
        self.fusion = st.CollectiveFusion()
        self.backend = aot_autograd(fw_compiler=self._compile)

    def _compile(self, module: torch.fx.GraphModule, inputs: Any) -> Any:
        from functorch.compile import make_boxed_func

        self.fusion(module.graph)
        module.recompile()
        self.found.append(counts(module.graph))
        return make_boxed_func(module.forward)


def compare(function: Callable[..., Any], *inputs: torch.Tensor, train: bool = False) -> Graphs:
    """Values, and gradients, before and after the pass."""
    torch._dynamo.reset()
    graphs = Graphs()
    factors = [x.clone().requires_grad_(train) for x in inputs]
    compiled = torch.compile(function, backend=graphs.backend, fullgraph=True)
    right, made = function(*factors), compiled(*factors)
    rights, mades = ([each] if isinstance(each, torch.Tensor) else each for each in (right, made))
    for one, other in zip(mades, rights, strict=True):
        close(one, other)
        assert one.stride() == other.stride()
    if train:
        weight = torch.randn_like(rights[0])
        pairs = [torch.autograd.grad(outs[0], factors, weight) for outs in (mades, rights)]
        for one, other in zip(*pairs, strict=True):
            close(one, other)
    return graphs


def factors(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def gather(x: torch.Tensor, dim: int) -> torch.Tensor:
    return funcol.all_gather_tensor(x, dim, world_name())


def check_gather_is_fused(dim: int, bias: bool) -> None:
    """Along any leading dimension, with several weights, one of which is made behind the gather."""
    b, c, d = factors(7, 6), factors(5, 6), factors(7)

    def function(x, b, c, d):
        whole = gather(x * 2, dim)
        return nn.functional.linear(whole, b * 3, d if bias else None), whole @ c.t()

    graphs = compare(function, factors(2, 4, 6), b, c, d)
    assert graphs.found == [{"all_gather_matmul": 1}], graphs.found
    assert graphs.fusion.fused == 1


def check_gather_of_matrices_with_other_users() -> None:
    """A is given back to whoever else uses it."""

    def function(x, b):
        whole = gather(x, 0)
        return whole @ b, whole.sin()

    assert compare(function, factors(4, 6), factors(6, 7)).found == [{"all_gather_matmul": 1}]


def check_sums_are_fused(dim: int) -> None:
    """Reduce-scatters along any leading dimension, and all-reduces."""

    def scatter(x, b):
        return funcol.reduce_scatter_tensor(x.sin() @ b, "avg", dim, world_name()) + 1

    found = compare(scatter, factors(2, 4, 6), factors(6, 7)).found
    assert found == [{"matmul_reduce_scatter": 1}], found

    def with_bias(x, b, c):
        made = torch.nn.functional.linear(x, b.t(), c)
        return funcol.reduce_scatter_tensor(made, "avg", dim, world_name())

    found = compare(with_bias, factors(2, 4, 6), factors(6, 7), factors(7)).found
    assert found == [{"matmul_reduce_scatter": 1, "all_reduce": 1}], found

    def reduce(x, b):
        return funcol.all_reduce(x.sin() @ b, "sum", world_name()) + 1

    for x in (factors(2, 4, 6), factors(4, 6)):
        assert compare(reduce, x, factors(6, 7)).found == [{"matmul_all_reduce": 1}]


def check_what_is_left_alone() -> None:
    """What is no product's factor or result, has other uses, or means something else."""
    name = world_name()

    def two_uses(x, b):
        y = x @ b
        return funcol.reduce_scatter_tensor(y, "sum", 0, name), y

    def maximum(x, b):
        return funcol.all_reduce(x @ b, "max", name)

    def right_factor(x, b):
        return b.t() @ gather(x, 0)

    def its_own_weight(x, b):
        whole = gather(x, 0)
        return whole @ whole.t()

    def last_dimension(x, b):
        return gather(x, 1) @ torch.cat([b, b])

    def scattered_last(x, b):
        return funcol.reduce_scatter_tensor(x @ b, "sum", 1, name)

    for function in (
        two_uses,
        maximum,
        right_factor,
        its_own_weight,
        last_dimension,
        scattered_last,
    ):
        graphs = compare(
            function,
            factors(6, 6),
            factors(6, 8) if function is not right_factor else factors(12, 8),
        )
        assert graphs.fusion.fused == 0, function.__name__
        assert "wait_tensor" in graphs.found[0]


def count_fused(dtype: torch.dtype, device: str, rows: int = 6) -> int:
    """How many of the three collectives are fused in a graph for tensors that nobody has."""
    ops, name = torch.ops._c10d_functional, world_name()

    def function(x, b):
        whole = ops.wait_tensor(ops.all_gather_into_tensor(x, 2, name)) @ b
        part = ops.wait_tensor(ops.reduce_scatter_tensor(x @ b, "sum", 2, name))
        return whole, part, ops.wait_tensor(ops.all_reduce(x @ b, "sum", name))

    with FakeTensorMode():
        x, b = (torch.empty(each, 6, dtype=dtype, device=device) for each in (rows, 6))
        graph = make_fx(function)(x, b).graph
        before = [node.target for node in graph.nodes]
        fused = st.fuse_collectives(graph)
    assert fused or [node.target for node in graph.nodes] == before
    return fused


def check_elements_that_are_left_alone() -> None:
    """Graphs stay as they are where an operator would refuse its factors when it is called."""
    for dtype, fused in (
        (torch.bfloat16, 3),
        (torch.float16, 3),
        (torch.float32, 0),
        (torch.float64, 0),
    ):
        assert count_fused(dtype, "cuda") == fused, dtype
        assert count_fused(dtype, "cpu") == 3, dtype
        assert count_fused(dtype, "meta") == 0, dtype
        assert count_fused(dtype, "cuda", rows=0) == count_fused(dtype, "cpu", rows=0) == 0, dtype
    assert count_fused(torch.int64, "cpu") == 0
    default = st.CollectiveFusion().uuid()
    with mock.patch.dict(os.environ, {FALLBACK_VARIABLE: "0"}):
        assert count_fused(torch.bfloat16, "cpu") == 0
        assert count_fused(torch.bfloat16, "cuda") == 3
        assert st.CollectiveFusion().uuid() != default
    torch.set_float32_matmul_precision("high")
    try:
        assert count_fused(torch.float32, "cuda") == 3
        assert count_fused(torch.float64, "cuda") == 0
        assert st.CollectiveFusion().uuid() != default
    finally:
        torch.set_float32_matmul_precision("highest")


def check_training() -> None:
    """Forward and backward of what torch itself calls sequence parallelism."""

    def function(x, up, down):
        whole = funcol.all_gather_tensor_autograd(x, 0, world_name())
        hidden = torch.relu(whole @ up)
        return funcol.reduce_scatter_tensor_autograd(hidden @ down, "sum", 0, world_name())

    graphs = compare(function, factors(4, 6), factors(6, 8), factors(8, 6), train=True)
    forward, backward = graphs.found
    assert forward == {"all_gather_matmul": 1, "matmul_reduce_scatter": 1}, forward
    assert backward["all_gather_matmul"] == backward["matmul_reduce_scatter"] == 1, backward
    assert graphs.fusion.fused == 4


def check_tensor_parallelism_of_torch() -> None:
    """Models that torch has made parallel are fused, with the values of whole layers."""
    torch._dynamo.reset()
    mlp, x, _ = same_mlp()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    right = part(mlp(x), 1)
    made = plain.parallelize_module(
        mlp,
        mesh,
        {
            "up": plain.ColwiseParallel(input_layouts=Shard(1)),
            "down": plain.RowwiseParallel(output_layouts=Shard(1)),
        },
    )
    graphs = Graphs()
    with torch.no_grad():
        out = torch.compile(made, backend=graphs.backend)(part(x, 1))
    close(out, right)
    assert graphs.fusion.fused == 2, graphs.found
    # What torch has made of the bias is added up by itself.
    (found,) = graphs.found
    assert found["all_gather_matmul"] == found["matmul_reduce_scatter"] == 1, found
    assert "reduce_scatter_tensor" not in found and "all_gather_into_tensor" not in found


def check_inductor() -> None:
    """The code that torch compiles has the values and gradients of eager calls, of operators and fused graphs."""
    torch._dynamo.reset()
    mlp, x, _ = same_mlp()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    styles = {
        "up": plain.ColwiseParallel(input_layouts=Shard(1)),
        "down": plain.RowwiseParallel(output_layouts=Shard(1)),
    }
    fusion = st.CollectiveFusion()
    torch_made = plain.parallelize_module(mlp, mesh, styles)
    fused = torch.compile(torch_made, options={"post_grad_custom_pre_pass": fusion})
    ours = Mlp()
    ours.up = st.ColumnParallelLinear.from_linear(ours.up, world_name(), sequence_dim=1)
    ours.down = st.RowParallelLinear.from_linear(ours.down, world_name(), sequence_dim=1)
    for eager, compiled in ((torch_made, fused), (ours, torch.compile(ours, fullgraph=True))):
        leaf = part(x, 1).clone().requires_grad_()
        outs = [function(leaf) for function in (eager, compiled)]
        close(outs[1], outs[0])
        grads = [torch.autograd.grad(out.square().sum(), leaf)[0] for out in outs]
        close(grads[1], grads[0])
    assert fusion.fused == 4


def cases() -> dict[str, Callable[[], None]]:
    """All checks by name, but `check_inductor`, which takes a C++ compiler a while."""
    made: dict[str, Callable[[], None]] = {}
    for dim in (0, 1, None):
        for bias in (False, True):
            title = f"pair of layers along {dim} {'with' if bias else 'without'} bias"
            made[title] = partial(check_pair, dim, bias, False)
        made[f"compiled pair of layers along {dim}"] = partial(check_pair, dim, True, True)
        made[f"styles along {dim}"] = partial(check_style, dim)
    for dim in (0, 1):
        made[f"fused sums along {dim}"] = partial(check_sums_are_fused, dim)
        for bias in (False, True):
            title = f"fused gather along {dim} {'with' if bias else 'without'} bias"
            made[title] = partial(check_gather_is_fused, dim, bias)
    for check in (
        check_new_layers,
        check_layers_under_autocast,
        check_gather_of_matrices_with_other_users,
        check_what_is_left_alone,
        check_elements_that_are_left_alone,
        check_training,
        check_tensor_parallelism_of_torch,
    ):
        made[check.__name__.removeprefix("check_").replace("_", " ")] = check
    return made
