"""Feeds mutated valid inputs to the parser, the passes and the loaders, and looks for what goes wrong.

Usage: fuzz.py [--cases N] [--kinds KIND,...] [--first SEED] [--record] [--show KIND:SEED] [--reduce KIND:SEED]

A case is named by its kind and seed, and is the same every time. Nothing may crash, hang, take more than its memory,
raise anything but the project's own errors, or be accepted wrongly. Exits with 1 if something did. With --record, the
numbers go to docs/results/fuzzing.json, and `tools/generate_checks.py` puts them into docs/fuzzing.md.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import fuzz_cases
import fuzz_corpus
from fuzz_record import record
from fuzz_reduce import reduce_text
from fuzz_workers import Report, Wrong, run_cases

SHARES = {
    "module": 90,
    "grammar": 50,
    "pipeline": 23,
    "stage": 3,
    "fused": 2,
    "plan_file": 8,
    "command": 4,
    "cache": 5,
    "api": 15,
    "import": 10,
}


def _run(kind: str, seed: int) -> str:
    return fuzz_cases.run_case(kind, seed).value


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--cases", type=int, default=200_000, help="how many in all (default: %(default)s)"
    )
    parser.add_argument(
        "--kinds", default=",".join(fuzz_cases.KINDS), help="which (default: %(default)s)"
    )
    parser.add_argument("--first", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument(
        "--record", action="store_true", help="keep the numbers for docs/fuzzing.md"
    )
    parser.add_argument(
        "--show", metavar="KIND:SEED", help="print the input of one case and run it here"
    )
    parser.add_argument(
        "--reduce", metavar="KIND:SEED", help="print the smallest input that goes wrong alike"
    )
    arguments = parser.parse_args()
    if arguments.reduce:
        kind, number = arguments.reduce.split(":")
        made = fuzz_cases.make_input(kind, int(number))

        def run(seed: int, text: str) -> str:
            return fuzz_cases.run_case(kind, seed, text).value

        print(reduce_text(kind, int(number), run, made))
        return 0
    if arguments.show:
        kind, seed = arguments.show.split(":")
        made = fuzz_cases.make_input(kind, int(seed))
        print(made, flush=True)
        print(fuzz_cases.run_case(kind, int(seed)), flush=True)
        return 0
    kinds = arguments.kinds.split(",")
    fuzz_corpus.modules()
    if set(kinds) & {"stage", "fused"}:
        fuzz_corpus.programs()
    report = Report()
    for kind in kinds:
        cases = arguments.cases * SHARES[kind] // sum(SHARES[each] for each in kinds)
        begin, known = time.monotonic(), len(report.wrong)
        run_cases(
            kind,
            range(arguments.first, arguments.first + cases),
            _run,
            report,
            fuzz_cases.make_input,
        )
        seconds = time.monotonic() - begin
        print(f"{kind}: {cases} cases in {seconds:.0f} s, {cases / seconds:.0f}/s", flush=True)
        alike: dict[str, list[Wrong]] = {}
        for wrong in report.wrong[known:]:
            alike.setdefault(re.sub(r"\d+|'.*", "", wrong.what)[:90], []).append(wrong)
        for cases_alike in alike.values():
            names = " ".join(f"{wrong.kind}:{wrong.seed}" for wrong in cases_alike[:6])
            print(
                f"  {len(cases_alike)} times: {cases_alike[0].what[:400]}\n      {names}",
                flush=True,
            )
    for name, count in sorted(report.counts.items()):
        print(f"{count:8} {name}")
    print(f"slowest: {report.slowest_case}, {report.slowest:.1f} s; {len(report.wrong)} wrong")
    if arguments.record:
        record(kinds, report.counts)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
