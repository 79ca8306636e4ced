"""What the commands of all ranks have in common: who carries them out, and in which units. Pure numpy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syncopate.abi import NO_BUFFER, CommandReduction, Realization
from syncopate.errors import SyncopateError
from syncopate.tables import BufferSpec, Int64Array, Table

__all__ = [
    "UNITS",
    "Part",
    "adds_unordered",
    "copy_unit",
    "is_counted",
    "loads_remotely",
    "merge_commands",
    "reduced_type",
    "role_parts",
    "roles_of",
    "split_commands",
]

UNITS: Final = (16, 8, 4, 2, 1)
"""Bytes that a communication role can move with one load and store."""


_ON_STREAM: Final = np.array(
    [
        number in set(Realization) and Realization(number).is_on_stream
        for number in range(max(Realization) + 1)
    ]
)


def merge_commands(tables: Iterable[Mapping[str, Table]]) -> tuple[Table, Int64Array]:
    """The commands of all ranks in one table, and the rank of each."""
    each = [rank_tables["commands"] for rank_tables in tables]
    ranks = np.repeat(np.arange(len(each)), [len(commands.values) for commands in each])
    return Table(each[0].columns, np.concatenate([commands.values for commands in each])), ranks


def split_commands(commands: Table) -> tuple[Int64Array, Int64Array]:
    """Indices of the commands of communication roles, role by role as kernels read them, and of the side stream's."""
    realization = commands.column("realization")
    on_stream = _ON_STREAM[realization]
    device = np.flatnonzero(~on_stream)
    return device[np.argsort(realization[device], kind="stable")], np.flatnonzero(on_stream)


@dataclass(frozen=True)
class Part:
    """What a communication role has of a rank's call.

    Attributes:
        commands: Its rows of the commands as the kernel reads them.
        ctas: The CTAs that share each of them.
    """

    commands: range
    ctas: range


def role_parts(commands: Table, comm_ctas: int, ctas: int) -> dict[Realization, Part]:
    """The parts of a rank's roles that have commands.

    Dedicated roles divide the first CTAs among them as evenly as it goes; co-located ones have all that compute.

    Args:
        commands: The rank's commands.
        comm_ctas: CTAs in front of those that compute.
        ctas: CTAs that compute.
    """
    device, _ = split_commands(commands)
    used = [Realization(value) for value in commands.column("realization")[device].tolist()]
    dedicated = sorted({role for role in used if role.is_dedicated})
    parts = {}
    for role in sorted(set(used)):
        begin = used.index(role)
        where = range(comm_ctas, comm_ctas + ctas)
        if role.is_dedicated:
            place = dedicated.index(role)
            bounds = [comm_ctas * i // len(dedicated) for i in (place, place + 1)]
            where = range(*bounds)
        parts[role] = Part(range(begin, begin + used.count(role)), where)
    return parts


def roles_of(tables: Iterable[Mapping[str, Table]]) -> frozenset[Realization]:
    """The device realizations of the commands of all ranks."""
    commands, _ = merge_commands(tables)
    used = {Realization(value) for value in set(commands.column("realization").tolist())}
    return frozenset(role for role in used if role.is_device)


def copy_unit(tables: Iterable[Mapping[str, Table]]) -> int:
    """Bytes per load and store of the communication roles: the largest unit that divides every row and offset.

    Args:
        tables: The tables of all ranks, which share one kernel.
    """
    commands, _ = merge_commands(tables)
    device, _ = split_commands(commands)
    columns = [
        commands.columns.index(name)
        for name in (
            "src_offset",
            "dst_offset",
            "row_bytes",
            "src_stride",
            "dst_stride",
            "part_stride",
        )
    ]
    common = int(np.gcd.reduce(commands.values[device][:, columns], axis=None))
    divisor = math.gcd(UNITS[0], common)
    return next(unit for unit in UNITS if divisor % unit == 0)


def loads_remotely(tables: Iterable[Mapping[str, Table]]) -> bool:
    """Whether some communication role loads from another rank."""
    commands, ranks = merge_commands(tables)
    device, _ = split_commands(commands)
    return bool((commands.column("src_rank")[device] != ranks[device]).any())


def is_counted(tables: Iterable[Mapping[str, Table]]) -> bool:
    """Whether rows of commands, or what tiles need, are read at run time.

    Args:
        tables: The tables of all ranks, which share one kernel.
    """
    return any(
        bool((rank_tables[table].column(column) != NO_BUFFER).any())
        for rank_tables in tables
        for table, column in (("commands", "count_buffer"), ("calls", "needs_buffer"))
    )


def adds_unordered(tables: Iterable[Mapping[str, Table]]) -> bool:
    """Whether some command adds to what others may be adding to at the same time."""
    commands, _ = merge_commands(tables)
    return bool((commands.column("reduction") == CommandReduction.UNORDERED_SUM).any())


def reduced_type(
    tables: Iterable[Mapping[str, Table]], buffers: Sequence[BufferSpec]
) -> str | None:
    """Element type of what commands reduce, as MLIR spells it; None if none does.

    Args:
        tables: The tables of all ranks, which share one kernel.
        buffers: The plan's buffers.

    Raises:
        SyncopateError: Commands reduce elements of several types, or of a type that cannot be added.
    """
    types: dict[str, str] = {}
    commands, _ = merge_commands(tables)
    device, _ = split_commands(commands)
    reducing = device[commands.column("reduction")[device] != CommandReduction.NONE]
    for index in np.unique(commands.column("dst_buffer")[reducing]):
        types.setdefault(buffers[index].dtype, buffers[index].name)
    if len(types) > 1:
        (one, first), (other, second) = list(types.items())[:2]
        raise SyncopateError(
            f"plan: transfers reduce elements of type {one} in buffer {first!r} and {other} in buffer {second!r}; "
            "one kernel reduces one type, so use two plans"
        )
    if "i1" in types:
        raise SyncopateError(f"plan: transfers reduce buffer {types['i1']!r} of i1; use i8")
    return next(iter(types), None)
