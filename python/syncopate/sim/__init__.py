"""Runs the schedule tables of all ranks on the CPU and compares with numpy."""

from syncopate.sim.agents import Deadlock
from syncopate.sim.executor import Execution, StaleRead, execute_tables
from syncopate.sim.workload import Gemm

__all__ = ["Deadlock", "Execution", "Gemm", "StaleRead", "execute_tables"]
