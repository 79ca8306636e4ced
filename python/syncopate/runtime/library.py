"""Binds the library calls of a rank to tensors and to its side stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from syncopate.abi import LibraryCall
from syncopate.runtime.engine_plan import Call
from syncopate.runtime.groups import Library
from syncopate.runtime.interface import BufferSpec
from syncopate.runtime.tensors import torch_dtype

__all__ = ["LibraryCalls"]


class LibraryCalls:
    """The calls of one rank. What it binds enqueues them on a stream, and returns 0 as driver calls do."""

    def __init__(
        self,
        library: Library,
        stream: int,
        device: int,
        buffers: Sequence[tuple[BufferSpec, torch.Tensor]],
    ) -> None:
        """Keeps what calls need.

        Args:
            library: Who carries them out.
            stream: Raw handle of the stream.
            device: CUDA ordinal of its GPU.
            buffers: The plan's buffers, and this rank's memory of each, uint8.
        """
        self._library, self._buffers = library, buffers
        self._stream = torch.cuda.ExternalStream(stream, device=device)

    def bind(self, op: Call) -> Callable[[], int]:
        """What enqueues a call."""
        source = self._view(op.src, op.src_offset, op.read_bytes)
        sources = source.chunk(op.parts)
        targets = [self._view(op.dst, offset, op.nbytes) for offset in op.targets]
        library, reduction = self._library, op.reduction
        call: dict[LibraryCall, Callable[[], None]] = {
            LibraryCall.ALL_REDUCE: lambda: library.all_reduce(source, reduction),
            LibraryCall.REDUCE_SCATTER: lambda: library.reduce_scatter(
                targets[0], source, reduction
            ),
            LibraryCall.ALL_TO_ALL: lambda: library.all_to_all(targets, sources),
        }
        return self._on_stream(call[op.kind])

    def finish(self) -> Callable[[], int]:
        """What makes the stream wait for the last call, if that is not done by the call itself."""
        return self._on_stream(self._library.finish)

    def _on_stream(self, enqueue: Callable[[], None]) -> Callable[[], int]:
        def run() -> int:
            with torch.cuda.stream(self._stream):
                enqueue()
            return 0

        return run

    def _view(self, buffer: int, offset: int, nbytes: int) -> torch.Tensor:
        spec, memory = self._buffers[buffer]
        return memory[offset : offset + nbytes].view(torch_dtype(spec.dtype))
