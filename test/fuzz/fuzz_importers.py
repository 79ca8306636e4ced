"""Cases for the importers: files of all formats, mutated."""

from __future__ import annotations

import functools
import random
import re
from typing import Any

from fuzz_mutate import mutate
from fuzz_outcomes import Finding, Outcome
from import_faults_layouts import GOOD as LAYOUTS
from import_faults_mercury import GOOD as MERCURY
from import_faults_partitions import GOOD as PARTITION
from import_faults_partitions import SCATTER
from import_faults_shardy import GOOD as SHARDY
from import_faults_shardy import HLO_GOOD
from import_files import FILES, msccl_exchange
from import_tensor_files import CASES, hlo, stablehlo

from syncopate.errors import PlanError
from syncopate.importers import (
    Collective,
    Format,
    Source,
    emit_plan,
    export_plan,
    prove,
    read_exchanges,
    read_steps,
)
from syncopate.ir import new_context, parse, run_pipeline

__all__ = ["make_import", "run_import"]

CHECKS = "chunk.plan(chunk-split-transfers,chunk-check-plan,chunk-check-claims)"
TENSOR_CHECKS = "chunk.plan(chunk-decompose-collectives,chunk-split-transfers,chunk-check-plan,chunk-check-claims)"
SMALL = 400


@functools.cache
def _files() -> dict[str, tuple[str, ...]]:
    """By format, files."""
    cases = CASES.values()
    found: dict[str, tuple[str, ...]] = {
        "msccl-xml": tuple(map(msccl_exchange, (2, 4))),
        "partitions-json": (PARTITION, SCATTER),
        "stablehlo": (
            SHARDY,
            *map(stablehlo, cases),
            *(stablehlo(case, generic=True) for case in cases),
        ),
        "hlo": (HLO_GOOD, *(hlo(case) for case in cases if case.axis == case.concat)),
        "layouts-json": (LAYOUTS,),
        "mercury-json": (MERCURY,),
    }
    for form, _, write in FILES.values():
        found[form] = (*found.get(form, ()), *map(write, (2, 3)))
    return found


def make_import(draw: random.Random) -> Any:
    """A format, a file of it or nearly so, rows of its buffer, and where what it starts with comes from."""
    form = draw.choice(sorted(_files()))
    files = _files()[form if draw.random() < 0.98 else draw.choice(sorted(_files()))]
    text = draw.choice(files)
    if draw.random() < 0.95:
        text = mutate(draw, text, files, most=2)
    return form, text, draw.randrange(1, 40), draw.choice(list(Source))


def run_import(draw: random.Random, made: Any) -> Outcome:
    """Imports a file; the plan of one that is right passes all checks, and is the same when it comes back."""
    form, text, rows, source = made
    if not Format(form).has_steps:
        return _run_tensors(form, text, source)
    try:
        steps = read_steps(text, form, "f")
        prove(steps)
    except PlanError as error:
        if not re.match(r"f:\d+: \S", str(error)):
            raise Finding(f"an error without file and line: {error}") from None
        return Outcome.REFUSED_AT_ONCE
    if len(steps.moves) > SMALL or steps.ranks == 1 or steps.extent(steps.memories[0]) > SMALL:
        return Outcome.ACCEPTED
    if source is Source.TILES and steps.collective is Collective.ALL_TO_ALL:
        rows *= steps.ranks
    imported = emit_plan(steps, (rows, 2), "f32", source=source)
    run_pipeline(parse(imported.plan.text, new_context()), CHECKS)
    claimed = "chunk.claim" in imported.plan.text and rows % (steps.ranks * steps.chunks) == 0
    if claimed and all(move.src.count == 1 for move in steps.moves):
        for other in ("msccl-xml", "mscclpp-json"):
            prove(read_steps(export_plan(imported.plan, other), other))
    return Outcome.ACCEPTED


def _run_tensors(form: str, text: str, source: Source) -> Outcome:
    """Imports a file that speaks of tensors; what moves is a plan that passes all checks, or is refused."""
    try:
        exchanges = read_exchanges(text, form, "f")
        plans = [exchange.build(source).plan.text for exchange in exchanges[:4]]
    except PlanError as error:
        if not re.match(r"f:\d+: \S", str(error)):
            raise Finding(f"an error without file and line: {error}") from None
        return Outcome.REFUSED_AT_ONCE
    for plan in plans:
        if plan.count("\n") <= SMALL:
            run_pipeline(parse(plan, new_context()), TENSOR_CHECKS)
    return Outcome.ACCEPTED
