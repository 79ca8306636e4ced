"""Runs programs on the CPU: the fused kernel itself, with all its ranks, CTAs and roles, and checks its protocol.

`simulate` takes a compiled program. `check.check_plan` takes a plan whose kernel has footprints but no code, and
gives it a kernel that copies what the footprints say.
"""

from syncopate.sim.findings import Finding, Kind, SimulationError, Verdict
from syncopate.sim.scheduler import Policy
from syncopate.sim.simulate import Result, simulate

__all__ = ["Finding", "Kind", "Policy", "Result", "SimulationError", "Verdict", "simulate"]
