"""What the host enqueues on a rank's side stream at every call, as a flat list: copy-engine commands, library calls.

Pure numpy.

Protocol. The list is the same at every call, so that a CUDA graph may capture it: nothing in it is the number of a
call.

* A stream can only wait for a constant. So a command waits for binary words, the twins of flags: the
  stream waits until the word is 1 and writes 0 at once, in stream order. The protocol of the plan makes sure that
  nobody raises such a word again before it is consumed.
* A flag that kernels wait for is an epoch. The engine raises it by copying 4 bytes out of the device's own epoch word.
* After its last command the list raises `engine_done`, for which `close_call` waits: the epoch word cannot change under
  the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from syncopate.abi import NO_EXCHANGE, CommandReduction, LibraryCall, Realization, SignalKind
from syncopate.errors import InternalError
from syncopate.runtime.commands import split_commands
from syncopate.runtime.interface import Program
from syncopate.runtime.linking import (
    Addresses,
    from_own_input,
    own_input_bytes,
)
from syncopate.tables import Table

_MAX_LIBRARY_CTAS = 32
"""More than a library needs for all that a link can take."""


def library_ctas(multiprocessors: int, kernel_ctas: int) -> int:
    """Multiprocessors that a library may use beside a kernel of so many CTAs; 0: as many as it likes, behind it."""
    return min(max(multiprocessors - kernel_ctas, 0), _MAX_LIBRARY_CTAS)


@dataclass(frozen=True)
class AwaitWord:
    """Wait until the i32 at `address`, one of this rank's own, is 1, then write 0."""

    address: int


@dataclass(frozen=True)
class Copy:
    """Copy `rows` rows of `row_bytes` bytes; the strides are in bytes.

    With `from_input`, `src` counts from the rank's own input, wherever the caller keeps it.
    """

    dst: int
    src: int
    rows: int
    row_bytes: int
    dst_stride: int
    src_stride: int
    from_input: bool = False


@dataclass(frozen=True)
class Raise:
    """Write the epoch (kind EPOCH) or 1 (kind ONE) to the flag of rank `rank` at `address`."""

    address: int
    rank: int
    kind: SignalKind


@dataclass(frozen=True)
class Call:
    """Call the library, on all ranks alike.

    Attributes:
        kind: Which collective it is.
        reduction: How what ranks have is combined, if it is.
        src: The buffer, as its index in the plan, that this rank's part of it is read from.
        src_offset: Byte at which that begins.
        dst: The buffer that is written.
        dst_offset: Byte at which that begins.
        dst_stride: Bytes from what an all-to-all brings from one rank to what it brings from the next.
        nbytes: Bytes of what one rank gets from one, or, of an all-reduce, of all of it.
        parts: Ranks for each of which there are so many at the source; 1 for an all-reduce.
        meeting: Its number among the calls and exchanges of the plan, which all ranks have in this order.
    """

    kind: LibraryCall
    reduction: CommandReduction
    src: int
    src_offset: int
    dst: int
    dst_offset: int
    dst_stride: int
    nbytes: int
    parts: int
    meeting: int

    @property
    def read_bytes(self) -> int:
        """Bytes that are read of a rank."""
        return self.nbytes * self.parts

    @property
    def targets(self) -> tuple[int, ...]:
        """Bytes of the destination at which something begins that is written, each time `nbytes`."""
        count = self.parts if self.kind is LibraryCall.ALL_TO_ALL else 1
        return tuple(self.dst_offset + number * self.dst_stride for number in range(count))


@dataclass(frozen=True)
class Piece:
    """Bytes, one behind the other, that go to another rank or come from it.

    Attributes:
        peer: The other rank.
        address: Where they are at this rank, or are to be.
        nbytes: How many.
        input_offset: Where they begin in the rank's own input, if they are to be read wherever the caller keeps that.
    """

    peer: int
    address: int
    nbytes: int
    input_offset: int | None = None


@dataclass(frozen=True)
class Exchange:
    """Send to and receive from other ranks by the library, all at the same time.

    Attributes:
        meeting: As for `Call`.
        members: The ranks that have a part in it.
        sends: What goes to others; to one of them, in the order in which it receives.
        receives: What comes from them.
    """

    meeting: int
    members: tuple[int, ...]
    sends: tuple[Piece, ...]
    receives: tuple[Piece, ...]


EngineOp = AwaitWord | Copy | Raise | Call | Exchange


def plan_engine(program: Program, rank: int, addresses: Addresses) -> tuple[EngineOp, ...]:
    """The side stream's list for one rank; empty if the rank has no command for it.

    Raises:
        InternalError: A command waits for a flag that a stream cannot wait for, or adds to a flag.
    """
    tables = program.rank_tables(rank)
    commands = tables["commands"].rows()
    own = from_own_input(program, rank, tables["commands"])
    own_input = own_input_bytes(program, rank)
    waits, signals = tables["waits"].rows(), tables["signals"].rows()
    layout = program.signal_layout
    ops: list[EngineOp] = []
    _, engine = split_commands(tables["commands"])
    members = _find_members(program)
    calls = len(members)
    # What is to be raised when an exchange is over, of which there are several commands.
    behind: list[Raise] = []
    exchanges = commands_of_exchanges(tables["commands"])
    for index in map(int, engine):
        row = commands[index]
        for wait in waits[row["wait_begin"] : row["wait_end"]]:
            if not layout.decode(wait["signal"])[2]:
                raise InternalError(
                    f"rank {rank}, command {index}: a copy-engine command cannot wait for flag {wait['signal']}, "
                    f"which counts; only for twins"
                )
            ops.append(AwaitWord(addresses.flag(rank, wait["signal"])))
        if row["realization"] == Realization.NCCL and row["transfer"] < 0:
            ops.append(_call(row, calls))
            calls += 1
            continue
        exchange = row["exchange"]
        if exchange != NO_EXCHANGE:
            mine = [commands[number] for number in exchanges[exchange]]
            if index == exchanges[exchange][0]:
                begin = own_input[1] if own_input is not None else 0
                inputs = {number: begin for number in exchanges[exchange] if own[number]}
                ops.append(
                    Exchange(
                        exchange,
                        members[exchange],
                        *_pieces(rank, exchanges[exchange], mine, inputs, addresses),
                    )
                )
            for signal in signals[row["signal_begin"] : row["signal_end"]]:
                behind.append(_raise(rank, index, signal, addresses))
            if index == exchanges[exchange][-1]:
                ops += behind
                behind = []
            continue
        copy = _copy(row, addresses)
        if own[index] and own_input is not None:
            copy = replace(copy, src=row["src_offset"] - own_input[1], from_input=True)
        ops.append(copy)
        for signal in signals[row["signal_begin"] : row["signal_end"]]:
            ops.append(_raise(rank, index, signal, addresses))
    if ops:
        ops.append(Raise(addresses.flag(rank, layout.engine_done), rank, SignalKind.EPOCH))
    return tuple(ops)


def awaited_words(ops: Sequence[EngineOp]) -> tuple[int, ...]:
    """Addresses of the words that the list waits for: what has to be written to let a stuck stream go."""
    return tuple(dict.fromkeys(op.address for op in ops if isinstance(op, AwaitWord)))


def uses_library(program: Program) -> bool:
    """Whether a library moves something for some rank: then all ranks need it, since they connect together."""
    return any(
        bool(
            np.any(program.rank_tables(rank)["commands"].column("realization") == Realization.NCCL)
        )
        for rank in range(program.world_size)
    )


def has_exchanges(program: Program) -> bool:
    """Whether it does so in exchanges, for which the kernel may wait."""
    return bool(_find_members(program))


def commands_of_exchanges(commands: Table) -> dict[int, list[int]]:
    """By exchange, the rows of a rank's commands that belong to it, in order."""
    exchanges: dict[int, list[int]] = {}
    column = commands.column("exchange")
    for row in np.flatnonzero(column != NO_EXCHANGE).tolist():
        exchanges.setdefault(int(column[row]), []).append(row)
    return exchanges


def _find_members(program: Program) -> list[tuple[int, ...]]:
    """By exchange, the ranks that have a part in it."""
    members: dict[int, list[int]] = {}
    for rank in range(program.world_size):
        for exchange in commands_of_exchanges(program.rank_tables(rank)["commands"]):
            members.setdefault(exchange, []).append(rank)
    return [tuple(members[exchange]) for exchange in sorted(members)]


def _raise(rank: int, index: int, signal: Mapping[str, int], addresses: Addresses) -> Raise:
    kind = SignalKind(signal["kind"])
    if kind is SignalKind.ADD:
        raise InternalError(
            f"rank {rank}, command {index}: a copy engine cannot add to flag {signal['signal']}"
        )
    return Raise(addresses.flag(signal["rank"], signal["signal"]), signal["rank"], kind)


def _pieces(
    rank: int,
    numbers: Sequence[int],
    rows: Sequence[Mapping[str, int]],
    inputs: Mapping[int, int],
    addresses: Addresses,
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """What a rank sends and receives by some of its commands.

    Args:
        rank: The rank.
        numbers: The commands' rows in the table.
        rows: What they say.
        inputs: For those that send the rank's own input, where that begins in its buffer.
        addresses: Where the rank's buffers are.
    """
    sends: list[Piece] = []
    receives: list[Piece] = []
    for number, row in zip(numbers, rows, strict=True):
        count, nbytes = row["rows"], row["row_bytes"]
        # Both ends cut alike.
        if row["src_stride"] == nbytes == row["dst_stride"]:
            count, nbytes = 1, count * nbytes
        side, other = ("src", "dst") if row["src_rank"] == rank else ("dst", "src")
        base = addresses.buffers[rank][row[f"{side}_buffer"]]
        for place in range(count):
            offset = row[f"{side}_offset"] + place * row[f"{side}_stride"]
            begin = inputs.get(number)
            piece = Piece(
                row[f"{other}_rank"],
                base + offset,
                nbytes,
                None if begin is None else offset - begin,
            )
            (sends if side == "src" else receives).append(piece)
    return tuple(sends), tuple(receives)


def _call(row: dict[str, int], meeting: int) -> Call:
    return Call(
        LibraryCall(row["transfer"]),
        CommandReduction(row["reduction"]),
        row["src_buffer"],
        row["src_offset"],
        row["dst_buffer"],
        row["dst_offset"],
        row["dst_stride"],
        row["row_bytes"],
        max(row["rows"], row["parts"]),
        meeting,
    )


def _copy(row: dict[str, int], addresses: Addresses) -> Copy:
    src = addresses.buffers[row["src_rank"]][row["src_buffer"]] + row["src_offset"]
    dst = addresses.buffers[row["dst_rank"]][row["dst_buffer"]] + row["dst_offset"]
    rows, row_bytes = row["rows"], row["row_bytes"]
    if row["src_stride"] == row_bytes == row["dst_stride"]:
        rows, row_bytes = 1, rows * row_bytes
    return Copy(dst, src, rows, row_bytes, row["dst_stride"], row["src_stride"])
