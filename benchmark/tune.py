"""Tunes shapes by measurement, and says what that took and what it brought.

    torchrun --nproc-per-node 2 benchmark/tune.py [--workloads gemm_rs,…] [--shapes k3584,…] [--budget 900]

Before a shape is tuned, the model is asked, and what is known of the shapes before it, so that the table says what
either would have lost. Writes `<out>/tuning-w<world>-<gpu>.json` and `.md` after each shape, and the entries of the
tuner's cache beside them, as `syncopate cache import` takes them. A run that is interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from benchmark.common.report import describe_run, file_stem
from benchmark.common.shapes import find_shapes

from syncopate import GemmWorkload, Target
from syncopate.errors import SyncopateError
from syncopate.runtime.session import Session
from syncopate.tune import (
    Auto,
    Effort,
    GemmSubject,
    Origin,
    TuningCache,
    TuningReport,
    choose,
)
from syncopate.workloads import GemmKind

FIRSTS = (1, 2, 4, 8)
"""How many of the model's first candidates to measure, for the table."""

GRACE = 180.0
"""Seconds after the budget at which a run that is stuck ends."""


@dataclasses.dataclass(frozen=True)
class Tuned:
    """One shape.

    Attributes:
        name: Of the shape.
        workload: What was tuned.
        report: How.
        model: What the model alone would have chosen.
        near: What it would have chosen of what was tuned before; None if that says nothing.
    """

    name: str
    workload: GemmWorkload
    report: TuningReport
    model: TuningReport
    near: TuningReport | None

    def regret_of(self, report: TuningReport | None) -> float | None:
        """What a choice loses to the best measured; None if it was not measured."""
        return None if report is None else self.report.regret_of(report.chosen)


def main() -> int:
    """Tunes and writes; returns the exit status: 1 if nothing was tuned."""
    options = parse()
    faulthandler.dump_traceback_later(options.budget + GRACE, exit=True)
    session, started = Session(), time.monotonic()
    meta = describe_run(session.world_size, options.commit)
    cache = TuningCache(options.cache)
    done: list[Tuned] = []
    for name, workload in list_workloads(session, options):
        left = options.budget - session.maximum([time.monotonic() - started])[0]
        if left < 0:
            session.say(f"{workload.name}: left out, {options.budget} s are over")
            continue
        effort = Effort(budget=min(left, options.each), top=options.top)
        try:
            tuned = tune(name, workload, cache, effort)
        except SyncopateError as error:
            # It is one on all ranks.
            session.say(f"{workload.name}: {error}")
            continue
        done.append(tuned)
        session.say(f"{tuned.report}\n")
        if session.rank == 0:
            write(options.out, session.world_size, meta, cache, done)
        gc.collect()
        torch.cuda.empty_cache()
    session.say(f"{len(done)} shapes in {time.monotonic() - started:.0f} s")
    session.close()
    return 0 if done else 1


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = ",".join(kind.value for kind in GemmKind)
    parser.add_argument("--workloads", default=kinds, help=f"of {kinds}")
    parser.add_argument("--shapes", default="", help="MxNxK or (parts of) names, comma-separated")
    parser.add_argument("--budget", type=float, default=900.0, help="seconds of all, at most")
    parser.add_argument("--each", type=float, default=90.0, help="seconds of a shape, at most")
    parser.add_argument(
        "--top", type=int, default=12, help="candidates of the model that are measured"
    )
    parser.add_argument(
        "--cache", type=Path, help="folder of the tuner's cache, if not that of the user"
    )
    parser.add_argument("--commit", default="", help="as for gemm.py")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    return parser.parse_args()


def list_workloads(
    session: Session, options: argparse.Namespace
) -> Iterator[tuple[str, GemmWorkload]]:
    """The shapes, one of each workload after the other, so that a short run has some of all."""
    lists = []
    for kind in map(GemmKind, options.workloads.split(",")):
        shapes = find_shapes(kind, options.shapes, session.world_size)
        lists.append(
            [
                (name, GemmWorkload(kind, *shape, session.world_size).packed())
                for name, shape in shapes.items()
            ]
        )
    for number in range(max(map(len, lists), default=0)):
        for some in lists:
            yield from some[number : number + 1]


def tune(name: str, workload: GemmWorkload, cache: TuningCache, effort: Effort) -> Tuned:
    """Tunes one shape. Collective."""
    subject = GemmSubject(workload, Target.current())
    # The model's choice is to be its own, and nothing that was kept.
    with tempfile.TemporaryDirectory() as folder:
        model = choose(subject, Auto(measure=False, cache=TuningCache(folder)))
    near = choose(subject, Auto(measure=False, cache=cache, keep=False))
    report = choose(subject, Auto(measure=True, cache=cache, effort=effort))
    return Tuned(name, workload, report, model, near if near.origin is Origin.NEIGHBOURS else None)


def write(
    folder: Path,
    world_size: int,
    meta: dict[str, str],
    cache: TuningCache,
    done: Sequence[Tuned],
) -> None:
    """Writes the results, the table and the entries."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / file_stem("tuning", world_size, meta["gpu"])
    entries = {entry.key.stem: entry for _, entry in cache.entries()}
    # The cache may be that of a user, with whatever else was tuned.
    subjects = [dict(GemmSubject(tuned.workload, Target()).data) for tuned in done]
    data: dict[str, Any] = {
        "meta": meta,
        "rows": [
            {
                "name": tuned.name,
                "workload": tuned.workload.name,
                "chosen": tuned.report.chosen.name,
                "default": tuned.report.default.name,
                "model": tuned.model.chosen.name,
                "model_seconds": round(tuned.model.seconds, 3),
                "model_loses": tuned.regret_of(tuned.model),
                "near": None if tuned.near is None else tuned.near.chosen.name,
                "near_loses": tuned.regret_of(tuned.near),
                "firsts_lose": {n: tuned.report.regret_of_first(n) for n in FIRSTS},
                **tuned.report.to_json(),
            }
            for tuned in done
        ],
        "entries": [
            entry.to_json() for entry in entries.values() if dict(entry.key.subject) in subjects
        ],
    }
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(format_table(meta, done), encoding="utf-8")


def format_table(meta: dict[str, str], done: Sequence[Tuned]) -> str:
    """The table as Markdown."""
    lines = [
        "# Tuning",
        "",
        *(f"* {name}: {value}" for name, value in meta.items()),
        "",
        "*Speed-up* is over the default strategy with the default tiles. A loss is against the best of all that",
        "was measured of a shape: what the choice loses, what the model alone would have lost, what the nearest",
        "shapes that were tuned before would have, and what would have been lost had only the default been measured,",
        f"and the model's first {', '.join(map(str, FIRSTS))} candidates. Times are of the last comparison, in µs.",
        "",
        "| workload | chosen | default µs | chosen µs | speed-up | loses | model loses | near loses | "
        + " | ".join(f"first {n}" for n in FIRSTS)
        + " | considered | compiled | measured | dropped | compile s | tuning s |",
        "|---" * (14 + len(FIRSTS)) + "|",
    ]
    for tuned in done:
        report = tuned.report
        us = report.final_us
        cells = [
            tuned.workload.name,
            report.chosen.name + (" (default)" if report.chosen == report.default else ""),
            _number(us.get(report.default.name)),
            _number(us.get(report.chosen.name)),
            _number(report.speedup, 3),
            _share(report.regret),
            _share(tuned.regret_of(tuned.model)),
            _share(tuned.regret_of(tuned.near)),
            *(_share(report.regret_of_first(n)) for n in FIRSTS),
            str(report.considered),
            str(report.compiled),
            str(len(report.measured)),
            str(len(report.failed)),
            _number(report.compile_seconds),
            _number(report.seconds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *summarize(done), ""]
    dropped = [
        f"* {tuned.workload.name}: {name}: {why}"
        for tuned in done
        for name, why in tuned.report.failed.items()
    ]
    return "\n".join([*lines, *(["Dropped:", "", *dropped, ""] if dropped else [])])


def summarize(done: Sequence[Tuned]) -> list[str]:
    """What all shapes say together."""
    lines = []
    for what, losses in (
        ("What was chosen", [tuned.report.regret for tuned in done]),
        ("The model alone", [tuned.regret_of(tuned.model) for tuned in done]),
        ("The nearest shapes, by the model", [tuned.regret_of(tuned.near) for tuned in done]),
        *(
            (f"The first {n} by the model", [tuned.report.regret_of_first(n) for tuned in done])
            for n in FIRSTS
        ),
    ):
        known = [loss for loss in losses if loss is not None]
        if known:
            good = sum(1 / (1 + loss) >= 0.98 for loss in known)
            lines.append(
                f"* {what}: loses {sum(known) / len(known):.1%} on average, {max(known):.1%} at most; at least 0.98 of "
                f"the best at {good} of {len(known)} shapes."
            )
    seconds = sum(tuned.model.seconds for tuned in done) / len(done)
    lines.append(f"* Asking the model takes {seconds:.2f} s on average.")
    return lines


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


if __name__ == "__main__":
    sys.exit(main())
