"""One rank in each process: torch.distributed for bootstrap, torch symmetric memory for memory.

What ranks have together, memory, communicators and numbers of programs, belongs to the process group of torch, whatever
objects are made for it here, and goes with it. So a group that is made anew, after a fault too, has nothing of an old
one.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.distributed import distributed_c10d

from syncopate.abi import align
from syncopate.agreement import Agreement, Processes, agree, from_first, processes
from syncopate.errors import SyncopateError
from syncopate.forks import expect_gpus, this_process
from syncopate.runtime import cuda
from syncopate.runtime.cuda_memory import wrap_memory
from syncopate.runtime.fault_board import FaultBoard, StoreBoard
from syncopate.runtime.groups import Library, PoolUse, SymmetricAllocation
from syncopate.runtime.nccl import Communicator, Nccl, new_id
from syncopate.runtime.pool import ALIGNMENT, Arena, Pool


class _Shared:
    """What the ranks of a process group have together."""

    def __init__(self) -> None:
        self.pools: dict[tuple[tuple[int, ...], int], Pool] = {}
        # By CTAs and GPU.
        self.communicators: dict[tuple[int, int], Communicator] = {}
        self.loads = 0
        self._process = this_process()

    def abort(self) -> None:
        """Frees communicators without the other ranks, when the process group is gone."""
        for communicator in self.communicators.values():
            # A forked process has none, whatever becomes of its copy of the group.
            if self._process is this_process():
                communicator.abort()
        self.communicators.clear()


_shared: weakref.WeakKeyDictionary[Any, _Shared] = weakref.WeakKeyDictionary()

_NAME_KEY: Final = "syncopate/symmetric-memory/name"

_named: dict[str, weakref.ref[Any]] = {}
"""By their names: groups of torch that have connected memory. Torch keeps what it knows of a name for ever."""


def _find_shared(group: Any) -> _Shared:
    shared = _shared.get(group)
    if shared is None:
        shared = _shared[group] = _Shared()
        weakref.finalize(group, shared.abort).atexit = False
    return shared


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
        expect_gpus()
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

    def sms_per_rank(self, device: int) -> int:
        """Every SM."""
        return cuda.multiprocessors(device)

    def stream(self, rank: int) -> int | None:
        """None: calls go to torch's current stream."""
        return None

    @property
    def _pool(self) -> Pool:
        pools, key = _find_shared(self._group).pools, (self._near, self._device)
        if key not in pools:
            source = _NodeMemory(
                self._node, self._near, self._rank, self._world_size, self._device, self.agreement
            )
            pools[key] = Pool(self.agreement, source)
        return pools[key]

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Zeroed symmetric memory; where there is not enough, a rendezvous of the ranks of each node."""
        return self._pool.allocate(nbytes)

    @property
    def memory(self) -> PoolUse:
        """Of the process group, whatever objects stand for it."""
        return self._pool.use

    def library(self, rank: int, ctas: int) -> Library:
        """NCCL, by the communicator of these ranks for that number of CTAs.

        Raises:
            SyncopateError: There is no NCCL, or it failed.
        """
        known, key = _find_shared(self._group).communicators, (ctas, self._device)
        # One that was aborted on some rank is of no use to any.
        if not agree(self.agreement, key in known and bool(known[key].handle)):
            if key in known:
                known.pop(key).abort()
            unique = bytes.fromhex(from_first(self.agreement, lambda: new_id().hex()))
            with torch.cuda.device(self._device):
                known[key] = Communicator(unique, self._world_size, self._rank, ctas)
        return Nccl(known[key])

    @property
    def agreement(self) -> Processes:
        """Those of the process group, by its store."""
        return processes(self._group)

    def fault_board(self) -> FaultBoard:
        """On the store of the process group."""
        shared = _find_shared(self._group)
        shared.loads += 1
        store = distributed_c10d._get_process_group_store(self._group)
        return StoreBoard(store, f"{self.agreement.name}/{shared.loads}")

    def close(self) -> None:
        """Frees the communicators of the process group, of whichever object they were made by.

        Collective. No program of theirs can make library calls any more, and graphs that have captured some must be
        gone. When the process group itself is gone, they are freed in any case.
        """
        known = _find_shared(self._group).communicators
        for key in sorted(known):
            known.pop(key).close()

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """What all ranks have, pickled."""
        every: list[Any] = [None] * self._world_size
        dist.all_gather_object(every, values[self._rank], group=self._group)
        return every

    def barrier(self) -> None:
        """Waits for this GPU, then for every rank."""
        torch.cuda.synchronize(self._device)
        self.agreement.exchange("a barrier", doing="waiting for all GPUs to be idle")


class _NodeMemory:
    """Memory that the ranks of a node reach."""

    def __init__(
        self,
        node: Any,
        near: Sequence[int],
        rank: int,
        world_size: int,
        device: int,
        agreement: Agreement,
    ) -> None:
        # Held by what belongs to the process group, so this must not keep that alive.
        self._node = weakref.ref(node)
        self._near, self._rank, self._world_size = tuple(near), rank, world_size
        self._device, self._agreement = torch.device("cuda", device), agreement
        self._name = ""

    @property
    def local_ranks(self) -> Sequence[int]:
        """One."""
        return (self._rank,)

    def settle(self) -> None:
        """Waits for the GPU."""
        torch.cuda.synchronize(self._device)

    def prepare(self) -> None:
        """Finds what torch is to call the node by: another name, if the group's was that of a group that is gone."""
        group = self._node()
        if group is None:
            raise SyncopateError(
                "the process group of this node is gone; make another ProcessGroup"
            )
        self._name = str(group.group_name)
        known = _named.setdefault(self._name, weakref.ref(group))()
        if agree(self._agreement, known is group) or len(self._near) == 1:
            return
        store = distributed_c10d._get_process_group_store(group)
        if dist.get_rank(group) == 0:
            store.set(_NAME_KEY, f"syncopate/{uuid.uuid4()}")
        self._name = bytes(store.get(_NAME_KEY)).decode()
        # A rendezvous looks the group up by its name, for as long as it lives.
        distributed_c10d._register_process_group(self._name, group)

    def reserve(self, nbytes: int) -> Any:
        """Of torch's symmetric memory, or plain memory if nobody else is near."""
        if len(self._near) == 1:
            return torch.empty(nbytes + ALIGNMENT, dtype=torch.uint8, device=self._device)
        return symm_mem.empty(nbytes, dtype=torch.uint8, device=self._device)

    def connect(self, memory: Any) -> Arena:
        """By a rendezvous."""
        addresses = [0] * self._world_size
        if len(self._near) == 1:
            addresses[self._rank] = align(memory.data_ptr(), ALIGNMENT)
            return Arena(tuple(addresses), memory)
        handle = symm_mem.rendezvous(memory, group=self._name)
        for rank, base in zip(self._near, handle.buffer_ptrs, strict=True):
            addresses[rank] = int(base)
        # A tensor may start behind the base of its block, by a different distance on every rank.
        return Arena(tuple(addresses), (memory, handle), memory.data_ptr() - addresses[self._rank])

    def view(self, owner: Any, rank: int, address: int, nbytes: int) -> Any:
        """Bytes on the GPU."""
        return wrap_memory(owner, address, nbytes, self._device)
