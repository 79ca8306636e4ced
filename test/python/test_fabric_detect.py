"""Links that NVIDIA's driver tells of, by a driver that is not there: nothing here needs a GPU."""

import ctypes

import pytest

from syncopate.errors import SyncopateError
from syncopate.model import detect
from syncopate.model.detect import Gpu, GpuLink, Remote, build_fabric, detect_fabric

pytestmark = pytest.mark.any_triton

NOT_SUPPORTED = 3


class FakeDriver:
    """NVML's functions, of GPUs each of which has links: (remote device type, its bus number)."""

    def __init__(self, links, *, code=0):
        self.links, self.code, self.shut = links, code, 0

    def nvmlInit_v2(self):  # noqa: N802
        return self.code

    def nvmlShutdown(self):  # noqa: N802
        self.shut += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = len(self.links)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):  # noqa: N802
        device._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetPciInfo_v3(self, device, info):  # noqa: N802
        info._obj.bus = device.value
        return 0

    def nvmlDeviceGetNvLinkState(self, device, link, value):  # noqa: N802
        if link.value >= 18:
            return NOT_SUPPORTED
        value._obj.value = link.value < len(self.links[device.value - 1])
        return 0

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device, link, value):  # noqa: N802
        value._obj.value = self.links[device.value - 1][link.value][0]
        return 0

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, device, link, info):  # noqa: N802
        info._obj.bus = self.links[device.value - 1][link.value][1]
        return 0

    def nvmlDeviceGetNvLinkVersion(self, device, link, value):  # noqa: N802
        value._obj.value = 6
        return 0

    def nvmlDeviceGetMaxPcieLinkGeneration(self, device, value):  # noqa: N802
        value._obj.value = 4
        return 0

    def nvmlDeviceGetMaxPcieLinkWidth(self, device, value):  # noqa: N802
        return NOT_SUPPORTED

    def nvmlDeviceGetMemoryAffinity(self, device, size, nodes, scope):  # noqa: N802
        nodes[0] = 1 << (device.value - 1) // 2
        return 0


@pytest.fixture
def driver(monkeypatch):
    def install(links, **options):
        made = FakeDriver(links, **options)
        monkeypatch.setattr(detect.ctypes, "CDLL", lambda name: made)
        return made

    return install


def test_pairs_by_nvlink(driver):
    made = driver([[(0, 2)] * 18, [(0, 1)] * 18])
    fabric = detect_fabric()
    assert made.shut == 1
    assert {ends: hop.gbps for ends, hop in fabric.hops.items()} == {(0, 1): 450.0, (1, 0): 450.0}
    assert all(len(hop.wires) == 1 for hop in fabric.hops.values())


def test_switches(driver):
    driver([[(2, 100 + link % 4) for link in range(18)] for _ in range(8)])
    fabric = detect_fabric()
    assert len(fabric.wires) == 16
    assert all(hop.gbps == 450.0 and len(hop.wires) == 2 for hop in fabric.hops.values())
    assert detect_fabric([3, 5]).ranks == 2


def test_without_nvlink_it_is_pcie_by_socket(driver):
    driver([[], [], [], []])
    fabric = detect_fabric()
    assert fabric.hops[0, 1].gbps == pytest.approx(16 * 1.969)
    assert [len(fabric.hops[0, other].wires) for other in (1, 2)] == [2, 3]


def test_nvlink_between_some_only_is_not_enough():
    """Ranks 0 and 1 are connected, 2 is not: all go by PCIe, by which all can."""
    links = {0: "1", 1: "0"}
    gpus = [
        Gpu(str(rank), 5, 16, (GpuLink(6, Remote.GPU, links[rank]),) if rank in links else ())
        for rank in range(3)
    ]
    assert all(len(hop.wires) == 2 for hop in build_fabric(gpus).hops.values())


def test_what_is_missing_is_said(driver, monkeypatch):
    def missing(name):
        raise OSError

    monkeypatch.setattr(detect.ctypes, "CDLL", missing)
    with pytest.raises(SyncopateError, match=r"found no NVIDIA driver .* name a preset"):
        detect_fabric()
    driver([[]])
    with pytest.raises(SyncopateError, match="two or more GPUs, but this machine has 1"):
        detect_fabric()
    with pytest.raises(SyncopateError, match=r"devices: expects numbers in \[0, 1\), but got 1"):
        detect_fabric([0, 1])
    driver([[], []], code=9)
    with pytest.raises(SyncopateError, match="does not answer: nvmlInit_v2 gives 9"):
        detect_fabric()


def test_structure_is_as_large_as_the_drivers():
    assert ctypes.sizeof(detect._PciInfo) == 68
