"""Reads JSON into items; the reader of the standard library does not say where a value stands."""

from __future__ import annotations

import json
import re
from typing import Any

from syncopate.importers.documents.items import Item, Place

__all__ = ["read_json"]

_DEEPEST = 16
_TOKEN = re.compile(
    r'[ \t\r]*(?:(\n)|([{}\[\]:,])|("(?:[^"\\\n]|\\.)*")'
    r"|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|(\S))"
)


def read_json(text: str, file: str) -> Item:
    """The object that a document is.

    Raises:
        PlanError: The text is no JSON, is no object, has a name twice, or nests deeper than any format here.
    """
    reader = _Reader(text, file)
    value = reader.value(0)
    if not isinstance(value, Item):
        Place(file, 1).fail("expects an object")
    reader.end()
    return value


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._tokens = _TOKEN.finditer(text)
        self._file, self._line = file, 1
        self._next = ""
        self._advance()

    def end(self) -> None:
        if self._next:
            self._fail("the end of the file")

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            Place(self._file, self._line).fail(f"expects values at most {_DEEPEST} deep")
        token = self._next
        if token == "{":
            return self._object(depth)
        if token == "[":
            return self._list(depth)
        if not token or token in "}]:,":
            self._fail("a value")
        if token[0] == '"':
            return self._string()
        try:
            value = json.loads(token)
        except ValueError:
            # Python reads no integers of thousands of digits, and the tokens hold characters that begin none.
            self._fail("a value")
        self._advance()
        return value

    def _object(self, depth: int) -> Item:
        place, fields, lines = Place(self._file, self._line), dict[str, Any](), dict[str, int]()
        self._advance()
        while self._next != "}":
            if fields:
                self._take(",")
            line = self._line
            if not self._next.startswith('"'):
                self._fail("a name")
            name = self._string()
            if name in fields:
                Place(self._file, line).fail(f"expects each name once, but got {name[:40]!r} again")
            self._take(":")
            fields[name], lines[name] = self.value(depth + 1), line
        self._advance()
        return Item("object", place, fields, lines)

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        self._advance()
        while self._next != "]":
            if values:
                self._take(",")
            values.append(self.value(depth + 1))
        self._advance()
        return values

    def _string(self) -> str:
        try:
            text: str = json.loads(self._next)
            text.encode()
        except ValueError:
            self._fail("a string")
        self._advance()
        return text

    def _take(self, token: str) -> None:
        if self._next != token:
            self._fail(repr(token))
        self._advance()

    def _advance(self) -> None:
        for match in self._tokens:
            if match[1]:
                self._line += 1
                continue
            self._next = match[0].lstrip(" \t\r")
            return
        self._next = ""

    def _fail(self, what: str) -> None:
        got = repr(self._next[:40]) if self._next else "the end of the file"
        Place(self._file, self._line).fail(f"expects {what}, but got {got}")
