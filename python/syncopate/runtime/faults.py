"""Reads a fault record and says in words what the device was waiting for. Pure numpy.

The record names a flag by number. Who should have raised it, and what that would have meant, follows from the numbering
of the flags and, for a data flag, from the transfer whose command raises it, looked up in the tables of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncopate.abi import FaultField, FaultPlace
from syncopate.dtypes import DTYPES
from syncopate.errors import DeviceWaitTimeout
from syncopate.runtime.interface import Program
from syncopate.tables import SignalMeaning

_PLACES = {
    FaultPlace.TILE: "a tile",
    FaultPlace.COMMAND: "a transfer of its communication role",
    FaultPlace.CLOSE: "the end of its call",
    FaultPlace.GUARD: "the staging of its input",
}


def decode_fault(program: Program, record: Sequence[int]) -> DeviceWaitTimeout | None:
    """The error that a fault record stands for, or None if it is not set.

    Args:
        program: The program that ran.
        record: The i64 words of the record.
    """
    if not record[FaultField.SET]:
        return None
    rank, signal, epoch = (
        int(record[word]) for word in (FaultField.RANK, FaultField.SIGNAL, FaultField.EPOCH)
    )
    wanted, seen = int(record[FaultField.WANTED]), int(record[FaultField.SEEN])
    place = int(record[FaultField.WHERE])
    waiter = _PLACES[FaultPlace(place)] if place in _PLACES else "something"
    limit = program.timeout_ns / 1e9
    message = (
        f"program {program.name}, call {epoch}: on rank {rank}, {waiter} waited {limit:g} s for "
        f"{describe_signal(program, rank, signal)} (flag {signal}: wanted {wanted}, saw {seen}); check that every rank "
        f"makes this call, in the same order among programs, and that no rank failed before it; "
        f"load the program again to go on"
    )
    return DeviceWaitTimeout(
        message, rank=rank, signal=signal, wanted=wanted, seen=seen, epoch=epoch
    )


def describe_signal(program: Program, rank: int, signal: int) -> str:
    """What the raising of one flag of `rank` means, with the rank that raises it."""
    layout = program.signal_layout
    if not 0 <= signal < layout.total:
        return f"flag {signal}, which the program does not have"
    meaning, index, _ = layout.decode(signal)
    match meaning:
        case SignalMeaning.DATA:
            return _describe_data(program, rank, signal)
        case SignalMeaning.READY:
            return f"rank {index} to stage its input"
        case SignalMeaning.DONE:
            return f"rank {index} to finish the previous call"
        case SignalMeaning.ENGINE_DONE:
            return f"the copy engine commands of rank {rank} itself"
        case SignalMeaning.GROUP:
            return _describe_group(program, index)


def _describe_group(program: Program, number: int) -> str:
    """Groups are numbered rank by rank."""
    first = 0
    for rank in range(program.world_size):
        rows = program.rank_tables(rank)["groups"].rows()
        if number < first + len(rows):
            return f"{rows[number - first]['count']} tiles of rank {rank}, group {number - first}, to be computed"
        first += len(rows)
    return f"group {number} of tiles, which no rank has"


def _describe_data(program: Program, rank: int, signal: int) -> str:
    for issuer in range(program.world_size):
        tables = program.rank_tables(issuer)
        signals = tables["signals"].rows()
        for row in tables["commands"].rows():
            raised = signals[row["signal_begin"] : row["signal_end"]]
            if any(s["rank"] == rank and s["signal"] == signal for s in raised):
                verb = "put" if issuer == row["src_rank"] else "fetched"
                chunk = name_chunk(program, row)
                how = f"{verb} by rank {issuer}, transfer {row['transfer']}"
                return f"chunk {chunk} from rank {row['src_rank']} ({how})"
    return f"data flag {signal}, which no transfer raises"


def name_chunk(program: Program, row: Mapping[str, int]) -> str:
    """The region that a command writes, as `name[first:last, ...]`; rows and columns of a row-major buffer."""
    buffer = program.buffers[row["dst_buffer"]]
    item = DTYPES[buffer.dtype].nbytes
    index, starts = row["dst_offset"] // item, []
    for size in reversed(buffer.shape):
        starts.append(index % size)
        index //= size
    starts.reverse()
    columns = row["row_bytes"] // item
    if len(starts) == 1:
        return f"{buffer.name}[{starts[0]}:{starts[0] + columns * row['rows']}]"
    # A command may span whole rows in one piece.
    width = buffer.shape[-1]
    rows = row["rows"] * max(1, columns // width)
    leading = "".join(f"{start}, " for start in starts[:-2])
    last = starts[-1] + min(columns, width)
    return f"{buffer.name}[{leading}{starts[-2]}:{starts[-2] + rows}, {starts[-1]}:{last}]"
