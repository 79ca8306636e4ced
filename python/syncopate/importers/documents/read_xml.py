"""Reads XML into items."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from syncopate.importers.documents.items import Attribute, Item, Place

__all__ = ["read_xml"]

_DEEPEST = 16


def read_xml(text: str, file: str) -> Item:
    """The root element of a document.

    Raises:
        PlanError: The text is no XML, declares a document type, nests deeper than any format here, or has text between
            its elements.
    """
    parser = expat.ParserCreate("utf-8")
    open_items: list[tuple[str, Place, dict[str, Any], list[Item]]] = []
    roots: list[Item] = []

    def here() -> Place:
        return Place(file, parser.CurrentLineNumber)

    def start(tag: str, attributes: dict[str, Any]) -> None:
        if len(open_items) >= _DEEPEST:
            here().fail(f"{tag}: expects elements at most {_DEEPEST} deep")
        open_items.append((tag, here(), attributes, []))

    def end(_: str) -> None:
        tag, place, attributes, children = open_items.pop()
        fields = {name: Attribute(value) for name, value in attributes.items()}
        item = Item(tag, place, fields, {}, tuple(children))
        (open_items[-1][3] if open_items else roots).append(item)

    def characters(data: str) -> None:
        if data.strip():
            here().fail(
                f"{open_items[-1][0]}: expects elements, but got text {data.strip()[:40]!r}"
            )

    def doctype(*_: Any) -> None:
        # Its entities can be far longer than the file.
        here().fail("expects no document type")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        Place(file, error.lineno).fail(f"expects XML, but: {expat.ErrorString(error.code)}")
    return roots[0]
