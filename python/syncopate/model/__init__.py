"""The cost model: what a machine was measured to do, and what a schedule would take on it.

Importing it needs neither torch nor a GPU. Times are microseconds, sizes bytes, and rates GB/s of 10⁹ bytes a second.
"""

from syncopate.model.curve import Combining, Curve, Direction, TransferCurve
from syncopate.model.gemm import KernelCost, gemm_cost, predict_gemm_us
from syncopate.model.machine import CollectiveCurve, GemmRate, Latencies, Machine, Source
from syncopate.model.simulation import predict
from syncopate.model.timeline import Timeline, TransferEvent
from syncopate.model.topology import Link, Topology, TopologyKind

__all__ = [
    "CollectiveCurve",
    "Combining",
    "Curve",
    "Direction",
    "GemmRate",
    "KernelCost",
    "Latencies",
    "Link",
    "Machine",
    "Source",
    "Timeline",
    "Topology",
    "TopologyKind",
    "TransferCurve",
    "TransferEvent",
    "gemm_cost",
    "predict",
    "predict_gemm_us",
]
