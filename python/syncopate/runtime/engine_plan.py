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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncopate.abi import CommandReduction, LibraryCall, Realization, SignalKind
from syncopate.errors import InternalError
from syncopate.runtime.commands import split_commands
from syncopate.runtime.interface import Program
from syncopate.runtime.linking import (
    Addresses,
    from_own_input,
    own_input_bytes,
)

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

    @property
    def read_bytes(self) -> int:
        """Bytes that are read of a rank."""
        return self.nbytes * self.parts

    @property
    def targets(self) -> tuple[int, ...]:
        """Bytes of the destination at which something begins that is written, each time `nbytes`."""
        count = self.parts if self.kind is LibraryCall.ALL_TO_ALL else 1
        return tuple(self.dst_offset + number * self.dst_stride for number in range(count))


EngineOp = AwaitWord | Copy | Raise | Call


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
    for index in map(int, engine):
        row = commands[index]
        for wait in waits[row["wait_begin"] : row["wait_end"]]:
            if not layout.decode(wait["signal"])[2]:
                raise InternalError(
                    f"rank {rank}, command {index}: a copy-engine command cannot wait for flag {wait['signal']}, "
                    f"which counts; only for twins"
                )
            ops.append(AwaitWord(addresses.flag(rank, wait["signal"])))
        if row["realization"] == Realization.NCCL:
            ops.append(_call(row))
            continue
        copy = _copy(row, addresses)
        if own[index] and own_input is not None:
            copy = replace(copy, src=row["src_offset"] - own_input[1], from_input=True)
        ops.append(copy)
        for signal in signals[row["signal_begin"] : row["signal_end"]]:
            kind = SignalKind(signal["kind"])
            if kind is SignalKind.ADD:
                raise InternalError(
                    f"rank {rank}, command {index}: a copy engine cannot add to flag {signal['signal']}"
                )
            ops.append(
                Raise(addresses.flag(signal["rank"], signal["signal"]), signal["rank"], kind)
            )
    if ops:
        ops.append(Raise(addresses.flag(rank, layout.engine_done), rank, SignalKind.EPOCH))
    return tuple(ops)


def awaited_words(ops: Sequence[EngineOp]) -> tuple[int, ...]:
    """Addresses of the words that the list waits for: what has to be written to let a stuck stream go."""
    return tuple(dict.fromkeys(op.address for op in ops if isinstance(op, AwaitWord)))


def _call(row: dict[str, int]) -> Call:
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
    )


def _copy(row: dict[str, int], addresses: Addresses) -> Copy:
    src = addresses.buffers[row["src_rank"]][row["src_buffer"]] + row["src_offset"]
    dst = addresses.buffers[row["dst_rank"]][row["dst_buffer"]] + row["dst_offset"]
    rows, row_bytes = row["rows"], row["row_bytes"]
    if row["src_stride"] == row_bytes == row["dst_stride"]:
        rows, row_bytes = 1, rows * row_bytes
    return Copy(dst, src, rows, row_bytes, row["dst_stride"], row["src_stride"])
