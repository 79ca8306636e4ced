"""The energy that a GPU has taken, by NVML, whose library comes with the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

__all__ = ["SOURCE", "EnergyCounter"]

SOURCE = "NVML's counter of a GPU's total energy"


class EnergyCounter:
    """A GPU's counter."""

    def __init__(self, uuid: str, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> None:
        """Finds the GPU.

        Args:
            uuid: The GPU's, as torch gives it.
            load: Loads the library.

        Raises:
            OSError: There is no NVML, or it fails.
        """
        self._library = load("libnvidia-ml.so.1")
        self._handle = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        self._call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(self._handle))
        self.joules()  # GPUs before Volta have no counter.

    def joules(self) -> float:
        """Joules since the driver was loaded; the counter is one of millijoules, and moves some times a second.

        Raises:
            OSError: NVML fails.
        """
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self._handle, ctypes.byref(millijoules))
        return millijoules.value / 1e3

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise OSError(f"{name} failed: NVML error {code}")
