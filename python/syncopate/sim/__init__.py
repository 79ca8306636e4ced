"""Runs programs on the CPU.

`simulate` executes the fused kernel itself, with all its ranks, CTAs and roles, and checks its protocol.
`execute_tables` executes the schedule tables alone, for plans that have no kernel, and compares what tiles read with
what the plan brings there.
"""

from syncopate.sim.errors import Deadlock, StaleRead
from syncopate.sim.executor import Execution, execute_tables
from syncopate.sim.findings import SimulationError
from syncopate.sim.simulate import Result, simulate
from syncopate.sim.workload import Gemm, Reads

__all__ = [
    "Deadlock",
    "Execution",
    "Gemm",
    "Reads",
    "Result",
    "SimulationError",
    "StaleRead",
    "execute_tables",
    "simulate",
]
