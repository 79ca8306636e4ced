"""Enqueues a rank's engine commands and library calls on its side stream.

Every operation is bound to its driver call and its arguments when the program is loaded, so that a call of the program
costs one ctypes call per operation and allocates nothing.

Which engine moves the four bytes of a flag matters: a copy within one GPU may run as a kernel on SMs, and behind a
persistent kernel that fills them it would never start, while that kernel waits for this very flag. A flag on another
GPU is therefore written straight from a state word, over NVLink; one on the same GPU from a mirror of that word in
pinned host memory, which the list refreshes first. Host copies always use a copy engine.

The words are the engine's own: a kernel that gives up changes them to values that tell nobody anything.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncopate.abi import SignalKind, StateWord
from syncopate.errors import InternalError
from syncopate.runtime import cuda
from syncopate.runtime.engine_plan import (
    AwaitWord,
    Call,
    Copy,
    EngineOp,
    Exchange,
    Raise,
    awaited_words,
)

if TYPE_CHECKING:
    from syncopate.runtime.library import LibraryCalls

_Bound = tuple[Callable[..., int], tuple[Any, ...], str]
"""A function, its arguments, and what errors call it."""

LAST = sys.maxsize
"""What stands for the number of a meeting behind all."""


@dataclass
class Leg:
    """A piece of a list, up to a library call or to the end.

    Attributes:
        meeting: The number of the call or exchange at its end, among those of all ranks; `LAST` if there is none.
        parts: Pieces of it, each but the first beginning with a wait.
    """

    meeting: int
    parts: list[list[_Bound]] = field(default_factory=lambda: [[]])


@dataclass
class CopyWait:
    """A wait of a side stream, and what is copied to other ranks behind it.

    Attributes:
        nbytes: By the rank to which they go.
        event: What is recorded when the wait is over.
    """

    nbytes: dict[int, int]
    event: Any


_WAITS = ("cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2")
_FLAG_BYTES = 4

HIGH_PRIORITY = -5  # the driver clamps it to the highest that the GPU has


class Engine:
    """The side stream of one rank and the operations that every call puts on it."""

    def __init__(
        self,
        ops: Sequence[EngineOp],
        *,
        state: int,
        mirror: int,
        same_device: Callable[[int], bool],
        library: Callable[[int], LibraryCalls | None] = lambda stream: None,
    ) -> None:
        """Binds the operations.

        Args:
            ops: The list of `plan_engine`.
            state: Device address of the rank's state words.
            mirror: Address of two i32 words in pinned host memory, to mirror ENGINE_EPOCH and ENGINE_ONE.
            same_device: Whether a rank's memory is on this rank's GPU.
            library: Gives the library calls of a stream, for a list that has some.
        """
        self.stream = cuda.create_stream(HIGH_PRIORITY)
        self.awaited = awaited_words(ops)
        self._fork, self._join = cuda.create_event(), cuda.create_event()
        self._mirror = (ctypes.c_int32 * 2).from_address(mirror)
        self.calls: list[Callable[[], int]] = []
        """What makes the library calls, in their order."""
        self.legs: list[Leg] = [Leg(LAST)]
        # What reads an input that the caller may move: the part in which it stands, where there, and what it is.
        self._reading: list[tuple[list[_Bound], int, Copy | Exchange]] = []
        self._library = library(self.stream)
        self._add("cuMemcpyDtoHAsync_v2", mirror, state + 4 * StateWord.ENGINE_EPOCH, 8)
        for op in ops:
            if isinstance(op, AwaitWord):
                self.legs[-1].parts.append([])
                self._last.append(
                    _bind("cuStreamWaitValue32_v2", self.stream, op.address, 1, cuda.WAIT_VALUE_EQ)
                )
                self._last.append(_bind("cuStreamWriteValue32_v2", self.stream, op.address, 0, 0))
            elif isinstance(op, Copy):
                if op.from_input:
                    self._reading.append((self._last, len(self._last), op))
                self._last.append(self._bind_copy(op, 0))
            elif isinstance(op, (Call, Exchange)):
                self._bind_meeting(op)
            else:
                self._bind_raise(op, state, mirror, same_device)

    @property
    def _last(self) -> list[_Bound]:
        return self.legs[-1].parts[-1]

    def _bind_meeting(self, op: Call | Exchange) -> None:
        assert self._library is not None, "a list with library calls, but no library"
        name = op.kind.name if isinstance(op, Call) else "an exchange"
        if isinstance(op, Call):
            self.calls.append(self._library.bind(op))
        else:
            self.calls.append(self._library.bind_exchange(op))
            if any(piece.input_offset is not None for piece in op.sends):
                self._reading.append((self._last, len(self._last), op))
        self._last.append((self.calls[-1], (), name))
        self.legs[-1].meeting = op.meeting
        # What follows is enqueued when all ranks have made the call.
        self.legs.append(Leg(LAST))
        finish = self._library.finish()
        if finish is not None:
            self._last.append((finish, (), name))

    def _add(self, name: str, *args: Any) -> None:
        self._last.append(_bind(name, *args, self.stream))

    def _bind_copy(self, op: Copy, base: int) -> _Bound:
        src = base + op.src
        if op.rows == 1:
            return _bind("cuMemcpyAsync", op.dst, src, op.row_bytes, self.stream)
        copy = cuda.describe_copy(op.dst, src, op.rows, op.row_bytes, op.dst_stride, op.src_stride)
        return _bind("cuMemcpy2DAsync_v2", copy, self.stream)

    def place_input(self, address: int) -> None:
        """Makes what reads the rank's own input read it from an address."""
        for part, index, op in self._reading:
            if isinstance(op, Copy):
                part[index] = self._bind_copy(op, address)
            else:
                assert self._library is not None
                part[index] = (self._library.bind_exchange(op, address), (), "an exchange")

    def _bind_raise(
        self, op: Raise, state: int, mirror: int, same_device: Callable[[int], bool]
    ) -> None:
        one = op.kind is SignalKind.ONE
        if same_device(op.rank):
            self._add("cuMemcpyHtoDAsync_v2", op.address, mirror + 4 * one, 4)
        else:
            word = StateWord.ENGINE_ONE if one else StateWord.ENGINE_EPOCH
            self._add("cuMemcpyAsync", op.address, state + 4 * word, 4)

    def watch_copies(
        self,
        ranges: Sequence[tuple[int, int]],
        own: int,
        make_event: Callable[[], tuple[Any, Callable[[], int]]],
    ) -> list[CopyWait]:
        """Has an event recorded, in every call from now on, behind each wait that copies to other ranks follow.

        Args:
            ranges: Begin and end of each rank's memory, as this process sees it.
            own: The rank.
            make_event: Gives an event, and what records it on the side stream.

        Returns:
            The waits, in the order of the list.

        Raises:
            InternalError: Some copies read an input that the caller may move, and so have places of their own.
        """
        if self._reading:
            raise InternalError("places of copies out of an input must not move")
        watched = []
        for bound in (part for leg in self.legs for part in leg.parts):
            copied: dict[int, int] = {}
            for _, args, name in bound:
                target, nbytes = _find_copy(name, args)
                places = (r for r, (begin, end) in enumerate(ranges) if begin <= target < end)
                peer = next(places, own)
                if nbytes > _FLAG_BYTES and peer != own:
                    copied[peer] = copied.get(peer, 0) + nbytes
            waits = sum(name in _WAITS for _, _, name in bound[:2])
            if copied and waits:
                event, record = make_event()
                bound.insert(waits, (record, (), "an event"))
                watched.append(CopyWait(copied, event))
        return watched

    def silence(self, epoch: int) -> None:
        """Makes the mirror tell nobody anything, as the kernel that gave up call `epoch` did with the words."""
        self._mirror[:] = [epoch - 1, 0]

    def fork(self, main: int) -> None:
        """Makes the next list wait for what is on stream `main` now."""
        cuda.record_and_wait(self._fork, main, self.stream)

    def enqueue(self, leg: Leg, part: int) -> None:
        """Puts a part of a leg on the side stream; they have to follow each other in order."""
        for entry, args, name in leg.parts[part]:
            code = entry(*args)
            if code:
                cuda.check(code, name)

    def join(self, main: int) -> None:
        """Makes stream `main` wait for the list.

        Only a graph capture needs this, since a captured stream has to come back. Otherwise the fused kernel waits for
        `engine_done`, and a stream that hangs after a fault does not hold up `main`.
        """
        cuda.record_and_wait(self._join, self.stream, main)

    def close(self) -> None:
        """Destroys the stream and the events."""
        if self.stream:
            cuda.call("cuStreamDestroy_v2", self.stream)
            cuda.call("cuEventDestroy_v2", self._fork)
            cuda.call("cuEventDestroy_v2", self._join)
            self.stream = 0


def _find_copy(name: str, args: Sequence[Any]) -> tuple[int, int]:
    """Where a call copies to, and how many bytes."""
    if name == "cuMemcpyAsync":
        return args[0].value, args[2].value
    if name == "cuMemcpy2DAsync_v2":
        copy = args[0]._obj
        return copy.dst_device, copy.width * copy.height
    return 0, 0


def _bind(name: str, *args: Any) -> _Bound:
    """A driver call with its arguments converted now rather than at every call."""
    entry = cuda.function(name)
    converted = tuple(
        ctypes.byref(arg) if isinstance(arg, ctypes.Structure) else kind(arg)
        for kind, arg in zip(entry.argtypes, args, strict=True)  # type: ignore[attr-defined]
    )
    return entry, converted, name
