"""Machines without any latency, on which times of small programs can be told by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

from syncopate.abi import Realization
from syncopate.model import (
    Combining,
    Curve,
    FlowDirection,
    GemmRate,
    Latencies,
    Machine,
    Provenance,
    Topology,
    TopologyKind,
    TransferCurve,
)

NO_LATENCY = Latencies(**{item.name: 0.0 for item in dataclasses.fields(Latencies)})


def plain_machine(
    bytes_per_us: float,
    *,
    link_bytes_per_us: float | None = None,
    latency_us: float = 0.0,
    **changes: Any,
) -> Machine:
    """All transfers move at one rate, whoever carries them out, and nothing else takes any time."""
    curve = Curve.of_rate(latency_us, bytes_per_us / 1e3)
    link = bytes_per_us if link_bytes_per_us is None else link_bytes_per_us
    machine = Machine(
        name="by hand",
        source=Provenance.MEASURED,
        sms=132,
        topology=Topology(TopologyKind.ALL_TO_ALL, link / 1e3),
        memory_gbps=1e12,
        curves=tuple(
            TransferCurve(role, direction, combining, 0 if role.is_engine else 1, curve)
            for role in Realization
            for direction in FlowDirection
            for combining in Combining
        ),
        latencies=NO_LATENCY,
        gemm_rates=(GemmRate(128, 256, 64, "bf16", 0.7, 1.5),),
    )
    return dataclasses.replace(machine, **changes)
