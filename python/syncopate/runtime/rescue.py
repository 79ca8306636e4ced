"""Lets go of streams that would wait for ever after a fault.

A kernel that gives up drains by itself, but a stream that waits for a peer's word does not: it would hang the next
device-wide synchronization. Once a fault record is set, the words that the side streams wait for are written again and
again until the streams are empty. A thread does this, since the process may be inside that synchronization already; it
only looks at host memory while all is well.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Protocol

from syncopate.errors import SyncopateError
from syncopate.runtime import cuda

_PERIOD_S = 0.05
_LIMIT_S = 30.0


class Rescuable(Protocol):
    """What the thread needs of a program."""

    def faulted(self) -> bool:
        """Whether a fault record is set. Reads host memory only."""

    def release(self) -> None:
        """Lets its streams go. Called once."""


def release_streams(streams: Sequence[int], words: Sequence[int], rescue_stream: int) -> None:
    """Writes 1 to every word until every stream is idle.

    Args:
        streams: Raw handles of the streams that wait.
        words: Addresses of the i32 words that they wait for.
        rescue_stream: A stream of another priority, so that it shares no hardware queue with them.
    """
    deadline = time.monotonic() + _LIMIT_S
    write = cuda.function("cuStreamWriteValue32_v2")
    while not all(cuda.stream_idle(stream) for stream in streams):
        for word in words:
            cuda.check(write(rescue_stream, word, 1, 0), "cuStreamWriteValue32")
        time.sleep(0.001)
        if time.monotonic() > deadline:
            raise SyncopateError(
                f"a side stream did not become idle within {_LIMIT_S:g} s after a fault; end the process"
            )


class Watchdog:
    """One thread for all programs of the process."""

    def __init__(self) -> None:
        self._programs: weakref.WeakSet[Rescuable] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, program: Rescuable) -> None:
        """Adds a program, for as long as it lives."""
        with self._lock:
            self._programs.add(program)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="syncopate-watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, program: Rescuable) -> None:
        """Removes a program that closes."""
        with self._lock:
            self._programs.discard(program)

    def _run(self) -> None:
        while True:
            time.sleep(_PERIOD_S)
            with self._lock:
                faulted = [program for program in self._programs if program.faulted()]
                for program in faulted:
                    self._programs.discard(program)
            for program in faulted:
                try:
                    program.release()
                except SyncopateError:
                    # The thread goes on for the other programs; the next call of this one raises as well.
                    logging.getLogger(__name__).exception(
                        "streams are stuck after a device wait timed out"
                    )


watchdog = Watchdog()
