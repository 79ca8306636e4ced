"""Targets: what is compiled for, and what it has to offer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from syncopate.errors import SyncopateError, require_torch

__all__ = ["Target"]

# Shared memory that one CTA may use, in bytes: CUDA C++ Programming Guide, table of compute capabilities.
_SHARED_BYTES = {
    80: 166912,
    86: 101376,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
    120: 101376,
}
# What the system keeps of a multiprocessor's shared memory for a CTA.
_RESERVED_BYTES = 1024
_REGISTERS = 65536
_THREADS = {80: 2048, 86: 1536, 89: 1536, 90: 2048, 100: 2048, 103: 2048, 120: 1536}


@dataclass(frozen=True)
class Target:
    """An NVIDIA GPU to compile for. Compiling needs no GPU.

    Attributes:
        capability: Compute capability, times ten: 90 for Hopper.
        num_sms: Streaming multiprocessors; 132 on H100 and H200 SXM.
    """

    capability: int = 90
    num_sms: int = 132

    def __post_init__(self) -> None:
        for name in ("capability", "num_sms"):
            if type(value := getattr(self, name)) is not int:
                raise SyncopateError(f"{name}: expects an integer, but got {value!r}")
        if self.capability not in _SHARED_BYTES:
            known = ", ".join(f"sm_{capability}" for capability in _SHARED_BYTES)
            raise SyncopateError(f"target: expects one of {known}, but got sm_{self.capability}")
        if self.num_sms < 1:
            raise SyncopateError(f"num_sms: expects a positive number, but got {self.num_sms}")

    @staticmethod
    def parse(target: Target | str) -> Target:
        """Takes a target, or a name such as "sm_90"; a name says nothing of the number of multiprocessors.

        Raises:
            SyncopateError: The name is none of a target.
        """
        if isinstance(target, Target):
            return target
        match = re.fullmatch(r"sm_(\d{1,4})a?", target) if isinstance(target, str) else None
        if match is None:
            raise SyncopateError(f"target: expects a name such as sm_90, but got {target!r}")
        return Target(int(match[1]))

    @staticmethod
    def current() -> Target:
        """The current CUDA device.

        Raises:
            SyncopateError: torch sees none.
        """
        require_torch("finding the GPU at hand")
        import torch

        if not torch.cuda.is_available():
            raise SyncopateError("torch sees no CUDA device; name a target, such as sm_90")
        properties = torch.cuda.get_device_properties()
        return Target(properties.major * 10 + properties.minor, properties.multi_processor_count)

    @property
    def shared_bytes(self) -> int:
        """Shared memory that one CTA may use."""
        return _SHARED_BYTES[self.capability]

    @property
    def sm_shared_bytes(self) -> int:
        """Shared memory of a streaming multiprocessor, for all of its CTAs."""
        return self.shared_bytes + _RESERVED_BYTES

    @property
    def threads(self) -> int:
        """Threads that a streaming multiprocessor has room for."""
        return _THREADS[self.capability]

    @property
    def registers(self) -> int:
        """32-bit registers of a streaming multiprocessor."""
        return _REGISTERS

    def __str__(self) -> str:
        return f"sm_{self.capability}"
