"""Programs on whole tensors whose values have layouts: what has to move between them.

A value's layout is what is said of it; what nobody speaks of takes that of a constraint or result behind it, or else
that of what it is computed from, element by element. Where a value is wanted in another layout than it has, something
moves, and so it does where a product's factors do not lie as its result is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from syncopate.dtypes import DTYPES
from syncopate.importers.imported import Gemm
from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.layout import Layout
from syncopate.importers.programs.neighbours import Neighbours, to_gemm
from syncopate.importers.programs.products import place_product
from syncopate.importers.programs.tensors import Dot, Node, Tensor

__all__ = ["ELEMENTWISE", "Placed", "find_reshardings"]

ELEMENTWISE: Final = frozenset(
    {
        *("abs", "add", "and", "ceil", "clamp", "compare", "convert", "copy", "cosine", "divide"),
        *(
            "erf",
            "exponential",
            "exponential_minus_one",
            "floor",
            "log",
            "log_plus_one",
            "logistic",
        ),
        *("maximum", "minimum", "multiply", "negate", "not", "opt_barrier", "optimization_barrier"),
        *(
            "or",
            "power",
            "remainder",
            "rsqrt",
            "select",
            "sign",
            "sine",
            "sqrt",
            "subtract",
            "tanh",
        ),
        "xor",
    }
)
"""Operations whose result lies as what they take, in StableHLO's words."""


@dataclass(frozen=True)
class Placed:
    """A node with what is said of where its value lies.

    Attributes:
        node: The node, of whole tensors.
        layout: Where its result is to lie, if that is said.
        before: Where its operand lies, if that follows from the node.
        moves: Whether the result is the operand in another layout.
        elementwise: Whether the result lies as the operands do.
        name: What it is called.
    """

    node: Node
    layout: Layout | None = None
    before: Layout | None = None
    moves: bool = False
    elementwise: bool = False
    name: str = "reshard"


@dataclass(frozen=True)
class _Found:
    node: Node
    src: Layout
    dst: Layout
    tensor: Tensor
    name: str
    gemm: Gemm | None = None


@dataclass
class _Program:
    placed: Sequence[Placed]
    explicit: bool
    layouts: dict[str, Layout] = field(default_factory=dict)
    types: dict[str, Tensor] = field(default_factory=dict)
    found: list[_Found] = field(default_factory=list)
    # Products whose factor, or whose result, moves: by name.
    brought: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def run(self) -> None:
        wanted = self._wanted()
        for placed in self.placed:
            node = placed.node
            if node.type is not None:
                self.types[node.result] = node.type
            layout = placed.layout or wanted.get(node.result)
            if placed.moves:
                self._move(placed)
            elif isinstance(node.meaning, Dot):
                layout = self._multiply(node, node.meaning, layout)
            elif placed.elementwise:
                layout = self._compute(node, layout)
            if layout is not None:
                self.layouts[node.result] = layout

    def _wanted(self) -> Mapping[str, Layout]:
        """By value of which nothing is said, the layout in which what comes behind wants it."""
        said = {placed.node.result for placed in self.placed if placed.layout is not None}
        makers = {placed.node.result: placed for placed in self.placed}
        wanted: dict[str, Layout] = {}
        for placed in reversed(self.placed):
            node = placed.node
            layout = placed.layout or wanted.get(node.result)
            if layout is None or not (placed.moves or placed.elementwise) or placed.before:
                continue
            for operand in node.operands:
                maker = makers.get(operand)
                if maker is None or operand in said or maker.node.type is None or node.type is None:
                    continue
                if maker.node.type.shape == node.type.shape:
                    wanted.setdefault(operand, layout)
        return wanted

    def _move(self, placed: Placed) -> None:
        node = placed.node
        src = placed.before or (self.layouts.get(node.operands[0]) if node.operands else None)
        if src is None or placed.layout is None or node.type is None:
            return
        self._add(node, src, placed.layout, node.type, placed.name)

    def _compute(self, node: Node, layout: Layout | None) -> Layout | None:
        """Brings operands where the result is wanted; the layout of the result."""
        alike = [
            name
            for name in dict.fromkeys(node.operands)
            if name in self.layouts
            and name in self.types
            and node.type is not None
            and self.types[name].shape == node.type.shape
        ]
        if layout is None:
            layout = self.layouts[alike[0]] if alike else None
        for name in alike:
            assert layout is not None
            self._add(node, self.layouts[name], layout, self.types[name], "reshard")
        return layout

    def _multiply(self, node: Node, dot: Dot, layout: Layout | None) -> Layout | None:
        """What has to move for a product; the layout of its result."""
        if self.explicit or len(node.operands) != 2 or node.type is None:
            return layout
        lhs, rhs = (self.layouts.get(name) for name in node.operands)
        types = [self.types.get(name) for name in node.operands]
        if lhs is None or rhs is None or types[0] is None or types[1] is None:
            return layout
        product = place_product(node, dot, lhs, rhs, layout)
        if product is None:
            return layout
        local = [
            _local(types[0], product.lhs),
            _local(types[1], product.rhs),
        ]
        shaped = replace(node, operand_types=tuple(local))
        for number, (src, dst) in enumerate(((lhs, product.lhs), (rhs, product.rhs))):
            type_ = types[number]
            assert type_ is not None
            reads = number == 0
            gemm = to_gemm(shaped, dot, type_.dtype, reads=True) if reads else None
            if self._add(node, src, dst, type_, "reshard", gemm) and reads:
                self.brought.add(node.result)
        gemm = to_gemm(shaped, dot, node.type.dtype, reads=False)
        computed, result = product.computed, product.result
        if computed.parts and any(
            box.without(own) for own, box in zip(computed.boxes, result.boxes, strict=True)
        ):
            # What is wanted is more than the sum of what a rank has part in.
            whole = Layout(computed.text, computed.boxes)
            self._add(node, computed, whole, node.type, "reshard", gemm)
            self.taken.add(node.result)
            computed, gemm = whole, None
        if self._add(node, computed, result, node.type, "reshard", gemm):
            self.taken.add(node.result)
        return result

    def _add(
        self,
        node: Node,
        src: Layout,
        dst: Layout,
        tensor: Tensor,
        name: str,
        gemm: Gemm | None = None,
    ) -> bool:
        """Notes what moves, and says whether anything does."""
        if len(src.boxes) != len(dst.boxes):
            node.place.fail(
                f"{name}: expects layouts of one number of ranks, but got {len(src.boxes)} and {len(dst.boxes)}"
            )
        inside = all(not box.without(own) for own, box in zip(src.boxes, dst.boxes, strict=True))
        if dst.parts or (inside and not src.parts) or len(src.boxes) < 2:
            return False
        if tensor.dtype not in DTYPES:
            node.place.fail(
                f"{name}: expects elements of {', '.join(DTYPES)}, but got {tensor.dtype}"
            )
        self.found.append(_Found(node, src, dst, tensor, name, gemm))
        return True


def find_reshardings(placed: Sequence[Placed], *, explicit: bool) -> list[Exchange]:
    """What moves in a program.

    Args:
        placed: Its nodes, in order.
        explicit: Whether all that moves is written down, so that products have what they need.

    Raises:
        PlanError: Something would move that is of no element type of plans.
    """
    program = _Program(placed, explicit)
    program.run()
    local = Neighbours([_localize(one.node, program) for one in placed])
    exchanges = []
    for found in program.found:
        gemm = found.gemm
        if gemm is None and not isinstance(found.node.meaning, Dot):
            shaped = replace(
                found.node,
                type=_local(found.tensor, found.dst),
                operand_types=(_local(found.tensor, found.src),),
            )
            gemm = local.find(shaped)
        exchange = Exchange(found.name, found.node.place, found.src, found.dst, found.tensor.dtype)
        exchanges.append(exchange.beside(gemm))
    return exchanges


def _localize(node: Node, program: _Program) -> Node:
    """A node as a rank computes it."""
    types = [
        _local(type_, program.layouts.get(name))
        for name in node.operands
        if (type_ := program.types.get(name)) is not None
    ]
    operands = list(node.operands)
    if node.result in program.brought:
        operands[0] = f"{operands[0]} brought"
    return replace(
        node,
        result=f"{node.result} computed" if node.result in program.taken else node.result,
        operands=operands,
        operand_types=tuple(types) if len(types) == len(node.operands) else (),
        type=None if node.type is None else _local(node.type, program.layouts.get(node.result)),
    )


def _local(tensor: Tensor, layout: Layout | None) -> Tensor | None:
    """What a rank has of a tensor, if all have as much."""
    sizes = {box.sizes for box in layout.boxes} if layout is not None else set()
    return Tensor(sizes.pop(), tensor.dtype) if len(sizes) == 1 else None
