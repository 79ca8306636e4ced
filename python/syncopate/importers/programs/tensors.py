"""What a file of XLA says: operations on tensors, whether it is written in MLIR or as HLO.

Readers give operations with their text; `stablehlo` and `hlo` know what the text means, and give the nodes of a graph.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from syncopate.importers.documents.items import Place, shorten

__all__ = [
    "DTYPES",
    "Dot",
    "Node",
    "Operation",
    "Tensor",
    "Transfer",
    "TransferKind",
    "refuse_unplanned",
]

DTYPES: Final = {
    **{name: name for name in ("bf16", "f16", "f32", "f64", "f8E4M3FN", "f8E5M2")},
    **{
        f"{sign}{bits}": f"i{bits}"
        for sign in ("i", "s", "u", "ui", "si")
        for bits in (8, 16, 32, 64)
    },
    "f8e4m3fn": "f8E4M3FN",
    "f8e5m2": "f8E5M2",
}
"""Element types as plans spell them, by how MLIR or HLO does."""


@dataclass(frozen=True)
class Tensor:
    """The type of a value.

    Attributes:
        shape: Its sizes.
        dtype: Its element type as MLIR spells it; as the file does, if plans have none like it.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Operation:
    """An operation as it is written.

    Attributes:
        name: Its name, with its dialect.
        place: Where it begins.
        results: Names of its results.
        operands: Names of the values that it takes, in order.
        fields: Text of its attributes by name; words between its operands are one too, by the empty name.
        types: Types of its results; None for what is no tensor, or has sizes that nobody knows.
        operand_types: Types of its operands, if it says them.
        regions: Operations inside, region by region.
        arguments: Of a function or the label of a block, what it takes.
        gives: Of a function, what it gives.
    """

    name: str
    place: Place
    results: tuple[str, ...]
    operands: tuple[str, ...]
    fields: Mapping[str, str]
    types: tuple[Tensor | None, ...]
    operand_types: tuple[Tensor | None, ...] = ()
    regions: tuple[tuple[Operation, ...], ...] = ()
    arguments: tuple[Argument, ...] = ()
    gives: tuple[Argument, ...] = ()

    def fail(self, message: str) -> NoReturn:
        """Raises the error that something is wrong with it."""
        self.place.fail(f"{self.name}: {message}")

    def text(self, *names: str) -> str:
        """The text of the attribute that has one of these names."""
        for name in names:
            if name in self.fields:
                return self.fields[name]
        self.fail(f"expects {names[0]}, but it is missing")

    def bad(self, name: str, wanted: str) -> NoReturn:
        """Raises the error that an attribute is not what is wanted."""
        self.fail(f"expects {name} to be {wanted}, but got {shorten(self.fields.get(name, ''))}")

    def tensor(self, number: int = 0) -> Tensor:
        """The type of a result, of which all sizes are known."""
        found = self.types[number] if number < len(self.types) else None
        if found is None:
            self.fail("expects the result to be a tensor of known sizes")
        return found


@dataclass(frozen=True)
class Argument:
    """What a function takes: its name, its type, and the text of its attributes."""

    name: str
    type: Tensor | None
    fields: Mapping[str, str]
    place: Place


class TransferKind(enum.Enum):
    """A collective of XLA."""

    ALL_GATHER = "all_gather"
    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    PERMUTE = "collective_permute"
    BROADCAST = "collective_broadcast"


_UNPLANNED: Final = ("ragged_all_to_all", "send", "recv")


def refuse_unplanned(operation: Operation) -> None:
    """Raises an error for what moves something between ranks as no plan does: as much as tensors say, or unpaired."""
    name = operation.name.removeprefix("stablehlo.").replace("-", "_")
    to_host = operation.fields.get("is_host_transfer", "").startswith("true")
    if name in _UNPLANNED and not to_host:
        known = ", ".join(kind.value for kind in TransferKind)
        operation.fail(f"moves something between ranks that no plan can say; expects {known}")


@dataclass(frozen=True)
class Transfer:
    """A collective.

    Attributes:
        kind: Which one.
        groups: Its groups of ranks; of a permutation, pairs of a source and a target.
        axis: The dimension that is gathered, scattered, or split.
        concat: The dimension along which an all-to-all puts together what arrives.
        reduction: sum, max or min.
    """

    kind: TransferKind
    groups: tuple[tuple[int, ...], ...]
    axis: int = 0
    concat: int = 0
    reduction: str = "sum"


@dataclass(frozen=True)
class Dot:
    """A product of two tensors: the dimensions of either that are summed over, and those of a batch."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True)
class Node:
    """An operation of a graph.

    Attributes:
        place: Where it is written.
        result: The name of what it gives.
        operands: Names of what it takes.
        type: The type of what it gives.
        operand_types: The types of what it takes, if that is known.
        meaning: A product, a collective, or neither.
        passes: Whether it gives its operand, at most of another element type.
    """

    place: Place
    result: str
    operands: Sequence[str]
    type: Tensor | None
    operand_types: Sequence[Tensor | None] = ()
    meaning: Dot | Transfer | None = None
    passes: bool = False

    def fail(self, message: str) -> NoReturn:
        """Raises the error that something is wrong with it."""
        name = self.meaning.kind.value if isinstance(self.meaning, Transfer) else "operation"
        self.place.fail(f"{name}: {message}")
