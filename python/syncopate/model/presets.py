"""Machines that ship with the package: one fitted to programs that were measured, and some that no program has run on.

What comes from data sheets is named "predicted" and has `Provenance.DATA_SHEET`, which every table and picture prints.
Such a machine is the fitted one, scaled: tiles by multiplications per second and multiprocessor, transfers by the link.
So it takes from the fitted machine how much of a peak is reached, and all latencies.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncopate.errors import SyncopateError
from syncopate.model.curve import Curve, FlowDirection, TransferCurve
from syncopate.model.machine import CollectiveCurve, GemmRate, Machine, Provenance
from syncopate.model.topology import Topology, TopologyKind

__all__ = ["find_preset", "preset_names"]

_FOLDER = Path(__file__).parent / "presets"

_H200_TFLOPS: Final = 989.0
"""Dense bf16, of H100 and H200 SXM alike (NVIDIA's data sheets)."""

_H100_LINK_GBPS: Final = 369.0
"""What copy engines reach of 450 GB/s in each direction (ParallelKittens, arXiv 2511.13940)."""


@functools.cache
def find_preset(name: str) -> Machine:
    """A machine by its name.

    Raises:
        SyncopateError: There is no such preset.
    """
    if name in _PREDICTED:
        return _PREDICTED[name]()
    if name in _measured():
        data = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        return Machine.from_json(data)
    raise SyncopateError(
        f"machine: expects one of {', '.join(preset_names())}, or a file, but got {name!r}"
    )


def preset_names() -> tuple[str, ...]:
    """The names of all presets."""
    return (*_measured(), *_PREDICTED)


def _measured() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def _scale(
    name: str,
    *,
    sms: int,
    tflops: float,
    topology: Topology,
    memory: float = 1.0,
    latency: float = 1.0,
) -> Machine:
    """The fitted H200 with other hardware.

    Args:
        name: Of the machine.
        sms: Multiprocessors.
        tflops: Dense bf16 with f32 sums, all multiprocessors, from the data sheet.
        topology: What connects the ranks; its links are rates that copies reach.
        memory: Memory bandwidth, as a multiple of the H200's.
        latency: Latencies of transfers and flags, likewise.
    """
    base = find_preset("h200-w2")
    compute = (_H200_TFLOPS / base.sms) / (tflops / sms)
    link = topology.link_gbps / base.topology.link_gbps

    def curve(entry: TransferCurve) -> TransferCurve:
        factor = memory if entry.direction is FlowDirection.LOCAL else link
        return dataclasses.replace(entry, curve=_scale_curve(entry.curve, factor, latency))

    latencies = dataclasses.replace(
        base.latencies,
        flag_remote=base.latencies.flag_remote * latency,
        accumulate=base.latencies.accumulate / memory,
        store_part=base.latencies.store_part / memory,
        add_part=base.latencies.add_part / memory,
    )
    return dataclasses.replace(
        base,
        name=f"{name} (predicted from data sheets)",
        source=Provenance.DATA_SHEET,
        sms=sms,
        topology=topology,
        memory_gbps=base.memory_gbps * memory,
        curves=tuple(curve(entry) for entry in base.curves),
        collectives=tuple(
            CollectiveCurve(
                entry.collective,
                entry.world_size,
                _scale_curve(entry.curve, link, latency),
                entry.ctas,
            )
            for entry in base.collectives
        ),
        gemm_rates=tuple(
            GemmRate(
                rate.block_m,
                rate.block_n,
                rate.block_k,
                rate.dtype,
                rate.step_us * compute,
                rate.tile_us,
            )
            for rate in base.gemm_rates
        ),
        latencies=latencies,
    )


def _scale_curve(curve: Curve, rate: float, latency: float) -> Curve:
    fixed = curve.latency_us
    return Curve(curve.nbytes, tuple(fixed * latency + (us - fixed) / rate for us in curve.us))


def _h200(ranks: int) -> Machine:
    """H200 SXM on NVSwitch: the pair that was measured, with its link to a switch in place of the other GPU."""
    link = find_preset("h200-w2").topology.link_gbps
    topology = Topology(TopologyKind.SWITCH, link)
    return _scale(f"{ranks} H200 SXM", sms=132, tflops=_H200_TFLOPS, topology=topology)


def _h100() -> Machine:
    """8 H100 SXM on NVSwitch."""
    return _scale(
        "8 H100 SXM",
        sms=132,
        tflops=989.0,
        topology=Topology(TopologyKind.SWITCH, _H100_LINK_GBPS),
        memory=3.35 / 4.8,
    )


def _b200() -> Machine:
    """8 B200 on NVSwitch: 2,250 TFLOP/s dense bf16, 8 TB/s, 900 GB/s in each direction, of which engines reach 726."""
    return _scale(
        "8 B200",
        sms=148,
        tflops=2250.0,
        topology=Topology(TopologyKind.SWITCH, 726.0),
        memory=8.0 / 4.8,
    )


def _rtx4090() -> Machine:
    """8 RTX 4090 in two sockets, by PCIe 4.0 x16, of whose 31.5 GB/s 25 remain; 165 TFLOP/s dense bf16, 1 TB/s."""
    return _scale(
        "8 RTX 4090, PCIe",
        sms=128,
        tflops=165.2,
        topology=Topology(
            TopologyKind.PCIE_TREE, 25.0, node_size=4, node_gbps=20.0, node_latency_us=1.0
        ),
        memory=1.008 / 4.8,
        latency=2.0,
    )


def _two_level(nodes: int) -> Machine:
    """Nodes of 8 H100, each with one 400 Gbit/s adapter, of whose 50 GB/s 46 remain."""
    machine = _h100()
    topology = Topology(
        TopologyKind.TWO_LEVEL, _H100_LINK_GBPS, node_size=8, node_gbps=46.0, node_latency_us=5.0
    )
    return dataclasses.replace(
        machine,
        name=f"{nodes} nodes of 8 H100, 400 Gbit/s (predicted from data sheets)",
        topology=topology,
    )


_PREDICTED: dict[str, Callable[[], Machine]] = {
    **{f"h200-w{ranks}-predicted": functools.partial(_h200, ranks) for ranks in (4, 8)},
    "h100-w8-predicted": _h100,
    "b200-w8-predicted": _b200,
    "rtx4090-pcie-w8-predicted": _rtx4090,
    **{
        f"h100-w{8 * nodes}-predicted": functools.partial(_two_level, nodes)
        for nodes in (8, 16, 32, 64, 128)
    },
}
