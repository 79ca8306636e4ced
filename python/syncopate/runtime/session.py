"""The ranks of a measurement that torchrun has started: one GPU each, and what they do together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import torch
import torch.distributed as dist

from syncopate.agreement import agree, attempt, maximum, processes

__all__ = ["Session"]

PATIENCE_S: Final = 1800.0
"""For how long ranks wait for one that compiles for all."""

_Made = TypeVar("_Made")


class Session:
    """torch.distributed, this rank's GPU, and the other ranks.

    Attributes:
        rank: This one.
        world_size: Number of ranks.
        agreement: How they come to do the same.
    """

    def __init__(self) -> None:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self.agreement = processes()
        self.agreement.seconds = PATIENCE_S
        self._line = torch.zeros(1, device="cuda")

    def align(self) -> None:
        """Makes the current stream wait until every rank's stream is here."""
        dist.all_reduce(self._line)

    def maximum(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over the ranks, on every rank."""
        return maximum(self.agreement, values)

    def agree(self, good: bool) -> bool:
        """Whether it is good on every rank."""
        return agree(self.agreement, good)

    def attempt(self, what: str, make: Callable[[], _Made]) -> _Made | None:
        """What `make` returns, or None on every rank if it fails on any, which rank 0 then says."""
        made, why, _ = attempt(self.agreement, make)
        if why:
            self.say(f"{what} on {why}")
        return made

    def say(self, text: str) -> None:
        """Prints on rank 0."""
        if self.rank == 0:
            print(text, flush=True)

    def close(self) -> None:
        """Leaves the group."""
        dist.destroy_process_group()
