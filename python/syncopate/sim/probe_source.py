"""The source of a probe kernel: a local Triton kernel that copies what its tiles' footprints cover.

What is read goes to an output, as integers of the elements' size, so that their bits arrive whatever they mean. What is
written comes from a tensor, in the elements' own type, since what tiles store may be added to something.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from syncopate.errors import PlanError
from syncopate.plan.schedule import Access
from syncopate.sim.probe_data import name_made

__all__ = ["Sampling", "write_source"]

_PIECE = 8192
"""Elements that a tile copies at a time, at most; Triton compiles one piece however many there are."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Sampling:
    """Which elements of a footprint are copied.

    Along a dimension these are the first one inside the buffer, every `strides`-th after it, and the last.

    Attributes:
        access: The footprint.
        shape: Shape of its buffer.
        strides: By dimension.
    """

    access: Access
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements of the buffer that the footprint covers at most, by dimension."""
        return tuple(map(min, self.access.sizes, self.shape))

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that are copied for a tile, by dimension."""
        return tuple(
            -(-(extent - 1) // stride) + 1
            for extent, stride in zip(self.extents, self.strides, strict=True)
        )


class _Code:
    """An integer expression in the kernel's source, so that an affine map can be applied to names.

    Divisors are positive constants. Python and affine maps round quotients down, Triton towards zero. Python's
    integers have no end, the kernel's are of 64 bits, so what may not fit is refused.
    """

    def __init__(self, text: str, low: int, high: int) -> None:
        if low < _LOWEST or high > _HIGHEST:
            raise PlanError(
                f"footprint: expects offsets that 64 bits can hold for every tile, but {text} may be "
                f"{low if low < _LOWEST else high}"
            )
        self.text, self.low, self.high = text, low, high

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: _Code | int) -> _Code:
        low, high = _bounds(other)
        return _Code(f"({self} + {other})", self.low + low, self.high + high)

    def __mul__(self, other: _Code | int) -> _Code:
        ends = [mine * theirs for mine in (self.low, self.high) for theirs in _bounds(other)]
        return _Code(f"({self} * {other})", min(ends), max(ends))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> _Code:
        return _Code(f"(0 - {self})", -self.high, -self.low)

    def __mod__(self, other: int) -> _Code:
        # The usual ((a % b) + b) % b does not fit where b is large.
        text = f"({self} % {other} + tl.where({self} % {other} < 0, {other}, 0))"
        fits = self.low >= 0 and self.high < other
        return _Code(text, self.low, self.high) if fits else _Code(text, 0, other - 1)

    def __floordiv__(self, other: int) -> _Code:
        text = f"({self} // {other} - tl.where({self} % {other} < 0, 1, 0))"
        return _Code(text, self.low // other, self.high // other)


def _bounds(operand: _Code | int) -> tuple[int, int]:
    """The least and the greatest that an operand can be."""
    return (operand, operand) if isinstance(operand, int) else (operand.low, operand.high)


def write_source(
    name: str,
    inputs: int,
    tiles: Sequence[int],
    samplings: Sequence[tuple[int, Sampling]],
    steps: int = 0,
    writes: Sequence[tuple[int, Sampling]] = (),
) -> str:
    """Writes a kernel that takes pointers `in0`, …, for each sampling an output `out0`, …, then tensors, and CTAS.

    Output k is an array of shape [tiles, *counts], or [tiles * steps, *counts] if it is read at steps; what a tile's
    footprint does not cover is zero, and so is the place of a step that it does not have.

    Args:
        name: Name of the kernel.
        inputs: Number of pointers that it reads.
        tiles: Grid of tiles.
        samplings: For each output, the pointer that it is read through, and what of it.
        steps: The step behind the last that a tile may have; 0 if tiles walk none.
        writes: For each tensor `made0`, …, of the shape of a buffer, the pointer that tiles store it through, and
            where.

    Raises:
        PlanError: The offsets of a footprint may not fit in 64 bits.
    """
    names = [f"c{dim}" for dim in range(len(tiles))]
    position = "t"
    lines = []
    for dim in reversed(range(len(tiles))):
        whole = position if dim == 0 else f"{position} % {tiles[dim]}"
        lines.append(f"{names[dim]} = {whole}")
        position = f"({position} // {tiles[dim]})"
    lines.append(f"{', '.join(names)}, i = sy.tile(t, {', '.join(names)})")
    lines += [f"{coordinate} = {coordinate}.to(tl.int64)" for coordinate in names]
    tile = names[0]
    for coordinate, size in zip(names[1:], tiles[1:], strict=True):
        tile = f"({tile} * {size} + {coordinate})"
    lines.append(f"tile = {tile}")
    coordinates = [_Code(name, 0, size - 1) for name, size in zip(names, tiles, strict=True)]
    at_steps: list[str] = []
    for number, (source, sampling) in enumerate(samplings):
        target = f"out{number}"
        if sampling.access.at_step:
            lines += _clear(target, steps * math.prod(sampling.counts))
            at = [*coordinates, _Code("step", 0, steps - 1)]
            at_steps += _copy(f"in{source}", target, sampling, at, f"(tile * {steps} + step)")
        else:
            lines += _copy(f"in{source}", target, sampling, coordinates, "tile")
    if steps:
        # The tables alone say how many steps a tile of this rank has.
        lines += [
            "first, last = sy.steps(-1, -1)",
            "for place in tl.range(first, last):",
            "    step = sy.step(place).to(tl.int64)",
            *(f"    {line}" for line in at_steps or ["tl.store(out0 + step, 0, mask=step < 0)"]),
        ]
    for number, (pointer, sampling) in enumerate(writes):
        lines += _copy(f"in{pointer}", name_made(number), sampling, coordinates, None)
    outputs = [f"out{number}" for number in range(len(samplings))]
    outputs += [name_made(number) for number in range(len(writes))]
    parameters = [*(f"in{number}" for number in range(inputs)), *outputs, "CTAS: tl.constexpr"]
    return "\n".join(
        [
            '"""Copies what the footprints of a plan cover, generated."""',
            "",
            "import triton",
            "import triton.language as tl",
            "",
            "import syncopate.language as sy",
            "",
            "",
            "@triton.jit",
            f"def {name}({', '.join(parameters)}):",
            f"    for t in tl.range(tl.program_id(0), {math.prod(tiles)}, CTAS):",
            *(f"        {line}" for line in lines),
            "",
        ]
    )


def _clear(target: str, elements: int) -> list[str]:
    """Lines that set all that a tile may copy to zero."""
    width = min(_power(elements), _PIECE)
    return [
        f"for piece in range({-(-elements // width)}):",
        f"    cleared = piece * {width} + tl.arange(0, {width}).to(tl.int64)",
        f"    tl.store({target} + tile * {elements} + cleared, 0, mask=cleared < {elements})",
        # Other threads store the same elements next.
        "tl.debug_barrier()",
    ]


def _copy(
    buffer: str, other: str, sampling: Sampling, coordinates: Sequence[_Code], number: str | None
) -> list[str]:
    """Lines that copy one footprint of a tile or a step, in pieces of rows and columns.

    It goes from the buffer to the place of a number in an output; without a number, from the same place of a tensor to
    the buffer.
    """
    shape, counts = sampling.shape, sampling.counts
    last = len(shape) - 1
    lines = []
    for dim, offset in enumerate(sampling.access.offsets(coordinates)):
        # Behind the buffer is behind it, however far, and adding a size must not lead past 64 bits. An offset without
        # coordinates is a number, which Triton's functions do not take for a tensor.
        low, high = (min(bound, shape[dim]) for bound in _bounds(offset))
        begin = _Code(f"tl.minimum({offset} + tile * 0, {shape[dim]})", low, high)
        lines.append(f"begin{dim} = tl.maximum({begin}, 0)")
        lines.append(f"end{dim} = tl.minimum({begin + sampling.access.sizes[dim]}, {shape[dim]})")
    rows, columns = math.prod(counts[:-1]), counts[-1]
    width = min(_power(columns), 1024)
    height = min(_power(rows), max(1, _PIECE // width))
    across = -(-columns // width)
    body = [
        f"row = piece // {across} * {height} + tl.arange(0, {height}).to(tl.int64)",
        f"column = piece % {across} * {width} + tl.arange(0, {width}).to(tl.int64)",
        f"kept = (row < {rows})[:, None] & (column < {columns})[None, :]",
        "rest = row",
    ]
    address, inside = "column_at", "column_in"
    body += _positions("column", last, "column", sampling.strides[last])
    step = shape[last]
    for dim in reversed(range(last)):
        body += _positions(f"row{dim}", dim, f"(rest % {counts[dim]})", sampling.strides[dim])
        body.append(f"rest = rest // {counts[dim]}")
        body.append(f"row{dim}_at = row{dim}_at * {step}")
        step *= shape[dim]
    row_at = " + ".join(f"row{dim}_at" for dim in range(last)) or "row * 0"
    row_in = " & ".join(f"row{dim}_in" for dim in range(last)) or "(row == row)"
    body += [
        f"address = ({row_at})[:, None] + {address}[None, :]",
        f"inside = ({row_in})[:, None] & {inside}[None, :]",
    ]
    # Triton makes no integer a number of eight bits.
    zeros = f"tl.zeros([{height}, {width}], {buffer}.dtype.element_ty)"
    if number is None:
        body += [
            f"data = tl.load({other} + address, mask=kept & inside, other={zeros})",
            f"tl.store({buffer} + address, data, mask=kept & inside)",
        ]
    else:
        body += [
            f"data = tl.load({buffer} + address, mask=kept & inside, other={zeros})",
            f"target = ({number} * {rows} + row)[:, None] * {columns} + column[None, :]",
            f"tl.store({other} + target, data, mask=kept)",
        ]
    down = -(-rows // height)
    return [*lines, f"for piece in range({down * across}):", *(f"    {line}" for line in body)]


def _positions(name: str, dim: int, index: str, stride: int) -> list[str]:
    """Lines that say where along a dimension the elements with an index are, and whether they are inside."""
    return [
        f"{name}_raw = begin{dim} + {index} * {stride}",
        f"{name}_in = ({name}_raw < end{dim} + {stride - 1}) & (begin{dim} < end{dim})",
        f"{name}_at = tl.minimum({name}_raw, end{dim} - 1)",
    ]


def _power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (number - 1).bit_length()
