"""What kernel and host share: words of the context and the state, fields of table rows, kinds of signals, fault record.

This module alone numbers them; device functions, runtime, simulator and pictures take them from here. It imports
neither Triton nor torch.

A context is an array of 64-bit words in device memory, and its address is the first argument of every fused kernel.
Most words are addresses of the tables and of the rank's state. One upload per rank holds, in this order, each part
aligned to ``ALIGNMENT`` bytes: context, tiles, steps, waits, signals, commands, groups, tile groups, records.

Who owns what. The host writes the context and the tables before the first call and never while one runs. The state
words belong to the kernel: only the last CTA of a call changes the epoch, and only if the call was not given up. A flag
is written by one peer (or engine, or command) and read by its own rank.

What only grows. Epochs, the counters in the state, and every flag of kind EPOCH and ADD. None is ever reset; they are
i32 and wrap, so they are compared by the sign of their difference, and ``epoch * count`` wraps along.
"""

from __future__ import annotations

import enum
from typing import Final

from syncopate import choices


class ContextWord(enum.IntEnum):
    """Index of each i64 word of the context. A range is ``begin << 32 | end``."""

    STATE = 0
    """Address of this rank's i32 state words."""
    FLAGS = 1
    """Address of this rank's i32 flags, which peers write."""
    TILES = 2
    """Address of i32[tiles][TILE_STRIDE]; row t is position t of the order."""
    WAITS = 3
    """Address of i32[waits][WAIT_STRIDE]."""
    SIGNALS = 4
    """Address of i64[signals][SIGNAL_STRIDE]."""
    COMMANDS = 5
    """Address of i64[commands][COMMAND_STRIDE]."""
    COMM_CTAS = 6
    """CTAs in front of those that compute; dedicated roles have them."""
    OPEN = 7
    """Range of signals that CTA 0 raises when a call opens."""
    CLOSE_WAIT = 8
    """Range of waits of the last CTA, before it closes the call."""
    CLOSE_SIGNAL = 9
    """Range of signals that the last CTA raises when it closes the call."""
    FAULT = 10
    """Address of the i64 fault record in host memory, or 0."""
    TIMEOUT_NS = 11
    """How long a wait may take, in nanoseconds; 0 is for ever."""
    RANK = 12
    NUM_CTAS = 13
    """All CTAs of a launch."""
    INPUT_BEGIN = 14
    """First row of the buffer that is this rank's own input."""
    INPUT_END = 15
    """Row after the last one; the same as the first for a rank without input."""
    GROUPS = 16
    """Address of i32[groups][GROUP_STRIDE]: groups of tiles that transfers wait for."""
    TILE_GROUPS = 17
    """Address of i32[tiles][TILE_GROUP_STRIDE]; row t is tile t, row-major in the grid."""
    GROUP_COUNTERS = 18
    """Address of i32[groups]: how many tiles of each group have ever been done."""
    TMA_DEDICATED_COMMANDS = 19
    """Range of the rows of the commands of a role; for the roles that follow, likewise."""
    TMA_DEDICATED_CTAS = 20
    """Range of the CTAs that carry them out."""
    TMA_COLOCATED_COMMANDS = 21
    TMA_COLOCATED_CTAS = 22
    LDST_DEDICATED_COMMANDS = 23
    LDST_DEDICATED_CTAS = 24
    LDST_COLOCATED_COMMANDS = 25
    LDST_COLOCATED_CTAS = 26
    RECORDS = 27
    """Address of i32[CTAs that compute]: in how many records their tiles hand commands over in a call."""
    RING_ROLE = 28
    """Number of the realization of the role that they hand them over to; 0 if they do not."""
    BEFORE_TILES = 29
    """Row after the last of the role's commands that come before the first record."""
    NEEDS = 30
    """Address of an i32 for each first coordinate of tiles: how many of their waits they need; 0: all."""
    STEPS = 31
    """Address of i32[steps][STEP_STRIDE]: the steps that tiles walk, list by list."""
    PROFILE = 32
    """Address of the lanes in which roles leave records, CTA by CTA and role by role; kernels compiled without never
    read it."""
    PROFILE_RECORDS = 33
    """How many records fit into a lane."""
    SLOTS = 34
    """Address of the buffer in whose slots tiles are stored, if there is one."""
    SLOT_COLUMNS = 35
    """Elements of a row of a slot."""
    SLOT_ROWS = 36
    """Address of an i32 for each row of the tiles that are stored row by row: its slot, or NO_SLOT."""


class StateWord(enum.IntEnum):
    """Index of each i32 word of a rank's state."""

    EPOCH = 0
    """Number of the current call, from FIRST_EPOCH. A call that was given up does not end."""
    FINISHED = 1
    """How many CTAs have ever finished a call."""
    ABORTED = 2
    """0, or who gave up waiting: 1 + len(Realization) * CTA + the realization of its role, 0 for a computing warp. It
    is never taken back."""
    ENGINE_EPOCH = 3
    """What a copy engine copies to a flag: the epoch; once a call was given up, the one before, which ends nobody's
    wait of that call or a later one."""
    ENGINE_ONE = 4
    """What a copy engine copies to a binary twin: 1, and 0 once a call was given up. Follows ENGINE_EPOCH."""
    LOST = 5
    """1: after a call was given up, the guard has also given up waiting for those who read this rank's input."""
    COMMANDS = 16
    """First of the counters of commands: how many of the role's CTAs have ever finished their part of it. Behind them
    stand those of groups of tiles."""


FIRST_EPOCH: Final = 1


class TileField(enum.IntEnum):
    """Fields of a row of tiles, i32; the names are those of the table's columns, but for the last ones."""

    C0 = 0
    C1 = 1
    C2 = 2
    WAIT_BEGIN = 3
    WAIT_END = 4
    NUMBER = 5
    """Of the tile, row-major in the grid; no column, but made of the coordinates."""
    STEP_BEGIN = 6
    """First of the steps that the tile walks: a column of `tile_steps`, and of no other table."""
    STEP_END = 7


class StepField(enum.IntEnum):
    """Fields of a row of steps, i32; the names are those of the table's columns."""

    STEP = 0
    """Which step is taken."""
    WAIT_BEGIN = 1
    """First of what it waits for."""
    WAIT_END = 2


class GroupField(enum.IntEnum):
    """Fields of a row of groups, i32; the names are those of the table's columns."""

    COUNT = 0
    """Tiles in the group."""
    SIGNAL_BEGIN = 1
    SIGNAL_END = 2


class TileGroupField(enum.IntEnum):
    """Fields of a row of tile groups, i32; the names are those of the table's columns."""

    GROUP = 0
    """Row of the groups, or NO_GROUP."""
    ACCUMULATES = 1
    """1 if the tile adds to what is there, else 0."""
    WAIT_BEGIN = 2
    """First of what it waits for before it adds."""
    WAIT_END = 3
    COMMAND_BEGIN = 4
    """First of the commands that it hands over to the role beside it, as the kernel reads them."""
    COMMAND_END = 5
    RECORD = 6
    """The how-manieth tile of its CTA it is that hands commands over, or NO_RECORD. No column of the table."""
    SLOT = 7
    """Where it is stored in a buffer that holds tiles in slots, or NO_SLOT: a column of `slots`, and of no other
    table."""
    ROWS = 8
    """The first word of SLOT_ROWS that is of a row of it, if each has a slot of its own, or NO_SLOT. No column of the
    table."""


NO_RECORD: Final = -1
"""What stands for the record of a tile that hands nothing over."""

NO_SLOT: Final = -1
"""What stands for the slot of a tile that is stored row by row, and of a row that is not stored."""

NO_GROUP: Final = -1
"""What stands for the group of a tile that nobody waits for."""


class WaitField(enum.IntEnum):
    """Fields of a row of waits, i32."""

    SIGNAL = 0
    """Index of a flag of this rank."""
    COUNT = 1


class SignalField(enum.IntEnum):
    """Fields of a row of signals, i64."""

    ADDRESS = 0
    """Address of an i32 flag of this or another rank."""
    KIND = 1


class SignalKind(enum.IntEnum):
    """What raising a flag writes; the values are those of the `kind` column."""

    EPOCH = 0
    """Store the epoch."""
    ONE = 1
    """Store 1, in a word that a stream waits for and clears."""
    ADD = 2
    """Add 1."""


class CommandField(enum.IntEnum):
    """Fields of a command, i64, strides and sizes in bytes; but for SRC, DST and FROM_INPUT names are the columns'."""

    SRC = 0
    DST = 1
    ROWS = 2
    ROW_BYTES = 3
    SRC_STRIDE = 4
    DST_STRIDE = 5
    WAIT_BEGIN = 6
    WAIT_END = 7
    SIGNAL_BEGIN = 8
    SIGNAL_END = 9
    FROM_INPUT = 10
    """1: SRC counts from the rank's input, wherever the caller keeps it; 0: it is an address."""
    PAUSE = 11
    """Nanoseconds to rest after each block."""
    REDUCTION = 12
    """A CommandReduction."""
    PARTS = 13
    """How many regions of the source are combined."""
    PART_STRIDE = 14
    """From one of them to the next."""
    BEHIND = 15
    """How many of them are combined before what is there."""
    COUNT = 16
    """Address of an i32, from which the rows to move are read, ROWS at most; 0: ROWS it is."""
    COUNT_PAST = 17
    """How many of those rows come before the command's."""


class CommandReduction(enum.IntEnum):
    """How what a command moves is combined with what is there; the values are those of the `reduction` column."""

    NONE = 0
    """It is overwritten."""
    SUM = 1
    MAX = 2
    MIN = 3
    UNORDERED_SUM = 4
    """By atomic additions, so that others may add to the same place meanwhile."""


class FaultField(enum.IntEnum):
    """Index of each i64 word of the fault record, which lies in pinned host memory."""

    SET = 0
    """Becomes 1 when the other fields are written."""
    RANK = 1
    SIGNAL = 2
    WANTED = 3
    SEEN = 4
    WHERE = 5
    """A FaultPlace."""
    EPOCH = 6


class FaultPlace(enum.IntEnum):
    """Who was waiting."""

    TILE = 1
    COMMAND = 2
    CLOSE = 3
    GUARD = 4
    """The runtime's own kernel, before an input is replaced."""


class ProfileLane(enum.IntEnum):
    """Fields of a lane, i64: what one role of one CTA leaves. Records follow behind them."""

    COUNT = 0
    """How many records it has had, those included that did not fit."""
    SM = 1
    """The multiprocessor."""


class ProfileRecord(enum.IntEnum):
    """Fields of a record, i64."""

    TIME = 0
    """The GPU's clock, in nanoseconds."""
    EVENT = 1
    """A ProfileEvent, and its subject 32 bits further up."""


class ProfileEvent(enum.IntEnum):
    """What a record says; the subject stands behind it."""

    ROLE_BEGIN = 1
    """A role starts: the number of the call."""
    ROLE_END = 2
    """It is through."""
    TILE_BEGIN = 3
    """A tile is looked up: its position in the order."""
    TILE_END = 4
    """A tile whose end somebody waits for is stored: its number, row-major in the grid."""
    COMMAND_BEGIN = 5
    """The waits of a command are over: its row among those of communication roles."""
    COMMAND_END = 6
    """The CTA has done its share of it, and is about to count it."""
    WAIT_BEGIN = 7
    """A flag has not come yet: the row of the wait."""
    WAIT_END = 8
    """It has, or the call was given up."""
    RING_BEGIN = 9
    """A tile is to be handed over, or taken: the record's number."""
    RING_END = 10
    """It is."""


class Realization(enum.IntEnum):
    """How a transfer is carried out; the values are those of the `realization` column."""

    COPY_ENGINE = 0
    TMA_DEDICATED = 1
    TMA_COLOCATED = 2
    LDST_DEDICATED = 3
    LDST_COLOCATED = 4
    NCCL = 5

    @classmethod
    def spelled(cls, name: choices.Realization | str) -> Realization:
        """The one that chunk IR and strategies spell so."""
        return cls[choices.Realization(name).name]

    @property
    def is_engine(self) -> bool:
        """The stream of a copy engine carries the transfer out, told by the host."""
        return self is Realization.COPY_ENGINE

    @property
    def is_on_stream(self) -> bool:
        """The host enqueues it on the rank's side stream."""
        return self in (Realization.COPY_ENGINE, Realization.NCCL)

    @property
    def is_dedicated(self) -> bool:
        """A role of the fused kernel does, on CTAs of its own."""
        return self in (Realization.TMA_DEDICATED, Realization.LDST_DEDICATED)

    @property
    def is_colocated(self) -> bool:
        """A role of the fused kernel does, beside the computing warps of each CTA."""
        return self in (Realization.TMA_COLOCATED, Realization.LDST_COLOCATED)

    @property
    def is_device(self) -> bool:
        """A role of the fused kernel does."""
        return self.is_dedicated or self.is_colocated

    @property
    def is_tma(self) -> bool:
        """A role of the fused kernel does, by bulk TMA."""
        return self in (Realization.TMA_DEDICATED, Realization.TMA_COLOCATED)

    @property
    def can_reduce(self) -> bool:
        """It can combine what it moves with what is at the destination; by TMA only as a sum."""
        return self.is_device

    @property
    def spelling(self) -> str:
        """How chunk IR and strategies spell it."""
        return self.name.lower()


NO_BUFFER: Final = -1
"""What stands for the buffer of a number that is not read at run time."""

STAGING: Final = -1
"""What stands for a transfer in a command that stages the rank's own input for others to get."""


NO_EXCHANGE: Final = -1
"""What stands for the exchange of a command that one rank carries out alone. One that two carry out together, by NCCL,
is in the tables of both: at the rank of its source it sends, at the other it receives."""


class LibraryCall(enum.IntEnum):
    """What stands for a transfer in a command that is a call of a library of collectives.

    Its source is `parts` regions, one for each rank, of a reduce-scatter, and else `rows` of them, one for each rank of
    an all-to-all, one in all of an all-reduce.
    """

    ALL_REDUCE = -2
    REDUCE_SCATTER = -3
    ALL_TO_ALL = -4


def _stride(fields: type[enum.IntEnum]) -> int:
    """Words from one row to the next: a power of two, so that a row never straddles two cache lines."""
    return 1 << (len(fields) - 1).bit_length()


def role_words(role: Realization) -> tuple[ContextWord, ContextWord]:
    """The words that hold the ranges of a role's commands and of its CTAs."""
    first = ContextWord.TMA_DEDICATED_COMMANDS + 2 * (role - Realization.TMA_DEDICATED)
    return ContextWord(first), ContextWord(first + 1)


CONTEXT_WORDS: Final = _stride(ContextWord)
FAULT_WORDS: Final = _stride(FaultField)
TILE_STRIDE: Final = _stride(TileField)
STEP_STRIDE: Final = _stride(StepField)
WAIT_STRIDE: Final = _stride(WaitField)
SIGNAL_STRIDE: Final = _stride(SignalField)
COMMAND_STRIDE: Final = _stride(CommandField)
GROUP_STRIDE: Final = _stride(GroupField)
TILE_GROUP_STRIDE: Final = _stride(TileGroupField)
PROFILE_LANES: Final = Realization.LDST_COLOCATED + 1
"""Lanes of a CTA: one for what no realization names, the computing warps, and one for each role beside them."""
ALIGNMENT: Final = 128


def align(offset: int, to: int = ALIGNMENT) -> int:
    """The next multiple of `to` that is not below `offset`."""
    return -(-offset // to) * to


def pack_range(begin: int, end: int) -> int:
    """A half-open range in one i64 word, as the context holds them."""
    return begin << 32 | end


def profile_words(ctas: int, records: int) -> int:
    """Number of i64 words of the lanes of a rank that launches that many CTAs."""
    return ctas * PROFILE_LANES * (len(ProfileLane) + len(ProfileRecord) * records)


def state_words(device_commands: int, groups: int) -> int:
    """Number of i32 state words of a rank with that many commands of communication roles and groups of tiles."""
    return StateWord.COMMANDS + device_commands + groups
