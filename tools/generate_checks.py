"""Writes the tables of docs/checks.md: the corpus of faults, and the runs of the simulator on good programs.

Usage: generate_checks.py [--check]

The page is written by hand but for what stands between its markers. With --check nothing is written: the exit code says
whether the page has what the corpus and docs/results/simulator.json give.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "checks.md"
RUNS = ROOT / "docs" / "results" / "simulator.json"
sys.path[:0] = [str(ROOT / "test" / "sim"), str(ROOT / "test" / "python")]

from faults_compute import COMPUTE_FAULTS  # noqa: E402
from faults_order import ORDER_FAULTS  # noqa: E402
from faults_plan import EXAMPLES, PLAN_FAULTS  # noqa: E402
from faults_tables import TABLE_FAULTS  # noqa: E402
from faults_transfer import TRANSFER_FAULTS  # noqa: E402
from sim_faults import FORMS, Fault  # noqa: E402
from sim_table import PROGRAMS  # noqa: E402

PROTOCOL_FAULTS = (*ORDER_FAULTS, *TRANSFER_FAULTS)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _kinds(fault: Fault) -> str:
    kinds = sorted(kind.value for kind in fault.found)
    return ", ".join(kinds + ["wrong results"] * fault.wrong_results)


def _corpus(faults: Sequence[Fault]) -> str:
    header = ["fault", "what is broken", "found dynamically as", "on programs"]
    rows = [[f.name, f.broken, _kinds(f), str(len(f.forms))] for f in faults]
    if any(fault.check for fault in faults):
        header.insert(3, "found statically")
        for row, fault in zip(rows, faults, strict=True):
            row.insert(3, f"`{fault.check}`")
    return _table(header, rows)


def _plans() -> str:
    header = ["fault", "what is broken", "refused by", "on plans"]
    rows = [[f.name, f.broken, f"`{f.check}`", str(len(f.forms))] for f in PLAN_FAULTS]
    return _table(header, rows)


def _count() -> str:
    kernel = len(PROTOCOL_FAULTS) + len(COMPUTE_FAULTS)
    tries = sum(len(f.forms) for f in (*PROTOCOL_FAULTS, *COMPUTE_FAULTS, *TABLE_FAULTS))
    return (
        f"{kernel} faults of the fused kernel and {len(TABLE_FAULTS)} of the tables, on up to {len(FORMS)} programs "
        f"each: {tries} broken programs, every one of which has to be found.\n"
        f"{len(PLAN_FAULTS)} faults of plans, on up to {len(EXAMPLES)} plans each."
    )


def _programs() -> str:
    worlds = sorted({case.world for case in PROGRAMS})
    header = ["workload", "realizations", "algorithms", "ranks", "element types", "programs"]
    rows = []
    for workload in dict.fromkeys(case.workload for case in PROGRAMS):
        cases = [case for case in PROGRAMS if case.workload is workload]
        rows.append(
            [
                workload.value,
                ", ".join(sorted({case.realization.value for case in cases})),
                ", ".join(sorted({case.algorithm.value for case in cases})),
                ", ".join(str(w) for w in worlds if any(case.world == w for case in cases)),
                ", ".join(sorted({"f16" if case.is_attention else case.dtype for case in cases})),
                str(len(cases)),
            ]
        )
    return _table(header, rows)


def _runs() -> str:
    header = ["Triton", "numpy", "commit", "date", "programs", "seeds each", "runs", "steps"]
    runs = json.loads(RUNS.read_text(encoding="utf-8")) if RUNS.exists() else []
    rows = [
        [
            run["triton"],
            run["numpy"],
            f"`{run['commit']}`",
            run["date"],
            str(run["programs"]),
            str(run["seeds"]),
            f"{run['programs'] * run['seeds']:,}",
            f"{run['steps']:,}",
        ]
        for run in runs
    ]
    return _table(header, rows)


def fill(page: str) -> str:
    """The page with what stands between its markers written anew.

    Raises:
      ValueError: a marker is missing.
    """
    parts = {
        "count": _count(),
        "protocol": _corpus(PROTOCOL_FAULTS),
        "compute": _corpus(COMPUTE_FAULTS),
        "tables": _corpus(TABLE_FAULTS),
        "plans": _plans(),
        "programs": _programs(),
        "runs": _runs(),
    }
    for name, text in parts.items():
        pattern = re.compile(rf"(<!-- {name}: written by `make docs` -->\n).*?(<!-- end -->)", re.S)
        page, found = pattern.subn(lambda m, text=text: f"{m[1]}{text}\n{m[2]}", page)
        if found != 1:
            raise ValueError(f"{PAGE}: expects one marker '{name}', but got {found}")
    return page


def main() -> int:
    """Entry point."""
    page = PAGE.read_text(encoding="utf-8")
    filled = fill(page)
    if "--check" in sys.argv[1:]:
        if page != filled:
            print("docs/checks.md is out of date: run `make docs`")
        return int(page != filled)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
