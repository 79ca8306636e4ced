"""Launches a kernel image with arguments that are encoded once and kept.

Triton's own launcher encodes every TMA descriptor again at every call and parses all arguments. Here every argument has
a place in one block of host memory, in the order in which Triton passes them: the declared ones, a host descriptor
expanded to the tensor map, its shape as i32 and its strides as i64, and at the end the pointers to the global and the
profile scratch. A call changes only what differs from the last one.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from syncopate.abi import align
from syncopate.errors import InternalError, SyncopateError
from syncopate.runtime import cuda
from syncopate.runtime.interface import DescriptorLayout, KernelImage

TENSOR_MAP_BYTES = 128
_TENSOR_MAP_ALIGNMENT = 64
_L2_PROMOTION_128B = 2
_NAN_FILL = 1
# Triton numbers the element types of a descriptor as the device's instructions do; the driver's function swaps these
# three.
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}

_SCALARS = {
    "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d",
}  # fmt: skip


def descriptor_rank(kind: str) -> int:
    """Number of dimensions of a descriptor type such as `tensordesc<bf16[128, 64]>`."""
    return kind[kind.index("[") : kind.index("]")].count(",") + 1


class ArgumentBlock:
    """The arguments of one kernel in host memory, and the array of pointers that a launch takes."""

    def __init__(self, image: KernelImage) -> None:
        self._image = image
        self._places: dict[str, tuple[int, str]] = {}
        self._descriptors: dict[str, DescriptorLayout] = {}
        offsets: list[int] = []
        cursor = 0

        def place(nbytes: int, alignment: int) -> int:
            nonlocal cursor
            offset = align(cursor, alignment)
            cursor = offset + nbytes
            offsets.append(offset)
            return offset

        layouts = list(image.descriptors)
        for name, kind in image.arguments:
            if kind == "constexpr":
                continue
            if kind.startswith("tensordesc"):
                rank = descriptor_rank(kind)
                if not layouts:
                    raise SyncopateError(
                        f"kernel {image.name}: Triton passes descriptor {name} without TMA, in a form that depends on "
                        f"its version; compile for sm_90 or later, or load through pointers"
                    )
                self._descriptors[name] = layouts.pop(0)
                first = place(TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGNMENT)
                for size in [4] * rank + [8] * rank:
                    place(size, size)
                self._places[name] = (first, kind)
            else:
                code = "Q" if kind.startswith("*") else _scalar_code(name, kind)
                size = struct.calcsize(code)
                self._places[name] = (place(size, size), code)
        if layouts:
            raise InternalError(
                f"kernel {image.name} has {len(layouts)} descriptor layouts too many"
            )
        self._global_scratch, self._profile_scratch = place(8, 8), place(8, 8)
        self._memory = ctypes.create_string_buffer(cursor + _TENSOR_MAP_ALIGNMENT)
        self._base = align(ctypes.addressof(self._memory), _TENSOR_MAP_ALIGNMENT)
        self.pointers = (ctypes.c_void_p * len(offsets))(
            *(self._base + offset for offset in offsets)
        )
        ctypes.memset(self._base, 0, cursor)

    def set_scalar(self, name: str, value: int | float) -> None:
        """Sets a scalar, or the address of a pointer argument."""
        offset, code = self._places[name]
        packed = struct.pack(code, value)
        ctypes.memmove(self._base + offset, packed, len(packed))

    def descriptor_setter(
        self, name: str, padding: str
    ) -> Callable[[int, Sequence[int], Sequence[int]], bytes]:
        """A function that encodes a descriptor for `set_bytes`, from address, shape and strides in elements."""
        layout = self._descriptors[name]

        def encode(address: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
            if strides[-1] != 1:
                raise SyncopateError(
                    f"argument {name}: expects a last stride of 1 for TMA, but got {strides[-1]}; pass it contiguous"
                )
            data = bytearray(encode_tensor_map(name, layout, address, shape, strides, padding))
            for size, values in ((4, shape), (8, strides)):
                for value in values:
                    data.extend(bytes(align(len(data), size) - len(data)))
                    data.extend(int(value).to_bytes(size, "little", signed=True))
            return bytes(data)

        return encode

    def set_bytes(self, name: str, data: bytes) -> None:
        """Sets an argument to bytes encoded before."""
        ctypes.memmove(self._base + self._places[name][0], data, len(data))

    def set_scratch(self, global_scratch: int, profile_scratch: int) -> None:
        """Sets the two pointers that Triton adds to every kernel."""
        for offset, address in (
            (self._global_scratch, global_scratch),
            (self._profile_scratch, profile_scratch),
        ):
            ctypes.memmove(self._base + offset, struct.pack("Q", address), 8)


@dataclass
class _Code:
    """Machine code in a device's memory, and how many launchers use it."""

    module: int
    function: int
    users: int = 0


_code: dict[tuple[int, str, int, bytes], _Code] = {}


class KernelLauncher:
    """A kernel image loaded into the current device, with its argument block and a fixed grid.

    Launchers of the same code on one device share it.
    """

    def __init__(self, image: KernelImage, device: int, grid: tuple[int, int, int]) -> None:
        self.image = image
        self.arguments = ArgumentBlock(image)
        self._key = (device, image.name, image.shared_bytes, image.cubin)
        if self._key not in _code:
            loaded = cuda.load_function(image.cubin, image.name, image.shared_bytes, device)
            _code[self._key] = _Code(*loaded)
        code = _code[self._key]
        code.users += 1
        self._open = True
        self.ctas_per_sm = cuda.ctas_per_sm(code.function, 32 * image.num_warps, image.shared_bytes)
        self._launch = cuda.function("cuLaunchKernel")
        fixed = (code.function, *grid, 32 * image.num_warps, 1, 1, image.shared_bytes)
        kinds = cuda.SIGNATURES["cuLaunchKernel"]
        # Converted once, which saves each launch a microsecond.
        self._fixed = tuple(kind(value) for kind, value in zip(kinds, fixed, strict=False))

    def __call__(self, stream: int) -> None:
        """Launches on a raw stream handle with the arguments as they are."""
        code = self._launch(*self._fixed, stream, self.arguments.pointers, None)
        if code:
            cuda.check(code, f"the launch of kernel {self.image.name}")

    def close(self) -> None:
        """Unloads the code if nobody else uses it. The kernel must not be running."""
        if not self._open:
            return
        self._open = False
        code = _code[self._key]
        code.users -= 1
        if code.users == 0:
            del _code[self._key]
            cuda.call("cuModuleUnload", code.module)


def encode_tensor_map(
    name: str,
    layout: DescriptorLayout,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> bytes:
    """Encodes a tiled CUtensorMap (128 bytes).

    Args:
        name: The argument, for messages.
        layout: How the kernel expects it.
        address: Address of the first element.
        shape: Sizes in elements.
        strides: Strides in elements, the last being 1.
        padding: "zero" or "nan".

    Raises:
        SyncopateError: The address or a stride is not a multiple of 16 bytes.
    """
    rank = len(shape)
    sizes = list(shape)
    if layout.fp4_padded:
        sizes[-1] *= 2
    row_strides = [layout.elem_size * stride for stride in strides]
    if address % 16 or any(stride % 16 for stride in row_strides[:-1]):
        raise SyncopateError(
            f"argument {name}: TMA needs the address and the strides to be multiples of 16 bytes, but got address "
            f"{address:#x} and strides {row_strides} bytes; pad the rows, or compile a kernel with pointers"
        )
    last = sizes[0] * (row_strides[0] if rank > 1 else layout.elem_size)
    memory = ctypes.create_string_buffer(2 * TENSOR_MAP_BYTES)
    target = align(ctypes.addressof(memory), TENSOR_MAP_BYTES)
    code = cuda.function("cuTensorMapEncodeTiled")(
        target,
        _ELEMENT_TYPES.get(layout.elem_type, layout.elem_type),
        rank,
        address,
        (ctypes.c_uint64 * rank)(*reversed(sizes)),
        (ctypes.c_uint64 * rank)(*reversed(row_strides[:-1]), last),
        (ctypes.c_uint32 * rank)(*reversed(layout.block_size)),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        layout.swizzle,
        _L2_PROMOTION_128B,
        _NAN_FILL if padding == "nan" else 0,
    )
    what = f"shape {list(shape)}, strides {list(strides)}, box {list(layout.block_size)}"
    cuda.check(code, f"argument {name}: encoding a TMA descriptor of {what}")
    return ctypes.string_at(target, TENSOR_MAP_BYTES)


def _scalar_code(name: str, kind: str) -> str:
    if kind not in _SCALARS:
        raise SyncopateError(
            f"kernel argument {name}: a scalar of type {kind} cannot be passed; use one of {', '.join(_SCALARS)}"
        )
    return _SCALARS[kind]
