"""Imports what XLA's tools write: StableHLO and HLO, in which one program stands for all ranks."""

from __future__ import annotations

from dataclasses import replace

from syncopate.importers.layouts.exchange import Exchange
from syncopate.importers.programs.collectives import find_exchanges
from syncopate.importers.programs.shardings import find_reshardings
from syncopate.importers.xla import hlo, shardy, stablehlo
from syncopate.importers.xla.read_hlo import read_hlo
from syncopate.importers.xla.read_mlir import read_mlir, walk

__all__ = ["read_hlo_exchanges", "read_stablehlo_exchanges"]


def read_stablehlo_exchanges(text: str, file: str) -> list[Exchange]:
    """What collectives of StableHLO and shardings of Shardy move, each with the product beside it.

    Raises:
        PlanError: The file is malformed, or a collective or sharding is, or says what no plan can.
    """
    module = read_mlir(text, file)
    meshes = shardy.read_meshes(walk(module))
    grouping = replace(stablehlo.read_grouping(module), meshes=meshes)
    found: list[Exchange] = []
    for function in walk(module):
        if function.name != "func.func" or not function.regions:
            continue
        body = function.regions[0]
        found += find_exchanges(stablehlo.read_nodes(body, grouping))
        # Where there are collectives of ranks, values are parts already.
        if meshes and not any(
            map(stablehlo.is_collective, walk(body, stop="sdy.manual_computation"))
        ):
            found += shardy.find_shardy_exchanges(function, meshes)
    return sorted(found, key=lambda exchange: exchange.place.line)


def read_hlo_exchanges(text: str, file: str) -> list[Exchange]:
    """What collectives of HLO move, or shardings before its partitioner has run, each with the product beside it.

    Raises:
        PlanError: The file is malformed, or a collective says what no plan can.
    """
    module = read_hlo(text, file)
    grouping = hlo.read_grouping(module)
    found: list[Exchange] = []
    for operations in module.computations.values():
        nodes = hlo.read_nodes(module, operations, grouping)
        exchanges = find_exchanges(nodes)
        # Where there are collectives, values are parts already.
        if not exchanges and hlo.is_whole(operations):
            placed = hlo.place_nodes(module, operations, grouping)
            exchanges = find_reshardings(placed, explicit=False)
        found += exchanges
    return sorted(found, key=lambda exchange: exchange.place.line)
