"""The device library as IR: every function compiled by the installed Triton and exported in generic form."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import abi
from syncopate.abi import Realization
from syncopate.bridge import KernelSpec, cache_folder, capture_ttgir, write_whole
from syncopate.device import entry
from syncopate.device.copy import COPY_WARPS
from syncopate.dtypes import DTYPES
from syncopate.runtime.commands import UNITS

__all__ = ["COMMUNICATION_REGISTERS", "TMA_ADDED", "RowStores", "library", "source_hash"]

COMMUNICATION_REGISTERS: Final = 40
"""Registers per thread of a co-located role that copies: what is left beside eight computing warps with 232 each."""

REDUCTION_REGISTERS: Final = 64
"""The same for a role on loads and stores that reduces; computing warps then have 224."""

TMA_ADDED: Final = ("f32", "bf16", "f16", "i32")
"""Element types, as MLIR spells them, that TMA can add."""


@dataclass(frozen=True)
class RowStores:
    """The stores of a kernel some of whose tiles are stored row by row.

    Attributes:
        rows: Rows of the blocks that it stores.
        columns: Columns of them.
        dtype: Type of their elements, as MLIR spells it.
        tile_rows: Rows of a tile for which there are slots; further ones are stored nowhere.
    """

    rows: int
    columns: int
    dtype: str
    tile_rows: int


def library(
    target: GPUTarget,
    num_warps: int,
    unit: int,
    *,
    roles: Collection[Realization],
    remote_loads: bool,
    reduced: str | None = None,
    ring: Realization | None = None,
    unordered: bool = False,
    counted: bool = False,
    row_stores: RowStores | None = None,
    profile: bool = False,
) -> Mapping[str, str]:
    """Returns the generic-form TTGIR module of every device function, by name.

    The names are ``read_tile``, ``tile_steps``, ``read_step``, ``input_rows``, ``wait_signals``, ``tile_sum``,
    ``tile_slot``, ``finish_tile``,
    ``open_call``, ``close_call``, ``roles``, the outline of a kernel with the given roles, and ``run_commands_R`` for
    each realization R of them; on targets with TMA also ``finish_bulk_tile``, and ``store_rows`` if rows of tiles are
    stored one by one. Each module holds one function, a single block that ends in a return and calls nothing. The
    result is kept in memory and on disk.

    Args:
        target: GPU to compile for.
        num_warps: Warps of the local kernel.
        unit: One of ``UNITS``: divides the addresses, strides and row sizes of all commands.
        roles: Device realizations of the commands.
        remote_loads: Whether some command loads from another rank. That takes many loads in flight; stores of
            co-located roles to another rank are better issued in small blocks, which the link can take as they come.
        reduced: Element type, as MLIR spells it, of what commands reduce, if any does.
        ring: Of the co-located roles the one that tiles hand commands over to, if they do.
        unordered: Whether some of them add to what others may be adding to at the same time.
        counted: Whether rows of commands, or what tiles need, are read at run time.
        row_stores: What is stored row by row, if anything is.
        profile: Whether roles leave records of what they do.

    Raises:
        ValueError: ``unit`` is none of ``UNITS``.
    """
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {UNITS} bytes, but got {unit}")
    return _library(
        _Key(
            target,
            num_warps,
            unit,
            frozenset(roles),
            remote_loads,
            reduced,
            ring,
            unordered,
            counted,
            row_stores,
            profile,
        )
    )


@dataclass(frozen=True)
class _Key:
    """What a library depends on; see `library`."""

    target: GPUTarget
    num_warps: int
    unit: int
    roles: frozenset[Realization]
    remote_loads: bool
    reduced: str | None
    ring: Realization | None = None
    unordered: bool = False
    counted: bool = False
    row_stores: RowStores | None = None
    profile: bool = False


@functools.cache
def source_hash() -> str:
    """What the library is made of: its sources, and where they are."""
    # Locations in the IR name these files, so where they are is part of what they are.
    digest = hashlib.sha256(str(Path(__file__).parent).encode())
    for path in (Path(abi.__file__), *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _library(key: _Key) -> Mapping[str, str]:
    roles = sorted(role.spelling for role in key.roles)
    text = (
        f"{triton.__version__}-{key.target}-{key.num_warps}-{key.unit}-{roles}-{key.remote_loads}-{key.reduced}-"
        f"{key.ring}-{key.unordered}-{key.counted}-{key.row_stores}-{key.profile}-{source_hash()}"
    )
    path = cache_folder("device") / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
    if path.exists():
        # A file that a crash has damaged is written again.
        with contextlib.suppress(json.JSONDecodeError):
            modules: dict[str, str] = json.loads(path.read_text())
            return modules
    modules = {name: capture_ttgir(spec).ttgir for name, spec in _specs(key).items()}
    write_whole(path, json.dumps(modules))
    return modules


def _specs(key: _Key) -> dict[str, KernelSpec]:
    hopper = int(key.target.arch) >= 90
    ring = key.ring is not None
    specs = {
        "read_tile": _spec(
            key, entry.read_tile_entry, "t", COUNTED=key.counted, PROFILE=key.profile
        ),
        "tile_steps": _spec(key, entry.tile_steps_entry, "t", "own_begin", "own_end"),
        "read_step": _spec(key, entry.read_step_entry, "row"),
        "wait_signals": _spec(
            key, entry.wait_signals_entry, "begin", "end", TMA_READS=hopper, PROFILE=key.profile
        ),
        "input_rows": _spec(key, entry.input_rows_entry),
        "tile_number": _spec(key, entry.tile_number_entry, "t"),
        "tile_sum": _spec(key, entry.tile_sum_entry, "tile"),
        "tile_slot": _spec(key, entry.tile_slot_entry, "tile"),
        "open_call": _spec(key, entry.open_call),
        "close_call": _spec(key, entry.close_call, PROFILE=key.profile),
        "finish_tile": _spec(
            key, entry.finish_tile, "tile", TMA_STORES=False, RING=ring, PROFILE=key.profile
        ),
        **{f"run_commands_{role.spelling}": _commands_spec(key, role) for role in key.roles},
        "roles": _spec(
            key,
            entry.roles,
            "input",
            **{role.name: role in key.roles for role in Realization if role.is_device},
            TMA_RING=key.ring is Realization.TMA_COLOCATED,
            LDST_RING=key.ring is Realization.LDST_COLOCATED,
            WARPS=COPY_WARPS.value,
            REGISTERS=COMMUNICATION_REGISTERS if key.reduced is None else REDUCTION_REGISTERS,
            PROFILE=key.profile,
        ),
    }
    if key.row_stores is not None:
        block_rows, columns, dtype, tile_rows = astuple(key.row_stores)
        specs["store_rows"] = _spec(
            key,
            entry.store_rows,
            "rows",
            "row",
            "column",
            ROWS=block_rows,
            COLUMNS=columns,
            ELEMENT=_element(dtype),
            TILE_ROWS=tile_rows,
            RUN=16 // DTYPES[dtype].nbytes,
            WARPS=key.num_warps,
        )
    if hopper:
        specs["finish_bulk_tile"] = _spec(
            key, entry.finish_tile, "tile", TMA_STORES=True, RING=ring, PROFILE=key.profile
        )
    return specs


def _element(dtype: str) -> Any:
    """Triton's type of an element, which it calls int32 here, and i32 in signatures."""
    known = DTYPES[dtype]
    return tl.dtype(known.torch if dtype.startswith("i") else known.triton)


def _commands_spec(key: _Key, role: Realization) -> KernelSpec:
    """How the commands of a role are carried out."""
    if role.is_tma:
        return _tma_spec(key, role)
    if role.is_dedicated:
        # All registers are the role's, and nothing else keeps the memory busy.
        warps, copied, reduced = key.num_warps, 16 if key.unit == 16 else 8, 4
    else:
        # Four loads of 16 bytes per thread are what 40 registers hold; two of either operand, and their elements in
        # float32, are what 64 hold.
        warps, copied, reduced = COPY_WARPS.value, 4 if key.unit == 16 else 8, 2
        if not key.remote_loads:
            copied = 1
    return _spec(
        key,
        entry.run_commands_ldst,
        "input",
        warps=warps,
        ROLE=int(role),
        UNIT=key.unit,
        UNITS_PER_BLOCK=32 * warps * copied,
        UNITS_PER_REDUCED_BLOCK=32 * warps * reduced,
        REDUCED=None if key.reduced is None else _element(key.reduced),
        RING=role is key.ring,
        UNORDERED=key.unordered,
        COUNTED=key.counted,
        PAIRS=not role.is_dedicated,
        PROFILE=key.profile,
    )


def _tma_spec(key: _Key, role: Realization) -> KernelSpec:
    if role.is_dedicated:
        # Few CTAs need much in flight each, and large blocks, since a block costs some barriers. Their ring lies where
        # other CTAs have the shared memory of the computation.
        warps, (slots, rows) = key.num_warps, (5, 16) if int(key.target.arch) == 120 else (6, 32)
    else:
        # Beside a GEMM with tiles of 128 by 256 and three stages 19 KB are left.
        warps, slots, rows = COPY_WARPS.value, 2, 8
    return _spec(
        key,
        entry.run_commands_tma,
        "input",
        warps=warps,
        ROLE=int(role),
        SLOTS=slots,
        ROWS=rows,
        # What comes from far takes long to load; what goes there, to store.
        LAG=slots // 4 if key.remote_loads else slots // 2,
        REDUCED=_element(key.reduced) if key.reduced in TMA_ADDED else None,
        RING=role is key.ring,
        COUNTED=key.counted,
        PROFILE=key.profile,
    )


def _spec(
    key: _Key,
    kernel: JITFunction[Any],
    *arguments: str,
    warps: int | None = None,
    **constexprs: Any,
) -> KernelSpec:
    signature = {
        "ctx": "*i64",
        **{name: "*i64" if name == "input" else "i32" for name in arguments},
        **dict.fromkeys(constexprs, "constexpr"),
    }
    options = {"num_warps": key.num_warps if warps is None else warps, "num_stages": 1}
    return KernelSpec(
        kernel, signature, constexprs, {(0,): [["tt.divisibility", 16]]}, key.target, options
    )
