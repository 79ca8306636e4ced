"""The links between the GPUs of this machine, as NVIDIA's driver knows them.

NVML is asked through its C interface, which comes with the driver, so nothing else has to be installed. Rates are those
of the links by data sheet, not measured: `python -m syncopate.model.measure` measures what programs reach.
"""

from __future__ import annotations

import ctypes
import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncopate.errors import SyncopateError
from syncopate.model.fabric import Fabric, Wire

__all__ = ["Gpu", "GpuLink", "build_fabric", "detect_fabric"]

NVLINK_US: Final = 2.0
"""Microseconds of a store and its flag over NVLink, about."""
PCIE_US: Final = 4.0
"""The same over PCIe."""
SOCKET_US: Final = 1.0
"""What another socket adds."""

_NVLINK_GBPS: Final = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 25.0, 6: 25.0, 7: 50.0}
"""By NVML's number of the version, GB/s of one link in one direction: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0."""
_PCIE_LANE_GBPS: Final = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""By generation, GB/s of one lane in one direction."""
_MOST_NVLINKS: Final = 18


class Remote(enum.Enum):
    """What is at the other end of a link."""

    GPU = 0
    SWITCH = 2


@dataclass(frozen=True)
class GpuLink:
    """A link of NVLink.

    Attributes:
        version: NVML's number of its version.
        remote: What is at its other end.
        bus: PCI bus of that.
    """

    version: int
    remote: Remote
    bus: str


@dataclass(frozen=True)
class Gpu:
    """What the driver says of a GPU.

    Attributes:
        bus: Its PCI bus.
        pcie_generation: Of its link, at most.
        pcie_lanes: Of its link, at most.
        links: Those of NVLink that are up.
        socket: Number of the socket that it is at.
    """

    bus: str
    pcie_generation: int
    pcie_lanes: int
    links: tuple[GpuLink, ...]
    socket: int = 0


def detect_fabric(devices: Sequence[int] | None = None) -> Fabric:
    """The links between GPUs of this machine; rank r is the r-th of them.

    Args:
        devices: Numbers of GPUs, as NVML counts them; all by default.

    Raises:
        SyncopateError: There is no driver, or fewer than two GPUs.
    """
    gpus = _Nvml().read()
    chosen = range(len(gpus)) if devices is None else devices
    for device in chosen:
        if not 0 <= device < len(gpus):
            raise SyncopateError(f"devices: expects numbers in [0, {len(gpus)}), but got {device}")
    return build_fabric([gpus[device] for device in chosen])


def build_fabric(gpus: Sequence[Gpu], name: str = "this machine") -> Fabric:
    """The links between some GPUs: NVLink where all are connected by it, in pairs or by switches, else PCIe.

    Raises:
        SyncopateError: There are fewer than two GPUs.
    """
    if len(gpus) < 2:
        raise SyncopateError(f"fabric: expects two or more GPUs, but this machine has {len(gpus)}")
    numbers = {gpu.bus: rank for rank, gpu in enumerate(gpus)}
    direct: Counter[tuple[int, int]] = Counter()
    rates: dict[tuple[int, int], float] = {}
    upward = [0.0] * len(gpus)
    for rank, gpu in enumerate(gpus):
        for link in gpu.links:
            rate = _NVLINK_GBPS.get(link.version, max(_NVLINK_GBPS.values()))
            if link.remote is Remote.SWITCH:
                upward[rank] += rate
            elif link.bus in numbers:
                direct[rank, numbers[link.bus]] += 1
                rates[rank, numbers[link.bus]] = rate
    wires: list[Wire] = []
    if all(upward):
        for rank, rate in enumerate(upward):
            wires.append(Wire(f"rank {rank}", "NVSwitch", rate, NVLINK_US / 2))
            wires.append(Wire("NVSwitch", f"rank {rank}", rate, NVLINK_US / 2))
    elif _is_connected(len(gpus), set(direct)):
        for (src, dst), count in sorted(direct.items()):
            wires.append(Wire(f"rank {src}", f"rank {dst}", count * rates[src, dst], NVLINK_US))
    else:
        wires = list(_build_pcie(gpus))
    return Fabric(name, len(gpus), tuple(wires))


def _build_pcie(gpus: Sequence[Gpu]) -> list[Wire]:
    wires = []
    slowest = float("inf")
    for rank, gpu in enumerate(gpus):
        lane = _PCIE_LANE_GBPS.get(gpu.pcie_generation, max(_PCIE_LANE_GBPS.values()))
        rate = lane * gpu.pcie_lanes
        slowest = min(slowest, rate)
        bridge = f"socket {gpu.socket}"
        wires.append(Wire(f"rank {rank}", bridge, rate, PCIE_US / 2))
        wires.append(Wire(bridge, f"rank {rank}", rate, PCIE_US / 2))
    sockets = sorted({gpu.socket for gpu in gpus})
    # No driver says what the link between sockets takes; as much as that of one GPU is assumed.
    wires += [
        Wire(f"socket {src}", f"socket {dst}", slowest, SOCKET_US)
        for src in sockets
        for dst in sockets
        if src != dst
    ]
    return wires


def _is_connected(ranks: int, pairs: set[tuple[int, int]]) -> bool:
    left, reached = [0], {0}
    while left:
        rank = left.pop()
        for other in range(ranks):
            if other not in reached and {(rank, other), (other, rank)} <= pairs:
                reached.add(other)
                left.append(other)
    return len(reached) == ranks


class _PciInfo(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class _Nvml:
    """NVML's functions, as far as they are asked here."""

    def __init__(self) -> None:
        try:
            self._library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            raise SyncopateError(
                "fabric: found no NVIDIA driver on this machine (libnvidia-ml.so.1), so there is nothing to detect; "
                "name a preset with --ranks, or a JSON file of links (docs/synthesis.md)"
            ) from None

    def read(self) -> list[Gpu]:
        """What it says of all GPUs."""
        if code := self._library.nvmlInit_v2():
            raise SyncopateError(
                f"fabric: NVIDIA's driver does not answer: nvmlInit_v2 gives {code}"
            )
        try:
            count = ctypes.c_uint()
            self._check("nvmlDeviceGetCount_v2", ctypes.byref(count))
            return [self._read_gpu(number) for number in range(count.value)]
        finally:
            self._library.nvmlShutdown()

    def _check(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise SyncopateError(f"fabric: NVIDIA's driver does not answer: {name} gives {code}")

    def _ask(self, name: str, device: Any, *before: Any, default: int = 0) -> int:
        """A number that some drivers and GPUs do not know."""
        value = ctypes.c_uint()
        function = getattr(self._library, name, None)
        if function is None or function(device, *before, ctypes.byref(value)):
            return default
        return value.value

    def _read_gpu(self, number: int) -> Gpu:
        device = ctypes.c_void_p()
        self._check("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(device))
        info = _PciInfo()
        self._check("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(info))
        links = [self._read_link(device, link) for link in range(_MOST_NVLINKS)]
        nodes = (ctypes.c_ulong * 1)()
        affinity = getattr(self._library, "nvmlDeviceGetMemoryAffinity", None)
        socket = 0
        # 0 asks for the NUMA nodes nearest to the GPU.
        if affinity is not None and not affinity(device, 1, nodes, 0) and nodes[0]:
            socket = (nodes[0] & -nodes[0]).bit_length() - 1
        return Gpu(
            _name_bus(info),
            self._ask("nvmlDeviceGetMaxPcieLinkGeneration", device, default=3),
            self._ask("nvmlDeviceGetMaxPcieLinkWidth", device, default=16),
            tuple(link for link in links if link is not None),
            socket,
        )

    def _read_link(self, device: Any, link: int) -> GpuLink | None:
        """A link of NVLink that is up."""
        number = ctypes.c_uint(link)
        if self._ask("nvmlDeviceGetNvLinkState", device, number) != 1:
            return None
        remote = self._ask("nvmlDeviceGetNvLinkRemoteDeviceType", device, number)
        info = _PciInfo()
        code = self._library.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, number, ctypes.byref(info))
        kinds = {kind.value: kind for kind in Remote}
        if code or remote not in kinds:
            return None
        version = self._ask("nvmlDeviceGetNvLinkVersion", device, number)
        return GpuLink(version, kinds[remote], _name_bus(info))


def _name_bus(info: _PciInfo) -> str:
    return f"{info.domain:08x}:{info.bus:02x}:{info.device:02x}"
