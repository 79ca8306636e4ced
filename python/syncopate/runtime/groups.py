"""What a group of ranks offers to a program: memory that all ranks reach, devices, streams, a barrier for setup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from syncopate.abi import CommandReduction
from syncopate.agreement import Agreement
from syncopate.runtime.engine_plan import Exchange
from syncopate.runtime.fault_board import FaultBoard

Enqueue = Callable[[], int]


@dataclass(frozen=True)
class SymmetricAllocation:
    """Memory of the same size on every rank.

    Attributes:
        addresses: For each rank, the address of its memory as this process sees it; 0 for those that are out of reach.
        tensors: For each local rank, its memory as a torch uint8 tensor. When no tensor of any rank refers to it any
            more, it may become another allocation's.
    """

    addresses: tuple[int, ...]
    tensors: Mapping[int, Any]


@dataclass(frozen=True)
class PoolUse:
    """Symmetric memory of a group, in bytes on each rank.

    Attributes:
        reserved: What the group has.
        used: What programs have of it, and tensors that outlive them; what is let go counts until the next program is
            loaded, when all ranks say so.
    """

    reserved: int
    used: int


class Library(Protocol):
    """A library of collectives for one local rank.

    A collective is bound to tensors and a stream once. What comes back enqueues a call of it and returns 0, and all
    ranks make their calls in the same order. Tensors have one dimension and are contiguous.
    """

    def all_reduce(self, tensor: Any, reduction: CommandReduction, stream: int) -> Enqueue:
        """Combines what all ranks have, in place."""

    def reduce_scatter(
        self, output: Any, tensor: Any, reduction: CommandReduction, stream: int
    ) -> Enqueue:
        """Combines what all ranks have; this rank gets its part, which may be that of `tensor` itself."""

    def all_gather(self, output: Any, tensor: Any, stream: int) -> Enqueue:
        """All ranks get what each has, side by side; `tensor` may be the rank's part of `output` itself."""

    def all_to_all(self, outputs: Sequence[Any], tensors: Sequence[Any], stream: int) -> Enqueue:
        """Sends each rank its tensor, and gets one from each."""

    def exchange(
        self,
        op: Exchange,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        stream: int,
    ) -> Enqueue:
        """Sends to and receives from other ranks, all at the same time.

        Args:
            op: The exchange.
            sends: Of each piece the other rank, the address and the number of bytes.
            receives: Likewise.
            stream: Raw handle of the stream.
        """

    def finish(self, stream: int) -> Enqueue | None:
        """What makes the stream wait for the last call, which all ranks have made; None if the call itself does."""

    def warm_up(self, calls: Sequence[Enqueue]) -> None:
        """Makes the calls ready to be captured and to run behind a kernel that spins. Collective."""

    def abort(self) -> None:
        """Ends calls that wait for other ranks, after a fault; nothing can be called any more. May block."""


class Group(Protocol):
    """Ranks that run programs together. A process holds one or more of them."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def local_ranks(self) -> Sequence[int]:
        """The ranks of this process, in ascending order."""

    def reaches(self, rank: int, other: int) -> bool:
        """Whether a local rank can access the memory of another one."""

    def device(self, rank: int) -> int:
        """CUDA ordinal of a local rank's GPU."""

    def shares_device(self, rank: int, other: int) -> bool:
        """Whether two ranks are on one GPU."""

    def sms_per_rank(self, device: int) -> int:
        """How many multiprocessors' worth of CTAs each rank of a GPU may launch, so that all are co-resident."""

    def stream(self, rank: int) -> int | None:
        """Raw handle of a local rank's own stream; None where calls go to torch's current stream."""

    def allocate(self, nbytes: int) -> SymmetricAllocation:
        """Zeroed symmetric memory, of the group's pool. Collective; not during a graph capture."""

    @property
    def memory(self) -> PoolUse:
        """How large that pool is."""

    def library(self, rank: int, ctas: int) -> Library:
        """The library of collectives of a local rank, for one program. Collective; not during a graph capture.

        Args:
            rank: The rank.
            ctas: Multiprocessors that it may use at once; 0 for any number.
        """

    @property
    def agreement(self) -> Agreement:
        """The processes of the ranks, which do everything that is collective together."""

    def fault_board(self) -> FaultBoard:
        """The board of a program that is being loaded. Collective."""

    def gather(self, values: Mapping[int, Any]) -> list[Any]:
        """What all ranks have, in their order. For setup and reports only, never in a call. Collective.

        Args:
            values: For each local rank, what it has; it can be pickled.
        """

    def barrier(self) -> None:
        """Returns when every rank has come here with its GPU idle. For setup only, never in a call."""
