"""One rank in each process: torch.distributed for bootstrap, torch symmetric memory for memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.distributed import distributed_c10d

from syncopate.abi import align
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.fault_board import FaultBoard, StoreBoard
from syncopate.runtime.groups import Library, SymmetricAllocation
from syncopate.runtime.nccl import Communicator, Nccl, new_id

ALIGNMENT = 1024
"""Of memory that is nobody else's, as that of a symmetric allocation, which begins on a page."""

_communicators: dict[tuple[tuple[int, ...], int, int], list[Communicator]] = {}
"""By the ranks of the job, CTAs and GPU: the communicators that this process has, the last one being in use."""

_loads: dict[tuple[int, ...], int] = {}
"""By the ranks of the job, how many programs they have loaded."""


class ProcessGroup:
    """The ranks of a torch process group, each with its own GPU, on one or several nodes.

    A node is what reaches one another's memory: the GPUs of a host, or of an NVLink domain.
    """

    def __init__(
        self, group: dist.ProcessGroup | None = None, node: dist.ProcessGroup | None = None
    ) -> None:
        """Wraps a process group.

        Args:
            group: A torch process group; by default all processes. The current CUDA device is this rank's GPU.
            node: The ranks of it that are on this rank's node, if not all are. Between nodes only NCCL moves anything.

        Raises:
            SyncopateError: torch.distributed is not initialized, or there is no GPU.
        """
        if not dist.is_initialized():
            raise SyncopateError(
                "torch.distributed is not initialized; call torch.distributed.init_process_group('nccl') first"
            )
        if not torch.cuda.is_available():
            raise SyncopateError("torch sees no GPU; running a program needs one GPU per rank")
        self._group = group if group is not None else dist.group.WORLD
        self._rank: int = dist.get_rank(self._group)
        self._world_size: int = dist.get_world_size(self._group)
        self._device: int = torch.cuda.current_device()
        self._members = tuple(dist.get_process_group_ranks(self._group))
        self._node = node if node is not None else self._group
        near = dist.get_process_group_ranks(self._node)
        self._near = tuple(self._members.index(rank) for rank in near)

    @property
    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._world_size

    @property
    def local_ranks(self) -> Sequence[int]:
        """This process's rank."""
        return (self._rank,)

    def reaches(self, rank: int, other: int) -> bool:
        """Whether both are on the node."""
        return other in self._near

    def device(self, rank: int) -> int:
        """CUDA ordinal of this rank's GPU."""
        return self._device

    def shares_device(self, rank: int, other: int) -> bool:
        """Only a rank with itself: symmetric memory wants one GPU per process."""
        return rank == other

    def ctas_per_rank(self, device: int) -> int:
        """Every SM."""
        return cuda.multiprocessors(device)

    def stream(self, rank: int) -> int | None:
        """None: calls go to torch's current stream."""
        return None

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Zeroed symmetric memory; a rendezvous of the ranks of each node."""
        device = torch.device("cuda", self._device)
        addresses = [0] * self._world_size
        if len(self._near) == 1:
            alone = torch.zeros(nbytes + ALIGNMENT, dtype=torch.uint8, device=device)
            addresses[self._rank] = align(alone.data_ptr(), ALIGNMENT)
            own = alone[addresses[self._rank] - alone.data_ptr() :][:nbytes]
            return SymmetricAllocation(tuple(addresses), {self._rank: own})
        tensor = symm_mem.empty(nbytes, dtype=torch.uint8, device=device)
        handle = symm_mem.rendezvous(tensor, group=self._node)
        tensor.zero_()
        # A tensor may start behind the base of its block, by a different distance on every rank.
        inset = tensor.data_ptr() - int(handle.buffer_ptrs[self._near.index(self._rank)])
        insets: list[int] = [0] * len(self._near)
        dist.all_gather_object(insets, inset, group=self._node)
        for rank, base, more in zip(self._near, handle.buffer_ptrs, insets, strict=True):
            addresses[rank] = int(base) + more
        return SymmetricAllocation(tuple(addresses), {self._rank: tensor}, handle)

    def library(self, rank: int, ctas: int) -> Library:
        """NCCL, by the communicator of these ranks for that number of CTAs.

        Raises:
            SyncopateError: There is no NCCL, or it failed.
        """
        key = (self._members, ctas, self._device)
        known = _communicators.setdefault(key, [])
        # One that was aborted on some rank is of no use to any.
        usable: list[bool] = [False] * self._world_size
        dist.all_gather_object(usable, bool(known and known[-1].handle), group=self._group)
        if not all(usable):
            made: list[bytes | None] = [new_id() if self._rank == 0 else None]
            dist.broadcast_object_list(made, src=self._members[0], group=self._group)
            assert made[0] is not None
            with torch.cuda.device(self._device):
                known.append(Communicator(made[0], self._world_size, self._rank, ctas))
        return Nccl(known[-1])

    def fault_board(self) -> FaultBoard:
        """On the store of the process group."""
        number = _loads[self._members] = _loads.get(self._members, 0) + 1
        store = distributed_c10d._get_process_group_store(self._group)
        return StoreBoard(store, f"{'-'.join(map(str, self._members))}/{number}")

    def close(self) -> None:
        """Frees the communicators of these ranks, of whichever object they were made by.

        Collective. No program of theirs can make library calls any more, and graphs that have captured some must be
        gone.
        """
        for key in [key for key in _communicators if key[0] == self._members]:
            for communicator in _communicators.pop(key):
                communicator.close()

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """What all ranks have, pickled."""
        every: list[Any] = [None] * self._world_size
        dist.all_gather_object(every, values[self._rank], group=self._group)
        return every

    def barrier(self) -> None:
        """Waits for this GPU, then for every rank."""
        torch.cuda.synchronize(self._device)
        dist.barrier(
            self._group,
            device_ids=[self._device] if dist.get_backend(self._group) == "nccl" else None,
        )
        torch.cuda.synchronize(self._device)
