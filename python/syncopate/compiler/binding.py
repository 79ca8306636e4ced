"""What each parameter of a local kernel stands for in a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncopate.dtypes import DTYPES
from syncopate.errors import SyncopateError
from syncopate.plan import Buffer
from syncopate.runtime.interface import BufferParam, Param, ScalarParam, ScratchParam, TensorParam

__all__ = [
    "Binding",
    "Ctas",
    "Descriptor",
    "Footprint",
    "HasParts",
    "Parts",
    "Pointer",
    "Scratch",
    "Tensor",
    "bind_parameters",
    "resolve",
]

MOST_PARTS: Final = 8
LEAST_STEPS: Final = 4
"""How far `Parts` splits a tile: the last CTA reads back what each part has left (docs/results)."""


@dataclass(frozen=True)
class Tensor:
    """An ordinary tensor of the rank, passed at every call.

    Attributes:
        name: The keyword by which a call takes it.
        shape: Its shape, in elements.
        dtype: Its element type as MLIR spells it.
        output: The kernel writes it; a call that does not pass it gets a new one.
        strides: Strides in elements; row-major by default.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    output: bool = False
    strides: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise SyncopateError(
                f"tensor: expects a Python identifier as its name, but got {self.name!r}"
            )
        strides = self.shape if self.strides is None else self.strides
        for what, sizes in (("shape", self.shape), ("strides", strides)):
            if not _are_positive(sizes):
                raise SyncopateError(
                    f"tensor {self.name!r}: expects a {what} of positive integers, but got {sizes!r}"
                )
        if len(strides) != len(self.shape):
            raise SyncopateError(
                f"tensor {self.name!r}: expects {len(self.shape)} strides, but got {len(strides)}"
            )
        if not isinstance(self.dtype, str):
            raise SyncopateError(
                f"tensor {self.name!r}: expects a dtype such as 'bf16', but got {self.dtype!r:.60}"
            )
        if not isinstance(self.output, bool):
            raise SyncopateError(
                f"tensor {self.name!r}: output expects a bool, but got {self.output!r}"
            )
        if math.prod(self.shape) >= 2**48:
            raise SyncopateError(
                f"tensor {self.name!r}: expects fewer than 2^48 elements, but got shape {list(self.shape)}"
            )


@dataclass(frozen=True)
class Descriptor:
    """A host TMA descriptor over a whole plan buffer or tensor.

    Attributes:
        source: The buffer or tensor.
        block: Shape of the blocks that the kernel loads or stores, in elements.
    """

    source: Buffer | Tensor
    block: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_source("descriptor", self.source)
        if not _are_positive(self.block):
            raise SyncopateError(
                f"descriptor of {self.source.name!r}: expects a block of positive integers, but got {self.block!r}"
            )
        if any(size & (size - 1) for size in self.block):
            raise SyncopateError(
                f"descriptor of {self.source.name!r}: expects a block of powers of two, as Triton has them, but got "
                f"{self.block!r}"
            )


@dataclass(frozen=True)
class Pointer:
    """A pointer to the first element of a plan buffer or tensor."""

    source: Buffer | Tensor

    def __post_init__(self) -> None:
        _check_source("pointer", self.source)


@dataclass(frozen=True)
class Ctas:
    """The number of CTAs that compute, for the parameter by which a kernel's loop over tiles steps.

    It is the `ctas` of `compile`, or what it chooses without one: what the target has, less what transfers take.
    """


@dataclass(frozen=True)
class Parts:
    """Among how many CTAs the tiles of a kernel's last round are split, for the parameter by which it knows.

    The tiles that are left over when each CTA has computed as many as all others would leave most CTAs without work.
    `compile` splits each of them among as many as there are for it, at most 8, and with at least 4 steps for each,
    unless `count` says among how many. 1 if that is none.

    Attributes:
        steps: How often the loop runs by which a tile is computed; a part is some of its turns.
        count: Among how many CTAs.
    """

    steps: int
    count: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("count", self.count)):
            if value is not None and not (type(value) is int and value > 0):
                raise SyncopateError(f"parts: {name} expects a positive integer, but got {value!r}")

    def choose(self, tiles: int, ctas: int) -> int:
        """Returns among how many CTAs to split each of the tiles of the last round.

        Args:
            tiles: How many tiles there are.
            ctas: CTAs that compute.

        Raises:
            SyncopateError: There are too few CTAs for `count`.
        """
        if tiles < 1 or ctas < 1 or tiles % ctas == 0:
            return 1
        last = tiles % ctas
        if self.count is None:
            return max(1, min(ctas // last, MOST_PARTS, self.steps // LEAST_STEPS))
        if self.count * last > ctas:
            raise SyncopateError(
                f"parts: count {self.count} of each of the {last} tiles of the last round needs {self.count * last} "
                f"CTAs, but {ctas} compute; use at most {ctas // last}"
            )
        return self.count


@dataclass(frozen=True)
class HasParts:
    """Whether tiles are split, for a compile-time parameter by which a kernel leaves out the code for that.

    A kernel that has it all the time is one for all shapes; one whose registers it takes is better without. Memory for
    parts is None where they are not split.
    """


@dataclass(frozen=True)
class Scratch:
    """Memory that the program itself provides, one for each rank, by which CTAs of a rank leave data to each other.

    It is zero before the first call, and in every later one holds what the one before has left. Calls of a program on
    a rank run one after another.

    Attributes:
        shape: Its shape, in elements; `Ctas` stands for the number of CTAs that compute.
        dtype: Its element type as MLIR spells it.
        split: For tiles that several CTAs compute: without any, `Ctas` stands for 1, and nothing is read or written.
    """

    shape: tuple[int | Ctas, ...]
    dtype: str
    split: bool = False

    def __post_init__(self) -> None:
        if not _are_positive([1 if isinstance(size, Ctas) else size for size in self.shape]):
            raise SyncopateError(
                f"scratch: expects a shape of positive integers and Ctas(), but got {self.shape!r}"
            )


@dataclass(frozen=True)
class Footprint:
    """The region of an argument that one tile accesses, for what cannot be inferred from the kernel.

    Attributes:
        argument: The kernel's parameter, bound to a plan buffer.
        offsets: Gives the offsets, in elements, for the tile coordinates: ``lambda m, n: (m * 128, 0)``. They have to
            be affine.
        sizes: Sizes of the region, in elements; what lies outside the buffer does not count.
        access: "read" or "write".
    """

    argument: str
    offsets: Callable[..., Sequence[Any]]
    sizes: tuple[int, ...]
    access: str = "read"

    def __post_init__(self) -> None:
        what = f"footprint of {self.argument!r}"
        if not isinstance(self.argument, str) or not _is_text(self.argument):
            raise SyncopateError(f"{what}: expects the name of a parameter")
        if not callable(self.offsets):
            raise SyncopateError(
                f"{what}: expects offsets to be a function of tile coordinates, but got {self.offsets!r}"
            )
        if not _are_positive(self.sizes):
            raise SyncopateError(
                f"{what}: expects sizes of positive integers, but got {self.sizes!r}"
            )
        if not isinstance(self.access, str) or self.access not in ("read", "write"):
            raise SyncopateError(f"{what}: access expects read or write, but got {self.access!r}")


def _are_positive(sizes: Any) -> bool:
    """Whether a value is a sequence of positive integers of 64 bits, and not an empty one."""
    return (
        isinstance(sizes, Sequence)
        and len(sizes) > 0
        and all(type(size) is int and 0 < size < 2**63 for size in sizes)
    )


def _is_text(value: str) -> bool:
    """Whether a string can be written to a file."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_source(what: str, source: Any) -> None:
    if not isinstance(source, (Buffer, Tensor)):
        raise SyncopateError(
            f"{what}: expects a buffer of the plan or a Tensor as its source, but got {source!r}"
        )


Bound = Descriptor | Pointer | int | float | bool


@dataclass(frozen=True)
class Binding:
    """All parameters of a kernel.

    Attributes:
        signature: Triton's type of each parameter, in order, "constexpr" included.
        constexprs: Values of the compile-time parameters.
        params: The others, for the runtime.
        buffers: Plan buffers by the parameter that they are bound to.
        integers: Values of the integer parameters, by name.
    """

    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    params: tuple[Param, ...]
    buffers: Mapping[str, Buffer]
    integers: Mapping[str, int]


def resolve(bind: Mapping[str, Any], tiles: int, ctas: int) -> tuple[dict[str, Any], int]:
    """Puts numbers in the place of what depends on the CTAs.

    Args:
        bind: What each parameter stands for.
        tiles: How many tiles the kernel computes.
        ctas: CTAs that compute.

    Returns:
        The binding, and among how many CTAs each tile of the last round is split.

    Raises:
        SyncopateError: The tiles cannot be split as they are to be.
    """
    counts = {value.choose(tiles, ctas) for name, value in bind.items() if isinstance(value, Parts)}
    if len(counts) > 1:
        raise SyncopateError(
            f"bind: expects one number of parts, but got {', '.join(map(str, sorted(counts)))}"
        )
    parts = counts.pop() if counts else 1
    leaves_out = parts == 1 and any(isinstance(value, HasParts) for value in bind.values())

    def number(value: Any) -> Any:
        if isinstance(value, Ctas):
            return ctas
        if isinstance(value, Parts):
            return parts
        if isinstance(value, HasParts):
            return parts > 1
        if not isinstance(value, Scratch):
            return value
        if value.split and leaves_out:
            return None
        shape = value.shape
        if value.split and parts == 1:
            shape = tuple(1 if isinstance(size, Ctas) else size for size in shape)
        return Scratch(tuple(map(number, shape)), value.dtype, value.split)

    return {name: number(value) for name, value in bind.items()}, parts


def bind_parameters(kernel: Any, bind: Mapping[str, Any]) -> Binding:
    """Matches `bind` with the parameters of a `@triton.jit` function.

    Raises:
        SyncopateError: A parameter is not bound, or something bound is no parameter, or cannot be one.
    """
    names = [parameter.name for parameter in kernel.params]
    unknown = [name for name in bind if name not in names]
    if unknown:
        raise SyncopateError(
            f"bind: {unknown[0]!r} is no parameter of kernel {kernel.__name__}; it has {', '.join(names)}"
        )
    signature: dict[str, str] = {}
    constexprs: dict[str, Any] = {}
    params: list[Param] = []
    buffers: dict[str, Buffer] = {}
    integers: dict[str, int] = {}
    for parameter in kernel.params:
        name = parameter.name
        if name not in bind and not parameter.has_default:
            raise SyncopateError(
                f"bind: parameter {name!r} of kernel {kernel.__name__} is not bound; bind a Descriptor, a Pointer or a "
                "value"
            )
        value = bind.get(name, parameter.default)
        if isinstance(value, str) and not _is_text(value):
            raise SyncopateError(f"bind: parameter {name!r}: expects text, but got {value!r}")
        # As in Triton, a parameter may be left out by None, for which a kernel is compiled by itself.
        if parameter.is_constexpr or value is None:
            signature[name] = "constexpr"
            constexprs[name] = value
        elif isinstance(value, (Descriptor, Pointer)):
            signature[name] = _memory_type(name, value)
            params.append(_memory_param(name, value))
            if isinstance(value.source, Buffer):
                buffers[name] = value.source
        elif isinstance(value, Scratch):
            signature[name] = f"*{_triton_type(name, value.dtype)}"
            shape = tuple(size for size in value.shape if isinstance(size, int))
            params.append(ScratchParam(name, shape, value.dtype))
        elif isinstance(value, (bool, int, float)):
            signature[name] = _scalar_type(name, value)
            params.append(ScalarParam(name, value))
            if isinstance(value, int) and not isinstance(value, bool):
                integers[name] = value
        else:
            raise SyncopateError(
                f"bind: parameter {name!r}: expects a Descriptor, a Pointer, an int or a float, but got "
                f"{type(value).__name__}"
            )
    return Binding(signature, constexprs, tuple(params), buffers, integers)


def _triton_type(name: str, dtype: str) -> str:
    if dtype not in DTYPES:
        raise SyncopateError(
            f"bind: parameter {name!r}: Triton has no element type {dtype:.60}; use one of {', '.join(DTYPES)}"
        )
    return DTYPES[dtype].triton


def _memory_type(name: str, value: Descriptor | Pointer) -> str:
    element = _triton_type(name, value.source.dtype)
    if isinstance(value, Pointer):
        return f"*{element}"
    if len(value.block) != len(value.source.shape):
        raise SyncopateError(
            f"bind: parameter {name!r}: expects a block of {len(value.source.shape)} dimensions, "
            f"as {value.source.name} has, but got {list(value.block)}"
        )
    _check_rows(name, value.source)
    return f"tensordesc<{element}[{','.join(map(str, value.block))}]>"


def _check_rows(name: str, source: Buffer | Tensor) -> None:
    """TMA takes rows of adjacent elements that are a multiple of 16 bytes apart."""
    strides = source.strides if isinstance(source, Tensor) and source.strides else None
    if strides is None:
        strides = tuple(math.prod(source.shape[dim + 1 :]) for dim in range(len(source.shape)))
    item = DTYPES[source.dtype].nbytes
    if strides[-1] != 1 or any(stride * item % 16 for stride in strides[:-1]):
        raise SyncopateError(
            f"bind: parameter {name!r}: TMA needs adjacent elements in rows that are a multiple of 16 bytes apart, but "
            f"{source.name} has strides {list(strides)} of {item} bytes; pad its rows, or use a kernel on pointers"
        )


def _memory_param(name: str, value: Descriptor | Pointer) -> Param:
    source, descriptor = value.source, isinstance(value, Descriptor)
    if isinstance(source, Buffer):
        return BufferParam(name, source.name, descriptor)
    return TensorParam(
        name,
        source.name,
        tuple(source.shape),
        source.dtype,
        descriptor,
        output=source.output,
        strides=source.strides,
    )


def _scalar_type(name: str, value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, float):
        return "fp32"
    if not -(2**63) <= value < 2**63:
        raise SyncopateError(f"bind: parameter {name!r}: {value} does not fit into 64 bits")
    return "i32" if -(2**31) <= value < 2**31 else "i64"
