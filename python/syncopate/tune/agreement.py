"""How ranks come to the same choice: by the maximum of numbers over all of them, and nothing else.

Every method is collective: all ranks call it, in the same order.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from syncopate.errors import SyncopateError

__all__ = [
    "Agreement",
    "Alone",
    "Processes",
    "agree",
    "agree_on",
    "find_agreement",
    "from_first",
    "share",
]


class Agreement(Protocol):
    """The ranks that choose together."""

    @property
    def rank(self) -> int:
        """This one."""

    def maximum(self, values: Sequence[float]) -> list[float]:
        """The largest of each value over the ranks, on every rank; all give equally many."""


class Alone:
    """One process that chooses for itself."""

    rank: Final = 0

    def maximum(self, values: Sequence[float]) -> list[float]:
        """The values."""
        return list(values)


class Processes:
    """The processes of a group of torch.distributed."""

    def __init__(self, group: Any = None) -> None:
        """Asks who they are.

        Args:
            group: The group; the default one if it is left out.
        """
        import torch
        import torch.distributed as dist

        self._torch, self._dist, self._group = torch, dist, group
        self.rank: int = dist.get_rank(group)
        on_gpu = "nccl" in str(dist.get_backend(group)) and torch.cuda.is_available()
        self._device = "cuda" if on_gpu else "cpu"

    def maximum(self, values: Sequence[float]) -> list[float]:
        """By an all-reduce."""
        tensor = self._torch.tensor(list(values), dtype=self._torch.float64, device=self._device)
        self._dist.all_reduce(tensor, op=self._dist.ReduceOp.MAX, group=self._group)
        return [float(value) for value in tensor.tolist()]


def find_agreement(world_size: int) -> Agreement:
    """The processes of torch.distributed, if it is in use with this many; else this process alone.

    Args:
        world_size: Ranks of what is to be chosen for.
    """
    # Whoever has not imported torch has no group.
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available():
        dist = torch.distributed
        if dist.is_initialized() and dist.get_world_size() == world_size:
            return Processes()
    return Alone()


def agree(agreement: Agreement, good: bool) -> bool:
    """Whether it is good on every rank."""
    return agreement.maximum([0.0 if good else 1.0])[0] == 0.0


def agree_on(agreement: Agreement, text: str) -> bool:
    """Whether every rank has the same text."""
    digest = [float(byte) for byte in hashlib.sha256(text.encode()).digest()]
    highest = agreement.maximum([*digest, *(-value for value in digest)])
    return all(
        high == -low
        for high, low in zip(highest[: len(digest)], highest[len(digest) :], strict=True)
    )


def from_first(agreement: Agreement, make: Callable[[], Any]) -> Any:
    """What rank 0 makes, as plain data, on every rank; if that fails, all fail, and nobody waits for it.

    Args:
        agreement: The ranks.
        make: Called on rank 0 alone.

    Raises:
        SyncopateError: Rank 0 has failed.
    """
    text = ""
    if agreement.rank == 0:
        try:
            text = json.dumps({"made": make()})
        except Exception as error:
            text = json.dumps({"error": f"{type(error).__name__}: {error}"})
    data = json.loads(share(agreement, text))
    if "error" in data:
        raise SyncopateError(f"rank 0 cannot choose: {data['error']}")
    return data["made"]


def share(agreement: Agreement, text: str) -> str:
    """The text of rank 0, on every rank; what others give does not count."""
    data = text.encode() if agreement.rank == 0 else b""
    size = int(agreement.maximum([float(len(data))])[0])
    mine = [float(byte) for byte in data.ljust(size, b"\0")]
    return bytes(int(value) for value in agreement.maximum(mine)).decode() if size else ""
