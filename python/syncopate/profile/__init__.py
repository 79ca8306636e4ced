"""What a call did when: records of profiled kernels, predictions, and what is made of both.

    program = syncopate.compile(..., profile=True)
    profile = program.load(group).profile(a=a, b=b)     # on GPUs
    profile = program.simulate().profile                # on the CPU: an order, and no durations
    print(profile.explain())
    Path("call.html").write_text(profile.to_html())

Importing it needs neither torch nor a GPU.
"""

from syncopate.profile.clocks import ClockOffset, Clocks
from syncopate.profile.critical import PathPiece, find_critical_path
from syncopate.profile.predicted import predicted_run
from syncopate.profile.profile import Profile
from syncopate.profile.run import (
    Cause,
    CauseKind,
    Key,
    LinkUse,
    Run,
    Span,
    SpanKind,
    TimeSource,
    Track,
)
from syncopate.profile.run_file import load_runs, save_runs
from syncopate.profile.shares import RankShares, find_shares
from syncopate.profile.summary import describe_run
from syncopate.profile.trace import to_chrome_trace
from syncopate.runtime.records import LaneRecords, RankRecords, Record, read_lanes

__all__ = [
    "Cause",
    "CauseKind",
    "ClockOffset",
    "Clocks",
    "Key",
    "LaneRecords",
    "LinkUse",
    "PathPiece",
    "Profile",
    "RankRecords",
    "RankShares",
    "Record",
    "Run",
    "Span",
    "SpanKind",
    "TimeSource",
    "Track",
    "describe_run",
    "find_critical_path",
    "find_shares",
    "load_runs",
    "predicted_run",
    "read_lanes",
    "save_runs",
    "to_chrome_trace",
]
