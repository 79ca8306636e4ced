"""Brings what a call gives back from slots into rows."""

from __future__ import annotations

import numpy as np
import torch

from syncopate.errors import InternalError
from syncopate.runtime.interface import REMAP_COLUMNS, REMAP_ROWS, Program
from syncopate.runtime.launch import KernelLauncher
from syncopate.runtime.tensors import torch_dtype
from syncopate.tables import BufferSpec, slot_rows

__all__ = ["Remap", "slot_table"]


def slot_table(spec: BufferSpec, rank: int, device: int) -> torch.Tensor:
    """In which row of the slots each row of a rank's output lies, i32 [rows, columns of tiles]."""
    table = np.ascontiguousarray(slot_rows(spec, rank), np.int32)
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
        memory: torch.Tensor,
        device: int,
    ) -> None:
        """Binds the kernel.

        Args:
            program: The program, which brings the kernel along.
            spec: The buffer.
            rank: The rank.
            memory: The rank's instance of the buffer, uint8.
            device: CUDA ordinal of its GPU.
        """
        if program.remap is None:
            raise InternalError(f"program {program.name} has no kernel for outputs in slots")
        self._rows = slot_table(spec, rank, device)
        rows, columns = spec.outputs[rank][0].sizes
        self.output = torch.empty(
            rows, columns, dtype=torch_dtype(spec.dtype), device=torch.device("cuda", device)
        )
        grid = (-(-rows // REMAP_ROWS), -(-columns // REMAP_COLUMNS), 1)
        self._kernel = KernelLauncher(program.remap, device, grid)
        for name, value in (
            ("src", memory.data_ptr()),
            ("slot_rows", self._rows.data_ptr()),
            ("dst", self.output.data_ptr()),
            ("rows", rows),
            ("columns", columns),
            ("tiles_n", self._rows.shape[1]),
        ):
            self._kernel.arguments.set_scalar(name, value)

    def launch(self, stream: int) -> None:
        """Fills the tensor, on a raw stream."""
        self._kernel(stream)

    def close(self) -> None:
        """Unloads the kernel."""
        self._kernel.close()
