"""One rank in each process: torch.distributed for bootstrap, torch symmetric memory for memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from syncopate.abi import CommandReduction
from syncopate.errors import SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.groups import Library, SymmetricAllocation

_REDUCTIONS = {
    CommandReduction.SUM: dist.ReduceOp.SUM,
    CommandReduction.MAX: dist.ReduceOp.MAX,
    CommandReduction.MIN: dist.ReduceOp.MIN,
}


class Nccl:
    """A `Library` on a torch process group of NCCL's."""

    connects_late = True

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group

    def all_reduce(self, tensor: torch.Tensor, reduction: CommandReduction) -> None:
        """In place."""
        dist.all_reduce(tensor, _REDUCTIONS[reduction], self._group)

    def reduce_scatter(
        self, output: torch.Tensor, tensor: torch.Tensor, reduction: CommandReduction
    ) -> None:
        """In place if `output` is the rank's part of `tensor`."""
        dist.reduce_scatter_tensor(output, tensor, _REDUCTIONS[reduction], self._group)

    def all_to_all(self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        """By as many sends and receives, in one group."""
        dist.all_to_all(list(outputs), list(tensors), self._group)

    def finish(self) -> None:
        """Nothing: calls are made on the stream itself."""


class ProcessGroup:
    """The ranks of a torch process group, each with its own GPU of one host (or of one NVLink domain)."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Wraps a process group.

        Args:
            group: A torch process group; by default all processes. The current CUDA device is this rank's GPU.

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
        self._libraries: dict[int, Library] = {}

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
        """Zeroed symmetric memory; a rendezvous of all ranks."""
        tensor = symm_mem.empty(
            nbytes, dtype=torch.uint8, device=torch.device("cuda", self._device)
        )
        handle = symm_mem.rendezvous(tensor, group=self._group)
        tensor.zero_()
        # A tensor may start behind the base of its block, by a different distance on every rank.
        inset = tensor.data_ptr() - int(handle.buffer_ptrs[self._rank])
        insets: list[int] = [0] * self._world_size
        dist.all_gather_object(insets, inset, group=self._group)
        addresses = tuple(
            int(base) + more for base, more in zip(handle.buffer_ptrs, insets, strict=True)
        )
        return SymmetricAllocation(addresses, {self._rank: tensor}, handle)

    def library(self, rank: int, ctas: int) -> Library:
        """A NCCL communicator of its own for each number of CTAs.

        Raises:
            SyncopateError: torch was built without NCCL, or the group has another backend.
        """
        if dist.get_backend(self._group) != "nccl":
            raise SyncopateError(
                "the program makes library calls, which need NCCL, but the process group has backend "
                f"{dist.get_backend(self._group)}; call torch.distributed.init_process_group('nccl')"
            )
        if ctas not in self._libraries:
            options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
            # A cluster of CTAs needs neighbouring SMs, which the computation does not leave free.
            options.config.cga_cluster_size = 0
            if ctas:
                options.config.max_ctas = ctas
            group = dist.new_group(
                dist.get_process_group_ranks(self._group),
                backend="nccl",
                pg_options=options,
                use_local_synchronization=True,
            )
            self._libraries[ctas] = Nccl(group)
        return self._libraries[ctas]

    def barrier(self) -> None:
        """Waits for this GPU, then for every rank."""
        torch.cuda.synchronize(self._device)
        dist.barrier(
            self._group,
            device_ids=[self._device] if dist.get_backend(self._group) == "nccl" else None,
        )
        torch.cuda.synchronize(self._device)
