"""The device library as IR: every function compiled by the installed Triton and exported in generic form."""

import functools
from collections.abc import Mapping

import triton.language as tl
from triton.backends.compiler import GPUTarget

from syncopate.bridge import KernelSpec, capture_ttgir
from syncopate.device import entry
from syncopate.device.copy import COPY_WARPS

__all__ = ["COMMUNICATION_REGISTERS", "library"]

COMMUNICATION_REGISTERS = 40
"""Registers per thread of a co-located communication role: what is left beside eight computing warps."""


def library(target: GPUTarget, num_warps: int, unit: int) -> Mapping[str, str]:
    """Returns the generic-form TTGIR module of every device function, by name.

    Args:
        target: GPU to compile for.
        num_warps: Warps of the local kernel.
        unit: Bytes per load and store of the communication role: 1, 2, 4, 8 or 16.
    """
    if unit not in (1, 2, 4, 8, 16):
        raise ValueError(f"unit must be 1, 2, 4, 8 or 16 bytes, but got {unit}")
    return _library(target, num_warps, unit)


@functools.cache
def _library(target: GPUTarget, num_warps: int, unit: int) -> Mapping[str, str]:
    tma = int(target.arch) >= 90
    copy = {"UNIT": unit, "UNITS_PER_BLOCK": 512 if unit == 16 else 1024}
    roles = {"WARPS": COPY_WARPS.value, "REGISTERS": COMMUNICATION_REGISTERS}
    specs = {
        "read_tile": _spec(entry.read_tile_entry, ("t",), {}, target, num_warps),
        "wait_signals": _spec(entry.wait_signals_entry, ("begin", "end"), {"TMA_READS": tma}, target, num_warps),
        "open_call": _spec(entry.open_call, (), {}, target, num_warps),
        "close_call": _spec(entry.close_call, (), {}, target, num_warps),
        "run_commands_ldst": _spec(entry.run_commands_ldst, (), copy, target, COPY_WARPS.value),
        "roles_plain": _spec(entry.roles_plain, (), {}, target, num_warps),
        "roles_colocated": _spec(entry.roles_colocated, (), roles, target, num_warps),
    }
    return {name: capture_ttgir(spec).ttgir for name, spec in specs.items()}


def _spec(kernel, scalars, constexprs, target, num_warps) -> KernelSpec:
    signature = {"ctx": "*i64", **dict.fromkeys(scalars, "i32"), **dict.fromkeys(constexprs, "constexpr")}
    return KernelSpec(
        kernel,
        signature,
        constexprs,
        {(0,): [["tt.divisibility", 16]]},
        target,
        {"num_warps": num_warps, "num_stages": 1},
    )
