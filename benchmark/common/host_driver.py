"""A stand-in for the CUDA driver and torch's GPU, so that what a call takes the host can be measured without either.

Every function of the driver is one of the C library that returns 0 at once, called through ctypes as the driver's is.
So what is left of a call is Python, ctypes and torch, but for what allocations on a GPU take.
"""

from __future__ import annotations

import contextlib
import ctypes
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from unittest.mock import patch

import torch

from syncopate.agreement import Alone
from syncopate.errors import SyncopateError
from syncopate.runtime import bound_kernel, cuda, rank_state, tensors
from syncopate.runtime.fault_board import NoBoard
from syncopate.runtime.groups import PoolUse, SymmetricAllocation

__all__ = ["HostGroup", "stand_in"]

_PLENTY = 1 << 20


class HostGroup:
    """Rank 0 of several ranks, none of which does anything."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.local_ranks: Sequence[int] = (0,)
        self.agreement = Alone()

    def device(self, rank: int) -> int:
        """The first one."""
        return 0

    def stream(self, rank: int) -> None:
        """None: calls go to the current stream."""

    def reaches(self, rank: int, other: int) -> bool:
        """Always."""
        return True

    def shares_device(self, rank: int, other: int) -> bool:
        """Only a rank with itself."""
        return rank == other

    def sms_per_rank(self, device: int) -> int:
        """As many as anybody wants."""
        return _PLENTY

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Memory of the host; other ranks have some elsewhere."""
        memory = torch.zeros(nbytes, dtype=torch.uint8)
        others = (rank << 40 for rank in range(1, self.world_size))
        return SymmetricAllocation((memory.data_ptr(), *others), {0: memory})

    def fault_board(self) -> NoBoard:
        """None."""
        return NoBoard()

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """What rank 0 has."""
        return [values[0]]

    def barrier(self) -> None:
        """Nothing."""

    @property
    def memory(self) -> PoolUse:
        """Nothing is kept."""
        return PoolUse(0, 0)

    def library(self, rank: int, ctas: int) -> NoReturn:
        """There is none."""
        raise SyncopateError("a driver that does nothing makes no library calls")


def _without_gpus() -> types.SimpleNamespace:
    """torch, whose GPUs are the host."""

    def on_host(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return lambda *shape, dtype, **_: make(*shape, dtype=dtype)

    changed = {name: on_host(getattr(torch, name)) for name in ("zeros", "empty", "empty_strided")}
    return types.SimpleNamespace(
        **{**vars(torch), **changed, "device": lambda *_: torch.device("cpu")}
    )


def _make_function(name: str) -> Callable[..., int]:
    # The rounding mode is 0 as long as nobody changes it; arguments are passed in registers, and ignored.
    entry: Any = ctypes.CDLL("libm.so.6")["fegetround"]
    entry.argtypes, entry.restype = cuda.SIGNATURES[name], ctypes.c_int
    return entry  # type: ignore[no-any-return]


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """In this context programs are loaded, by groups like `HostGroup`, and called without a GPU."""
    functions = {name: _make_function(name) for name in cuda.SIGNATURES}
    changes: list[tuple[Any, str, Any]] = [
        (cuda, "function", functions.__getitem__),
        (cuda, "load_function", lambda *_: (1, 1)),
        (cuda, "ctas_per_sm", lambda *_: _PLENTY),
        *((module, "torch", _without_gpus()) for module in (rank_state, bound_kernel, tensors)),
        (torch.Tensor, "is_cuda", True),
        (torch.Tensor, "get_device", lambda tensor: 0),
        (torch.cuda, "device", lambda *_: contextlib.nullcontext()),
        (torch.cuda, "synchronize", lambda *_: None),
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 7),
        (torch._C, "_cuda_getDevice", lambda: 0),
    ]
    with contextlib.ExitStack() as changed:
        for owner, name, value in changes:
            # Torch for CPUs has no functions of GPUs.
            changed.enter_context(patch.object(owner, name, value, create=owner is torch._C))
        yield
