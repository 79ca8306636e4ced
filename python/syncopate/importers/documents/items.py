"""What a file says, each element with its line: what readers of XML and JSON give, and importers take.

An importer asks for what it needs by name and range, and every answer that it cannot use is an error with file, line
and construct. So the importers hold what a format means, and nothing of how it is spelled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from syncopate.errors import PlanError

__all__ = ["MOST", "MOST_RANKS", "Attribute", "Item", "Place", "shorten"]

MOST: Final = 1 << 20
"""The most chunks or steps that a number of a file may say."""
MOST_RANKS: Final = 4096
"""The most ranks that a file may speak of."""


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def fail(self, message: str) -> NoReturn:
        """Raises the error that something is wrong here."""
        raise PlanError(f"{self}: {message}")


class Attribute(str):
    """The value of an attribute of XML, which has no types: numbers and truth values are spelled out."""

    __slots__ = ()


@dataclass(frozen=True)
class Item:
    """An element of XML, or an object of JSON.

    Attributes:
        what: What it is called in errors: a tag, or the name that the importer gave it.
        place: Where it begins.
        fields: By name, an attribute of XML, or a value of JSON: a string, number, truth value, None, Item, or a list.
        lines: By name, the line of the field.
        children: The elements inside an element of XML, in order.
    """

    what: str
    place: Place
    fields: Mapping[str, Any]
    lines: Mapping[str, int]
    children: tuple[Item, ...] = ()

    def fail(self, message: str, field: str | None = None) -> NoReturn:
        """Raises the error that something is wrong with this, or with a field of it."""
        line = self.place.line if field is None else self.lines.get(field, self.place.line)
        Place(self.place.file, line).fail(f"{self.what}: {message}")

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return name in self.fields

    def integer(self, name: str, low: int, end: int, *, default: int | None = None) -> int:
        """A field that is an integer in [low, end)."""
        if default is not None and name not in self.fields:
            return default
        value = self._field(name)
        if isinstance(value, Attribute) and re.fullmatch(r"-?[0-9]{1,18}", value):
            value = int(value)
        if type(value) is not int or not low <= value < end:
            self.fail(
                f"expects {name} to be an integer in [{low}, {end}), but got {shorten(value)}", name
            )
        return value

    def integers(self, name: str, low: int, end: int) -> tuple[int, ...]:
        """A field that is a list of integers in [low, end)."""
        return tuple(
            value if type(value) is int and low <= value < end else self._no_integer(name, value)
            for value in self._list(name)
        )

    def _no_integer(self, name: str, value: Any) -> NoReturn:
        self.fail(f"expects integers in {name}, but got {shorten(value)}", name)

    def text(self, name: str, *, default: str | None = None) -> str:
        """A field that is a string."""
        if default is not None and name not in self.fields:
            return default
        value = self._field(name)
        if not isinstance(value, str):
            self.fail(f"expects {name} to be a string, but got {shorten(value)}", name)
        return value

    def word(self, name: str, known: Mapping[str, Any], *, default: str | None = None) -> Any:
        """What a field that is one of some words stands for."""
        value = self.text(name, default=default)
        if value not in known:
            self.fail(
                f"expects {name} to be one of {', '.join(known)}, but got {shorten(value)}", name
            )
        return known[value]

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """A field that is a truth value: true or false, in XML 0 or 1."""
        if default is not None and name not in self.fields:
            return default
        value = self._field(name)
        if isinstance(value, Attribute):
            value = {"0": False, "1": True}.get(value, value)
        if not isinstance(value, bool):
            self.fail(f"expects {name} to be true or false, but got {shorten(value)}", name)
        return value

    def item(self, name: str) -> Item:
        """A field that is an object."""
        value = self._field(name)
        if not isinstance(value, Item):
            self.fail(f"expects {name} to be an object, but got {shorten(value)}", name)
        return value.called(name)

    def items(self, name: str, what: str, *, optional: bool = False) -> tuple[Item, ...]:
        """A field that is a list of objects, which are called `what` in errors."""
        if optional and name not in self.fields:
            return ()
        values = self._list(name)
        for value in values:
            if not isinstance(value, Item):
                self.fail(f"expects objects in {name}, but got {shorten(value)}", name)
        return tuple(value.called(what) for value in values)

    def entries(self, name: str, what: str) -> tuple[Item, ...]:
        """A field that is a list of lists; each as an object whose fields are numbered from 0."""
        values = self._list(name)
        line = self.lines.get(name, self.place.line)
        for value in values:
            if not isinstance(value, list):
                self.fail(f"expects lists in {name}, but got {shorten(value)}", name)
        return tuple(
            Item(
                f"{self.what}, {what} {number}",
                Place(self.place.file, line),
                {str(position): entry for position, entry in enumerate(value)},
                {},
            )
            for number, value in enumerate(values)
        )

    def elements(self, tag: str) -> tuple[Item, ...]:
        """The elements inside, which all have that tag."""
        for child in self.children:
            if child.what != tag:
                child.fail(f"expects only {tag} inside of {self.what}")
        return self.children

    def called(self, what: str) -> Item:
        """The same under another name."""
        return Item(what, self.place, self.fields, self.lines, self.children)

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            self.fail(f"expects {name}, but it is missing")
        return self.fields[name]

    def _list(self, name: str) -> Sequence[Any]:
        value = self._field(name)
        if not isinstance(value, list):
            self.fail(f"expects {name} to be a list, but got {shorten(value)}", name)
        return value


def shorten(value: Any) -> str:
    """A value as an error quotes it."""
    if isinstance(value, Item):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        value = str(value)
        return repr(value if len(value) <= 40 else value[:37] + "...")
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value}"[:40]
