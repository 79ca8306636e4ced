"""The rank's own input where the caller keeps it.

The input of a call need not be copied into the symmetric buffer before the kernel: the fused kernel's tiles read it
through a descriptor of its own, and commands count their source from its address, the one among them that stages it for
other ranks. Both are arguments that change only when the caller passes another tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from syncopate.recent import Recent
from syncopate.runtime.engine import Engine
from syncopate.runtime.interface import INPUT_DESCRIPTOR, INPUT_POINTER, Program
from syncopate.runtime.launch import ArgumentBlock
from syncopate.runtime.linking import gives_input_back, input_rows
from syncopate.runtime.tensors import KEPT
from syncopate.tables import BufferSpec


@dataclass(frozen=True)
class _Companion:
    name: str
    encode: Callable[[int, Sequence[int], Sequence[int]], bytes]


class OwnInput:
    """The companion arguments of one rank."""

    def __init__(
        self, program: Program, rank: int, arguments: ArgumentBlock, engine: Engine | None
    ) -> None:
        self._arguments = arguments
        self._engine = engine
        self._kept: Recent[int, list[bytes]] = Recent(KEPT)
        self._address = 0
        self._spec: BufferSpec | None = None
        for spec in program.buffers:
            if spec.name == program.localized and input_rows(spec, rank) is not None:
                self._spec = spec
        # A copy engine of another rank reads the buffer as soon as the call opens; communication roles wait until
        # this rank's own has staged the input.
        call = program.rank_tables(rank)["calls"].rows()[0]
        self.in_place = (
            self._spec is not None
            and call["open_begin"] == call["open_end"]
            and not gives_input_back(self._spec, rank)
        )
        self._companions = [
            _Companion(name, arguments.descriptor_setter(name, "zero"))
            for name, kind in program.image.arguments
            if name.startswith(INPUT_DESCRIPTOR) and kind.startswith("tensordesc")
        ]

    def takes(self, name: str, tensor: torch.Tensor) -> bool:
        """Whether a call can use this input of buffer `name` where it is."""
        return (
            self.in_place
            and self._spec is not None
            and name == self._spec.name
            and tensor.is_contiguous()
            and tensor.data_ptr() % 16 == 0
        )

    def place(self, tensor: torch.Tensor) -> None:
        """Makes a contiguous tensor of the input's shape what the next call reads."""
        address = tensor.data_ptr()
        if address == self._address:
            return
        encoded = self._kept.find(address)
        if encoded is None:
            encoded = self._kept.keep(
                address,
                [
                    companion.encode(address, tuple(tensor.shape), tensor.stride())
                    for companion in self._companions
                ],
            )
        for companion, data in zip(self._companions, encoded, strict=True):
            self._arguments.set_bytes(companion.name, data)
        self._arguments.set_scalar(INPUT_POINTER, address)
        if self._engine is not None:
            self._engine.place_input(address)
        self._address = address
