"""What operators ask of their matrices, and how a weight lies in memory. The same for fake tensors and real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from syncopate.errors import SyncopateError
from syncopate.torch.groups import count_ranks

__all__ = [
    "align",
    "arrange_weight",
    "check_attention",
    "check_factors",
    "check_reduction",
    "divide_rows",
    "expect_elements",
    "is_column_major",
    "is_multiplied",
    "name_elements",
]

_DTYPES: Final = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

_TMA_BYTES = 16
"""What kernels want addresses, and the distances between rows of a weight, to be multiples of."""

_REDUCTIONS = ("sum", "avg")


def check_factors(a: torch.Tensor, weights: Sequence[torch.Tensor]) -> None:
    """Raises SyncopateError unless A can be multiplied by each of the weights."""
    if a.dim() != 2:
        raise SyncopateError(f"A: expects a matrix, but got {a.dim()} dimensions")
    _expect_numbers("A", a)
    if not weights:
        raise SyncopateError("Bs: expects at least one matrix, but got none")
    for number, b in enumerate(weights):
        name = "B" if len(weights) == 1 else f"Bs[{number}]"
        if b.dim() != 2:
            raise SyncopateError(f"{name}: expects a matrix, but got {b.dim()} dimensions")
        if b.shape[0] != a.shape[1]:
            raise SyncopateError(
                f"{name}: expects {a.shape[1]} rows, the columns of A, but got {list(b.shape)}; "
                f"a weight of nn.Linear is passed as weight.t()"
            )
        if b.dtype != a.dtype:
            raise SyncopateError(
                f"{name}: expects {a.dtype}, the type of A, but got {b.dtype}; convert one, or use torch.autocast"
            )
        if b.device != a.device:
            raise SyncopateError(
                f"{name}: expects a tensor on {a.device}, as A, but got one on {b.device}"
            )


def check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raises SyncopateError unless queries go with keys and values, each [rows, heads, head_dim]."""
    if q.dim() != 3:
        raise SyncopateError(f"q: expects [rows, heads, head_dim], but got {q.dim()} dimensions")
    _expect_numbers("q", q)
    for name, x in (("k", k), ("v", v)):
        rows, _, head_dim = q.shape
        if x.shape != k.shape or x.dim() != 3 or (x.shape[0], x.shape[2]) != (rows, head_dim):
            raise SyncopateError(
                f"{name}: expects [{rows}, kv_heads, {head_dim}], as q and k have, but got {list(x.shape)}"
            )
        if x.dtype != q.dtype or x.device != q.device:
            raise SyncopateError(
                f"{name}: expects {q.dtype} on {q.device}, as q, but got {x.dtype} on {x.device}"
            )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise SyncopateError(
            f"q: expects a multiple of the {k.shape[1]} heads of keys, but got {q.shape[1]}"
        )


def is_multiplied(x: torch.Tensor) -> bool:
    """Whether a tensor is of numbers that operators multiply on some device."""
    return bool(x.is_floating_point()) and x.element_size() > 1


def _expect_numbers(name: str, x: torch.Tensor) -> None:
    if not is_multiplied(x):
        raise SyncopateError(
            f"{name}: expects floating-point numbers of at least 16 bits, but got {x.dtype}; convert it"
        )


def expect_elements(names: Sequence[str], values: Sequence[Any]) -> None:
    """Raises SyncopateError if a tensor, or one of a list of them, is empty; only of real ones."""
    for name, value in zip(names, values, strict=True):
        for x in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(x, torch.Tensor) and not x.numel():
                raise SyncopateError(
                    f"{name}: expects elements, but got {list(x.shape)}; where there is nothing to compute, leave the "
                    f"call out on all ranks"
                )


def check_reduction(reduce_op: str) -> None:
    """Raises SyncopateError unless it is one that operators know."""
    if reduce_op not in _REDUCTIONS:
        raise SyncopateError(
            f"reduce_op: expects one of {', '.join(_REDUCTIONS)}, but got {reduce_op!r}"
        )


def name_elements(dtype: torch.dtype) -> str:
    """The name by which workloads know a type of factors.

    Raises:
        SyncopateError: Kernels do not multiply it, or not as exactly as torch's setting asks for.
    """
    name = _DTYPES.get(dtype)
    if name is None:
        known = ", ".join(str(each) for each in _DTYPES)
        raise SyncopateError(
            f"A: expects one of {known}, but got {dtype}; convert it, or use torch.autocast"
        )
    if name == "f32" and torch.get_float32_matmul_precision() == "highest":
        raise SyncopateError(
            "A: float32 is multiplied in TF32; allow it by torch.set_float32_matmul_precision('high'), or convert A "
            "and B to bfloat16"
        )
    return name


def divide_rows(a: torch.Tensor, group_name: str) -> int:
    """The rows of A that each rank gets.

    Raises:
        SyncopateError: The ranks do not divide them.
    """
    world = count_ranks(group_name)
    rows: int = a.shape[0]
    if rows % world:
        raise SyncopateError(
            f"A: expects a multiple of {world} rows, the number of ranks, but got {rows}"
        )
    return rows // world


def is_column_major(b: torch.Tensor) -> bool:
    """Whether B [K, N] is a view of a weight [N, K] whose rows are contiguous."""
    return bool(b.t().is_contiguous()) or (
        b.stride(0) == 1 and b.stride(1) >= b.shape[0] and not b.is_contiguous()
    )


def arrange_weight(b: torch.Tensor) -> tuple[torch.Tensor, bool, int | None]:
    """How a kernel takes B [K, N].

    Args:
        b: The matrix. If neither its rows nor its columns are contiguous, or a kernel could not read them where they
            are, it is copied.

    Returns:
        The tensor to pass, without copying it where possible; whether that is [K, N] rather than [N, K]; and how far
        apart its rows are, in elements, None if they touch.
    """
    column_major = is_column_major(b)
    given = b.t() if column_major else b
    if given.is_contiguous():
        return align(given), not column_major, None
    pitch = given.stride(0)
    if (
        given.stride(1) == 1
        and pitch >= given.shape[1]
        and pitch * given.element_size() % _TMA_BYTES == 0
        and given.data_ptr() % _TMA_BYTES == 0
    ):
        return given, not column_major, pitch
    return given.contiguous(), not column_major, None


def align(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, contiguous and at an address that kernels can read; a copy where it is not."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % _TMA_BYTES else tensor
