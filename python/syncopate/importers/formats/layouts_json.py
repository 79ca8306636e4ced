"""Imports layouts in JSON: tensors from one to another, and Alpa's strategies of products.

A layout is written as the system does that it comes from: a spec of Alpa, a sharding of HLO, or placements of DTensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncopate.dtypes import DTYPES
from syncopate.errors import PlanError
from syncopate.importers.documents.items import Item, shorten
from syncopate.importers.documents.read_json import read_json
from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.layout import Layout, alpa_layout, dtensor_layout, gspmd_layout
from syncopate.importers.programs.shardings import Placed, find_reshardings
from syncopate.importers.programs.tensors import Dot, Node, Tensor

__all__ = ["read_layouts_json"]

_MOST: Final = 1 << 40
_STRATEGY: Final = re.compile(
    r"([RS]\d*[RS]\d*) = ([RS]\d*[RS]\d*) x ([RS]\d*[RS]\d*)(?: @ (?:\{([\d,]+)\}|(\d)))?"
    r"(?: \((allreduce|reduce-scatter) @ (\d)\))?"
)


def read_layouts_json(text: str, file: str) -> list[Exchange]:
    """What moves between the layouts of tensors, and around products.

    Raises:
        PlanError: The file is malformed, or a layout or strategy is.
    """
    root = read_json(text, file).called("layouts")
    mesh = root.integers("mesh", 1, 4097)
    reader = _Reader(root, mesh, root.word("dtype", {name: name for name in DTYPES}))
    placed = [
        *(one for item in root.items("moves", "move", optional=True) for one in reader.move(item)),
        *(
            one
            for item in root.items("products", "product", optional=True)
            for one in reader.product(item)
        ),
    ]
    return find_reshardings(placed, explicit=False)


@dataclass
class _Reader:
    root: Item
    mesh: Sequence[int]
    dtype: str
    count: int = 0

    def move(self, item: Item) -> Iterator[Placed]:
        shape = self._shape(item, None)
        value, src = self._value(item, shape, self._layout(item, "from", shape))
        yield src
        yield self._moved(item, value, shape, self._layout(item, "to", shape))[1]

    def product(self, item: Item) -> Iterator[Placed]:
        """Factors, brought where the strategy wants them, and the result, where it is wanted."""
        m, n, k = self._shape(item, 3)
        specs = self._strategy(item)
        names = []
        for field, spec, shape in (("a", specs[1], (m, k)), ("b", specs[2], (k, n))):
            wanted = self._spec(item, spec, shape)
            given = self._layout(item, field, shape) if item.has(field) else wanted
            value, src = self._value(item, shape, given)
            yield src
            value, moved = self._moved(item, value, shape, wanted)
            yield moved
            names.append(value)
        result = self._spec(item, specs[0], (m, n))
        if item.has("c"):
            result = self._layout(item, "c", (m, n))
        self.count += 1
        types = [Tensor(shape, self.dtype) for shape in ((m, n), (m, k), (k, n))]
        node = Node(item.place, f"%{self.count}", names, types[0], types[1:], Dot((1,), (0,)))
        yield Placed(node, result)

    def _value(self, item: Item, shape: tuple[int, ...], layout: Layout) -> tuple[str, Placed]:
        self.count += 1
        node = Node(item.place, f"%{self.count}", (), Tensor(shape, self.dtype))
        return node.result, Placed(node, layout)

    def _moved(
        self, item: Item, value: str, shape: tuple[int, ...], layout: Layout
    ) -> tuple[str, Placed]:
        self.count += 1
        type_ = Tensor(shape, self.dtype)
        node = Node(item.place, f"%{self.count}", (value,), type_, (type_,))
        return node.result, Placed(node, layout, moves=True)

    def _shape(self, item: Item, dims: int | None) -> tuple[int, ...]:
        shape = item.integers("shape", 1, _MOST)
        if dims is not None and len(shape) != dims:
            item.fail(f"expects shape to be M, N and K, but got {len(shape)} sizes", "shape")
        if not 1 <= len(shape) <= 5:
            item.fail(f"expects shape to have 1 to 5 sizes, but got {len(shape)}", "shape")
        return shape

    def _layout(self, item: Item, field: str, shape: tuple[int, ...]) -> Layout:
        """The layout of a field, in one of three notations."""
        value = item.fields.get(field)
        try:
            if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
                return dtensor_layout(self.mesh, value, shape)
            if isinstance(value, str) and value.startswith("{"):
                ranks = 1
                for size in self.mesh:
                    ranks *= size
                return gspmd_layout(value, shape, ranks)
            if isinstance(value, str):
                return alpa_layout(self.mesh, value, shape)
        except PlanError as error:
            item.fail(str(error), field)
        if not item.has(field):
            item.fail(f"expects {field}, but it is missing")
        item.fail(
            f"expects {field} to be a spec, a sharding, or a list of placements, but got {shorten(value)}",
            field,
        )

    def _spec(self, item: Item, spec: str, shape: tuple[int, ...]) -> Layout:
        try:
            return alpa_layout(self.mesh, spec, shape)
        except PlanError as error:
            item.fail(str(error), "strategy")

    def _strategy(self, item: Item) -> list[str]:
        """Specs of the result and both factors.

        Alpa names dimensions of the mesh behind the letters: in the order of M, K and N, as far as they are cut.
        """
        text = item.text("strategy")
        match = _STRATEGY.fullmatch(text)
        if match is None:
            item.fail(
                f"expects strategy to be such as 'SR = SS x SR @ {{0,1}} (allreduce @ 1)', but got {shorten(text)}",
                "strategy",
            )
        specs = [match[1], match[2], match[3]]
        axes = (match[4] or match[5] or "").split(",") if match[4] or match[5] else []
        letters = [re.findall(r"[RS]\d*", spec) for spec in specs]
        if axes:
            (_, _), (rows, inner), (inner_b, columns) = letters
            cut = [
                name
                for name, letter in (("m", rows), ("k", inner), ("n", columns))
                if letter == "S"
            ]
            if len(cut) != len(axes) or inner != inner_b or any(map(str.isdigit, "".join(specs))):
                item.fail(
                    f"expects a dimension of the mesh for each of {len(cut)} that are cut, but got {shorten(text)}",
                    "strategy",
                )
            place = dict(zip(cut, axes, strict=True))
            found = {name: f"S{place[name]}" if name in place else "R" for name in "mkn"}
            last = f"S{match[7]}" if match[6] == "reduce-scatter" else found["n"]
            letters = [[found["m"], last], [found["m"], found["k"]], [found["k"], found["n"]]]
            if [re.sub(r"\d", "", "".join(pair)) for pair in letters] != specs:
                item.fail(
                    f"expects factors that make the result, but got {shorten(text)}", "strategy"
                )
        return ["".join(pair) for pair in letters]
