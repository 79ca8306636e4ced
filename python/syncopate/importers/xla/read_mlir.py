"""Reads MLIR as StableHLO and Shardy print it, generic or not, into operations.

Operations that nobody asks about need not be understood: one ends where a line begins with another. So no dialect is
registered here, and those that come with a newer XLA are read as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from syncopate.importers.documents.items import Place
from syncopate.importers.programs.tensors import DTYPES, Argument, Operation, Tensor

__all__ = ["LABEL", "read_dictionaries", "read_mlir", "to_tensor", "walk"]

LABEL: Final = "block"
"""What the label of a block is called among operations."""

_DEEPEST = 64
_TOKEN = re.compile(
    r'[ \t\r]+|(?P<line>\n)|//[^\n]*|(?P<token>"(?:[^"\\\n]|\\.)*"|->|%[\w$.-]+(?:\#\d+)?|[@#!^][\w$.-]+'
    r"|-?\d[\w.+?]*|[A-Za-z_$?][\w$.?]*|@\"[^\"\n]*\"|\S)"
)
_OPEN, _CLOSE = "([{<", ")]}>"
_STARTS = ("module", "func", "return", "call")


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    first: bool


def walk(operations: Sequence[Operation], stop: str | None = None) -> Iterator[Operation]:
    """Operations, and all inside of them, but for what is inside of those of one name."""
    for operation in operations:
        yield operation
        for region in operation.regions if operation.name != stop else ():
            yield from walk(region, stop)


def read_mlir(text: str, file: str) -> tuple[Operation, ...]:
    """The operations of a module, or of what stands for one.

    Raises:
        PlanError: The text is none of MLIR, as far as can be said without its dialects.
    """
    tokens, line, first = [], 1, True
    for match in _TOKEN.finditer(text):
        if match["line"]:
            line, first = line + 1, True
        elif match["token"]:
            tokens.append(_Token(match["token"], line, first))
            first = False
    reader = _Reader(tokens, file, line)
    operations = reader.region(0, inside=False)
    if not operations:
        Place(file, 1).fail("expects operations, but there are none")
    return operations


def to_tensor(words: Sequence[str]) -> Tensor | None:
    """The type that `tensor<…>` is, whose words are given; None if it is no such type, or sizes are unknown."""
    if len(words) < 4 or words[:2] != ["tensor", "<"]:
        return None
    match = re.fullmatch(r"((?:\d{1,12}x)*)([A-Za-z]\w{0,15})", words[2])
    if match is None:
        return None
    sizes = tuple(int(size) for size in match[1].split("x") if size)
    return Tensor(sizes, DTYPES.get(match[2], match[2]))


@dataclass
class _Body:
    """Words of an operation behind its name, without regions."""

    words: list[str] = field(default_factory=list)
    regions: list[tuple[Operation, ...]] = field(default_factory=list)


class _Reader:
    def __init__(self, tokens: Sequence[_Token], file: str, lines: int) -> None:
        self._tokens, self._file, self._lines, self._at = tokens, file, lines, 0

    def region(self, depth: int, *, inside: bool) -> tuple[Operation, ...]:
        """Operations until the brace that closes them, or the end."""
        if depth > _DEEPEST:
            self._fail(f"regions at most {_DEEPEST} deep")
        found: list[Operation] = []
        while (word := self._peek()) != "}" or not inside:
            if not word:
                if inside:
                    self._fail("'}'")
                return tuple(found)
            if word[0] == "^":
                found.append(self._label())
            elif word[0] in "#!" and self._peek(1) == "=":
                self._body(depth)
            else:
                found.append(self._operation(depth))
        self._at += 1
        return tuple(found)

    def _operation(self, depth: int) -> Operation:
        place = Place(self._file, self._tokens[self._at].line)
        results: list[str] = []
        while self._peek().startswith("%"):
            name = self._next()
            results.append(name)
            if self._peek() == ":":
                self._at += 1
                count = self._next()
                if not re.fullmatch(r"[1-9]\d{0,3}", count):
                    self._fail_before(f"the number of results {name} stands for")
                results[-1:] = [f"{name}#{number}" for number in range(int(count))]
            if self._next() not in (",", "="):
                self._fail_before("',' or '='")
        name = self._next().strip('"')
        if not re.fullmatch(r"[A-Za-z_][\w$.-]*", name):
            self._fail_before("the name of an operation")
        body = self._body(depth)
        return _Parts(name, place, body, self._file).operation(results)

    def _body(self, depth: int) -> _Body:
        """Words up to where the next operation begins."""
        body, closing = _Body(), list[str]()
        while (word := self._peek()) != "":
            if not closing and (word == "}" or (body.words and self._starts())):
                break
            if word == "{" and self._opens_region():
                if "<" in closing or "[" in closing:
                    self._fail(f"'{closing[-1]}'")
                self._at += 1
                body.regions.append(self.region(depth + len(closing) + 1, inside=True))
                body.words += ["{", "}"] if closing else []
                continue
            if word in _OPEN:
                closing.append(_CLOSE[_OPEN.index(word)])
            elif word in _CLOSE and (not closing or closing.pop() != word):
                self._fail("brackets that match")
            body.words.append(word)
            self._at += 1
        if closing:
            self._fail(f"'{closing[-1]}'")
        return body

    def _starts(self) -> bool:
        """Whether an operation, a label or an alias begins here, or the last one ends."""
        if not self._tokens[self._at].first:
            return False
        word, after = self._peek(), self._peek(1)
        if word[0] == "%":
            return self._names_results()
        if word[0] in "#!":
            return after == "="
        named = "." in word or word in _STARTS
        return word[0] == "^" or (word[0] == '"' and after == "(") or (named and after != "=")

    def _names_results(self) -> bool:
        """Whether names stand here that are given to results, as `%a, %b:2 =`."""
        at = 0
        while self._peek(at).startswith("%"):
            at += 3 if self._peek(at + 1) == ":" else 1
            if self._peek(at) == "=":
                return True
            if self._peek(at) != ",":
                return False
            at += 1
        return False

    def _opens_region(self) -> bool:
        """Whether the brace here holds operations, not attributes."""
        word, after = self._peek(1), self._peek(2)
        if not word or word[0] in "%^":
            return bool(word)
        if word[0] == '"':
            return after == "("
        return bool(re.match(r"[A-Za-z_]", word)) and after not in ("=", ",", "}", ":", "")

    def _label(self) -> Operation:
        """The label of a block, as an operation that has the block's arguments."""
        place, words, depth = Place(self._file, self._tokens[self._at].line), list[str](), 0
        while (word := self._next()) != ":" or depth:
            depth += (word in _OPEN) - (word in _CLOSE)
            words.append(word)
        inside = _bracket(words, 1)[0] if words[1:2] == ["("] else []
        return Operation(LABEL, place, (), (), {}, (), arguments=_read_arguments(inside, place))

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._peek()
        if not word:
            self._fail("more")
        self._at += 1
        return word

    def _fail(self, what: str) -> NoReturn:
        ends = self._at >= len(self._tokens)
        got = "the end of the file" if ends else repr(self._peek()[:40])
        line = self._lines if ends else self._tokens[self._at].line
        Place(self._file, line).fail(f"expects {what}, but got {got}")

    def _fail_before(self, what: str) -> NoReturn:
        self._at -= 1
        self._fail(what)


class _Parts:
    """Takes the words of an operation apart."""

    def __init__(self, name: str, place: Place, body: _Body, file: str) -> None:
        self._name, self._place, self._body, self._file = name, place, body, file

    def operation(self, results: Sequence[str]) -> Operation:
        words, fields = self._body.words, dict[str, str]()
        is_function = self._name in ("func.func", "func")
        arguments = self._arguments() if is_function else ()
        parts = _split(words, ":")
        head = parts[0]
        takes, gives = _read_types(parts[-1]) if len(parts) > 1 else ((), ())
        operands = tuple(word for word in head if word[0] == "%")
        for part in _split(head, ","):
            names = [at - 1 for at in _find(part, "=") if at]
            for at, end in zip(names, [*names, len(part)][1:], strict=True):
                # Attributes may follow without a comma.
                braces = [brace for brace in _find(part, "{", opens=True) if at + 2 < brace < end]
                fields.setdefault(part[at], " ".join(part[at + 2 : min([*braces, end])]))
        fields |= read_dictionaries(words)
        fields[""] = " ".join(head)
        regions = tuple(self._body.regions)
        return Operation(
            self._name,
            self._place,
            tuple(results),
            operands,
            fields,
            gives,
            takes,
            regions,
            arguments,
            self._gives() if is_function else (),
        )

    def _arguments(self) -> tuple[Argument, ...]:
        words = self._body.words
        if "(" not in words:
            self._place.fail(f"{self._name}: expects arguments in parentheses")
        inside, _ = _bracket(words, words.index("("))
        return _read_arguments(inside, self._place)

    def _gives(self) -> tuple[Argument, ...]:
        """What a function gives, without names."""
        behind = _split(self._body.words, "->")[1:]
        if not behind:
            return ()
        words = _bracket(behind[0], 0)[0] if behind[0][:1] == ["("] else behind[0]
        return tuple(
            Argument("", to_tensor(part), read_dictionaries(part), self._place)
            for part in _split(words, ",")
            if part
        )


def _read_arguments(words: Sequence[str], place: Place) -> tuple[Argument, ...]:
    return tuple(
        Argument(part[0], to_tensor(part[2:]), read_dictionaries(part), place)
        for part in _split(words, ",")
        if len(part) > 2 and part[0][0] == "%" and part[1] == ":"
    )


def _bracket(words: Sequence[str], at: int) -> tuple[list[str], int]:
    """What stands in the bracket that opens at a place, and the place behind it."""
    depth = 0
    for end in range(at, len(words)):
        depth += (words[end] in _OPEN) - (words[end] in _CLOSE)
        if depth == 0:
            return list(words[at + 1 : end]), end + 1
    return list(words[at + 1 :]), len(words)


def _find(words: Sequence[str], wanted: str, *, opens: bool = False) -> list[int]:
    """Where a word stands in no bracket, or opens one that does."""
    found, depth = [], 0
    for at, word in enumerate(words):
        depth += (word in _OPEN) - (word in _CLOSE)
        if word == wanted and depth == int(opens):
            found.append(at)
    return found


def _split(words: Sequence[str], separator: str) -> list[list[str]]:
    """Words between separators that stand in no bracket."""
    edges = [-1, *_find(words, separator), len(words)]
    return [list(words[a + 1 : b]) for a, b in itertools.pairwise(edges)]


def read_dictionaries(words: Sequence[str]) -> dict[str, str]:
    """Attributes in braces that stand in no other bracket, but for `<{…}>`."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words):
        if words[at] not in _OPEN:
            at += 1
            continue
        inside, end = _bracket(words, at)
        if words[at] == "<" and inside[:1] == ["{"]:
            inside, _ = _bracket(inside, 0)
        elif words[at] != "{":
            inside = []
        for part in _split(inside, ","):
            if part:
                value = part[2:] if part[1:2] == ["="] else ["unit"]
                found[part[0].strip('"')] = " ".join(value)
        at = end
    return found


def _read_types(words: Sequence[str]) -> tuple[tuple[Tensor | None, ...], ...]:
    """What stands on either side of the arrow; without one, operands and results are of the same types."""
    sides = []
    for side in _split(words, "->"):
        inside = _bracket(side, 0)[0] if side[:1] == ["("] else side
        sides.append(tuple(to_tensor(part) for part in _split(inside, ",")))
    return sides[0], sides[-1]
