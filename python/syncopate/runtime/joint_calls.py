"""Calls of several ranks of one process: one step after another over all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from syncopate.errors import SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.rank_state import RankState

__all__ = ["JointCalls"]


class JointCalls:
    """The order between the current stream and those of the ranks."""

    def __init__(self, device: int, ranks: Sequence[int]) -> None:
        """Makes events on the current device.

        Args:
            device: Its CUDA ordinal.
            ranks: The local ranks.
        """
        self._device = device
        self._event = cuda.create_event()
        self._returns = {rank: cuda.create_event() for rank in ranks}
        self._detached = False

    def call(self, states: Sequence[RankState], tensors: Mapping[str, Any]) -> list[Any]:
        """Enqueues a call of all ranks; what each gives back.

        Each step only waits for earlier ones, so that streams may share a hardware queue.
        """
        for position, state in enumerate(states):
            state.prepare(
                {
                    name: _pick(name, value, position, state.rank, len(states))
                    for name, value in tensors.items()
                }
            )
        caller = torch._C._cuda_getCurrentRawStream(self._device)
        with torch.cuda.device(self._device):
            capturing = cuda.is_capturing(caller)
            streams = [caller if state.own_stream is None else state.own_stream for state in states]
            for stream in streams:
                cuda.record_and_wait(self._event, caller, stream)
            for state, stream in zip(states, streams, strict=True):
                state.stage(stream)
            _enqueue_engines(states)
            for state, stream in zip(states, streams, strict=True):
                state.launch(stream)
            for state, stream in zip(states, streams, strict=True):
                if capturing and state.engine is not None:
                    state.engine.join(stream)
                if not self._detached:
                    cuda.record_and_wait(self._returns[state.rank], stream, caller)
        return [state.result() for state in states]

    @contextlib.contextmanager
    def detached(self, states: Sequence[RankState]) -> Iterator[None]:
        """See `LoadedProgram.detached`."""
        self._detached = True
        try:
            yield
        finally:
            self._detached = False
            caller = torch._C._cuda_getCurrentRawStream(self._device)
            for state in states:
                if state.own_stream is not None:
                    cuda.record_and_wait(self._returns[state.rank], state.own_stream, caller)

    def close(self) -> None:
        """Destroys the events."""
        for event in (self._event, *self._returns.values()):
            cuda.call("cuEventDestroy_v2", event)


def _enqueue_engines(states: Sequence[RankState]) -> None:
    # Part by part, since a rank may wait for what another rank's engine brought in an earlier part, and up to a library
    # call on all ranks before anything behind it on one.
    engines = [state.engine for state in states if state.engine is not None]
    legs = [(leg, engine) for engine in engines for leg in engine.legs]
    for meeting in sorted({leg.meeting for leg, _ in legs}):
        there = [entry for entry in legs if entry[0].meeting == meeting]
        for part in range(max(len(leg.parts) for leg, _ in there)):
            for leg, engine in there:
                if part < len(leg.parts):
                    engine.enqueue(leg, part)


def _pick(name: str, value: Any, position: int, rank: int, count: int) -> Any:
    if isinstance(value, Mapping):
        return value.get(rank)
    if isinstance(value, (list, tuple)) and len(value) == count:
        return value[position]
    raise SyncopateError(
        f"{name}: expects a list or a mapping with one tensor for each of {count} ranks, but got {value!r:.80}"
    )
