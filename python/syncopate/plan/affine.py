"""Affine expressions of the dialect as functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from syncopate.errors import InternalError
from syncopate.mlir import ir

__all__ = ["Expression", "to_function"]

Expression = Callable[[Sequence[Any]], Any]


def to_function(expr: ir.AffineExpr) -> Expression:
    """An affine expression as a function of its dimensions: of integers, or of anything else to calculate with."""
    if isinstance(expr, ir.AffineConstantExpr):
        value = expr.value
        return lambda _: value
    if isinstance(expr, ir.AffineDimExpr):
        position = expr.position
        return lambda coordinates: coordinates[position]
    for kind, operation in _OPERATIONS.items():
        if isinstance(expr, kind):
            lhs, rhs = to_function(expr.lhs), to_function(expr.rhs)
            return lambda coordinates: operation(lhs(coordinates), rhs(coordinates))
    raise InternalError(f"{expr} is no affine expression of dimensions")


_OPERATIONS: Mapping[type[ir.AffineExpr], Callable[[Any, Any], Any]] = {
    ir.AffineAddExpr: operator.add,
    ir.AffineMulExpr: operator.mul,
    ir.AffineModExpr: operator.mod,
    ir.AffineFloorDivExpr: operator.floordiv,
    ir.AffineCeilDivExpr: lambda a, b: -(-a // b),
}
