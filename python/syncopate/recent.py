"""What was asked for last, up to a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, those that were asked for last; others are forgotten."""

    def __init__(self, most: int) -> None:
        """Keeps nothing yet.

        Args:
            most: How many values to keep, one at least.
        """
        if most < 1:
            raise ValueError(f"most: expects a positive number, but got {most}")
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def find(self, key: Key) -> Value | None:
        """The value, or None if there is none, or none any more."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def keep(self, key: Key, value: Value) -> Value:
        """Adds a value, which becomes the last that was asked for, and gives it back."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Forgets all."""
        self._values.clear()
