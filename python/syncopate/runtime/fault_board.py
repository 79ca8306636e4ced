"""Where ranks tell each other that they have given up: a rank whose peers get wrong results says so first.

After a fault a rank lets its side stream go, and library calls then take what is not complete. No flag of its peers
says so, since the library alone brings ranks together. So before a rank lets its stream go it writes to the store of
the process group, and a peer looks there behind its own call: what it has found nothing of has not been touched.
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["FaultBoard", "NoBoard", "StoreBoard"]


class FaultBoard(Protocol):
    """The board of one loaded program."""

    def post(self, text: str) -> None:
        """Says that a local rank has given up, before its memory may be read by a call that should not."""

    def read(self) -> str | None:
        """What some rank of another process has said, if one has."""


class NoBoard:
    """For ranks of one process, which see one another's fault records."""

    def post(self, text: str) -> None:
        """Nothing."""

    def read(self) -> str | None:
        """Nothing."""
        return None


class StoreBoard:
    """On a key of a `torch.distributed.Store`."""

    def __init__(self, store: Any, name: str) -> None:
        """Takes notes.

        Args:
            store: The store, of all ranks.
            name: Of the program: the same on all ranks, and of no other.
        """
        self._store, self._key = store, f"syncopate/fault/{name}"

    def post(self, text: str) -> None:
        """Writes; what another rank has written before is lost, which says as much."""
        self._store.set(self._key, text)

    def read(self) -> str | None:
        """Asks the store, without waiting."""
        if not self._store.check([self._key]):
            return None
        return bytes(self._store.get(self._key)).decode()
