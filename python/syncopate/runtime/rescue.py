"""Lets go of side streams that would wait for ever after a fault.

A kernel that gives up drains by itself, but a stream that waits for a peer's word does not: it would hang the next
device-wide synchronization. Its copies cannot be taken back, and a copy that runs before its time could overwrite what
a healthy peer is still reading. So once a fault record is set,

* nothing more is raised at peers: the kernel that gave up has changed the words from which the engine raises flags;
* the stream gets one more time limit to go on by itself, in which a peer that is only late ends its call, or gives up
  as well;
* then the words that it waits for are written again and again until it is empty; if it is not soon, a library call
  waits for a rank that does not come, and the library is told to abort.

A thread does this, since the process may be inside that synchronization already; it only looks at host memory while all
is well.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from syncopate.errors import SyncopateError
from syncopate.runtime import cuda

_PERIOD_S = 0.05
_ROUND_S = 0.001
_ABORT_S = 5.0
_LIMIT_S = 30.0


class StreamRescue:
    """Lets one stream go after a fault."""

    def __init__(
        self,
        stream: int,
        words: Sequence[int],
        patience_s: float,
        abort: Callable[[], None] | None = None,
    ) -> None:
        """Only takes notes.

        Args:
            stream: Raw handle of the stream that may wait.
            words: Addresses of the i32 words that it waits for.
            patience_s: How long it may go on by itself after the fault.
            abort: What ends library calls on it. It may block until the stream is idle, for which words have to be
                written meanwhile.
        """
        self._abort = abort
        self._stream = stream
        self._words = tuple(words)
        self._patience_s = patience_s
        self._begin: float | None = None

    def step(self, rescue_stream: int) -> float | None:
        """Does what is due now; to be called again and again once there is a fault.

        Args:
            rescue_stream: A stream of another priority, so that it shares no hardware queue with this one.

        Returns:
            Seconds until the next step is due, None if the stream is idle.

        Raises:
            SyncopateError: The stream is stuck.
        """
        now = time.monotonic()
        if self._begin is None:
            self._begin = now + self._patience_s
        if cuda.stream_idle(self._stream):
            return None
        if now < self._begin:
            return min(_PERIOD_S, self._begin - now)
        if now > self._begin + _LIMIT_S:
            raise SyncopateError(
                f"a side stream did not become idle within {_LIMIT_S:g} s after a fault; end the process"
            )
        if self._abort is not None and now > self._begin + _ABORT_S:
            threading.Thread(target=self._abort, name="syncopate-abort", daemon=True).start()
            self._abort = None
        write = cuda.function("cuStreamWriteValue32_v2")
        for word in self._words:
            cuda.check(write(rescue_stream, word, 1, 0), "cuStreamWriteValue32")
        return _ROUND_S


class Rescuable(Protocol):
    """What the thread needs of a program."""

    def rescue(self) -> float | None:
        """Does what is due after a fault; reads host memory only if there is none.

        Returns:
            Seconds until this should be called again; None if there is nothing to do.
        """


class Watchdog:
    """One thread for all programs of the process."""

    def __init__(self) -> None:
        self._programs: weakref.WeakSet[Rescuable] = weakref.WeakSet()
        # Those that are being rescued: who forgets one without closing it would leave its stream waiting for ever.
        self._busy: set[Rescuable] = set()
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
            # A method of its own, so that no program is kept alive while the thread sleeps.
            time.sleep(self._step_all())

    def _step_all(self) -> float:
        with self._lock:
            programs = list(self._programs)
        delays = [_PERIOD_S]
        for program in programs:
            try:
                delay = program.rescue()
            except Exception:
                # The thread goes on for the other programs; the next call of this one raises as well.
                logging.getLogger(__name__).exception(
                    "streams are stuck after a device wait timed out"
                )
                self.forget(program)
                self._busy.discard(program)
                continue
            if delay is None:
                self._busy.discard(program)
            else:
                self._busy.add(program)
                delays.append(delay)
        return min(delays)


watchdog = Watchdog()
