"""What a plan has to be like for bulk TMA to carry out its transfers; ordinary loads and stores take any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncopate.abi import CommandReduction, Realization
from syncopate.compiler.target import Target
from syncopate.device import TMA_ADDED
from syncopate.errors import SyncopateError
from syncopate.runtime.commands import roles_of
from syncopate.tables import BufferSpec, Table

__all__ = ["check_tma"]

_HOPPER = 90
_UNIT = 16
"""Bytes that divide all addresses, strides and rows of a tensor map."""
_REALIZATIONS = (Realization.TMA_DEDICATED, Realization.TMA_COLOCATED)


def check_tma(
    tables: Sequence[Mapping[str, Table]], buffers: Sequence[BufferSpec], target: Target
) -> None:
    """Checks the commands that TMA is to carry out.

    Args:
        tables: The tables of all ranks.
        buffers: The plan's buffers.
        target: What is compiled for.

    Raises:
        SyncopateError: The target has no TMA, or a transfer is not what TMA can move or add.
    """
    if not any(role.is_tma for role in roles_of(tables)):
        return
    for rank, rank_tables in enumerate(tables):
        for row in rank_tables["commands"].rows():
            if row["realization"] in _REALIZATIONS:
                _check_command(rank, row, buffers, target)


def _check_command(
    rank: int, row: Mapping[str, int], buffers: Sequence[BufferSpec], target: Target
) -> None:
    realization = Realization(row["realization"]).name.lower()
    if target.capability < _HOPPER:
        raise SyncopateError(
            f"target: {target} has no TMA, which realization {realization} needs; use ldst_dedicated or "
            "copy_engine, or sm_90 or later"
        )
    what = (
        f"realization {realization}: the input of rank {rank}"
        if row["transfer"] < 0
        else f"realization {realization}: transfer {row['transfer']}, carried out by rank {rank},"
    )
    names = ["src_offset", "dst_offset", "row_bytes"]
    if row["rows"] > 1:
        names += ["src_stride", "dst_stride"]
    odd = [f"{name} {row[name]}" for name in names if row[name] % _UNIT]
    if odd:
        raise SyncopateError(
            f"{what} is not made of rows of a multiple of {_UNIT} bytes at such addresses, as TMA needs it "
            f"({', '.join(odd)}); pad the rows of the buffer, or use a realization on loads and stores"
        )
    if row["reduction"] != CommandReduction.NONE:
        buffer = buffers[row["dst_buffer"]]
        if buffer.dtype not in TMA_ADDED:
            raise SyncopateError(
                f"{what} adds elements of {buffer.dtype} in buffer {buffer.name!r}; TMA can add "
                f"{', '.join(TMA_ADDED)}; use a realization on loads and stores"
            )
