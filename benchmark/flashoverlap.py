"""Waves of a GEMM in groups, each sent by a library call: what FlashOverlap's paper (arXiv 2504.19519) measures.

    torchrun --nproc-per-node 2 benchmark/flashoverlap.py [--kinds gemm_rs,gemm_ar,gemm_a2a] [--budget 300]

For each GEMM: the best partition of its waves that is found by measuring (all, if they are not too many, else random
ones), what the closed form and the simulation of tables choose, cuBLAS then NCCL, and the paper's bound. Then, over
many shapes, how often groups of one wave are best, and what they lose. Writes `<out>/flashoverlap-w<world>-<gpu>.json`
and `.md`. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmark.common.bench import Bench, Measured, default_trial, facts
from benchmark.common.dry_bench import moved_bytes, tile_bytes
from benchmark.common.flash_tables import make_table
from benchmark.common.partitions import (
    Groups,
    choose_partitions,
    fit_groups,
    regular_partitions,
    spell_groups,
)
from benchmark.common.study import Study, make_parser, remake, spell

from syncopate import GemmWorkload, tune
from syncopate.choices import Realization, SlotShape
from syncopate.errors import SyncopateError
from syncopate.model import Curve, WaveModel
from syncopate.workloads import GemmKind

SHAPES = (
    (8192, 8192, 2048),
    (8192, 8192, 4096),
    (8192, 8192, 8192),
    (16384, 8192, 4096),
    (4096, 8192, 8192),
)
STUDY = tuple(
    (m, n, k)
    for k in (2048, 4096, 3072, 8192, 6144, 1024)
    for m, n in itertools.product((4096, 8192, 16384), (4096, 8192))
)
FINALISTS = 6
SIMULATED = 12
"""Partitions that the simulation looks at: those that the closed form likes best."""
MOST_ENUMERATED = 14
"""Waves whose partitions are enumerated, as the paper does, which takes twice as long for each wave more."""


def main() -> int:
    """Measures and writes; returns the exit status."""
    options = parse()
    if options.table:
        return remake(options.table, make_table)
    study = Study("flashoverlap", options, make_table)
    rows: list[Mapping[str, Any]] = []
    one_wave: list[Mapping[str, Any]] = []
    wanted = list(itertools.product(options.shapes, options.kinds))
    others = STUDY[: options.study]
    missing = [f"{kind.value} {spell(shape)}" for shape, kind in wanted]
    missing += [f"one-wave groups {spell(shape)}" for shape in others]
    # Of the time, a quarter is for the study of one-wave groups.
    parts = len(wanted) + (len(wanted) // 3 if others else 0)
    for i, (shape, kind) in enumerate(wanted):
        if study.over():
            break
        rows.append(measure_row(study, kind, shape, study.share(parts - i)))
        missing.remove(f"{kind.value} {spell(shape)}")
        study.write(rows, missing, one_wave=one_wave)
    for shape in others:
        if study.over():
            break
        one_wave.append(measure_one_wave(study, options.study_kind, shape))
        missing.remove(f"one-wave groups {spell(shape)}")
    study.write(rows, missing, one_wave=one_wave)
    return study.close()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)

    def kinds(text: str) -> list[GemmKind]:
        return [GemmKind(name) for name in text.split(",")]

    parser.add_argument("--kinds", type=kinds, default=kinds("gemm_ar,gemm_rs,gemm_a2a"))
    parser.add_argument(
        "--shapes",
        type=lambda text: [tuple(map(int, shape.split("x"))) for shape in text.split(",")],
        default=SHAPES,
        help="MxNxK, comma-separated; five are the default",
    )
    parser.add_argument("--partitions", type=int, default=256, help="measured for each row")
    parser.add_argument("--study", type=int, default=len(STUDY), help="shapes for one-wave groups")
    parser.add_argument("--study-kind", type=GemmKind, default=GemmKind.GEMM_AR)
    parser.add_argument(
        "--comm-ctas",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[8, 16],
        help="multiprocessors left to NCCL, of which each row takes the best",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random partitions")
    return parser.parse_args()


def measure_row(
    study: Study, kind: GemmKind, shape: tuple[int, int, int], seconds: float
) -> dict[str, Any]:
    """One GEMM with what moves behind it.

    Args:
        study: The run.
        kind: What moves.
        shape: M, N and K.
        seconds: For everything; the search has two thirds of it.
    """
    options = study.options
    workload = GemmWorkload(kind, *shape, study.world_size)
    study.say(f"{kind.value} {spell(shape)}")
    bench = study.bench(workload)
    bases = bench.survey(base_trials(workload, options.comm_ctas), 2 * options.few)
    first, _ = bench.compare([], options.few, 1)
    if not bases:
        study.note_wrong(bench.workload.name, bench.wrong)
        bench.close()
        return {"kind": kind.value, "shape": list(shape), "cublas_nccl_us": first.cublas_nccl_us}
    base = min(bases, key=lambda trial: bases[trial].us)
    model, plain = make_models(bench, base, first.local_gemm_us)
    begin = time.perf_counter()
    closed = model.find_groups().waves
    search_ms = 1e3 * (time.perf_counter() - begin)
    begin = time.perf_counter()
    published = model.search_pruned().waves if model.waves <= MOST_ENUMERATED else None
    published_ms = 1e3 * (time.perf_counter() - begin)
    tables, tables_ms = predict_tables(study, workload, base, model)
    simulated = min(tables, key=tables.__getitem__, default=None)
    known = [groups for groups in (closed, published, simulated) if groups]
    partitions = choose_partitions(
        model.waves,
        options.partitions,
        random.Random(options.seed),
        first=[*known, *regular_partitions(model.waves)],
    )
    trials = {base.having(waves=groups): groups for groups in partitions}
    tried = {
        trials[one]: found
        for one, found in bench.survey(
            list(trials), options.few, study.until(seconds * 2 / 3)
        ).items()
    }
    ranked = sorted(tried, key=lambda groups: tried[groups].us)[:FINALISTS]
    finalists = [base.having(waves=groups) for groups in dict.fromkeys([*ranked, *known])]
    alone, finals = bench.compare(finalists, options.rounds, options.calls)
    study.note_wrong(bench.workload.name, bench.wrong)
    bench.close()
    measured = {groups: finals[one] for one in finals if (groups := one.strategy.waves)}
    steps = dataclasses.replace(model, gemm_us=alone.gemm_us, curve=plain, comm_sms=0)
    return {
        "kind": kind.value, "shape": list(shape), **facts(base), "slots": SlotShape(base.strategy.slots).value,
        "waves": model.waves,
        "partitions": len(tried),
        "bases": {one.name: found.us for one, found in bases.items()},
        "gemm_us": alone.gemm_us, "local_gemm_us": alone.local_gemm_us, "nccl_us": alone.comm_us,
        "cublas_nccl_us": alone.cublas_nccl_us, "split_streams_us": alone.split_streams_us,
        "async_tp_us": alone.async_tp_us, "spread": alone.spread, "bound_us": steps.bound_us(),
        "found": found_best(measured), "curve": dataclasses.asdict(model.curve),
        "closed": predicted(closed, model.predict_us(closed), measured),
        "published": predicted(published, model.predict_us(published), measured) if published else None,
        "tables": predicted(simulated, tables[simulated], measured) if simulated else None,
        "search_ms": search_ms, "published_ms": published_ms, "tables_ms": tables_ms,
        "tried": [[spell_groups(groups), found.us, model.predict_us(groups)] for groups, found in tried.items()],
    }  # fmt: skip


def base_trials(workload: GemmWorkload, ctas: Sequence[int]) -> list[tune.Candidate]:
    """Library calls with the default waves, by what a call takes and the multiprocessors that it has."""
    default = default_trial(workload)
    return [
        default.having(realization=Realization.NCCL, combine=None, slots=slots, comm_ctas=count)
        for slots, count in itertools.product(SlotShape, ctas)
    ]


def make_models(bench: Bench, base: tune.Candidate, gemm_us: float) -> tuple[WaveModel, Curve]:
    """The closed form on times of this run, and NCCL's curve by itself with as many CTAs as it likes, for the bound.

    The closed form takes NCCL's times beside the GEMM, which are longer: both want L2.
    """
    workload, ctas = bench.workload, base.strategy.comm_ctas
    tiles = math.prod(base.tiles.tiles(workload.m, workload.n))
    nbytes, wave = tile_bytes(workload, base), bench.sms - ctas
    counts = {1, 2, 3, 4, 6, 8, 12, 16, 24}
    whole = moved_bytes(workload)
    sizes = sorted({count * wave * nbytes for count in counts if count * wave < tiles} | {whole})
    last = (tiles - 1) % wave + 1
    sizes = sorted({last * nbytes, *sizes})
    if len(sizes) < 2:
        sizes = [whole // 2, whole]
    curve = bench.collective_curve(sizes, ctas, beside=True)
    plain = bench.collective_curve(sizes, 0)
    return WaveModel(gemm_us, tiles, nbytes, bench.sms, curve, ctas), plain


def predict_tables(
    study: Study, workload: GemmWorkload, base: tune.Candidate, model: WaveModel
) -> tuple[dict[Groups, float], float]:
    """What the simulation says of the partitions that the closed form likes best, and the milliseconds of that search.

    There are none if the simulation knows nothing of library calls on this machine.
    """
    begin = time.perf_counter()
    some = choose_partitions(model.waves, 256, random.Random(1), regular_partitions(model.waves))
    some = sorted({*some, model.find_groups().waves}, key=model.predict_us)[:SIMULATED]
    found: dict[Groups, float] = {}
    try:
        for groups in some:
            one = base.having(waves=groups)
            timeline = workload.packed().predict(one.strategy, one.tiles, study.machine)
            found[groups] = timeline.us
    except SyncopateError as error:
        study.say(f"no prediction from tables: {error}")
        return {}, 0.0
    return found, 1e3 * (time.perf_counter() - begin)


def predicted(groups: Groups, us: float, measured: Mapping[Groups, Measured]) -> dict[str, Any]:
    """A choice, what was predicted of it, and what it took."""
    took = measured.get(groups)
    return {"waves": list(groups), "predicted_us": us, "us": took.us if took else None}


def found_best(measured: Mapping[Groups, Measured]) -> dict[str, Any] | None:
    """The best of those that were compared."""
    if not measured:
        return None
    best = min(measured, key=lambda groups: measured[groups].us)
    return {"waves": list(best), **dataclasses.asdict(measured[best])}


def measure_one_wave(study: Study, kind: GemmKind, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Groups of one wave against others at one shape, few calls of each."""
    workload = GemmWorkload(kind, *shape, study.world_size)
    bench = study.bench(workload)
    # As in the paper: a call takes whole waves.
    bases = base_trials(workload, study.options.comm_ctas[-1:])
    base = next(one for one in bases if one.strategy.slots is SlotShape.TILES)
    tiles = math.prod(base.tiles.tiles(workload.m, workload.n))
    waves = -(-tiles // (bench.sms - base.strategy.comm_ctas))
    draw = random.Random(study.options.seed)
    some = choose_partitions(waves, 18, draw, regular_partitions(waves))
    trials = {base.having(waves=groups): groups for groups in some}
    tried = {
        trials[one]: found.us
        for one, found in bench.survey(list(trials), study.options.few).items()
    }
    study.note_wrong(bench.workload.name, bench.wrong)
    bench.close()
    ones = fit_groups((1,), waves)
    best = min(tried, key=tried.__getitem__, default=None)
    study.say(f"one-wave {spell(shape)}: {waves} waves, best {best}")
    return {
        "kind": kind.value, "shape": list(shape), "waves": waves, "partitions": len(tried),
        "one_wave_us": tried.get(ones), "best": list(best) if best else None,
        "best_us": tried[best] if best else None,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
