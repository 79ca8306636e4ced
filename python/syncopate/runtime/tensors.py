"""Checks the tensors of a call and turns them into kernel arguments, once for each distinct tensor.

A training loop passes the same few tensors again and again, so each argument keeps what it encoded, by address and
shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from syncopate.dtypes import DTYPES
from syncopate.errors import InternalError, SyncopateError
from syncopate.recent import Recent
from syncopate.runtime.interface import TensorParam
from syncopate.runtime.launch import ArgumentBlock
from syncopate.tables import BufferSpec, Region

KEPT = 64
"""Encoded arguments that are kept, by tensor."""


@functools.cache
def torch_dtype(dtype: str) -> torch.dtype:
    """Torch's type for MLIR's spelling of one."""
    result: torch.dtype = getattr(torch, DTYPES[dtype].torch)
    return result


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def check_tensor(
    name: str, tensor: Any, shape: tuple[int, ...], dtype: str, device: int
) -> torch.Tensor:
    """Returns the tensor if it is a CUDA tensor of that shape, dtype and device.

    Raises:
        SyncopateError: It is not; the message names the argument and what is wrong.
    """
    if not isinstance(tensor, torch.Tensor):
        raise SyncopateError(f"{name}: expects a torch tensor, but got {type(tensor).__name__}")
    if tensor.shape != shape:
        raise SyncopateError(
            f"{name}: expects shape {list(shape)}, but got {list(tensor.shape)}; compile the program for this shape"
        )
    if tensor.dtype != torch_dtype(dtype):
        raise SyncopateError(
            f"{name}: expects dtype {torch_dtype(dtype)}, but got {tensor.dtype}; convert it or compile for it"
        )
    if not tensor.is_cuda or tensor.get_device() != device:
        raise SyncopateError(
            f"{name}: expects a tensor on cuda:{device}, but got one on {tensor.device}; move it there"
        )
    return tensor


class TensorArgument:
    """One tensor parameter of a loaded kernel."""

    def __init__(self, param: TensorParam, arguments: ArgumentBlock, device: int) -> None:
        self.param = param
        self._arguments = arguments
        self._device = device
        self._strides = param.strides or row_major(param.shape)
        self._place = torch.device("cuda", device)
        self._encode: Callable[[int, Sequence[int], Sequence[int]], bytes] | None = None
        if param.descriptor:
            self._encode = arguments.descriptor_setter(param.name, param.padding)
        self._kept: Recent[Any, bytes] = Recent(KEPT)
        self._current: Any = None

    def set(self, tensor: torch.Tensor) -> None:
        """Makes the tensor the argument of the next launch.

        Raises:
            SyncopateError: Wrong shape, dtype, device, layout or alignment.
        """
        if not isinstance(tensor, torch.Tensor):
            raise SyncopateError(
                f"{self.param.tensor}: expects a torch tensor, but got {type(tensor).__name__}"
            )
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key == self._current:
            return
        data = self._kept.find(key)
        if data is None:
            data = self._kept.keep(key, self._check_and_encode(tensor))
        self._arguments.set_bytes(self.param.name, data)
        self._current = key

    def new_output(self) -> torch.Tensor:
        """An uninitialized tensor for this parameter."""
        param = self.param
        return torch.empty_strided(
            param.shape, self._strides, dtype=torch_dtype(param.dtype), device=self._place
        )

    def _check_and_encode(self, tensor: Any) -> bytes:
        param = self.param
        check_tensor(param.tensor, tensor, param.shape, param.dtype, self._device)
        wanted = self._strides
        if any(
            size > 1 and have != want
            for size, have, want in zip(param.shape, tensor.stride(), wanted, strict=True)
        ):
            raise SyncopateError(
                f"{param.tensor}: expects strides {list(wanted)}, but got {list(tensor.stride())}; "
                f"pass it in that layout, or compile for this one"
            )
        if tensor.data_ptr() % 16:
            raise SyncopateError(
                f"{param.tensor}: expects an address that is a multiple of 16, but got {tensor.data_ptr():#x}; copy it"
            )
        if self._encode is not None:
            return self._encode(tensor.data_ptr(), param.shape, wanted)
        return int(tensor.data_ptr()).to_bytes(8, "little")


def input_view(buffer: BufferSpec, memory: torch.Tensor, rank: int) -> torch.Tensor:
    """The region of a symmetric buffer that a rank holds when a call starts.

    Args:
        buffer: The buffer.
        memory: The rank's instance, uint8.
        rank: The rank.

    Raises:
        SyncopateError: The rank holds no single region.
    """
    regions = buffer.inputs[rank]
    if len(regions) != 1:
        raise SyncopateError(
            f"buffer {buffer.name} has {len(regions)} input regions on rank {rank}; "
            f"only a single one can be passed as a tensor"
        )
    return region_view(whole_view(buffer, memory), regions[0])


def region_view(whole: torch.Tensor, region: Region) -> torch.Tensor:
    """A region of a tensor."""
    return whole[tuple(slice(o, o + s) for o, s in zip(region.offsets, region.sizes, strict=True))]


def whole_view(buffer: BufferSpec, memory: torch.Tensor) -> torch.Tensor:
    """A rank's whole instance of a symmetric buffer as a tensor of its type; slots lie one below the other."""
    if memory.numel() < buffer.nbytes:
        raise InternalError(
            f"buffer {buffer.name} has {buffer.nbytes} bytes, but {memory.numel()} were allocated"
        )
    return memory[: buffer.nbytes].view(torch_dtype(buffer.dtype)).view(buffer.memory_shape)
