"""Mutations of texts in MLIR's syntax: of bytes, tokens, lines, attributes, types, tables, maps and regions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

__all__ = ["NUMBERS", "affine_map", "location", "mutate"]

NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "-1",
    "-2",
    "16",
    "17",
    "64",
    "127",
    "128",
    "129",
    "4095",
    "4096",
    "4097",
    "65535",
    "65536",
    "1000000",
    "1000001",
    "4194303",
    "4194304",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "281474976710655",
    "281474976710656",
    "4611686018427387904",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999",
    "0x7f",
    "1.5",
    "1e400",
    "true",
]
"""Numbers at the edges of what types, buffers and limits hold."""

STRINGS = (
    '""',
    '"a"',
    '"\\FF\\FE"',
    '"\\00"',
    '"é"',
    '"a b"',
    '"%a"',
    '"sy_input_a"',
    '"\\22"',
    '"' + "x" * 300 + '"',
)
TYPES = [
    "i1",
    "i8",
    "i32",
    "i64",
    "i128",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f8E4M3FN",
    "f128",
    "index",
    "none",
    "tensor<4xf32>",
    "tensor<*xf32>",
    "memref<?xi8>",
    "vector<4xi1>",
    "!chunk.token",
    "!chunk.buffer<4xf32>",
    "!chunk.buffer<?x?xbf16>",
    "!chunk.buffer<4x4x4x4x4xi8>",
    "!chunk.buffer<0xf32>",
    "!chunk.buffer<281474976710656xi8>",
    "!tt.ptr<i64>",
    "!tt.ptr<bf16>",
    "tuple<>",
    "(i32)->i32",
    "complex<f32>",
]
WORDS = [
    "chunk.plan",
    "chunk.put",
    "chunk.get",
    "chunk.all_gather",
    "chunk.all_to_all",
    "chunk.broadcast",
    "chunk.spmd",
    "chunk.transfer",
    "chunk.join",
    "chunk.kernel",
    "chunk.footprint",
    "chunk.schedule",
    "chunk.buffer",
    "chunk.input",
    "chunk.wait",
    "chunk.read_tile",
    "chunk.read_step",
    "chunk.steps",
    "chunk.tile_steps",
    "chunk.roles",
    "chunk.run_commands",
    "chunk.input_rows",
    "mesh",
    "strategy",
    "signals",
    "tiles",
    "ctas",
    "args",
    "after",
    "behind",
    "from",
    "to",
    "sizes",
    "on",
    "axis",
    "group",
    "by",
    "parts",
    "realize",
    "step",
    "unordered",
    "signal",
    "read",
    "write",
    "at",
    "as",
    "rank",
    "module",
    "copy_engine",
    "ldst_colocated",
    "nccl",
    "tma_dedicated",
    "direct",
    "bidirectional_ring",
    "recursive_doubling",
    "push",
    "pull",
    "root",
    "peer",
    "arrival",
    "grouped",
    "builtin.module",
    "func.func",
    "scf.for",
    "arith.constant",
    "arith.addi",
    "unit",
    "dense<1>",
    "array<i64:1>",
    "array<i64>",
    "array<i32:1,1>",
    "unknown",
]

TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[%@!#^][\w$.#]*|[A-Za-z_][\w$.]*|->|::|\s+|.', re.DOTALL
)
_BUFFER = re.compile(r"(?<![\w])(?:!chunk\.buffer|!b\w* =|buffer)?<[0-9?x]+x[a-z]\w*>")
_ROW = re.compile(r"\[-?\d+(?:, -?\d+)*\]")
_MAP = re.compile(r"affine_map<[^>]*->[^>]*>")
_ATTRIBUTE = re.compile(
    r"\b\w+ = (?:[^,{}<>()\[\]]+|[#!][\w.]+<[^<>]*>|\[[^\[\]]*\]|array<[^<>]*>)"
)
_TYPE = re.compile(r"![\w.]+(?:<[^<>]*>)?|\b(?:i|f|bf)\d+\b|tensor<[^<>]*>")

Mutation = Callable[[random.Random, str, Sequence[str]], str]


def affine_expression(draw: random.Random, dims: Sequence[str], depth: int) -> str:
    """An affine expression, now and then one that is not."""
    if depth == 0 or draw.random() < 0.3:
        return draw.choice([*dims, *dims, draw.choice(NUMBERS), str(draw.randrange(200))])
    lhs = affine_expression(draw, dims, depth - 1)
    operation = draw.choice(["+", "-", "*", "floordiv", "ceildiv", "mod"])
    rhs = (
        draw.choice(["2", "64", "128", draw.choice(NUMBERS)])
        if operation not in "+-" and draw.random() < 0.9
        else affine_expression(draw, dims, depth - 1)
    )
    return f"({lhs} {operation} {rhs})"


def affine_map(draw: random.Random, dims: int, results: int) -> str:
    """A random affine map."""
    names = [f"d{dim}" for dim in range(dims)] or ["0"]
    exprs = [affine_expression(draw, names, draw.randrange(4)) for _ in range(results)]
    return f"affine_map<({', '.join(names[:dims])}) -> ({', '.join(exprs)})>"


def location(draw: random.Random, depth: int = 2) -> str:
    """A random location."""
    kinds = [
        "unknown",
        f'"f.py":{draw.choice(NUMBERS)}:{draw.choice(NUMBERS)}',
        draw.choice(STRINGS),
    ]
    if depth:
        kinds += [
            f"callsite({location(draw, depth - 1)} at {location(draw, depth - 1)})",
            f"fused[{location(draw, depth - 1)}, {location(draw, depth - 1)}]",
            f'"n"({location(draw, depth - 1)})',
        ]
    return draw.choice(kinds)


def _substitute(
    draw: random.Random, text: str, pattern: re.Pattern[str], new: Callable[[str], str]
) -> str:
    """Replaces one match, or every text that is equal to it."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    match = draw.choice(matches)
    value = new(match[0])
    if draw.random() < 0.4:
        return pattern.sub(lambda other: value if other[0] == match[0] else other[0], text)
    return text[: match.start()] + value + text[match.end() :]


def change_number(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Another number, near or at an edge; often everywhere, so that what belongs together stays together."""

    def new(old: str) -> str:
        near = str(int(old) + draw.choice([-1, 1])) if old.lstrip("-").isdigit() else "0"
        return draw.choice([near, near, draw.choice(NUMBERS)])

    return _substitute(draw, text, re.compile(r"(?<![\w.%@])-?\d+(?![\w.])"), new)


def change_shape(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Another dimension or element type of a buffer or tensor."""

    def new(old: str) -> str:
        head, shape = old.rstrip(">").split("<", 1)
        *sizes, element = shape.split("x")
        where = draw.randrange(len(sizes) + 1)
        if where == len(sizes):
            element = draw.choice(TYPES)
        else:
            sizes[where : where + 1] = draw.choice(
                [[], [sizes[where]] * 2, ["?"], [draw.choice(NUMBERS)], [str(draw.randrange(300))]]
            )
        return f"{head}<{'x'.join([*sizes, element])}>"

    return _substitute(draw, text, _BUFFER, new)


def change_token(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """One token replaced, taken away, doubled, or swapped with another."""
    tokens = TOKEN.findall(text)
    solid = [i for i, token in enumerate(tokens) if not token.isspace()]
    if not solid:
        return text
    i, j = draw.choice(solid), draw.choice(solid)
    action = draw.randrange(6)
    if action == 0:
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif action == 1:
        tokens[i] = ""
    elif action == 2:
        tokens[i] += " " + tokens[i]
    elif action == 3:
        tokens[i] = draw.choice([*WORDS, *STRINGS, *TYPES, *NUMBERS])
    else:
        # One of its own kind, so that the parser has no objection.
        kin = [token for token in map(tokens.__getitem__, solid) if token[0] == tokens[i][0]]
        tokens[i] = (
            draw.choice(STRINGS) if tokens[i][0] == '"' and action == 4 else draw.choice(kin)
        )
    return "".join(tokens)


def change_word(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """A keyword or operation replaced by another."""
    return _substitute(
        draw, text, re.compile(r"\b[a-z_]\w*(?:\.\w+)*\b"), lambda _: draw.choice(WORDS)
    )


def change_type(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """A type replaced by another."""
    return _substitute(draw, text, _TYPE, lambda _: draw.choice(TYPES))


def change_row(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """A row of a table, or any list of integers: longer, shorter, reversed, or another one of the text."""
    rows = _ROW.findall(text)

    def new(old: str) -> str:
        values = old[1:-1].split(", ")
        where = draw.randrange(len(values))
        return draw.choice(
            [
                f"[{', '.join(values[:where] + values[where + 1 :])}]",
                f"[{', '.join([*values, draw.choice(NUMBERS)])}]",
                f"[{', '.join(reversed(values))}]",
                draw.choice(rows),
                f"{old}, {old}",
                f"[{', '.join([*values[:where], draw.choice(NUMBERS), *values[where + 1 :]])}]",
                "[]",
            ]
        )

    return _substitute(draw, text, _ROW, new)


def change_map(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Another affine map, mostly of as many dimensions and results."""

    def new(old: str) -> str:
        dims, results = old.split("->", 1)
        count = dims.count(",") + (draw.random() < 0.95)
        return affine_map(draw, count, results.count(",") + (draw.random() < 0.95))

    return _substitute(draw, text, _MAP, new)


def swap_attributes(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """The attributes of two operations change places, or one is doubled or taken away."""
    matches = list(_ATTRIBUTE.finditer(text))
    if not matches:
        return text
    a, b = sorted(draw.choices(matches, k=2), key=lambda match: match.start())
    if a.start() == b.start():
        return text[: a.start()] + draw.choice(["", f"{a[0]}, {a[0]}"]) + text[a.end() :]
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def change_lines(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Lines taken away, doubled, moved, or brought in from another input."""
    lines = text.splitlines()
    if len(lines) < 2:
        return text
    begin = draw.randrange(len(lines))
    end = min(len(lines), begin + draw.choice([1, 1, 1, 2, 5]))
    some = lines[begin:end]
    action = draw.randrange(5)
    if action in (0, 1):
        del lines[begin:end]
        if action == 1:
            where = draw.randrange(len(lines) + 1)
            lines[where:where] = some
    elif action == 2:
        # Names are defined once, so a copy needs new ones.
        copy = [re.sub(r"^(\s*%)(\w+) =", rf"\1\2_{draw.randrange(99)} =", line) for line in some]
        lines[end:end] = copy * draw.choice([1, 1, 3])
    elif action == 3:
        other = draw.choice(others).splitlines() or [""]
        where = draw.randrange(len(other))
        lines[begin:begin] = other[where : where + draw.choice([1, 2, 8])]
    else:
        j = draw.randrange(len(lines))
        lines[begin], lines[j] = lines[j], lines[begin]
    return "\n".join(lines) + "\n"


def change_operands(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """An operand becomes another value, goes, or stands twice."""
    names = re.findall(r"%[\w#:]+", text)

    def new(old: str) -> str:
        return draw.choice(
            [draw.choice(names), f"{old}, {old}", f"{old}, {draw.choice(names)}", "%none"]
        )

    return _substitute(draw, text, re.compile(r"%[\w#:]+(?! =)(?:, )?"), new)


def change_region(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Lines wrapped in a region, or a brace too few or too many."""
    lines = text.splitlines()
    begin = draw.randrange(len(lines)) if lines else 0
    end = min(len(lines), begin + draw.choice([1, 2, 5, 20]))
    if draw.random() < 0.6:
        head = draw.choice(["module {", "chunk.plan @q mesh [2] {", "module @ttir {", "^bb0:", "{"])
        lines[begin:end] = [head, *lines[begin:end], "}"]
        return "\n".join(lines) + "\n"
    return _substitute(
        draw, text, re.compile(r"[{}]"), lambda old: draw.choice(["", old * 2, "{}"])
    )


def add_location(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """A location behind a line."""
    lines = text.splitlines()
    ends = [i for i, line in enumerate(lines) if not line.endswith("{")]
    if ends:
        lines[draw.choice(ends)] += f" loc({location(draw)})"
    return "\n".join(lines) + "\n"


def change_characters(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Characters replaced, taken away or brought in, any of them that a file can hold."""
    for _ in range(draw.choice([1, 1, 3, 10])):
        where = draw.randrange(len(text) + 1)
        new = draw.choice(
            ["", chr(draw.randrange(128)), chr(draw.randrange(0xD800)), "\0", "\\", '"', ">"]
        )
        text = text[:where] + new + text[where + draw.choice([0, 1]) :]
    return text


def cut(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """The text up to somewhere."""
    return text[: draw.randrange(len(text) + 1)]


def deepen(draw: random.Random, text: str, others: Sequence[str]) -> str:
    """Something nested, or something long."""
    depth = draw.choice([5, 50, 300])
    piece = draw.choice(
        [
            "[" * depth + "]" * depth,
            "tensor<1x" * depth + "f32" + ">" * depth,
            f"affine_map<(d0) -> ({'(' * depth}d0{' + 1)' * depth})>",
            f"affine_map<(d0) -> ({'d0 floordiv 2 + ' * depth}1)>",
            f'"{"y" * depth * 50}"',
            ", ".join(["1"] * depth * 10),
        ]
    )
    return _substitute(
        draw, text, re.compile(r"\[[^\[\]]*\]|\b\d+\b|affine_map<[^>]*>[^>]*>"), lambda _: piece
    )


_MUTATIONS: tuple[tuple[Mutation, int], ...] = (
    (change_number, 16),
    (change_shape, 8),
    (change_token, 8),
    (change_word, 3),
    (change_type, 4),
    (change_row, 8),
    (change_map, 6),
    (swap_attributes, 6),
    (change_lines, 12),
    (change_operands, 8),
    (change_region, 3),
    (add_location, 3),
    (change_characters, 3),
    (cut, 1),
    (deepen, 1),
)


def mutate(draw: random.Random, text: str, others: Sequence[str], *, most: int = 4) -> str:
    """The text after one mutation or a few; `others` are inputs that lines may come from."""
    kinds, weights = zip(*_MUTATIONS, strict=True)
    for mutation in draw.choices(kinds, weights, k=min(draw.choice([1, 1, 1, 2, 2, 3, 4]), most)):
        text = mutation(draw, text, others)
    return text
