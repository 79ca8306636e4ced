"""The tuner: which strategy to take, from what was chosen before, by the cost model, or by measurement.

Importing it needs neither torch nor a GPU.
"""

from syncopate.tune.auto import Auto, choose
from syncopate.tune.cache import Entry, Key, Measured, TuningCache
from syncopate.tune.report import Origin, TuningReport, statistics
from syncopate.tune.space import Axis, Candidate, Space, gemm_space, plan_space
from syncopate.tune.subject import GemmSubject
from syncopate.tune.tuner import Effort

__all__ = [
    "Auto",
    "Axis",
    "Candidate",
    "Effort",
    "Entry",
    "GemmSubject",
    "Key",
    "Measured",
    "Origin",
    "Space",
    "TuningCache",
    "TuningReport",
    "choose",
    "gemm_space",
    "plan_space",
    "statistics",
]
