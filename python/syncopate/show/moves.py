"""The commands of schedule tables as the transfers of the plan that they are, and whose input these bring where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from syncopate.abi import STAGING
from syncopate.dtypes import DTYPES
from syncopate.tables import BufferSpec

__all__ = ["Box", "Move", "Origins", "Row", "describe_boxes", "read_moves"]

Row: TypeAlias = dict[str, int]


@dataclass(frozen=True)
class Box:
    """A region of a buffer, in elements; `buffer` is its index in the plan."""

    buffer: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def overlaps(self, other: Box) -> bool:
        """Whether both have an element in common."""
        spans = zip(self.offsets, self.sizes, other.offsets, other.sizes, strict=True)
        return self.buffer == other.buffer and all(a < c + d and c < a + b for a, b, c, d in spans)


@dataclass
class Move:
    """The commands of one transfer, as they are read."""

    row: Row
    by: int
    tile: tuple[int, ...] | None = None
    src: list[Box] = field(default_factory=list)
    dst: list[Box] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    signals: list[Row] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, ...]:
        """What all its commands have in common."""
        names = ("transfer", "src_rank", "dst_rank", "src_buffer", "dst_buffer")
        # A rank stages the inputs of all its buffers at once.
        return tuple(self.row[n] for n in names[: 1 if self.row["transfer"] == STAGING else 5])


def _box(buffers: Sequence[BufferSpec], row: Row, side: str) -> Box:
    """One side of a command: `rows` rows of `row_bytes`, which may cover whole inner dimensions."""
    index = row[f"{side}_buffer"]
    buffer = buffers[index]
    item = DTYPES[buffer.dtype].nbytes
    dims = len(buffer.shape)
    strides = [prod(buffer.shape[dim + 1 :]) for dim in range(dims)]
    rest, offsets = row[f"{side}_offset"] // item, []
    for stride in strides:
        offsets.append(rest // stride)
        rest %= stride
    elements, sizes = row["row_bytes"] // item, [1] * dims
    for dim in reversed(range(dims)):
        sizes[dim] = min(elements, buffer.shape[dim])
        elements = -(-elements // buffer.shape[dim])
    if row["rows"] > 1:
        # Of dimensions with the same stride all but the first have one element.
        sizes[strides.index(row[f"{side}_stride"] // item)] *= row["rows"]
    return Box(index, tuple(offsets), tuple(sizes))


def _merge(boxes: list[Box], box: Box) -> None:
    """Appends a box, as one with those before it where they make up a box."""
    while boxes and boxes[-1].buffer == box.buffer:
        last = boxes[-1]
        begins = tuple(map(min, last.offsets, box.offsets))
        ends = (
            max(a + b, c + d)
            for a, b, c, d in zip(last.offsets, last.sizes, box.offsets, box.sizes, strict=True)
        )
        sizes = tuple(end - begin for begin, end in zip(begins, ends, strict=True))
        if prod(sizes) != prod(last.sizes) + prod(box.sizes):
            break
        boxes.pop()
        box = Box(box.buffer, begins, sizes)
    boxes.append(box)


def describe_boxes(buffers: Sequence[BufferSpec], boxes: Sequence[Box]) -> str:
    """Boxes as `a[0:128, 0:512]`."""
    parts = []
    for box in boxes:
        spans = (f"{a}:{a + b}" for a, b in zip(box.offsets, box.sizes, strict=True))
        parts.append(f"{buffers[box.buffer].name}[{', '.join(spans)}]")
    return " and ".join(parts)


def read_moves(
    buffers: Sequence[BufferSpec], tables: Mapping[str, list[Row]], by: int
) -> list[Move]:
    """The transfers that rank `by` carries out, and what it stages."""
    moves: list[Move] = []
    # Tiles are the cells of a grid, each once: in the order of their coordinates, they have their numbers. Of those
    # that several CTAs compute, the parts come one after another, with their numbers for the third coordinate.
    tiles = sorted((row["c0"], row["c1"], row["c2"]) for row in tables["tiles"])
    if 0 < len(tables["tile_groups"]) < len(tiles):
        tiles = [tile for tile in tiles if tile[2] == 0]
    handed = {
        number: tile
        for tile, row in zip(tiles, tables["tile_groups"], strict=False)
        for number in range(row["command_begin"], row["command_end"])
    }
    for number, row in enumerate(tables["commands"]):
        if row["transfer"] < STAGING:
            continue
        move = Move(row, by, handed.get(number))
        if moves and moves[-1].key == move.key:
            move = moves[-1]
        else:
            moves.append(move)
        _merge(move.src, _box(buffers, row, "src"))
        _merge(move.dst, _box(buffers, row, "dst"))
        move.waits += tables["waits"][row["wait_begin"] : row["wait_end"]]
        move.signals += tables["signals"][row["signal_begin"] : row["signal_end"]]
    return moves


class Origins:
    """Whose input lies where, after all transfers."""

    def __init__(self, program: Any, moves: Iterable[Move]) -> None:
        self._inputs = {
            rank: [
                Box(index, region.offsets, region.sizes)
                for index, buffer in enumerate(program.buffers)
                for region in buffer.inputs[rank]
            ]
            for rank in range(program.world_size)
        }
        self._arrivals: dict[tuple[int, int], list[Move]] = {}
        for move in moves:
            if move.row["transfer"] != STAGING:
                key = (move.row["dst_rank"], move.row["dst_buffer"])
                self._arrivals.setdefault(key, []).append(move)
        self._known: dict[tuple[int, Box], tuple[int, ...]] = {}

    def of_transfer(self, move: Move) -> int:
        """The rank whose input a transfer copies or forwards."""
        seen: set[int] = set()
        while id(move) not in seen:
            seen.add(id(move))
            source = move.row["src_rank"]
            if _touch(move.src, self._inputs[source]):
                return source
            arrivals = self._arrivals.get((source, move.row["src_buffer"]), ())
            move = next((m for m in arrivals if _touch(m.dst, move.src)), move)
        return int(move.row["src_rank"])

    def of_box(self, rank: int, box: Box) -> tuple[int, ...]:
        """The ranks whose inputs a region of a rank's buffer holds in the end."""
        if (rank, box) not in self._known:
            found = {rank} if _touch([box], self._inputs[rank]) else set()
            for move in self._arrivals.get((rank, box.buffer), ()):
                if _touch(move.dst, [box]):
                    found.add(self.of_transfer(move))
            self._known[rank, box] = tuple(sorted(found))
        return self._known[rank, box]


def _touch(some: Iterable[Box], others: Sequence[Box]) -> bool:
    return any(a.overlaps(b) for a in some for b in others)
