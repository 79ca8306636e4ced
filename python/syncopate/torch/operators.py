"""Makes the operators known to torch: on GPUs, on CPUs, on fake tensors, under autocast, with gradients.

`torch.ops.syncopate.*` take matrices; `syncopate.torch.functional` is the form for people. A group is its name, and a
strategy is "auto", the name of a strategy, or an empty text for the default, so that graphs can hold them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.autograd import forward_ad

from syncopate.errors import SyncopateError
from syncopate.torch import fused, gradients, reference, shapes
from syncopate.torch.groups import count_ranks
from syncopate.torch.layout import expect_elements
from syncopate.torch.programs import check_strategy

__all__ = ["FALLBACK_VARIABLE", "SCHEMAS", "falls_back"]

FALLBACK_VARIABLE: Final = "SYNCOPATE_TORCH_FALLBACK"
"""Environment variable that lets operators on CPU tensors be a product and a collective of torch."""

SCHEMAS: Final = {
    "all_gather_matmul": "(Tensor A_shard, Tensor[] Bs, str group_name, bool return_A, str strategy) -> Tensor[]",
    "matmul_reduce_scatter": "(Tensor A, Tensor B, str reduce_op, str group_name, str strategy) -> Tensor",
    "matmul_all_reduce": (
        "(Tensor A, Tensor B, str reduce_op, str group_name, bool replicated_grad, str strategy) -> Tensor"
    ),
    "all_to_all_matmul": "(Tensor A, Tensor B, str group_name, bool return_A, str strategy) -> Tensor[]",
    "matmul_all_to_all": "(Tensor A, Tensor B, str group_name, str strategy) -> Tensor",
    "ring_attention": (
        "(Tensor q, Tensor k, Tensor v, bool causal, bool zigzag, str group_name, str strategy) -> (Tensor, Tensor)"
    ),
    "ring_attention_backward": (
        "(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? grad_lse, bool causal, bool zigzag,"
        " str group_name) -> (Tensor, Tensor, Tensor)"
    ),
    "ulysses_attention": (
        "(Tensor q, Tensor k, Tensor v, bool causal, str group_name, str strategy) -> (Tensor, Tensor)"
    ),
    "ulysses_attention_backward": (
        "(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? grad_lse, bool causal,"
        " str group_name) -> (Tensor, Tensor, Tensor)"
    ),
}
"""The operators: what they take, and what they give."""

# Graphs must pass a weight as it is, since a transposed view is taken without copying it.
_TAGS: Final = (torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag)

_AS_SAVED: Final = ("ring_attention_backward", "ulysses_attention_backward")
"""Operators that take what a forward has saved, in types that autocast must leave."""

_library = torch.library.Library("syncopate", "DEF")

Implementation = Callable[..., Any]


def falls_back() -> bool:
    """Whether operators take CPU tensors."""
    return os.environ.get(FALLBACK_VARIABLE, "") not in ("", "0")


def _with_autocast(operator: Implementation, device: str, key: str) -> Implementation:
    """Converts factors as torch.autocast does those of a product."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def convert(value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, (list, tuple)):
            return [convert(each, dtype) for each in value]
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value if value.dtype == torch.float64 else value.to(dtype)
        return value

    def call(*args: Any) -> Any:
        dtype = torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*(convert(value, dtype) for value in args))

    return call


def _register(name: str) -> None:
    """Adds the operator whose parts have its name in the modules for them."""
    _library.define(name + SCHEMAS[name], tags=_TAGS)
    operator = getattr(torch.ops.syncopate, name).default
    names = [argument.name for argument in operator._schema.arguments]
    group = names.index("group_name")
    shape, fuse = getattr(shapes, name), getattr(fused, name)

    def check(*args: Any) -> None:
        # Torch passes tangents by, and would take them to be zeros; below it, nobody can tell whose there are.
        if forward_ad._current_level >= 0:
            raise SyncopateError(
                f"{name}: expects no forward-mode gradient, which it does not have"
            )
        given = shapes.Arguments(**dict(zip(names, args, strict=True)))
        for check_given in shapes.CHECKS[name]:
            check_given(given)
        if names[-1] == "strategy":
            check_strategy(args[-1])

    def on_gpu(*args: Any) -> Any:
        check(*args)
        expect_elements(names, args)
        return (fuse if count_ranks(args[group]) > 1 else getattr(reference, name))(*args)

    def on_cpu(*args: Any) -> Any:
        if not falls_back():
            raise SyncopateError(
                f"{name}: expects tensors on a GPU, but got CPU tensors; move them there, or set {FALLBACK_VARIABLE}=1 "
                f"to have a product and a collective of torch.distributed instead"
            )
        check(*args)
        expect_elements(names, args)
        return getattr(reference, name)(*args)

    def on_fake(*args: Any) -> Any:
        check(*args)
        return shape(*args)

    _library.impl(name, on_gpu, "CUDA")
    _library.impl(name, on_cpu, "CPU")
    torch.library.register_fake(f"syncopate::{name}", on_fake, lib=_library)
    torch.library.register_autograd(
        f"syncopate::{name}",
        getattr(gradients, name),
        setup_context=getattr(gradients, f"save_{name}"),
        lib=_library,
    )
    if name in _AS_SAVED:
        return
    for device, key in (("cuda", "AutocastCUDA"), ("cpu", "AutocastCPU")):
        _library.impl(name, _with_autocast(operator, device, key), key)


for _name in SCHEMAS:
    _register(_name)
