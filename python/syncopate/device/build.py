"""The device library as IR: every function compiled by the installed Triton and exported in generic form."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from syncopate import abi
from syncopate.bridge import KernelSpec, cache_folder, capture_ttgir, write_whole
from syncopate.device import entry
from syncopate.device.copy import COPY_WARPS
from syncopate.dtypes import DTYPES
from syncopate.runtime.commands import UNITS

__all__ = ["COMMUNICATION_REGISTERS", "TMA_ADDED", "library"]

COMMUNICATION_REGISTERS: Final = 40
"""Registers per thread of a co-located role that copies: what is left beside eight computing warps with 232 each."""

REDUCTION_REGISTERS: Final = 64
"""The same for a role that reduces; computing warps then have 224."""


TMA_ADDED: Final = ("f32", "bf16", "f16", "i32")
"""Element types, as MLIR spells them, that TMA can add."""


def library(
    target: GPUTarget,
    num_warps: int,
    unit: int,
    *,
    remote_loads: bool,
    reduced: str | None = None,
) -> Mapping[str, str]:
    """Returns the generic-form TTGIR module of every device function, by name.

    The names are ``read_tile``, ``input_rows``, ``wait_signals``, ``finish_tile``, ``open_call``, ``close_call``, ``run_commands_ldst``,
    ``roles_plain`` and ``roles_colocated``. Each module holds one function, a single block that ends in a return and
    calls nothing. The result is kept in memory and on disk.

    Args:
        target: GPU to compile for.
        num_warps: Warps of the local kernel.
        unit: One of ``UNITS``: divides the addresses, strides and row sizes of all commands.
        remote_loads: Whether some command loads from another rank. That takes many loads in flight; stores to another
            rank are better issued in small blocks, which the link can take as they come.
        reduced: Element type, as MLIR spells it, of what commands reduce, if any does.

    Raises:
        ValueError: ``unit`` is none of ``UNITS``.
    """
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {UNITS} bytes, but got {unit}")
    return _library(target, num_warps, unit, remote_loads, reduced)


@functools.cache
def _source_hash() -> str:
    # Locations in the IR name these files, so where they are is part of what they are.
    digest = hashlib.sha256(str(Path(__file__).parent).encode())
    for path in (Path(abi.__file__), *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _library(
    target: GPUTarget, num_warps: int, unit: int, remote_loads: bool, reduced: str | None
) -> Mapping[str, str]:
    key = f"{triton.__version__}-{target}-{num_warps}-{unit}-{remote_loads}-{reduced}-{_source_hash()}"
    path = cache_folder("device") / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if path.exists():
        # A file that a crash has damaged is written again.
        with contextlib.suppress(json.JSONDecodeError):
            modules: dict[str, str] = json.loads(path.read_text())
            return modules
    modules = {
        name: capture_ttgir(spec).ttgir
        for name, spec in _specs(target, num_warps, unit, remote_loads, reduced).items()
    }
    write_whole(path, json.dumps(modules))
    return modules


def _rings(target: GPUTarget) -> dict[str, tuple[int, int, int]]:
    """Slots of the ring of each role on TMA, rows of 1024 bytes of a slot, and warps of the role, 0 for all.

    Beside a GEMM with tiles of 128 by 256 and three stages 19 KB of shared memory are left. CTAs of their own are few,
    so each needs much in flight, and large blocks, since a block costs some barriers; their ring lies where other CTAs
    have the memory of the computation.
    """
    dedicated = (5, 16) if int(target.arch) == 120 else (6, 32)
    return {
        "run_commands_tma_colocated": (2, 8, COPY_WARPS.value),
        "run_commands_tma_dedicated": (*dedicated, 0),
    }


def _specs(
    target: GPUTarget, num_warps: int, unit: int, remote_loads: bool, reduced: str | None
) -> dict[str, KernelSpec]:
    def spec(
        kernel: JITFunction[Any], *arguments: str, warps: int = num_warps, **constexprs: Any
    ) -> KernelSpec:
        signature = {
            "ctx": "*i64",
            **{name: "*i64" if name == "input" else "i32" for name in arguments},
            **dict.fromkeys(constexprs, "constexpr"),
        }
        options = {"num_warps": warps, "num_stages": 1}
        return KernelSpec(
            kernel, signature, constexprs, {(0,): [["tt.divisibility", 16]]}, target, options
        )

    copy_warps = COPY_WARPS.value
    # Four loads of 16 bytes per thread are what 40 registers hold.
    in_flight = 4 if unit == 16 else 8
    units_per_block = 32 * copy_warps * (in_flight if remote_loads else 1)
    tma_roles = {}
    if int(target.arch) >= 90:
        added = tl.dtype(DTYPES[reduced].triton) if reduced in TMA_ADDED else None
        for name, ring in _rings(target).items():
            slots, rows, warps = ring
            tma_roles[name] = spec(
                entry.run_commands_tma,
                "input",
                warps=warps or num_warps,
                SLOTS=slots,
                ROWS=rows,
                # What comes from far takes long to load; what goes there, to store.
                LAG=slots // 4 if remote_loads else slots // 2,
                REDUCED=added,
            )
    return {
        "read_tile": spec(entry.read_tile_entry, "t"),
        "wait_signals": spec(
            entry.wait_signals_entry, "begin", "end", TMA_READS=int(target.arch) >= 90
        ),
        "input_rows": spec(entry.input_rows_entry),
        "finish_tile": spec(entry.finish_tile, "tile", TMA_STORES=int(target.arch) >= 90),
        "open_call": spec(entry.open_call),
        "close_call": spec(entry.close_call),
        "run_commands_ldst": spec(
            entry.run_commands_ldst,
            "input",
            warps=copy_warps,
            UNIT=unit,
            UNITS_PER_BLOCK=units_per_block,
            REDUCED=None if reduced is None else tl.dtype(DTYPES[reduced].triton),
        ),
        **tma_roles,
        "roles_plain": spec(entry.roles_plain, "input"),
        "roles_colocated": spec(
            entry.roles_colocated,
            "input",
            WARPS=copy_warps,
            REGISTERS=COMMUNICATION_REGISTERS if reduced is None else REDUCTION_REGISTERS,
        ),
    }
