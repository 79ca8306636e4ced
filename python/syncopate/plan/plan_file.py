"""The schedule of a plan in `.mlir`: what the passes make of it, without a kernel or a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from syncopate.choices import RANGES, Algorithm, Direction, Realization, TileOrder, names_of
from syncopate.errors import PlanError, SyncopateError
from syncopate.ir import name_file, new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk
from syncopate.plan.schedule import Access, Schedule, read_schedule

OPTIONS: Final[Mapping[str, tuple[str, ...] | range]] = {
    "algorithm": names_of(Algorithm),
    "direction": names_of(Direction),
    "realization": names_of(Realization),
    "order": names_of(TileOrder),
    **RANGES,
}
"""The pipeline's options, and what each may be: one of some words, or a number in a range."""


def schedule_plan(text: str, options: str = "", *, file: str = "") -> Schedule:
    """Runs `syncopate-plan-pipeline` on a module with one plan and one kernel binding.

    Args:
      text: the module; footprints stand in it.
      options: of the pipeline, such as `splits=2 realization=copy_engine`.
      file: where the text comes from, for errors.

    Raises:
      PlanError: the module is malformed, a pass refuses it, or it has no kernel.
      SyncopateError: an option is unknown or has no such value.
    """
    module = _lower(text, options, file)
    plan = only_plan(module, file)
    if not any(isinstance(op, chunk.KernelOp) for op in plan.regions[0].blocks[0].operations):
        name = plan.attributes["sym_name"].value
        raise PlanError(
            f"{file or 'module'}: plan {name} has no chunk.kernel, so there are no tiles to schedule; add one behind "
            'its transfers: chunk.kernel @k tiles [4, 8] ctas 8 args(%a as "a") after(%t) : !buf '
            '{ chunk.footprint read "a" at affine_map<(m, n) -> (m * 128, 0)> sizes [128, 512] } (see docs/plans.md)'
        )
    return read_schedule(plan)


def lower_plan(text: str, options: str = "") -> str:
    """The module after `syncopate-plan-pipeline`, as `syncopate-opt` prints it; otherwise like `schedule_plan`."""
    return str(_lower(text, options, ""))


def decompose_plan(text: str, options: str = "", *, file: str = "") -> ir.Module:
    """The module with transfers as they will be, decomposed and split; otherwise like `schedule_plan`.

    It needs no kernel. What the pipeline goes on with gives transfers realizations, and the kernel an order.
    """
    return _lower(text, options, file, last="chunk-check-claims")


def only_plan(module: ir.Module, file: str = "") -> ir.OpView:
    """The plan of a module, which has to be kept as long as this is.

    Raises:
      PlanError: the module has none, or several.
    """
    plans = [op for op in module.body.operations if isinstance(op, chunk.PlanOp)]
    if len(plans) != 1:
        raise PlanError(f"{file or 'module'}: expects one chunk.plan, but got {len(plans)}")
    return plans[0]


def check_options(options: str) -> None:
    """Checks options of the pipeline as a user writes them, `name=value` with spaces between.

    Raises:
      SyncopateError: an option is unknown or has no such value.
    """
    for word in options.split():
        name, equals, value = word.partition("=")
        if name not in OPTIONS or not equals:
            raise SyncopateError(
                f"options: expects name=value with a name of {', '.join(OPTIONS)}, but got {word!r}"
            )
        known = OPTIONS[name]
        if isinstance(known, tuple):
            if value not in known:
                raise SyncopateError(
                    f"options: {name} expects one of {', '.join(known)}, but got {value!r}"
                )
        elif not re.fullmatch(r"\d{1,10}", value) or int(value) not in known:
            raise SyncopateError(
                f"options: {name} expects a number in [{known.start}, {known.stop - 1}], but got {value!r}"
            )


def find_accesses(program: Any) -> tuple[Access, ...]:
    """The regions that a tile of a schedule or a compiled program reads; nothing if it does not say so."""
    accesses = getattr(program, "accesses", None)
    if accesses is None:
        text = getattr(program, "ir", {}).get("lowered")
        if text is None:
            return ()
        for op in parse(text, new_context()).body.operations:
            if isinstance(op, chunk.PlanOp):
                accesses = read_schedule(op).accesses
    return tuple(access for access in accesses or () if not access.writes)


def _lower(text: str, options: str, file: str, last: str | None = None) -> ir.Module:
    check_options(options)
    with name_file(file):
        module = parse(text, new_context())
        run_pipeline(module, f"syncopate-plan-pipeline{{{options}}}", last=last)
    return module
