"""Which steps tiles walk, where that does not follow from the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.mlir import ir

__all__ = ["Steps", "range_maps"]


@dataclass(frozen=True)
class Steps:
    """The steps that each tile walks, for a kernel whose loop over them begins or ends at what passes cannot know.

    Attributes:
        range: Gives the first step and the one behind the last for the tile coordinates: ``lambda m: (0, 4 * m + 4)``.
            They have to be affine. In the place of each may stand a tuple, of which the greatest first step counts,
            and the least last one. A tile whose range is empty has no steps.
        rank: The rank for which this is so; every one if it is left out.
    """

    range: Callable[..., tuple[Any, Any]]
    rank: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.range):
            raise SyncopateError(
                f"steps: expects a function of tile coordinates, but got {self.range!r}"
            )
        if self.rank is not None and not (type(self.rank) is int and 0 <= self.rank < 2**63):
            raise SyncopateError(f"steps: expects a rank, but got {self.rank!r}")


def range_maps(steps: Steps, dims: int) -> tuple[ir.Attribute, ir.Attribute]:
    """Both ends of the range as maps of so many tile coordinates, in the current context.

    Raises:
        SyncopateError: They are no functions of these that are affine.
    """
    coordinates = [ir.AffineDimExpr.get(dim) for dim in range(dims)]
    try:
        begin, end = steps.range(*coordinates)
        return _to_map(begin, dims), _to_map(end, dims)
    except (TypeError, ValueError) as error:
        raise SyncopateError(
            f"steps: expects the first and the one behind the last as a function of {dims} tile coordinates that is "
            f"affine in them: {error}"
        ) from None


def _to_map(bound: Any, dims: int) -> ir.Attribute:
    values = bound if isinstance(bound, Sequence) else (bound,)
    exprs = [
        value if isinstance(value, ir.AffineExpr) else ir.AffineConstantExpr.get(value)
        for value in values
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(dims, 0, exprs))
