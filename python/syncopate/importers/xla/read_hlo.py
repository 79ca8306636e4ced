"""Reads HLO as XLA prints it into operations: one line is one operation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from syncopate.importers.documents.items import Place
from syncopate.importers.programs.tensors import DTYPES, Operation, Tensor

__all__ = ["HloModule", "read_hlo"]

_HEADER: Final = re.compile(r"(?:ENTRY )?%?([\w.-]+)\s*(?:\(.*\)\s*->\s*.*)?\{")
_OPERATION: Final = re.compile(r"(?:ROOT )?%?([\w.-]+) = (.+)")
_TYPE: Final = re.compile(r"(\w{1,16})\[((?:<=)?[\d,<=? ]*)\](?:\{[^{}]*\})?")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class HloModule:
    """A module of HLO.

    Attributes:
        fields: Text of its attributes by name.
        place: Where it begins.
        computations: By name, operations of its computations.
    """

    fields: Mapping[str, str]
    place: Place
    computations: Mapping[str, tuple[Operation, ...]]


def read_hlo(text: str, file: str) -> HloModule:
    """The module that a text is.

    Raises:
        PlanError: The text is no HLO.
    """
    module: tuple[Place, dict[str, str]] | None = None
    computations: dict[str, tuple[Operation, ...]] = {}
    inside: tuple[str, Place, list[Operation]] | None = None
    lines = text.split("\n")
    for number, raw in enumerate(lines, 1):
        place, line = Place(file, number), re.sub(r"/\*.*?\*/", "", raw).strip()
        if inside is not None:
            name, _, operations = inside
            if line == "}" or line.startswith("}, execution_thread="):
                computations[name], inside = tuple(operations), None
            elif line:
                operations.append(_read_operation(line, place))
        elif line.startswith("HloModule"):
            if module is not None:
                place.fail("HloModule: expects one module in a file")
            _, *fields = _split(line.removeprefix("HloModule"))
            module = place, _read_fields(fields)
        elif match := _HEADER.fullmatch(line):
            if module is None:
                place.fail("expects HloModule before computations")
            if match[1] in computations:
                place.fail(f"{match[1][:60]}: expects each computation once")
            inside = match[1], place, []
    if inside is not None:
        Place(file, len(lines)).fail(f"{inside[0][:60]}: expects '}}', but got the end of the file")
    if module is None:
        Place(file, 1).fail("expects HloModule, but there is none")
    if not computations:
        module[0].fail("HloModule: expects computations, but there are none")
    return HloModule(module[1], module[0], computations)


def _read_operation(line: str, place: Place) -> Operation:
    match = _OPERATION.fullmatch(line)
    if match is None:
        place.fail(f"expects an operation, but got {line[:40]!r}")
    types, rest = _take_types(match[2], place)
    call = re.match(r"([a-z][\w-]*)\(", rest)
    if call is None:
        place.fail(f"{match[1][:60]}: expects an operation behind its type, but got {rest[:40]!r}")
    end = _end(rest, call.end() - 1)
    if end is None:
        place.fail(f"{call[1]}: expects ')', but got the end of the line")
    if call[1].endswith("-start"):
        # Tuples of what it takes and of what it gives, one behind the other.
        types = tuple(map(_to_tensor, _TYPE.finditer(match[2].removesuffix(rest))))
    inside = _split(rest[call.end() : end - 1]) if call[1] != "constant" else []
    operands = [part.split()[-1].removeprefix("%") for part in inside if part.split()]
    tail = rest[end:].lstrip()
    if tail and tail[0] != ",":
        place.fail(f"{call[1]}: expects ',' before its attributes, but got {tail[:40]!r}")
    fields = _read_fields(_split(tail[1:]))
    return Operation(call[1], place, (match[1],), tuple(operands), fields, types)


def _take_types(text: str, place: Place) -> tuple[tuple[Tensor | None, ...], str]:
    """The types that a line gives, and what stands behind them; of a tuple, those of its elements."""
    if not text.startswith("("):
        match = _TYPE.match(text)
        if match is None:
            word = text.split(" ")[0]
            return (None,), text[len(word) :].lstrip()
        return (_to_tensor(match),), text[match.end() :].lstrip()
    end = _end(text, 0)
    if end is None:
        place.fail("expects ')' behind types, but got the end of the line")
    found = [_TYPE.fullmatch(part.strip()) for part in _split(text[1 : end - 1])]
    return tuple(None if match is None else _to_tensor(match) for match in found), text[
        end:
    ].lstrip()


def _to_tensor(match: re.Match[str]) -> Tensor | None:
    if not re.fullmatch(r"(\d{1,12}(,\d{1,12})*)?", match[2]):
        return None
    sizes = tuple(int(size) for size in match[2].split(",") if size)
    return Tensor(sizes, DTYPES.get(match[1], match[1]))


def _read_fields(parts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        name, _, value = part.strip().partition("=")
        found[name] = value.strip()
    return found


def _end(text: str, begin: int) -> int | None:
    """The place behind the bracket that closes the one at a place."""
    depth, quoted = 0, False
    for at in range(begin, len(text)):
        if text[at] == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if not quoted:
            depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
            if depth == 0:
                return at + 1
    return None


def _split(text: str) -> list[str]:
    """What stands between commas that are in no bracket and no string."""
    parts, begin, depth, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]
