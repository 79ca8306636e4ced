"""Groups of ranks as PyTorch users name them."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh

from syncopate.errors import SyncopateError

__all__ = ["GroupLike", "count_ranks", "find_group", "name_group"]

GroupLike: TypeAlias = "str | dist.ProcessGroup | DeviceMesh"
"""The name of a process group, the group itself, or a device mesh of one dimension."""


def name_group(group: GroupLike) -> str:
    """The name by which operators know a group, which a graph can hold.

    Raises:
        SyncopateError: It is none, or a mesh of several dimensions.
    """
    if isinstance(group, str):
        return group
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            names = group.mesh_dim_names
            raise SyncopateError(
                f"group_name: expects a device mesh of one dimension, but got one of {group.ndim}; "
                f"pass one of them, such as mesh[{names[0] if names else 0!r}]"
            )
        group = group.get_group()
    if isinstance(group, dist.ProcessGroup):
        name: str = group.group_name
        return name
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise SyncopateError("group_name: expects a group of this rank, but it is not a member")
    raise SyncopateError(
        f"group_name: expects the name of a process group, a ProcessGroup or a DeviceMesh, but got {group!r}"
    )


def find_group(name: str) -> Any:
    """The process group of that name.

    Raises:
        SyncopateError: There is none in this process.
    """
    try:
        return distributed_c10d._resolve_process_group(name)
    except (RuntimeError, ValueError) as error:
        raise SyncopateError(
            f"group_name: expects the name of a process group of this process, but got {name!r}: {error}"
        ) from None


def count_ranks(name: str) -> int:
    """How many ranks the group of that name has.

    Raises:
        SyncopateError: There is no such group in this process.
    """
    return int(find_group(name).size())


# Graphs are for groups as they are.
torch.compiler.assume_constant_result(count_ranks)
