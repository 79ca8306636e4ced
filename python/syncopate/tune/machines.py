"""By which machine's model to choose."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re

from syncopate.errors import SyncopateError
from syncopate.model import Machine, find_machine, find_preset, open_machine, preset_names
from syncopate.model.machine_file import gpu_stem, machine_path

__all__ = ["find_gpu", "find_model", "machine_id"]


def find_gpu() -> str | None:
    """The name of the current GPU as torch gives it; None if there is none, or no torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


def find_model(
    machine: Machine | str | None, gpu: str | None, world_size: int
) -> tuple[Machine | None, str]:
    """The machine, and why it is that one, or why there is none.

    Args:
        machine: A machine, a preset or a file, if somebody has said so.
        gpu: Name of the GPU, if it is known.
        world_size: Number of ranks.

    Raises:
        SyncopateError: `machine` is neither, or what was measured of the machine is malformed.
    """
    if isinstance(machine, Machine):
        return machine, "the machine is as given"
    if machine is not None:
        return open_machine(machine), "the machine is as given"
    if gpu is None:
        return None, "there is no GPU here, and no machine was named, by whose model to choose"
    try:
        return find_machine(gpu, world_size), f"the machine is what is known of {gpu}"
    except SyncopateError as error:
        if machine_path(gpu, world_size).exists():
            raise
        nearest = _nearest_preset(gpu, world_size)
        if nearest is None:
            return None, str(error)
        return find_preset(nearest), f"the machine is {nearest}, since {error}"


def _nearest_preset(gpu: str, world_size: int) -> str | None:
    """The preset of a GPU whose number of ranks is closest."""
    sizes = {}
    for name in preset_names():
        match = re.fullmatch(rf"{re.escape(gpu_stem(gpu))}-w(\d+)(-predicted)?", name)
        if match:
            sizes[name] = int(match[1])
    return min(sizes, key=lambda name: abs(sizes[name] - world_size), default=None)


def machine_id(machine: Machine | None) -> str:
    """A hash of all that a machine says; empty without one."""
    if machine is None:
        return ""
    text = json.dumps(machine.to_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
