"""What a run of the fuzzer has shown, kept for docs/fuzzing.md."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import triton
from fuzz_outcomes import Outcome
from run_records import ROOT, current_commit, keep_run

__all__ = ["RECORD", "record"]

RECORD = ROOT / "docs" / "results" / "fuzzing.json"


def _count(kind: str, counts: Mapping[str, int]) -> dict[str, str | int]:
    """The outcomes of a kind's cases; `counts` has them by kind and outcome."""
    prefix = f"{kind}: "
    mine = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
    return {
        "kind": kind,
        "cases": sum(mine.values()),
        **{outcome.name.lower(): mine.get(outcome.value, 0) for outcome in Outcome},
        "mlir_crashes": sum(n for name, n in mine.items() if name.startswith("MLIR")),
        "findings": mine.get("wrong", 0),
    }


def record(kinds: Sequence[str], counts: Mapping[str, int], path: Path = RECORD) -> None:
    """Puts a run in the place of an earlier one with the same Triton.

    Args:
        kinds: Kinds of cases that ran.
        counts: Of cases, by `KIND: OUTCOME`, as `Report` has them.
        path: Where runs are kept.
    """
    run = {
        "triton": triton.__version__,
        "commit": current_commit(),
        "date": datetime.date.today().isoformat(),
        "kinds": [_count(kind, counts) for kind in kinds],
    }
    keep_run(run, path)
