"""Imports what XLA's tools write: StableHLO and HLO, in which one program stands for all ranks."""

from __future__ import annotations

from syncopate.importers import hlo, stablehlo
from syncopate.importers.exchange import Exchange, find_exchanges
from syncopate.importers.read_hlo import read_hlo
from syncopate.importers.read_mlir import read_mlir, walk

__all__ = ["read_hlo_exchanges", "read_stablehlo_exchanges"]


def read_stablehlo_exchanges(text: str, file: str) -> list[Exchange]:
    """What collectives of StableHLO move, each with the product beside it.

    Raises:
        PlanError: The file is malformed, or a collective says what no plan can.
    """
    module = read_mlir(text, file)
    grouping = stablehlo.read_grouping(module)
    functions = [operation for operation in walk(module) if operation.name == "func.func"]
    bodies = [function.regions[0] for function in functions if function.regions] or [module]
    return [
        exchange
        for body in bodies
        for exchange in find_exchanges(stablehlo.read_nodes(body, grouping))
    ]


def read_hlo_exchanges(text: str, file: str) -> list[Exchange]:
    """What collectives of HLO move, each with the product beside it.

    Raises:
        PlanError: The file is malformed, or a collective says what no plan can.
    """
    module = read_hlo(text, file)
    grouping = hlo.read_grouping(module)
    return [
        exchange
        for operations in module.computations.values()
        for exchange in find_exchanges(hlo.read_nodes(module, operations, grouping))
    ]
