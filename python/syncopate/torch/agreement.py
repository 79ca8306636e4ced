"""Before the first of several equal calls, the ranks of a group compare what they do, since all have to do the same.

They do so in the store of the group, without touching a GPU. A rank writes what it does under the number of the
comparison, and reads what the others have written.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, Final

from syncopate.errors import SyncopateError

__all__ = ["Comparison"]

SECONDS: Final = 300.0
"""For how long a rank waits for the others."""


class Comparison:
    """Compares what the ranks of a group do, again and again.

    Attributes:
        number: How many times the group has compared or exchanged something.
    """

    def __init__(
        self, store: Any, rank: int, world_size: int, *, number: int = 0, seconds: float = SECONDS
    ) -> None:
        """Goes on comparing.

        Args:
            store: The group's store.
            rank: This process's rank in the group.
            world_size: Number of ranks.
            number: How many times they have compared in this store before.
            seconds: For how long to wait for the others.
        """
        self._store, self._rank, self._world_size = store, rank, world_size
        self._seconds = seconds
        self.number = number

    def compare(self, doing: Mapping[str, Any]) -> None:
        """Returns when all ranks have come here with the same.

        Args:
            doing: By name, as plain data.

        Raises:
            SyncopateError: A rank does something else, or has not come.
        """
        told = self.exchange(doing)
        first = told[0]
        for rank, other in enumerate(told):
            differing = [name for name in first if other.get(name) != first[name]]
            if differing:
                shown = ", ".join(f"{name} {other.get(name)!r}" for name in differing)
                wanted = ", ".join(f"{name} {first[name]!r}" for name in differing)
                raise SyncopateError(
                    f"rank {rank} calls with {shown}, but rank 0 with {wanted}; all ranks of a group have to make the "
                    f"same calls, in the same order"
                )

    def exchange(self, said: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns, when all ranks have come here, what each of them says.

        Args:
            said: By name, as plain data.

        Raises:
            SyncopateError: A rank has not come.
        """
        self.number += 1
        self._store.set(self._key(self._rank), json.dumps(said))
        texts = [self._read(rank, said) for rank in range(self._world_size)]
        # Who has come here has read everything of the time before.
        if self.number > 1:
            self._store.delete_key(self._key(self._rank, self.number - 1))
        return [json.loads(text) for text in texts]

    def _read(self, rank: int, doing: Mapping[str, Any]) -> str:
        key = self._key(rank)
        try:
            self._store.wait([key], datetime.timedelta(seconds=self._seconds))
        except RuntimeError as error:
            what = ", ".join(f"{name} {value!r}" for name, value in doing.items())
            raise SyncopateError(
                f"rank {rank} has not made this call within {self._seconds:g} s: {what}; all ranks of a group have to "
                f"make the same calls, in the same order ({error})"
            ) from None
        text: str = self._store.get(key).decode()
        return text

    def _key(self, rank: int, number: int | None = None) -> str:
        return f"syncopate/torch/{self.number if number is None else number}/{rank}"
