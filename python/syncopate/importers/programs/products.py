"""Where the factors and the result of a product lie on ranks, and what ranks compute of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncopate.importers.layouts.layout import Box, Layout
from syncopate.importers.programs.tensors import Dot, Node

__all__ = ["Product", "place_product"]


@dataclass(frozen=True)
class Product:
    """How a product is computed.

    Attributes:
        lhs: Where its first factor is to lie.
        rhs: Where its second factor is to lie.
        computed: What ranks compute: parts of sums, or all that is theirs.
        result: Where the result is to lie.
    """

    lhs: Layout
    rhs: Layout
    computed: Layout
    result: Layout


def place_product(
    node: Node, dot: Dot, lhs: Layout, rhs: Layout, result: Layout | None
) -> Product | None:
    """How ranks compute a product of what they have.

    If both factors are cut alike along what is summed over, each rank multiplies what it has, and parts of sums are
    added. Else each gets the rows and columns that make its part of the result.

    Args:
        node: The product.
        dot: What it sums over: the last dimension of the first factor, one of the two of the second.
        lhs: Where the first factor lies.
        rhs: Where the second one lies.
        result: Where the result is wanted; if that is not said, rows lie as those of the first factor, and columns as
            those of the second one.

    Returns:
        None if it is another kind of product, or factors are no whole values.

    Raises:
        PlanError: Nobody says where the result is wanted, and rows and columns are cut among the same ranks.
    """
    last = len(lhs.boxes[0].sizes) - 1
    if dot.lhs_batch or dot.rhs_batch or lhs.parts or rhs.parts or (result and result.parts):
        return None
    if len(dot.lhs_contracting) != 1 or len(dot.rhs_contracting) != 1:
        return None
    (a,), (b,) = dot.lhs_contracting, dot.rhs_contracting
    if len(rhs.boxes[0].sizes) != 2 or b > 1 or last < 1 or (a != last and (a, last) != (0, 1)):
        return None
    if len(lhs.boxes) != len(rhs.boxes):
        return None
    return _Placing(node, lhs, rhs, a, b).place(result)


@dataclass
class _Placing:
    node: Node
    lhs: Layout
    rhs: Layout
    a: int
    b: int

    def place(self, result: Layout | None) -> Product | None:
        lhs, rhs, a, b = self.lhs, self.rhs, self.a, self.b
        inner = _extent(lhs, a)
        pairs = list(zip(lhs.boxes, rhs.boxes, strict=True))
        cross = Layout(
            f"({lhs.text}) x ({rhs.text})", tuple(_join(left, right, a, b) for left, right in pairs)
        )
        free = [axis for axis in range(len(lhs.boxes[0].sizes)) if axis != a]
        extents = (*(_extent(lhs, axis) for axis in free), _extent(rhs, 1 - b))
        # Boxes of a layout are those of a grid.
        covered = sum(math.prod(box.sizes) for box in set(cross.boxes)) == math.prod(extents)
        if result is not None and len(result.boxes) != len(lhs.boxes):
            return None
        alike = all(
            (left.offsets[a], left.sizes[a]) == (right.offsets[b], right.sizes[b])
            for left, right in pairs
        )
        if alike and any(box.sizes[a] != inner for box in lhs.boxes):
            groups = self._find_groups(cross)
            if covered and groups is not None:
                return Product(lhs, rhs, replace(cross, parts=groups), result or cross)
            groups = None if result is None else self._find_groups(result)
            if result is not None and groups is not None:
                spans = [(left.offsets[a], left.sizes[a]) for left in lhs.boxes]
                return self._bring(result, spans, replace(result, parts=groups))
        if result is None and not covered:
            self.node.place.fail(
                f"dot: expects a sharding of its result, since ({lhs.text}) and ({rhs.text}) cut rows and columns "
                "among the same ranks"
            )
        wanted = cross if result is None else result
        return self._bring(wanted, [(0, inner)] * len(lhs.boxes), wanted)

    def _bring(self, result: Layout, spans: Sequence[tuple[int, int]], computed: Layout) -> Product:
        """The product whose factors are brought where their parts of the result are; of what is summed over, a span."""
        rows, columns = [], []
        for box, (offset, size) in zip(result.boxes, spans, strict=True):
            rows.append(_insert(box.offsets[:-1], box.sizes[:-1], self.a, offset, size))
            columns.append(_insert(box.offsets[-1:], box.sizes[-1:], self.b, offset, size))
        return Product(
            Layout(f"rows of {result.text}", tuple(rows)),
            Layout(f"columns of {result.text}", tuple(columns)),
            computed,
            result,
        )

    def _find_groups(self, layout: Layout) -> tuple[tuple[int, ...], ...] | None:
        """Groups of ranks whose parts sum up to the same part of the result; None if these are no groups."""
        by_part: dict[Box, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, box in enumerate(layout.boxes):
            by_part[box][self.lhs.boxes[rank].offsets[self.a]].append(rank)
        groups: list[tuple[int, ...]] = []
        inner = _extent(self.lhs, self.a)
        for parts in by_part.values():
            copies = {len(ranks) for ranks in parts.values()}
            sizes = [self.lhs.boxes[ranks[0]].sizes[self.a] for ranks in parts.values()]
            if len(copies) != 1 or sum(sizes) != inner or 0 in sizes:
                return None
            for copy in range(copies.pop()):
                groups.append(tuple(ranks[copy] for _, ranks in sorted(parts.items())))
        return tuple(groups) if all(len(group) > 1 for group in groups) else None


def _extent(layout: Layout, axis: int) -> int:
    return max(box.offsets[axis] + box.sizes[axis] for box in layout.boxes)


def _join(left: Box, right: Box, a: int, b: int) -> Box:
    """The part of the result that two factors make."""
    free = [axis for axis in range(len(left.sizes)) if axis != a]
    offsets = (*(left.offsets[axis] for axis in free), right.offsets[1 - b])
    return Box(offsets, (*(left.sizes[axis] for axis in free), right.sizes[1 - b]))


def _insert(
    offsets: tuple[int, ...], sizes: tuple[int, ...], axis: int, offset: int, size: int
) -> Box:
    """A box with one dimension more."""
    return Box((*offsets[:axis], offset, *offsets[axis:]), (*sizes[:axis], size, *sizes[axis:]))
