"""What Shardy has moved: by shardings of values, by constraints, and by its own collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.layouts.layout import Layout
from syncopate.importers.programs.shardings import ELEMENTWISE, Placed, find_reshardings
from syncopate.importers.programs.tensors import Argument, Node, Operation, Tensor
from syncopate.importers.xla.meshes import NamedMesh, SubAxis
from syncopate.importers.xla.read_mlir import LABEL, read_dictionaries
from syncopate.importers.xla.shardy_layout import TensorSharding, read_mesh, read_sharding
from syncopate.importers.xla.stablehlo import read_dot

__all__ = ["find_shardy_exchanges", "read_meshes"]

_MOVES: Final = {"sdy.sharding_constraint", "sdy.reshard"}
_COLLECTIVES: Final = {
    f"sdy.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_slice", "all_to_all", "collective_permute"),
        "reduce_scatter",
    )
}
_SUMS: Final = {"sdy.all_reduce", "sdy.reduce_scatter"}
_RETURNS: Final = {"return", "func.return"}


def read_meshes(operations: Iterable[Operation]) -> dict[str, NamedMesh]:
    """The meshes of a module, by name."""
    return dict(read_mesh(operation) for operation in operations if operation.name == "sdy.mesh")


def find_shardy_exchanges(function: Operation, meshes: Mapping[str, NamedMesh]) -> list[Exchange]:
    """What moves in a function.

    Raises:
        PlanError: A sharding is malformed, or does not fit its value.
    """
    reader = _Reader(meshes)
    placed = list(reader.function(function))
    return find_reshardings(placed, explicit=reader.explicit)


@dataclass
class _Reader:
    meshes: Mapping[str, NamedMesh]
    explicit: bool = False
    shardings: dict[str, TensorSharding] = field(default_factory=dict)
    # Of the meshes of all shardings so far.
    ranks: set[int] = field(default_factory=set)

    def function(self, function: Operation) -> Iterator[Placed]:
        yield from self._arguments(function.arguments or _generic_arguments(function))
        for region in function.regions:
            for operation in region:
                if operation.name in _RETURNS:
                    yield from self._return(operation, function)
                else:
                    yield from self._operation(operation)

    def _arguments(self, arguments: Sequence[Argument]) -> Iterator[Placed]:
        for argument in arguments:
            node = Node(argument.place, argument.name, (), argument.type)
            text = argument.fields.get("sdy.sharding")
            layout = None
            if text is not None:
                owner = Operation("argument", argument.place, (), (), {}, (argument.type,))
                layout = self._layout(owner, text, argument.type, argument.name)
            yield Placed(node, layout)

    def _operation(self, operation: Operation) -> Iterator[Placed]:
        if operation.name == LABEL:
            return
        if operation.name in _COLLECTIVES or operation.name in _MOVES:
            yield self._move(operation)
            return
        if operation.name == "sdy.manual_computation":
            yield from self._manual(operation)
            return
        text = operation.fields.get("sdy.sharding")
        several = text is not None and operation.results
        texts = _per_value(operation, text or "", len(operation.results)) if several else []
        meaning = read_dot(operation)
        for number, name in enumerate(operation.results):
            type_ = operation.types[number] if number < len(operation.types) else None
            layout = self._layout(operation, texts[number], type_, name) if texts else None
            node = Node(
                operation.place,
                name,
                operation.operands,
                type_,
                operation.operand_types,
                meaning,
                operation.name in ("stablehlo.convert", "stablehlo.optimization_barrier"),
            )
            elementwise = operation.name.removeprefix("stablehlo.") in ELEMENTWISE
            yield Placed(node, layout, elementwise=elementwise)

    def _move(self, operation: Operation) -> Placed:
        """A constraint, or a collective, whose operand lies as follows from its result."""
        if len(operation.operands) != 1 or len(operation.results) != 1:
            operation.fail("expects one operand and one result")
        collective = operation.name in _COLLECTIVES
        self.explicit = self.explicit or collective
        named = "out_sharding" if collective else "sharding"
        text = operation.fields.get(named)
        if text is None and not collective:
            text = operation.fields[""].partition(" ")[2]
        tensor = operation.tensor()
        if text is None:
            operation.fail(f"expects {named}, but it is missing")
        given = self.shardings.get(operation.operands[0])
        layout = self._layout(operation, text, tensor, operation.results[0])
        node = Node(operation.place, operation.results[0], operation.operands, tensor, (tensor,))
        if operation.results[0] not in self.shardings:
            # There is one rank.
            return Placed(node)
        before = None
        if operation.name in _SUMS:
            before = self._parts(operation, given, tensor)
        elif collective and given is None:
            # Nothing said is said of what all ranks have.
            before = replace(
                self.shardings[operation.results[0]], dims=((),) * len(tensor.shape)
            ).layout(tensor.shape, operation.fail)
        return Placed(node, layout, before, moves=True, name=operation.name.removeprefix("sdy."))

    def _parts(self, operation: Operation, given: TensorSharding | None, tensor: Tensor) -> Layout:
        """The layout of the parts of a sum."""
        result = self.shardings[operation.results[0]]
        dims: tuple[tuple[SubAxis, ...], ...] = ((),) * len(tensor.shape)
        if operation.name == "sdy.all_reduce":
            dims = result.dims
        elif given is not None:
            dims = given.dims
        return result.before_sum(operation, dims).layout(tensor.shape, operation.fail)

    def _manual(self, operation: Operation) -> Iterator[Placed]:
        """What a computation on parts of tensors takes and gives; what moves inside, StableHLO says."""
        for named, names in (
            ("in_shardings", operation.operands),
            ("out_shardings", operation.results),
        ):
            text = operation.fields.get(named, "[ ]")
            # Names of the arguments inside stand behind those of the operands.
            texts = _per_value(operation, text, None)
            if named == "out_shardings" and len(texts) != len(names):
                operation.fail(f"expects {len(names)} shardings in {named}, but got {len(texts)}")
            for number, (name, part) in enumerate(zip(names, texts, strict=False)):
                types = operation.operand_types if named == "in_shardings" else operation.types
                type_ = types[number] if number < len(types) else None
                if named == "in_shardings":
                    layout = self._layout(operation, part, type_, f"{name} inside")
                    node = Node(operation.place, f"{name} inside", (name,), type_, (type_,))
                    yield Placed(node, layout, moves=True)
                else:
                    layout = self._layout(operation, part, type_, name)
                    yield Placed(Node(operation.place, name, (), type_), layout)

    def _return(self, operation: Operation, function: Operation) -> Iterator[Placed]:
        given = [gives.fields for gives in function.gives] or _generic_fields(function, "res_attrs")
        for number, (name, fields) in enumerate(zip(operation.operands, given, strict=False)):
            text = fields.get("sdy.sharding")
            type_ = (*operation.operand_types, *([None] * (number + 1)))[number]
            if text is not None:
                result = f"{name} returned {number}"
                layout = self._layout(operation, text, type_, result)
                node = Node(operation.place, result, (name,), type_, (type_,))
                yield Placed(node, layout, moves=True)

    def _layout(
        self, operation: Operation, text: str, type_: Tensor | None, name: str
    ) -> Layout | None:
        """The layout that a sharding says; None for what is no tensor of known sizes, and where there is one rank."""
        sharding = read_sharding(text, self.meshes, operation.fail)
        if type_ is None:
            return None
        mesh = sharding.mesh
        # What is on one device has no dimensions that are cut.
        bare = not type_.shape or (mesh.device is not None and not sharding.dims)
        layout = None if bare else sharding.layout(type_.shape, operation.fail)
        if not mesh.sizes and mesh.device is None:
            return None
        self.ranks.add(len(mesh.ranks))
        if len(self.ranks) > 1 and 1 in self.ranks:
            operation.fail(
                f"expects what lies on one rank alone in no function with shardings on {max(self.ranks)}, but got "
                f"{text[:60]!r}"
            )
        if self.ranks == {1}:
            return None
        self.shardings[name] = sharding
        return layout


def _generic_arguments(function: Operation) -> Sequence[Argument]:
    """What a function in generic form takes: attributes stand in a list, and names where its body begins."""
    label = function.regions[0][0] if function.regions and function.regions[0] else function
    attributes = _generic_fields(function, "arg_attrs")
    if len(attributes) != len(label.arguments):
        return label.arguments
    return [
        replace(argument, fields=fields)
        for argument, fields in zip(label.arguments, attributes, strict=True)
    ]


def _generic_fields(function: Operation, name: str) -> list[Mapping[str, str]]:
    return [
        read_dictionaries(part.split(" "))
        for part in _per_value(function, function.fields.get(name, ""), None)
    ]


def _per_value(operation: Operation, text: str, count: int | None) -> list[str]:
    """The shardings of several values."""
    words = text.split(" ")
    begin = words.index("[") if "[" in words else len(words)
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words[begin + 1 :]:
        depth += (word in "([{<") - (word in ")]}>")
        if depth < 0:
            break
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    found = [" ".join(part) for part in parts if part]
    if count is not None and len(found) != count:
        operation.fail(f"expects a sharding for each of {count} results, but got {len(found)}")
    return found
