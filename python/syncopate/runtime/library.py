"""Binds the library calls of a rank to tensors and to its side stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from syncopate.abi import LibraryCall
from syncopate.runtime.engine_plan import Call, Exchange, Piece
from syncopate.runtime.groups import Library
from syncopate.runtime.tensors import torch_dtype
from syncopate.tables import BufferSpec

__all__ = ["LibraryCalls"]


class LibraryCalls:
    """The calls of one rank. What it binds enqueues them on a stream, and returns 0 as driver calls do."""

    def __init__(
        self,
        library: Library,
        stream: int,
        buffers: Sequence[tuple[BufferSpec, torch.Tensor]],
    ) -> None:
        """Keeps what calls need.

        Args:
            library: Who carries them out.
            stream: Raw handle of the stream.
            buffers: The plan's buffers, and this rank's memory of each, uint8.
        """
        self._library, self._stream, self._buffers = library, stream, buffers

    def bind(self, op: Call) -> Callable[[], int]:
        """What enqueues a call."""
        source = self._view(op.src, op.src_offset, op.read_bytes)
        targets = [self._view(op.dst, offset, op.nbytes) for offset in op.targets]
        library, stream = self._library, self._stream
        match op.kind:
            case LibraryCall.ALL_REDUCE:
                return library.all_reduce(source, op.reduction, stream)
            case LibraryCall.REDUCE_SCATTER:
                return library.reduce_scatter(targets[0], source, op.reduction, stream)
            case LibraryCall.ALL_TO_ALL:
                return library.all_to_all(targets, source.chunk(op.parts), stream)

    def bind_exchange(self, op: Exchange, input_address: int | None = None) -> Callable[[], int]:
        """What enqueues an exchange.

        Args:
            op: The exchange.
            input_address: Where the rank's own input is, if that is not its buffer.
        """

        def place(piece: Piece) -> tuple[int, int, int]:
            address = piece.address
            if input_address is not None and piece.input_offset is not None:
                address = input_address + piece.input_offset
            return piece.peer, address, piece.nbytes

        sends, receives = map(place, op.sends), map(place, op.receives)
        return self._library.exchange(op, tuple(sends), tuple(receives), self._stream)

    def finish(self) -> Callable[[], int] | None:
        """What makes the stream wait for the last call, if that is not done by the call itself."""
        return self._library.finish(self._stream)

    def _view(self, buffer: int, offset: int, nbytes: int) -> torch.Tensor:
        spec, memory = self._buffers[buffer]
        return memory[offset : offset + nbytes].view(torch_dtype(spec.dtype))
