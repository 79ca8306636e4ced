"""Synthesized schedules against all templates, by the clock of links and by the cost model. Nothing here is measured.

    python benchmark/synthesis.py [--write docs/results/synthesis.md]

Every template of a mesh takes part, whole and in four pieces, and of synthesized ones those in 1, 2 and 4 chunks;
broadcasts also in 16 and in 64.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

from syncopate.errors import SyncopateError
from syncopate.model import find_preset
from syncopate.model.fabric_file import find_fabric
from syncopate.plan.catalog import list_templates, make_plan
from syncopate.plan.kinds import Collective
from syncopate.show.plan_show import PlanShow
from syncopate.synthesis import Fabric, Wire, find_bound_us, synthesize
from syncopate.synthesis.judge import judge_by_model, predict_plan_us

SHAPE, DTYPE, NBYTES = (8192, 4096), "bf16", 64 << 20
TRIES = 16
MODELLED = {
    "h100-w8-predicted": Collective.ALL_GATHER,
    "rtx4090-pcie-w8-predicted": Collective.ALL_GATHER,
}
"""Machines of which the cost model is asked too; of one collective, whose simulation takes seconds."""
MORE = {Collective.BROADCAST: (16, 64)}
"""Pieces, or chunks, that only some collectives are cut into besides."""
REALIZATIONS = ("copy_engine", "ldst_dedicated")


@dataclass(frozen=True)
class Case:
    """Ranks with links between them."""

    fabric: Fabric
    mesh: tuple[int, ...]


def cases() -> Iterator[Case]:
    """The fabrics."""
    yield Case(find_fabric("h100-w8-predicted", 8), (8,))
    yield Case(find_fabric("rtx4090-pcie-w8-predicted", 8), (2, 4))
    yield Case(find_fabric("h100-w64-predicted", 16), (2, 8))
    ring = [
        Wire(f"rank {rank}", f"rank {(rank + way) % 8}", 50.0, 2.0)
        for rank in range(8)
        for way in (1, -1)
    ]
    yield Case(Fabric("ring of links, 8 ranks", 8, tuple(ring)), (8,))
    grid = {}
    for rank in range(16):
        row, column = divmod(rank, 4)
        for other in ((row + 1) % 4 * 4 + column, row * 4 + (column + 1) % 4):
            for src, dst in ((rank, other), (other, rank)):
                grid[src, dst] = Wire(f"rank {src}", f"rank {dst}", 50.0, 2.0)
    yield Case(Fabric("torus of links, 4 x 4", 16, tuple(grid.values())), (4, 4))


def time_templates(case: Case, kind: Collective) -> dict[str, float]:
    """By template, what it takes by the clock; those that the links cannot carry are missing."""
    times = {}
    for template in list_templates(case.mesh):
        for splits in (1, 4, *MORE.get(kind, ())):
            if template.collective is not kind:
                continue
            made = make_plan(template, case.mesh, SHAPE, DTYPE, splits=splits)
            options = f"splits={splits if template.is_operation else 1}"
            try:
                shown = PlanShow(made.plan.text, options, fabric=case.fabric)
            except SyncopateError:
                continue
            name = str(template).split(" by ")[1] + (f", in {splits}" if splits > 1 else "")
            times[name] = max(span.end_us for span in shown.spans)
    return times


def clock_rows() -> Iterator[str]:
    """Rows of the first table."""
    for case in cases():
        for kind in Collective:
            times = time_templates(case, kind)
            best = min(times, key=lambda name: times[name]) if times else "none"
            found = {
                chunks: synthesize(kind, case.fabric, NBYTES, chunks=chunks, tries=TRIES)
                for chunks in (1, 2, 4, *MORE.get(kind, ()))
            }
            chunks = min(found, key=lambda number: found[number].us)
            mine, theirs = found[chunks].us, times.get(best, math.inf)
            bound = find_bound_us(kind, case.fabric, NBYTES)
            ratio = "-" if not times else f"{theirs / mine:.2f}"
            if times and theirs < mine * 0.999:
                ratio = f"**{ratio}**"
            yield (
                f"| {case.fabric.name} | {kind.value} | {bound:.0f} | "
                + (f"{best} | {theirs:.0f}" if times else "none | -")
                + f" | {chunks} | {mine:.0f} | {ratio} |"
            )


def model_rows() -> Iterator[str]:
    """Rows of the second table."""
    for name, kind in MODELLED.items():
        machine, fabric = find_preset(name), find_fabric(name, 8)
        for realization in REALIZATIONS:
            times = {}
            for template in list_templates((8,)):
                if template.collective is kind:
                    text = make_plan(template, (8,), SHAPE, DTYPE, kernel=True).plan.text
                    options = f"realization={realization} splits=1"
                    times[str(template).split(" by ")[1]] = predict_plan_us(text, machine, options)
            best = min(times, key=lambda word: times[word])
            judge = judge_by_model(machine, SHAPE, DTYPE, realization)
            plain = synthesize(kind, fabric, NBYTES, tries=TRIES)
            judged = synthesize(kind, fabric, NBYTES, tries=TRIES, judge=judge)
            us, by_judge = judge(plain.steps), judge(judged.steps)
            ratio = f"{times[best] / by_judge:.2f}"
            if times[best] < by_judge * 0.999:
                ratio = f"**{ratio}**"
            yield (
                f"| {name} | {kind.value} | {realization} | {best} | {times[best]:.0f} | {us:.0f} | {by_judge:.0f} | "
                f"{ratio} |"
            )


def main() -> int:
    """Prints, and writes if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [
        "# Synthesized schedules against templates",
        "",
        "    python benchmark/synthesis.py --write docs/results/synthesis.md",
        "",
        "**Nothing here was measured.** Times are µs for 64 MiB, all of what is gathered, reduced, exchanged or",
        "broadcast. The best of all templates of the mesh ([plans.md](../plans.md#templates)), whole or in four",
        f"pieces, broadcasts also in 16 and 64, against what `synthesize` finds in {TRIES} tries, with 1, 2 or 4",
        "chunks of each block, or as many of a broadcast ([synthesis.md](../synthesis.md)). The last column is the",
        "template's time over that; in bold where the template wins. A template that sends between ranks that no",
        "link connects does not take part.",
        "",
        "## By the clock of links",
        "",
        "Latencies and rates of links alone. The bound is what a rank has to send and receive, at the rates of its",
        "links.",
        "",
        "| fabric | collective | bound | best template | µs | chunks | synthesized, µs | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        print(line, flush=True)
    for row in clock_rows():
        print(row, flush=True)
        lines.append(row)
    more = [
        "",
        "## By the cost model",
        "",
        "The simulation of the schedule tables ([model.md](../model.md)) knows that engines and roles carry their",
        "transfers out in order, one after the other, and what each reaches. *Judged* is the best of the tries by",
        "the model instead of the clock.",
        "",
        "| machine | collective | realization | best template | µs | synthesized, µs | judged, µs | ratio |",
        "|---|---|---|---|---|---|---|---|",
        *model_rows(),
    ]
    print("\n".join(more))
    if options.write:
        options.write.write_text("\n".join([*lines, *more]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
