"""Loads compiled programs onto GPUs and runs them.

`interface` says what a program must offer; `linking`, `engine_plan` and `faults` turn its tables into addresses,
copy-engine operations and error messages with numpy alone; `cuda` is the driver API through ctypes; the rest needs
torch and is imported when first used:

    group = syncopate.runtime.ProcessGroup()            # one rank a process, torchrun
    group = syncopate.runtime.LocalGroup(4)             # four ranks on one GPU, for tests
    loaded = syncopate.runtime.load(program, group)
    c = loaded(a=a_shard, b=weight)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncopate.errors import SyncopateError, require_torch

if TYPE_CHECKING:
    from syncopate.runtime.groups import Group
    from syncopate.runtime.interface import Program
    from syncopate.runtime.loaded import LoadedProgram
    from syncopate.runtime.local_group import LocalGroup
    from syncopate.runtime.process_group import ProcessGroup

__all__ = ["Group", "LoadedProgram", "LocalGroup", "ProcessGroup", "load"]

_HOMES = {
    "Group": "groups",
    "LoadedProgram": "loaded",
    "LocalGroup": "local_group",
    "ProcessGroup": "process_group",
}


def load(program: Program, group: Group, *, remap: bool = True) -> LoadedProgram:
    """Binds a program to the memory and the streams of a group. Collective over the group.

    Raises:
        SyncopateError: The program has no machine code.
    """
    if not program.image.cubin:
        raise SyncopateError(
            f"program {program.name} was compiled with machine_code=False; compile it anew to load it"
        )
    require_torch("running a program")
    from syncopate.runtime.loaded import LoadedProgram

    return LoadedProgram(program, group, remap=remap)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        require_torch(f"syncopate.runtime.{name}")
        return getattr(importlib.import_module(f"syncopate.runtime.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
