"""Fabrics by name: a JSON file of links or of a machine, a machine of the cost model, or the one that this runs on."""

from __future__ import annotations

import dataclasses
from typing import Final

from syncopate.errors import SyncopateError
from syncopate.model.detect import detect_fabric
from syncopate.model.fabric import Fabric
from syncopate.model.machine import Machine
from syncopate.model.machine_file import read_json
from syncopate.model.presets import find_preset, preset_names

__all__ = ["DETECT", "find_fabric"]

DETECT: Final = "detect"


def find_fabric(name: str, ranks: int | None = None) -> Fabric:
    """A fabric by its name.

    Args:
        name: A path that ends in .json, of links or of a machine; the name of a machine of `syncopate.model`; or
            "detect".
        ranks: Number of ranks, which a machine leaves open; the fabric has to have as many, if it is given otherwise.

    Raises:
        SyncopateError: There is no such file or machine, or it does not go with the number of ranks.
    """
    if name == DETECT:
        return _with_ranks(detect_fabric(range(ranks) if ranks else None), ranks)
    if name.endswith(".json"):
        data = read_json("fabric", name)
        if isinstance(data, dict) and "topology" in data:
            return _links_of(Machine.from_json(data), name, ranks)
        return _with_ranks(Fabric.from_json(data), ranks)
    if name not in preset_names():
        raise SyncopateError(
            f"fabric: expects a file that ends in .json, {DETECT}, or one of {', '.join(preset_names())}, but got "
            f"{name!r:.80}"
        )
    return _links_of(find_preset(name), name, ranks)


def _links_of(machine: Machine, name: str, ranks: int | None) -> Fabric:
    if isinstance(machine.topology, Fabric):
        return _with_ranks(machine.topology, ranks)
    if ranks is None:
        raise SyncopateError(f"ranks: expects a number, which machine {name} leaves open")
    return dataclasses.replace(machine.fabric(ranks), name=f"{name}, {ranks} ranks")


def _with_ranks(fabric: Fabric, ranks: int | None) -> Fabric:
    if ranks is not None and fabric.ranks != ranks:
        raise SyncopateError(f"ranks: {fabric.name} has {fabric.ranks}, but got {ranks}")
    return fabric
