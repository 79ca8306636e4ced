"""Writes the tables of docs/checks.md and docs/fuzzing.md: the corpus of faults, and what long runs have shown.

Usage: generate_checks.py [--check]

The pages are written by hand but for what stands between their markers. With --check nothing is written: the exit code
says whether the pages have what the corpus and docs/results/*.json give.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
sys.path[:0] = [str(ROOT / "test" / "sim"), str(ROOT / "test" / "python")]

from faults_compute import COMPUTE_FAULTS  # noqa: E402
from faults_handover import HANDOVER_FAULTS, HANDOVER_FORMS  # noqa: E402
from faults_order import ORDER_FAULTS  # noqa: E402
from faults_plan import EXAMPLES, PLAN_FAULTS  # noqa: E402
from faults_tables import TABLE_FAULTS  # noqa: E402
from faults_tma import TMA_FAULTS  # noqa: E402
from faults_transfer import TRANSFER_FAULTS  # noqa: E402
from run_records import read_runs  # noqa: E402
from sim_faults import FORMS, Fault  # noqa: E402
from sim_table import PROGRAMS  # noqa: E402

PROTOCOL_FAULTS = (*ORDER_FAULTS, *TRANSFER_FAULTS, *TMA_FAULTS, *HANDOVER_FAULTS)


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
        f"each, those of tiles that hand commands over on up to {len(HANDOVER_FORMS)} others: {tries} broken programs, "
        "every one of which has to be found.\n"
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
        for run in read_runs(RESULTS / "simulator.json")
    ]
    return _table(header, rows)


def _fuzzing() -> str:
    header = ["kind", "cases", "accepted", "refused by a pass", "refused at once"]
    header += ["crashes of MLIR", "findings"]
    columns = ["cases", "accepted", "refused_later", "refused_at_once", "mlir_crashes", "findings"]
    parts = []
    for run in read_runs(RESULTS / "fuzzing.json"):
        rows = [
            [f"`{kind['kind']}`", *(f"{kind[column]:,}" for column in columns)]
            for kind in run["kinds"]
        ]
        parts.append(f"Triton {run['triton']}, commit `{run['commit']}`, {run['date']}:")
        parts.append(_table(header, rows))
    return "\n\n".join(parts)


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "checks.md": {
        "count": _count,
        "protocol": lambda: _corpus(PROTOCOL_FAULTS),
        "compute": lambda: _corpus(COMPUTE_FAULTS),
        "tables": lambda: _corpus(TABLE_FAULTS),
        "plans": _plans,
        "programs": _programs,
        "runs": _runs,
    },
    "fuzzing.md": {"fuzzing": _fuzzing},
}
"""By page in docs/, what stands between its markers."""


def fill(name: str, page: str) -> str:
    """A page with what stands between its markers written anew.

    Raises:
      ValueError: a marker is missing.
    """
    for marker, write in PAGES[name].items():
        pattern = re.compile(
            rf"(<!-- {marker}: written by `make docs` -->\n).*?(<!-- end -->)", re.S
        )
        text = write()
        page, found = pattern.subn(lambda m, text=text: f"{m[1]}{text}\n{m[2]}", page)
        if found != 1:
            raise ValueError(f"docs/{name}: expects one marker '{marker}', but got {found}")
    return page


def main() -> int:
    """Entry point."""
    stale = 0
    for name in PAGES:
        path = ROOT / "docs" / name
        page = path.read_text(encoding="utf-8")
        filled = fill(name, page)
        if "--check" not in sys.argv[1:]:
            path.write_text(filled, encoding="utf-8")
        elif page != filled:
            print(f"docs/{name} is out of date: run `make docs`")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
