"""Several ranks on one GPU in one process: for correctness, not for speed.

Every rank has a stream of its own and an equal share of the SMs. All CTAs of all ranks must be resident at once, since
they wait for each other, and some SMs stay free, since a copy within one GPU may run as a kernel on SMs instead of on a
copy engine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from syncopate.abi import align
from syncopate.agreement import Agreement, Alone
from syncopate.errors import SyncopateError
from syncopate.forks import expect_gpus
from syncopate.runtime import cuda
from syncopate.runtime.cuda_memory import wrap_memory
from syncopate.runtime.fault_board import FaultBoard, NoBoard
from syncopate.runtime.groups import Library, PoolUse, SymmetricAllocation
from syncopate.runtime.local_library import LocalLibrary, Meeting
from syncopate.runtime.pool import ALIGNMENT, Arena, Pool

_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class LocalGroup:
    """`world_size` ranks on one GPU."""

    def __init__(self, world_size: int, device: int | None = None, *, free_sms: int = 8) -> None:
        """Makes the streams.

        Args:
            world_size: Number of ranks, at least 1.
            device: CUDA ordinal; by default the current one.
            free_sms: SMs that no rank's kernel uses.

        Raises:
            SyncopateError: There is no GPU, or too few SMs.
        """
        expect_gpus()
        if not torch.cuda.is_available():
            raise SyncopateError("torch sees no GPU; a LocalGroup needs one")
        if not torch.cuda.is_initialized():
            # Streams share the hardware queues; with too few of them a stream that waits for a value holds up others.
            os.environ.setdefault(_CONNECTIONS, "32")
        self._world_size = world_size
        self._device = torch.cuda.current_device() if device is None else device
        torch.cuda.init()
        with torch.cuda.device(self._device):
            torch.zeros(1, device="cuda")
            self._streams = [cuda.create_stream() for _ in range(world_size)]
        self._free_sms = free_sms
        self._meeting = Meeting(world_size)
        self._pool = Pool(Alone(), _LocalMemory(world_size, self._device))
        if self.sms_per_rank(self._device) < 1:
            raise SyncopateError(
                f"world_size={world_size} ranks do not fit on GPU {self._device}, which has too few SMs; use fewer"
            )

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._world_size

    @property
    def local_ranks(self) -> Sequence[int]:
        """All ranks."""
        return range(self._world_size)

    def reaches(self, rank: int, other: int) -> bool:
        """Always."""
        return True

    def device(self, rank: int) -> int:
        """The one GPU."""
        return self._device

    def shares_device(self, rank: int, other: int) -> bool:
        """Always."""
        return True

    def sms_per_rank(self, device: int) -> int:
        """An equal share of the SMs that are not kept free."""
        return (cuda.multiprocessors(device) - self._free_sms) // self._world_size

    def stream(self, rank: int) -> int | None:
        """The rank's own stream."""
        return self._streams[rank]

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Device memory, a block for each rank."""
        return self._pool.allocate(nbytes)

    @property
    def memory(self) -> PoolUse:
        """Of each rank."""
        return self._pool.use

    def library(self, rank: int, ctas: int) -> Library:
        """Kernels of torch's, on the SMs that are kept free."""
        # Ranks of a program come in order, and calls of different programs must not meet.
        if rank == 0:
            self._meeting = Meeting(self._world_size)
        return LocalLibrary(rank, self._device, self._meeting)

    @property
    def agreement(self) -> Agreement:
        """One process."""
        return Alone()

    def fault_board(self) -> FaultBoard:
        """None: all ranks are here."""
        return NoBoard()

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """All of it: every rank is here."""
        return [values[rank] for rank in self.local_ranks]

    def barrier(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(self._device)


class _LocalMemory:
    """Memory of one GPU, for each rank as much."""

    def __init__(self, world_size: int, device: int) -> None:
        self.local_ranks: Sequence[int] = range(world_size)
        self._device = torch.device("cuda", device)

    def settle(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(self._device)

    def prepare(self) -> None:
        """Nothing."""

    def reserve(self, nbytes: int) -> Any:
        """A tensor for each rank."""
        # torch aligns to 512 bytes; symmetric memory starts on a page.
        return [
            torch.empty(nbytes + ALIGNMENT, dtype=torch.uint8, device=self._device)
            for _ in self.local_ranks
        ]

    def connect(self, memory: Any) -> Arena:
        """As they are."""
        return Arena(tuple(align(each.data_ptr(), ALIGNMENT) for each in memory), memory)

    def view(self, owner: Any, rank: int, address: int, nbytes: int) -> Any:
        """Bytes on the GPU."""
        return wrap_memory(owner, address, nbytes, self._device)
