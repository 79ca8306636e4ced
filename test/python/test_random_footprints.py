"""Footprints of random address arithmetic, against the addresses themselves."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
import pytest

import syncopate
from syncopate.ir import new_context, parse, run_pipeline

TILES, LANES, TURNS = (3, 2), (4, 4), 3


@dataclass(frozen=True)
class Access:
    """Rows and columns that lanes access in a turn of the loop of a tile, and under which mask."""

    rows: int
    cols: int
    row_tile: int
    row_lane: int
    row_start: int
    wrap: int | None
    least: int | None
    col_tile: int
    col_turn: int
    row_below: int | None
    col_below: int | None

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Access:
        def some(*values: int | None) -> int | None:
            return values[int(rng.integers(len(values)))]

        rows, cols = int(rng.integers(5, 14)), int(rng.integers(5, 26))
        return cls(
            rows,
            cols,
            *(int(v) for v in (rng.integers(0, 6), rng.integers(1, 3), rng.integers(0, 3))),
            some(None, None, rows, int(rng.integers(2, 9))),
            some(None, None, rows - 1, int(rng.integers(2, 9))),
            *(int(v) for v in (some(0, 4, 12, 3), some(4, 4, 3, 0, 5))),
            some(None, rows, rows, rows - 1),
            some(None, cols, cols, cols - 1),
        )

    @property
    def is_plain(self) -> bool:
        """Whether each tile accesses a box, cut off at the edges of the buffer, and columns move by less than a row."""
        last = (TILES[1] - 1) * self.col_tile + (TURNS - 1) * self.col_turn + LANES[1] - 1
        return (
            (self.row_lane, self.wrap, self.least) == (1, None, None)
            and self.col_turn <= LANES[1]
            and self.col_tile < self.cols
            and self.row_below in (None, self.rows)
            and (self.col_below == self.cols or (self.col_below is None and last < self.cols))
        )

    def elements(self, m: int, n: int) -> np.ndarray:
        """Elements of the buffer that tile (m, n) accesses, in order."""
        row = m * self.row_tile + self.row_start + self.row_lane * np.arange(LANES[0])
        if self.wrap is not None:
            row = row % self.wrap
        if self.least is not None:
            row = np.minimum(row, self.least)
        turns = np.arange(TURNS)[:, None, None]
        col = n * self.col_tile + self.col_turn * turns + np.arange(LANES[1])
        row, col = np.broadcast_arrays(row[:, None], col)
        kept = np.ones(row.shape, bool)
        if self.row_below is not None:
            kept &= row < self.row_below
        if self.col_below is not None:
            kept &= col < self.col_below
        address = np.unique((row * self.cols + col)[kept])
        return address[address < self.rows * self.cols]

    def kernel(self, op: str) -> str:
        """A plan with a kernel that loads or stores so."""
        numbers: dict[int, str] = {}

        def number(value: int) -> str:
            return numbers.setdefault(value, f"%c{value}")

        row, col, lines = "tensor<4x1xi32>", "tensor<1x4xi32>", []

        def splat(value: str, kind: str) -> str:
            name = f"%s{len(lines)}"
            lines.append(f'{name} = "tt.splat"({value}) : (i32) -> {kind}')
            return name

        def binary(op: str, a: str, b: str, kind: str) -> str:
            name = f"%v{len(lines)}"
            lines.append(f"{name} = arith.{op} {a}, {b} : {kind}")
            return name

        first = binary("muli", "%m", number(self.row_tile), "i32")
        first = binary("addi", first, number(self.row_start), "i32")
        lane = binary("muli", "%lane0", splat(number(self.row_lane), row), row)
        rows = binary("addi", splat(first, row), lane, row)
        if self.wrap is not None:
            rows = binary("remsi", rows, splat(number(self.wrap), row), row)
        if self.least is not None:
            rows = binary("minsi", rows, splat(number(self.least), row), row)
        start = binary("muli", "%n", number(self.col_tile), "i32")
        turn = binary("muli", "%turn", number(self.col_turn), "i32")
        start = binary("addi", start, turn, "i32")
        cols = binary("addi", splat(start, col), "%lane1", col)
        begin = binary("muli", rows, splat(number(self.cols), row), row)
        masks = []
        for value, limit, kind in ((rows, self.row_below, row), (cols, self.col_below, col)):
            if limit is not None:
                mask = binary("cmpi slt,", value, splat(number(limit), kind), kind)
                bits = kind.replace("i32", "i1")
                lines.append(f'{mask}w = "tt.broadcast"({mask}) : ({bits}) -> tensor<4x4xi1>')
                masks.append(f"{mask}w")
        if len(masks) == 2:
            masks = [binary("andi", *masks, "tensor<4x4xi1>")]
        lines += [
            f'%rw = "tt.broadcast"({begin}) : ({row}) -> tensor<4x4xi32>',
            f'%cw = "tt.broadcast"({cols}) : ({col}) -> tensor<4x4xi32>',
            "%at = arith.addi %rw, %cw : tensor<4x4xi32>",
            '%as = "tt.splat"(%a) : (!tt.ptr<i8>) -> tensor<4x4x!tt.ptr<i8>>',
            '%p = "tt.addptr"(%as, %at) : (tensor<4x4x!tt.ptr<i8>>, tensor<4x4xi32>) -> tensor<4x4x!tt.ptr<i8>>',
        ]
        has_mask = len(masks)
        given = ", tensor<4x4xi1>" * has_mask
        if op == "read":
            operands = ", ".join(["%p", *masks])
            lines.append(
                f'%x = "tt.load"({operands}) <{{operandSegmentSizes = array<i32: 1, {has_mask}, 0>}}> : '
                f"(tensor<4x4x!tt.ptr<i8>>{given}) -> tensor<4x4xi8>"
            )
        else:
            operands = ", ".join(["%p", "%zero", *masks])
            lines.append(
                f'"tt.store"({operands}) : (tensor<4x4x!tt.ptr<i8>>, tensor<4x4xi8>{given}) -> ()'
            )
        for value in (0, 1, TURNS):
            number(value)
        constants = [f"{name} = arith.constant {value} : i32" for value, name in numbers.items()]
        body, top = "\n      ".join(lines), "\n    ".join(constants)
        kind = f"!chunk.buffer<{self.rows}x{self.cols}xi8>"
        return f"""
chunk.plan @p mesh [1] {{
  %a = chunk.buffer "a" : {kind}
  chunk.kernel @k tiles [{TILES[0]}, {TILES[1]}] ctas {TILES[0] * TILES[1]} args(%a as "a") : {kind} {{}}
}}
module @ttir {{
  "tt.func"() <{{function_type = (!tt.ptr<i64>, !tt.ptr<i8>) -> (), sym_name = "k"}}> ({{
  ^bb0(%context: !tt.ptr<i64> loc("sy_context"), %a: !tt.ptr<i8> loc("a")):
    {top}
    %zero = arith.constant dense<0> : tensor<4x4xi8>
    %pid = "tt.get_program_id"() <{{axis = 0 : i32}}> : () -> i32
    %m, %n, %i = "tt.elementwise_inline_asm"(%pid, %pid, %pid, %pid) <{{asm_string = "// syncopate.tile"}}>
      : (i32, i32, i32, i32) -> (i32, i32, i32)
    %lanes = "tt.make_range"() <{{start = 0 : i32, end = 4 : i32}}> : () -> tensor<4xi32>
    %lane0 = "tt.expand_dims"(%lanes) <{{axis = 1 : i32}}> : (tensor<4xi32>) -> {row}
    %lane1 = "tt.expand_dims"(%lanes) <{{axis = 0 : i32}}> : (tensor<4xi32>) -> {col}
    scf.for %turn = {numbers[0]} to {numbers[TURNS]} step {numbers[1]} : i32 {{
      {body}
    }}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}
"""


def infer(text: str) -> list[tuple[list[str], list[int]]]:
    module = parse(text, new_context())
    run_pipeline(module, "chunk-infer-tile-footprints")
    found = str(module)
    maps = dict(
        re.findall(r"^(#map\d*) = affine_map<\(d0, d1\) -> \((.*)\)>$", found, re.MULTILINE)
    )
    return [
        (maps[offsets].split(", "), [int(size) for size in sizes.split(", ")])
        for offsets, sizes in re.findall(r'"a" at (#map\d*) sizes \[([^]]*)\]', found)
    ]


def covered(access: Access, boxes: list[tuple[list[str], list[int]]], m: int, n: int) -> np.ndarray:
    buffer = np.zeros((access.rows, access.cols), bool)
    for offsets, sizes in boxes:
        slices = []
        for text, size in zip(offsets, sizes, strict=True):
            begin = eval(text.replace("floordiv", "//").replace("mod", "%"), {"d0": m, "d1": n})
            slices.append(slice(max(begin, 0), max(begin + size, 0)))
        buffer[tuple(slices)] = True
    return np.flatnonzero(buffer)


@pytest.mark.parametrize("op", ["read", "write"])
def test_random_addresses_lie_in_their_footprints(op):
    rng = np.random.default_rng()
    understood = plain = 0
    for _ in range(300):
        access = Access.draw(rng)
        try:
            boxes = infer(access.kernel(op))
        except syncopate.PlanError as error:
            assert "which part of" in str(error), access
            assert not access.is_plain, access
            continue
        understood += 1
        plain += access.is_plain
        for m, n in itertools.product(*map(range, TILES)):
            want, got = access.elements(m, n), covered(access, boxes, m, n)
            assert set(want) <= set(got), (access, m, n, boxes)
            if op == "write" or access.is_plain:
                assert len(want) == len(got), (access, m, n, boxes)
    # Nearly all loads are understood.
    assert understood > 260 or op == "write"
    assert plain > 0
