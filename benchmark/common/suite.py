"""What every suite does: measure shape after shape, and write down what it has."""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmark.common import report
from benchmark.common.link import measure_link

from syncopate.runtime.session import Session

__all__ = ["Shape", "run_suite"]

Shape = tuple[int, int, int]


def run_suite(
    name: str,
    session: Session,
    shapes: Mapping[str, Shape],
    options: argparse.Namespace,
    measure: Callable[[str, Shape, float], tuple[list[report.Row], bool]],
    budget: float = math.inf,
) -> int:
    """Measures and writes; returns the exit status: 1 if a result was wrong.

    Args:
        name: Of the suite, for its files.
        session: The ranks; closed at the end.
        shapes: M, N and K by name.
        options: With `out`, the folder, and `commit`, what to write down where git cannot tell.
        measure: Gives the rows of a shape, named and for a link peak in bytes per second, and whether all were right.
        budget: Starts no further shape after these many seconds.
    """
    started = time.monotonic()
    link = measure_link(session)
    session.say("link " + ", ".join(f"{way} {rate / 1e9:.0f} GB/s" for way, rate in link.items()))
    meta: dict[str, Any] = {
        **report.describe_run(session.world_size, options.commit),
        "link_bytes_per_s": {way: round(rate) for way, rate in link.items()},
    }
    rows: list[report.Row] = []
    good = True
    for workload, shape in shapes.items():
        if session.maximum([time.monotonic() - started])[0] > budget:
            session.say(f"{workload} {shape}: left out, {budget} s are over")
            continue
        done, right = measure(workload, shape, max(link.values()))
        rows += done
        good = good and right
        if session.rank == 0 and rows:
            # After every shape, so that a run that is cut short leaves what it has.
            stem = options.out / report.file_stem(name, session.world_size, meta["gpu"])
            report.write_json(stem.with_suffix(".json"), meta, rows)
            report.write_table(stem.with_suffix(".md"), meta, rows)
            print(report.format_table({}, done), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    session.say(f"{len(rows)} rows in {time.monotonic() - started:.0f} s")
    session.close()
    return 0 if good else 1
