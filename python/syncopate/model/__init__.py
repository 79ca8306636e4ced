"""The cost model: what a machine was measured to do, and what a schedule would take on it.

Importing it needs neither torch nor a GPU. Times are microseconds, sizes bytes, and rates GB/s of 10⁹ bytes a second.
"""

from syncopate.model.bounds import LowerBound, find_lower_bound
from syncopate.model.curve import Combining, Curve, FlowDirection, TransferCurve
from syncopate.model.gemm import KernelCost, gemm_cost, predict_gemm_us
from syncopate.model.machine import CollectiveCurve, GemmRate, Latencies, Machine, Provenance
from syncopate.model.machine_file import (
    find_machine,
    load_machine,
    machine_path,
    open_machine,
    save_machine,
)
from syncopate.model.presets import find_preset, preset_names
from syncopate.model.readiness import Readiness, find_readiness
from syncopate.model.simulation import predict
from syncopate.model.timeline import Timeline, TransferEvent
from syncopate.model.topology import Topology, TopologyKind
from syncopate.model.wave_groups import Grouping, WaveModel

__all__ = [
    "CollectiveCurve",
    "Combining",
    "Curve",
    "FlowDirection",
    "GemmRate",
    "Grouping",
    "KernelCost",
    "Latencies",
    "LowerBound",
    "Machine",
    "Provenance",
    "Readiness",
    "Timeline",
    "Topology",
    "TopologyKind",
    "TransferCurve",
    "TransferEvent",
    "WaveModel",
    "find_lower_bound",
    "find_machine",
    "find_preset",
    "find_readiness",
    "gemm_cost",
    "load_machine",
    "machine_path",
    "open_machine",
    "predict",
    "predict_gemm_us",
    "preset_names",
    "save_machine",
]
