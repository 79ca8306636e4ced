"""Runs the schedule tables of all ranks on the CPU and compares what tiles read with what the plan brings there."""

from syncopate.sim.errors import Deadlock, StaleRead
from syncopate.sim.executor import Execution, execute_tables
from syncopate.sim.workload import Gemm, Reads

__all__ = ["Deadlock", "Execution", "Gemm", "Reads", "StaleRead", "execute_tables"]
