"""Where machines are kept: a file for each GPU and number of ranks, in the user's cache."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from syncopate.errors import SyncopateError
from syncopate.model.machine import Machine
from syncopate.model.presets import find_preset, preset_names

__all__ = [
    "find_machine",
    "gpu_stem",
    "load_machine",
    "machine_path",
    "open_machine",
    "read_json",
    "save_machine",
]


def machine_path(gpu: str, world_size: int) -> Path:
    """Where the measurement of a machine is kept.

    Args:
        gpu: The name of the GPU, as torch gives it.
        world_size: Number of ranks.
    """
    from syncopate.bridge import cache_folder

    return cache_folder("machines") / f"{gpu_stem(gpu)}-w{world_size}.json"


def save_machine(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Writes a machine; whoever reads the file meanwhile sees all of it or what was there before."""
    from syncopate.bridge import write_whole

    write_whole(Path(path), json.dumps(machine.to_json(), indent=1) + "\n")


def read_json(what: str, path: str | os.PathLike[str]) -> Any:
    """What a file of JSON holds.

    Raises:
        SyncopateError: There is no such file, or it is no JSON; the message begins with what it is to hold.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SyncopateError(f"{what}: cannot read {os.fspath(path)}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SyncopateError(f"{what}: {os.fspath(path)} is no JSON: {error}") from error


def load_machine(path: str | os.PathLike[str]) -> Machine:
    """Reads a machine.

    Raises:
        SyncopateError: There is no such file, it is malformed, or it has another version.
    """
    data = read_json("machine", path)
    if not isinstance(data, dict):
        raise SyncopateError(
            f"machine: {os.fspath(path)} holds no machine, as syncopate.model.measure writes them"
        )
    try:
        return Machine.from_json(data)
    except SyncopateError as error:
        raise SyncopateError(f"{os.fspath(path)}: {error}") from None


def open_machine(name: str) -> Machine:
    """The machine that a command or a caller names: a preset, or else a file.

    Raises:
        SyncopateError: It is neither.
    """
    if name in preset_names():
        return find_preset(name)
    if not Path(name).is_file():
        known = ", ".join(preset_names())
        raise SyncopateError(
            f"machine: expects the file of a machine, or one of {known}, but got {name!r}"
        )
    return load_machine(name)


def find_machine(gpu: str, world_size: int) -> Machine:
    """What is known of a machine: its measurement if there is one, else the preset of that GPU and number of ranks.

    Raises:
        SyncopateError: Neither is there, or the measurement is malformed.
    """
    path = machine_path(gpu, world_size)
    if path.exists():
        return load_machine(path)
    for name in preset_names():
        if name.removesuffix("-predicted") == f"{gpu_stem(gpu)}-w{world_size}":
            return find_preset(name)
    raise SyncopateError(
        f"machine: nothing is known of {world_size} ranks on {gpu}; measure it with torchrun --nproc-per-node "
        f"{world_size} -m syncopate.model.measure, or name one of {', '.join(preset_names())}"
    )


def gpu_stem(gpu: str) -> str:
    """A GPU's name as names of files and presets have it.

    Args:
        gpu: Its name as torch gives it.
    """
    words = gpu.lower().replace("nvidia", "").replace("geforce", "").split()
    # What follows the name of the GPU says how it is built in: SXM, HBM3, memory.
    return "-".join(words[:1] if words and words[0][:1] in "habl" else words) or "unknown"
