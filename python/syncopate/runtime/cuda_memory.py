"""Tensors of memory that is not torch's."""

from __future__ import annotations

from typing import Any

import torch

from syncopate.errors import InternalError

__all__ = ["wrap_memory"]


class _Memory:
    """What torch takes for an array on a GPU, by NumBa's CUDA array interface; it holds it as long as its storage."""

    def __init__(self, owner: Any, address: int, nbytes: int) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def wrap_memory(owner: Any, address: int, nbytes: int, device: torch.device) -> torch.Tensor:
    """Bytes of a GPU as a tensor.

    Args:
        owner: What is kept alive as long as the tensor, or another one that shares its storage.
        address: Of the first byte, on `device`.
        nbytes: How many, one at least.
        device: The GPU.

    Raises:
        InternalError: torch has made a copy of it.
    """
    tensor = torch.as_tensor(_Memory(owner, address, nbytes), device=device)
    if tensor.data_ptr() != address:
        raise InternalError(f"memory at {address:#x} is not on {device}")
    return tensor
