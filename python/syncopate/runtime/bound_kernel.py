"""The kernels of a rank's calls with what their parameters are: the fused one, and the guard before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from syncopate.dtypes import DTYPES
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime.interface import (
    INPUT_POINTER,
    BufferParam,
    Program,
    ScalarParam,
    ScratchParam,
    TensorParam,
)
from syncopate.runtime.launch import KernelLauncher
from syncopate.runtime.tensors import TensorArgument, row_major
from syncopate.tables import BufferSpec

__all__ = ["BoundKernel"]


class BoundKernel:
    """What a rank launches, loaded into the current device.

    Attributes:
        launch: The fused kernel.
        guard: What holds a stream until peers have got the last input; None if no rank gets from this one.
        tensors: By the names of their parameters' tensors: arguments that calls set.
        arguments: The fused kernel's.
    """

    def __init__(
        self,
        program: Program,
        rank: int,
        device: int,
        context: int,
        buffers: Mapping[str, tuple[BufferSpec, int]],
        sms: int,
    ) -> None:
        """Loads, and sets every argument but those that calls set.

        Args:
            program: The program.
            rank: The rank.
            device: CUDA ordinal of its GPU.
            context: Address of its upload.
            buffers: The plan's buffers by name, and where the rank's own instance of each is.
            sms: On how many multiprocessors' worth of room the group lets a rank of this GPU have CTAs.

        Raises:
            SyncopateError: More CTAs than fit there would have to be resident.
        """
        self._program, self._device, self._context = program, device, context
        self.launch = KernelLauncher(program.image, device, program.grid)
        self.arguments = self.launch.arguments
        self._check_residency(sms)
        self.guard = self._load_guard(rank)
        self.tensors: dict[str, TensorArgument] = {}
        self._memory: list[torch.Tensor] = []
        self._bind(buffers)

    def _check_residency(self, sms: int) -> None:
        program, ctas = self._program, math.prod(self._program.grid)
        limit = self.launch.ctas_per_sm * sms
        if ctas > limit:
            raise SyncopateError(
                f"program {program.name} launches {ctas} CTAs, but only {limit} can be resident on GPU "
                f"{self._device} for one rank of this group, and CTAs that wait for each other all have to be; "
                f"compile it for at most {limit} CTAs"
            )

    def _load_guard(self, rank: int) -> KernelLauncher | None:
        program = self._program
        call = program.rank_tables(rank)["calls"].rows()[0]
        if call["guard_begin"] == call["guard_end"]:
            return None
        if program.guard is None:
            raise InternalError(
                f"program {program.name} has no guard, but others get from rank {rank}; compile it again"
            )
        guard = KernelLauncher(program.guard, self._device, (1, 1, 1))
        guard.arguments.set_scalar("context", self._context)
        guard.arguments.set_scalar("begin", call["guard_begin"])
        guard.arguments.set_scalar("end", call["guard_end"])
        return guard

    def _bind(self, buffers: Mapping[str, tuple[BufferSpec, int]]) -> None:
        program, arguments = self._program, self.arguments
        named = {param.name: param for param in program.params}
        first, *rest = program.image.arguments
        arguments.set_scalar(first[0], self._context)
        for name, kind in rest:
            if kind == "constexpr" or name.startswith(INPUT_POINTER):
                continue
            if name not in named:
                raise InternalError(
                    f"kernel {program.image.name} has a parameter {name} that program {program.name} does not bind"
                )
            param = named[name]
            if isinstance(param, ScalarParam):
                arguments.set_scalar(name, param.value)
            elif isinstance(param, TensorParam):
                self.tensors[param.tensor] = TensorArgument(param, arguments, self._device)
            elif isinstance(param, ScratchParam):
                nbytes = math.prod(param.shape) * DTYPES[param.dtype].nbytes
                arguments.set_scalar(name, self._allocate(nbytes, torch.zeros))
            else:
                self._bind_buffer(param, *buffers[param.buffer])
        sizes = (program.image.global_scratch_bytes, program.image.profile_scratch_bytes)
        if any(sizes):
            ctas = math.prod(program.grid)
            arguments.set_scratch(
                *(self._allocate(max(1, ctas * size), torch.empty) for size in sizes)
            )

    def _allocate(self, nbytes: int, make: Callable[..., torch.Tensor]) -> int:
        self._memory.append(make(nbytes, dtype=torch.uint8, device=f"cuda:{self._device}"))
        return int(self._memory[-1].data_ptr())

    def _bind_buffer(self, param: BufferParam, spec: BufferSpec, address: int) -> None:
        if param.descriptor:
            encode = self.arguments.descriptor_setter(param.name, param.padding)
            strides = row_major(spec.memory_shape)
            self.arguments.set_bytes(param.name, encode(address, spec.memory_shape, strides))
        else:
            self.arguments.set_scalar(param.name, address)

    @property
    def nbytes(self) -> int:
        """Memory of the GPU that parameters have for themselves."""
        return sum(tensor.nbytes for tensor in self._memory)

    def close(self) -> None:
        """Unloads the kernels, and lets go of the memory."""
        self.launch.close()
        if self.guard is not None:
            self.guard.close()
        self._memory.clear()
