"""The context that a fused kernel receives: the one place where its words are numbered.

A context is an array of 64-bit words in device memory, and its address is the first argument of every fused kernel.
Most words are addresses of the tables and of this rank's state. The packers in Python read these numbers with
``.value``; device functions use them as they are.

Who owns what. The host writes the context and the tables before the first call and never while one runs. STATE
belongs to the kernel: only the last CTA of a call changes the epoch. A flag is written by one peer (or engine, or
command) and read by its own rank.

What only grows. Epochs, the counters in STATE, and every flag of kind SIGNAL_EPOCH and SIGNAL_ADD. None is ever
reset; they are i32 and wrap, so they are compared by the sign of their difference, and ``epoch * count`` wraps along.
"""

from typing import Final

import triton.language as tl

# Words of the context.
STATE: Final = tl.constexpr(0)
"""Address of this rank's i32 state words."""
FLAGS: Final = tl.constexpr(1)
"""Address of this rank's i32 flags, which peers write."""
TILES: Final = tl.constexpr(2)
"""Address of i32[tiles][TILE_STRIDE]: three coordinates, first wait, end of waits; row t is position t of the order."""
WAITS: Final = tl.constexpr(3)
"""Address of i32[waits][WAIT_STRIDE]: index of a flag, count."""
SIGNALS: Final = tl.constexpr(4)
"""Address of i64[signals][SIGNAL_STRIDE]: address of an i32 flag of this or another rank, kind."""
COMMANDS: Final = tl.constexpr(5)
"""Address of i64[commands][COMMAND_STRIDE]; the fields are the COMMAND_… numbers."""
NUM_COMMANDS: Final = tl.constexpr(6)
OPEN: Final = tl.constexpr(7)
"""Range of signals that CTA 0 raises when a call opens: begin << 32 | end."""
CLOSE_WAIT: Final = tl.constexpr(8)
"""Range of waits of the last CTA, before it closes the call."""
CLOSE_SIGNAL: Final = tl.constexpr(9)
"""Range of signals that the last CTA raises when it closes the call."""
FAULT: Final = tl.constexpr(10)
"""Address of the i64 fault record in host memory, or 0."""
TIMEOUT_NS: Final = tl.constexpr(11)
"""How long a wait may take, in nanoseconds; 0 is for ever."""
RANK: Final = tl.constexpr(12)
NUM_CTAS: Final = tl.constexpr(13)
INPUT_BEGIN: Final = tl.constexpr(14)
"""First row of the buffer that is this rank's own input."""
INPUT_END: Final = tl.constexpr(15)
"""Row after the last one; the same as the first for a rank without input."""
CONTEXT_WORDS: Final = tl.constexpr(16)

# Words of STATE.
STATE_EPOCH: Final = tl.constexpr(0)
"""Number of the current call, from 1."""
STATE_FINISHED: Final = tl.constexpr(1)
"""How many CTAs have ever finished a call."""
STATE_ABORTED: Final = tl.constexpr(2)
"""0, or who gave up waiting: 1 + 2 * CTA, one more in the communication role. Every later wait gives up at once."""
STATE_PARTS: Final = tl.constexpr(16)
"""First of the counters of commands: how many CTAs have ever finished their part of it."""

# Strides of the tables, in elements.
TILE_STRIDE: Final = tl.constexpr(8)
WAIT_STRIDE: Final = tl.constexpr(2)
SIGNAL_STRIDE: Final = tl.constexpr(2)
COMMAND_STRIDE: Final = tl.constexpr(16)

# Kinds of signals.
SIGNAL_EPOCH: Final = tl.constexpr(0)
"""Store the epoch."""
SIGNAL_ONE: Final = tl.constexpr(1)
"""Store 1, in a word that a stream waits for and clears."""
SIGNAL_ADD: Final = tl.constexpr(2)
"""Add 1."""

# Fields of a command. Strides and sizes are in bytes.
COMMAND_SRC: Final = tl.constexpr(0)
COMMAND_DST: Final = tl.constexpr(1)
COMMAND_ROWS: Final = tl.constexpr(2)
COMMAND_ROW_BYTES: Final = tl.constexpr(3)
COMMAND_SRC_STRIDE: Final = tl.constexpr(4)
COMMAND_DST_STRIDE: Final = tl.constexpr(5)
COMMAND_WAIT_BEGIN: Final = tl.constexpr(6)
COMMAND_WAIT_END: Final = tl.constexpr(7)
COMMAND_SIGNAL_BEGIN: Final = tl.constexpr(8)
COMMAND_SIGNAL_END: Final = tl.constexpr(9)
COMMAND_PARTS: Final = tl.constexpr(10)
"""How many CTAs, from CTA 0 on, share the command; 0 is all of them."""
COMMAND_FROM_INPUT: Final = tl.constexpr(11)
"""1: COMMAND_SRC counts from the rank's input, wherever the caller keeps it; 0: it is an address."""
COMMAND_PAUSE: Final = tl.constexpr(12)
"""Nanoseconds to rest after each block."""

# Fields of the fault record.
FAULT_SET: Final = tl.constexpr(0)
"""Becomes 1 when the other fields are written."""
FAULT_RANK: Final = tl.constexpr(1)
FAULT_FLAG: Final = tl.constexpr(2)
FAULT_WANTED: Final = tl.constexpr(3)
FAULT_SEEN: Final = tl.constexpr(4)
FAULT_WHERE: Final = tl.constexpr(5)
FAULT_EPOCH: Final = tl.constexpr(6)
FAULT_WORDS: Final = tl.constexpr(8)

# Values of FAULT_WHERE.
WHERE_TILE: Final = tl.constexpr(1)
WHERE_COMMAND: Final = tl.constexpr(2)
WHERE_CLOSE: Final = tl.constexpr(3)
WHERE_GUARD: Final = tl.constexpr(4)
"""The runtime's own wait before it stages an input."""
