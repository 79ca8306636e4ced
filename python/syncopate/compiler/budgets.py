"""Checks what a fused kernel needs against what the target has, before anything is launched.

Triton checks shared memory only when a kernel is loaded onto a device, and registers not at all: a kernel that does not
fit spills to local memory. Both numbers are in the machine code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from syncopate.compiler.target import Target
from syncopate.errors import BudgetError, InternalError
from syncopate.runtime.interface import KernelImage

__all__ = ["Resources", "check_budgets", "read_resources"]

# Attributes of a cubin's .nv.info section.
_FORMAT_SVAL = 4
_FRAME_SIZE = 0x11
_REGCOUNT = 0x2F

SPILL_LIMIT = 128
"""Bytes of stack per thread that are accepted; accumulators that do not fit spill far more."""


@dataclass(frozen=True)
class Resources:
    """What a kernel uses.

    Attributes:
        registers: Registers per thread at its launch.
        stack_bytes: Bytes of stack per thread, the spilled registers among them.
    """

    registers: int
    stack_bytes: int


def read_resources(cubin: bytes) -> Resources:
    """Reads the resources of a kernel from an ELF file with one kernel.

    Raises:
        InternalError: It is no such file.
    """
    values = {_FRAME_SIZE: 0, _REGCOUNT: 0}
    info = _section(cubin, b".nv.info")
    at = 0
    while at + 4 <= len(info):
        kind, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind != _FORMAT_SVAL:
            continue  # the value is in the header
        if attribute in values and size == 8:
            values[attribute] = max(values[attribute], struct.unpack_from("<II", info, at)[1])
        at += size
    return Resources(values[_REGCOUNT], values[_FRAME_SIZE])


def _section(elf: bytes, name: bytes) -> bytes:
    if elf[:4] != b"\x7fELF" or elf[4] != 2:
        raise InternalError("a cubin is no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names = struct.unpack_from("<HHH", elf, 0x3A)

    def header(index: int) -> tuple[int, int, int]:
        word, _, _, _, offset, size = struct.unpack_from("<IIQQQQ", elf, table + index * entry)
        return word, offset, size

    _, strings, _ = header(names)
    for index in range(count):
        word, offset, size = header(index)
        begin = strings + word
        if elf[begin : elf.index(b"\0", begin)] == name:
            return elf[offset : offset + size]
    raise InternalError(f"a cubin has no section {name.decode()}")


def check_budgets(
    image: KernelImage,
    target: Target,
    *,
    stages: int | None = None,
    ctas: int = 1,
    comm_ctas: int = 0,
) -> None:
    """Checks a fused kernel.

    Args:
        image: The kernel.
        target: Where it is to run.
        stages: Pipeline stages that it was compiled with, for the message.
        ctas: CTAs of a launch that compute. All CTAs have to be resident at once: each carries out its part of
            transfers, so one that waits would keep another, whose part it waits for, off the machine.
        comm_ctas: CTAs of a launch in front of them.

    Raises:
        BudgetError: It does not fit; the message says what to shrink.
    """
    if image.shared_bytes > target.shared_bytes:
        over = image.shared_bytes - target.shared_bytes
        having = "" if stages is None else f", of which it has {stages}"
        raise BudgetError(
            f"kernel {image.name} needs {image.shared_bytes} bytes of shared memory, {over} more than a CTA of "
            f"{target} can have; use fewer pipeline stages (num_stages{having}) or smaller blocks"
        )
    resources = read_resources(image.cubin)
    threads = 32 * image.num_warps
    needed = resources.registers * threads
    if needed > target.registers:
        raise BudgetError(
            f"kernel {image.name} needs {needed} registers for {threads} threads, but {target} has {target.registers}; "
            f"use smaller blocks or fewer warps"
        )
    if resources.stack_bytes > SPILL_LIMIT:
        raise BudgetError(
            f"kernel {image.name} does not fit into registers: each of its {threads} threads spills to a stack of "
            f"{resources.stack_bytes} bytes; use smaller blocks, or more warps (num_warps) for the same block"
        )
    resident = target.num_sms * _ctas_per_sm(image, target, needed)
    if comm_ctas + ctas > resident:
        whose, use = "", "at most so many (ctas)"
        if comm_ctas:
            whose = f", {comm_ctas} of them (comm_ctas) for communication alone"
            use = f"at most {resident - comm_ctas} that compute (ctas), fewer for communication"
        raise BudgetError(
            f"kernel {image.name} is launched with {comm_ctas + ctas} CTAs that wait for each other{whose}, but "
            f"{target} has room for {resident} at once; use {use}, or smaller blocks"
        )


def _ctas_per_sm(image: KernelImage, target: Target, registers: int) -> int:
    """How many CTAs a streaming multiprocessor has room for; never fewer than the driver finds."""
    threads = 32 * image.num_warps
    return max(
        1,
        min(
            target.threads // threads,
            target.registers // max(registers, 1),
            target.sm_shared_bytes // max(image.shared_bytes, 1),
        ),
    )
