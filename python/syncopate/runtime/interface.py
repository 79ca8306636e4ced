"""What the runtime needs to know about a compiled program. Plain data.

The compiler hands the runtime an object with the members of `Program`. Everything in it is the same on every rank
except the tables, which `rank_tables` gives for *any* rank: the runtime names the culprit of a timeout with the tables
of the rank that should have raised the flag.

Division of work at a call, for rank r (stream order from top to bottom):

1. Only for an input that cannot stay where the caller keeps it. Guard: if other ranks get from r, wait until each of
   those has finished the previous call (`done` flags). Staging: copy the input into r's own region of its symmetric
   buffer.
2. Engine commands of r on the side stream: waits, copies, flags; at the end `engine_done` is raised by the runtime
   itself, so no table row raises it.
3. The fused kernel: `open_call` raises the open signals; the communication role stages the input for others if it
   stayed with the caller; `close_call` raises the close signals and increments the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from syncopate.tables import BufferSpec, SignalLayout, Table

DEFAULT_TIMEOUT_NS = 60_000_000_000
"""Limit of a device wait: ranks may start a call this far apart, as after loading data or a first compilation."""

INPUT_POINTER = "sy_input"
"""Argument of every fused kernel: the address of the rank's own input."""

INPUT_DESCRIPTOR = "sy_input_"
"""Before the name of a descriptor argument: an argument that describes the rank's own input in its place."""


REMAP_ROWS, REMAP_COLUMNS = 16, 256
"""The block of an output that one CTA brings from slots into rows."""


@dataclass(frozen=True)
class BufferParam:
    """A kernel parameter that is a plan buffer.

    Attributes:
        name: The kernel's parameter.
        buffer: Name of the buffer.
        descriptor: True for a host TMA descriptor over the whole buffer, False for a pointer to its first element.
        padding: What a descriptor load gives out of bounds, "zero" or "nan".
    """

    name: str
    buffer: str
    descriptor: bool
    padding: str = "zero"


@dataclass(frozen=True)
class TensorParam:
    """A kernel parameter that is an ordinary tensor of the rank, passed at every call.

    Attributes:
        name: The kernel's parameter.
        tensor: The keyword by which a call takes it.
        shape: Expected shape.
        dtype: MLIR's spelling.
        descriptor: True for a host TMA descriptor, False for a pointer.
        output: The kernel writes it; a call that does not pass it gets a new tensor.
        strides: Expected strides in elements; None asks for row-major.
        padding: As for `BufferParam`.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    descriptor: bool
    output: bool = False
    strides: tuple[int, ...] | None = None
    padding: str = "zero"


@dataclass(frozen=True)
class ScalarParam:
    """A kernel parameter whose value was fixed when the program was compiled."""

    name: str
    value: int | float


@dataclass(frozen=True)
class ScratchParam:
    """A kernel parameter that points to memory of the program's own, zero before the first call.

    Attributes:
        name: The kernel's parameter.
        shape: Its shape.
        dtype: MLIR's spelling.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


Param = BufferParam | TensorParam | ScalarParam | ScratchParam


@dataclass(frozen=True)
class DescriptorLayout:
    """How the kernel expects one host TMA descriptor to be encoded: an entry of Triton's `tensordesc_meta`."""

    swizzle: int
    elem_size: int
    elem_type: int
    block_size: tuple[int, ...]
    fp4_padded: bool = False


@dataclass(frozen=True)
class KernelImage:
    """Machine code of the fused kernel and what a launch of it must pass. Can be pickled; needs no Triton to use.

    Attributes:
        name: Entry point.
        cubin: Machine code; empty if none was made.
        arguments: (name, Triton type) of every argument of the wrapper in order, the context first; "constexpr" ones
            included.
        num_warps: Warps of a CTA in all, those of warp-specialized partitions included.
        shared_bytes: Dynamic shared memory of a CTA.
        descriptors: One entry for each `tensordesc` argument in order; empty where Triton passes them as pointer, shape
            and strides.
        global_scratch_bytes: Scratch that Triton wants per CTA, 0 for none.
        global_scratch_align: Its alignment.
        profile_scratch_bytes: As above, for Triton's profiler.
    """

    name: str
    cubin: bytes
    arguments: tuple[tuple[str, str], ...]
    num_warps: int
    shared_bytes: int
    descriptors: tuple[DescriptorLayout, ...] = ()
    global_scratch_bytes: int = 0
    global_scratch_align: int = 1
    profile_scratch_bytes: int = 0

    @staticmethod
    def from_triton(
        compiled: Any, arguments: Sequence[tuple[str, str]] | None = None
    ) -> KernelImage:
        """Takes what a launch needs out of a Triton `CompiledKernel`.

        Args:
            compiled: The result of `triton.compile`.
            arguments: (name, type) of every argument; by default those of `compiled.src`, which a kernel reloaded from
                disk does not have.
        """
        meta = compiled.metadata
        if getattr(meta, "num_ctas", 1) != 1:
            raise ValueError(
                f"a kernel with num_ctas={meta.num_ctas} (a cluster) cannot be launched; compile it with num_ctas=1"
            )
        if arguments is None:
            names = getattr(getattr(compiled.src, "fn", None), "arg_names", None)
            signature = compiled.src.signature
            arguments = [
                (k if isinstance(k, str) or names is None else names[k], v)
                for k, v in signature.items()
            ]
        return KernelImage(
            name=meta.name,
            cubin=bytes(compiled.asm["cubin"]),
            arguments=tuple((str(name), str(kind)) for name, kind in arguments),
            num_warps=int(meta.num_warps),
            shared_bytes=int(meta.shared),
            descriptors=_read_layouts(getattr(meta, "tensordesc_meta", None)),
            global_scratch_bytes=int(getattr(meta, "global_scratch_size", 0) or 0),
            global_scratch_align=int(getattr(meta, "global_scratch_align", 1) or 1),
            profile_scratch_bytes=int(getattr(meta, "profile_scratch_size", 0) or 0),
        )

    @staticmethod
    def without_code(
        name: str, metadata: Mapping[str, Any], arguments: Sequence[tuple[str, str]]
    ) -> KernelImage:
        """Takes what there is to know of a launch before there is machine code; shared memory is not.

        Args:
            name: Name of the kernel.
            metadata: What Triton has gathered up to TritonGPU IR.
            arguments: (name, type) of every argument.
        """
        return KernelImage(
            name=name,
            cubin=b"",
            arguments=tuple(arguments),
            num_warps=int(metadata["num_warps"]),
            shared_bytes=0,
            descriptors=_read_layouts(metadata.get("tensordesc_meta")),
        )


def _read_layouts(described: Iterable[Mapping[str, Any]] | None) -> tuple[DescriptorLayout, ...]:
    """From Triton's `tensordesc_meta`."""
    return tuple(
        DescriptorLayout(
            int(m["swizzle"]),
            int(m["elem_size"]),
            int(m["elem_type"]),
            tuple(int(b) for b in m["block_size"]),
            bool(m.get("fp4_padded", False)),
        )
        for m in described or ()
    )


@runtime_checkable
class Program(Protocol):
    """A compiled program, as the runtime sees it. All members may be properties."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def buffers(self) -> Sequence[BufferSpec]:
        """The plan's buffers; tables name a buffer by its index here."""

    @property
    def params(self) -> Sequence[Param]:
        """The kernel's parameters that are not constexpr, without the context. Matched to `image.arguments` by name."""

    @property
    def image(self) -> KernelImage:
        """The fused kernel; `KernelImage.from_triton` makes it."""

    @property
    def guard(self) -> KernelImage | None:
        """The kernel that holds a stream until peers have got the last input; None if no rank gets from another."""

    @property
    def remap(self) -> KernelImage | None:
        """The kernel that brings outputs from slots into rows; None if no output is in slots."""

    @property
    def grid(self) -> tuple[int, int, int]:
        """Grid of the launch."""

    @property
    def num_ctas(self) -> int:
        """CTAs over which the tiles are distributed."""

    @property
    def comm_ctas(self) -> int:
        """CTAs in front of those, which dedicated realizations have."""

    @property
    def localized(self) -> str | None:
        """The buffer whose input a rank's tiles and commands read where the caller keeps it, if there is one."""

    @property
    def signal_layout(self) -> SignalLayout:
        """Numbering of the flags."""

    @property
    def timeout_ns(self) -> int:
        """Limit of a device wait; 0 waits for ever."""

    @property
    def profiled(self) -> bool:
        """Whether the kernel leaves records of what it does when."""

    def rank_tables(self, rank: int) -> Mapping[str, Table]:
        """The tables of one rank: tiles, waits, commands, signals, calls, groups, tile_groups, slots."""


@dataclass(frozen=True)
class ProgramData:
    """A `Program` that holds its members: for tests, and for programs reloaded from a cache."""

    name: str
    world_size: int
    buffers: tuple[BufferSpec, ...]
    params: tuple[Param, ...]
    image: KernelImage
    grid: tuple[int, int, int]
    num_ctas: int
    signal_layout: SignalLayout
    tables: tuple[Mapping[str, Table], ...] = field(repr=False)
    timeout_ns: int = DEFAULT_TIMEOUT_NS
    localized: str | None = None
    guard: KernelImage | None = None
    remap: KernelImage | None = None
    comm_ctas: int = 0
    profiled: bool = False

    def rank_tables(self, rank: int) -> Mapping[str, Table]:
        """The tables of one rank."""
        return self.tables[rank]
