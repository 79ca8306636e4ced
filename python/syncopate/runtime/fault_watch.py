"""What becomes of faults of a loaded program: they are raised, other ranks are told, and side streams are let go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import torch

from syncopate.errors import DeviceWaitTimeout, PeerFault
from syncopate.runtime.fault_board import FaultBoard
from syncopate.runtime.faults import decode_fault
from syncopate.runtime.interface import Program
from syncopate.runtime.rank_state import RankState

__all__ = ["FaultWatch"]


class FaultWatch:
    """The faults of a program's local ranks. The watchdog asks it from a thread of its own, the others from any."""

    def __init__(self, board: FaultBoard, device: int, stream: int) -> None:
        """Watches nothing yet.

        Args:
            board: The program's.
            device: CUDA ordinal of its GPU.
            stream: A stream by which other streams are let go.
        """
        self._board, self._device, self._stream = board, device, stream
        self._lock = threading.Lock()
        self._posted = self._freed = False
        self._error: DeviceWaitTimeout | PeerFault | None = None

    def follow(self, program: Program, states: Sequence[RankState]) -> None:
        """Looks at these states of a program from now on."""
        with self._lock:
            self._program, self._states = program, tuple(states)

    def seen(self) -> bool:
        """Whether a device wait has reached its time limit. Reads host memory only."""
        return any(state.fault_record() is not None for state in self._states)

    def check(self) -> None:
        """Raises what has happened so far. Reads host memory only."""
        if self._error is None:
            for state in self._states:
                record = state.fault_record()
                if record is not None:
                    self._error = decode_fault(self._program, record)
                    break
        if self._error is not None:
            raise self._error

    def check_peers(self) -> None:
        """Raises what has happened on other ranks, if it may have spoiled library calls here."""
        if not self._uses_library:
            return
        text = self._board.read()
        if text is not None:
            self._error = PeerFault(
                f"program {self._program.name}: another rank has given up a call, so results of library calls are "
                f"not to be trusted; load the program again to go on. It says: {text}"
            )
            raise self._error

    @property
    def _uses_library(self) -> bool:
        return any(state.library is not None for state in self._states)

    def rescue(self) -> float | None:
        """Lets the side streams go after a fault, step by step; see `Rescuable.rescue`.

        Raises:
            SyncopateError: A stream is stuck.
        """
        if self._freed or not self.seen():
            return None
        with self._lock, torch.cuda.device(self._device):
            if self._freed:
                return None
            if not self._posted and self._uses_library:
                self._posted = True
                self._post()
            delays = [state.rescue(self._stream) for state in self._states]
        return min((delay for delay in delays if delay is not None), default=None)

    def _post(self) -> None:
        """Tells other processes of a fault, before anything that comes of it can reach them."""
        records = [record for record in (state.fault_record() for state in self._states) if record]
        try:
            self._board.post(str(decode_fault(self._program, records[0])))
        except Exception:
            # Whatever it is: streams have to be let go, or this process hangs.
            logging.getLogger(__name__).exception("other ranks cannot be told of a fault")

    def end(self, free: Callable[[], None]) -> None:
        """Frees the program while no stream is being let go, after which none is."""
        with self._lock:
            self._freed = True
            free()
