# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

"""The kernel that brings a matrix from slots into rows, where no kernel that comes next reads the slots itself."""

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from syncopate.language.slots import slot_offsets
from syncopate.runtime.interface import REMAP_COLUMNS, REMAP_ROWS, KernelImage

__all__ = ["compile_remap", "remap"]


@triton.jit
def remap(
    src,
    slot_rows,
    dst,
    rows,
    columns,
    tiles_n,
    SLOT_N: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Copies a block of [ROWS, COLUMNS] of the matrix to dst[rows, columns]."""
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    c = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    mask = (r < rows) & (c < columns)
    values = tl.load(src + slot_offsets(slot_rows, r, c, tiles_n, mask, SLOT_N), mask=mask)
    tl.store(dst + r.to(tl.int64) * columns + c, values, mask=mask)


@functools.cache
def compile_remap(target: GPUTarget, nbytes: int, slot_columns: int, columns: int) -> KernelImage:
    """Compiles the kernel. Needs no GPU.

    Args:
        target: What to compile for.
        nbytes: Bytes of an element.
        slot_columns: Columns of a tile.
        columns: Columns of the matrix.
    """
    pointer = f"*i{8 * nbytes}"
    numbers = {"SLOT_N": slot_columns, "ROWS": REMAP_ROWS, "COLUMNS": REMAP_COLUMNS}
    signature = {
        "src": pointer,
        "slot_rows": "*i32",
        "dst": pointer,
        "rows": "i32",
        "columns": "i32",
        "tiles_n": "i32",
        **dict.fromkeys(numbers, "constexpr"),
    }
    aligned = ["src", "slot_rows", "dst", *(["columns"] if columns % 16 == 0 else [])]
    names = list(signature)
    attrs = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(
        fn=remap,
        signature=signature,
        constexprs=numbers,
        attrs=attrs,
    )
    compiled = triton.compile(source, target=target, options={"num_warps": 4})
    return KernelImage.from_triton(compiled, list(signature.items()))
