"""Fabrics by name: a JSON file, a machine of the cost model, or the machine that this runs on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from syncopate.errors import SyncopateError
from syncopate.model.presets import find_preset, preset_names
from syncopate.synthesis.detect import detect_fabric
from syncopate.synthesis.fabric import Fabric

__all__ = ["DETECT", "find_fabric"]

DETECT: Final = "detect"


def find_fabric(name: str, ranks: int | None = None) -> Fabric:
    """A fabric by its name.

    Args:
        name: A path that ends in .json; the name of a machine of `syncopate.model`; or "detect".
        ranks: Number of ranks, which a machine leaves open; the fabric has to have as many, if it is given otherwise.

    Raises:
        SyncopateError: There is no such file or machine, or it does not go with the number of ranks.
    """
    if name == DETECT:
        return _with_ranks(detect_fabric(range(ranks) if ranks else None), ranks)
    if name.endswith(".json"):
        try:
            data = json.loads(Path(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise SyncopateError(f"fabric: cannot read {name}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise SyncopateError(f"fabric: {name} is no JSON: {error}") from None
        return _with_ranks(Fabric.from_json(data), ranks)
    if name not in preset_names():
        raise SyncopateError(
            f"fabric: expects a file that ends in .json, {DETECT}, or one of {', '.join(preset_names())}, but got "
            f"{name!r:.80}"
        )
    if ranks is None:
        raise SyncopateError(f"ranks: expects a number, which machine {name} leaves open")
    machine = find_preset(name)
    return Fabric.of(
        machine.topology,
        ranks,
        latency_us=machine.latencies.flag_remote,
        name=f"{name}, {ranks} ranks",
    )


def _with_ranks(fabric: Fabric, ranks: int | None) -> Fabric:
    if ranks is not None and fabric.ranks != ranks:
        raise SyncopateError(f"ranks: {fabric.name} has {fabric.ranks}, but got {ranks}")
    return fabric
