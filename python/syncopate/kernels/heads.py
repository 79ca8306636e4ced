"""What all kinds of attention want of heads and of the factor of scores."""

from __future__ import annotations

import math

from syncopate.compiler.binding import Tensor
from syncopate.errors import SyncopateError
from syncopate.plan import Buffer

__all__ = ["check_heads", "count_group", "find_scale"]


def count_group(heads: int, kv_heads: int, head_dim: int) -> int:
    """How many heads of the queries share one of keys and values.

    Raises:
        SyncopateError: There is no such number, or a head has no number of elements that tiles can have.
    """
    for name, value in (("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)):
        if type(value) is not int or value < 1:
            raise SyncopateError(f"{name}: expects a positive integer, but got {value!r}")
    if head_dim & (head_dim - 1) or head_dim < 16:
        raise SyncopateError(
            f"head_dim: expects a power of two of at least 16, but got {head_dim}; pad the heads with zeros"
        )
    if heads % kv_heads:
        raise SyncopateError(
            f"heads: expects a multiple of the {kv_heads} heads of keys and values, but got {heads}"
        )
    return heads // kv_heads


def check_heads(
    k: Buffer | Tensor, v: Buffer | Tensor, heads: int, head_dim: int, length: int
) -> int:
    """Checks keys and values of a sequence; gives what `count_group` does.

    Raises:
        SyncopateError: They are not [length, kv_heads · head_dim], or differ, or `count_group` refuses the numbers.
    """
    if tuple(k.shape) != tuple(v.shape) or k.dtype != v.dtype:
        raise SyncopateError(
            f"v: expects values like the keys, {list(k.shape)} of {k.dtype}, but got {list(v.shape)} of {v.dtype}"
        )
    # Numbers that are none are named before anything is divided by them.
    count_group(heads, 1, head_dim)
    if len(k.shape) != 2 or k.shape[0] != length or k.shape[1] % head_dim:
        raise SyncopateError(
            f"k: expects [{length}, kv_heads · {head_dim}], but got {list(k.shape)}"
        )
    return count_group(heads, k.shape[1] // head_dim, head_dim)


def find_scale(scale: float | None, head_dim: int) -> float:
    """By what scores are multiplied: what was said, else 1 / √head_dim.

    Raises:
        SyncopateError: It is not positive.
    """
    found = head_dim**-0.5 if scale is None else float(scale)
    if not 0 < found < math.inf:
        raise SyncopateError(f"scale: expects a positive number, but got {found}")
    return found
