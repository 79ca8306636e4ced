"""Layout of what the fused kernel reads: context words, rows of packed tables, state words, fault record.

The device functions are written against the same numbers; change both together. One upload per rank holds, in this
order, each part aligned to 128 bytes: context, tiles, waits, signals, commands.
"""

from __future__ import annotations

import enum


class ContextWord(enum.IntEnum):
    """Index of each i64 word of the context."""

    STATE = 0
    FLAGS = 1
    TILES = 2
    WAITS = 3
    SIGNALS = 4
    COMMANDS = 5
    NUM_COMMANDS = 6
    OPEN = 7
    CLOSE_WAIT = 8
    CLOSE_SIGNAL = 9
    FAULT = 10
    TIMEOUT_NS = 11
    RANK = 12
    NUM_CTAS = 13
    INPUT_BEGIN = 14
    INPUT_END = 15


CONTEXT_WORDS = 16
TILE_WORDS = 8  # i32: c0 c1 c2 wait_begin wait_end 0 0 0
WAIT_WORDS = 2  # i32: flag, count
SIGNAL_WORDS = 2  # i64: address, kind
COMMAND_WORDS = 16  # i64: src dst rows row_bytes src_stride dst_stride waits[2] signals[2] parts from_input pause
ALIGNMENT = 128

STATE_EPOCH = 0
STATE_FINISHED_CTAS = 1
STATE_ABORTED = 2
STATE_ONE = 3  # always 1, for an engine to copy to another GPU
STATE_COMMANDS = 16  # first of one word per device command
FIRST_EPOCH = 1


class FaultWord(enum.IntEnum):
    """Index of each i64 word of the fault record, which lies in pinned host memory."""

    SET = 0
    RANK = 1
    SIGNAL = 2
    WANTED = 3
    SEEN = 4
    WHERE = 5
    EPOCH = 6


FAULT_WORDS = 8


class FaultPlace(enum.IntEnum):
    """What was waiting: the `WHERE` word. GUARD is the runtime's own kernel before staging."""

    TILE = 1
    COMMAND = 2
    CLOSE = 3
    GUARD = 4


def align(offset: int, to: int = ALIGNMENT) -> int:
    """The next multiple of `to` that is not below `offset`."""
    return -(-offset // to) * to


def pack_range(begin: int, end: int) -> int:
    """A half-open range in one i64 word, as the context holds them."""
    return begin << 32 | end


def state_words(device_commands: int) -> int:
    """Number of i32 state words of a rank whose communication role runs that many commands."""
    return STATE_COMMANDS + device_commands
