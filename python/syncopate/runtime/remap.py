"""Brings what a call gives back from slots into rows."""

from __future__ import annotations

import numpy as np
import torch

from syncopate.errors import InternalError
from syncopate.runtime.interface import (
    REMAP_COLUMNS,
    REMAP_ROWS,
    BufferSpec,
    Program,
    Region,
    slots_of_region,
)
from syncopate.runtime.launch import KernelLauncher
from syncopate.runtime.tensors import torch_dtype

__all__ = ["Remap", "slot_table"]


def slot_table(spec: BufferSpec, rank: int, region: Region, device: int) -> torch.Tensor:
    """The slots of the tiles of a region that begins and ends with tiles, i32 [rows of tiles, columns of tiles]."""
    table = np.ascontiguousarray(slots_of_region(spec, rank, region), np.int32)
    return torch.from_numpy(table).to(torch.device("cuda", device))


class Remap:
    """One output of a rank: a tensor of its own, and the launch of the kernel that fills it.

    Attributes:
        output: The tensor; the next call writes it again.
    """

    def __init__(
        self,
        program: Program,
        spec: BufferSpec,
        rank: int,
        region: Region,
        memory: torch.Tensor,
        device: int,
    ) -> None:
        """Binds the kernel.

        Args:
            program: The program, which brings the kernel along.
            spec: The buffer.
            rank: The rank.
            region: What is given back.
            memory: The rank's instance of the buffer, uint8.
            device: CUDA ordinal of its GPU.
        """
        if program.remap is None:
            raise InternalError(f"program {program.name} has no kernel for outputs in slots")
        self._slots = slot_table(spec, rank, region, device)
        self.output = torch.empty(
            region.sizes, dtype=torch_dtype(spec.dtype), device=torch.device("cuda", device)
        )
        grid = (-(-region.sizes[0] // REMAP_ROWS), -(-region.sizes[1] // REMAP_COLUMNS), 1)
        self._kernel = KernelLauncher(program.remap, device, grid)
        for name, value in (
            ("src", memory.data_ptr()),
            ("slots", self._slots.data_ptr()),
            ("dst", self.output.data_ptr()),
            ("rows", region.sizes[0]),
            ("columns", region.sizes[1]),
            ("tiles_n", self._slots.shape[1]),
        ):
            self._kernel.arguments.set_scalar(name, value)

    def launch(self, stream: int) -> None:
        """Fills the tensor, on a raw stream."""
        self._kernel(stream)

    def close(self) -> None:
        """Unloads the kernel."""
        self._kernel.close()
