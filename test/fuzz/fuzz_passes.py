"""Random pipelines of all passes, with random options."""

from __future__ import annotations

import random

from fuzz_mutate import NUMBERS, STRINGS, mutate
from plan_passes import plan_passes

__all__ = ["passes", "pipeline_text", "plan_options"]

MODULE_PASSES = (
    "chunk-infer-tile-footprints",
    "chunk-localize-inputs",
    "chunk-splice-kernel",
    "convert-chunk-to-triton-gpu",
    "canonicalize",
    "cse",
)
PIPELINES = (
    "syncopate-plan-pipeline",
    "syncopate-check-pipeline",
    "syncopate-kernel-pipeline",
    "syncopate-pipeline",
)
VALUES = {
    "algorithm": ("direct", "ring", "bidirectional_ring", "hierarchical", "recursive_doubling"),
    "direction": ("push", "pull"),
    "splits": ("1", "2", "3", "7", "40"),
    "realization": ("copy_engine", "ldst_colocated"),
    "order": ("arrival", "grouped"),
    "group_m": ("1", "2", "8", "1000"),
    "pause": ("0", "500", "1000000"),
}
_OPTIONS = {
    "chunk-decompose-collectives": ("algorithm", "direction"),
    "chunk-split-transfers": ("splits",),
    "chunk-assign-realization": ("realization",),
    "chunk-order-tiles": ("order", "group_m"),
    "chunk-build-tables": ("pause",),
    "syncopate-plan-pipeline": tuple(VALUES),
    "syncopate-pipeline": tuple(VALUES),
}


def _option(draw: random.Random, name: str, wrong: float) -> str:
    if draw.random() >= wrong:
        return f"{name}={draw.choice(VALUES[name])}"
    name = draw.choice([name, *VALUES, "unknown"])
    return f"{name}={draw.choice([*NUMBERS, *STRINGS, 'word', '', '{}'])}"


def plan_options(draw: random.Random, *, wrong: float = 0.1) -> str:
    """Options of `syncopate-plan-pipeline`, some with a value that they do not take."""
    names = draw.sample(list(VALUES), draw.choice([0, 0, 1, 2, 6]))
    return " ".join(_option(draw, name, wrong) for name in names)


def _with_options(draw: random.Random, name: str) -> str:
    """A pass or `chunk.plan(pass)`, with options if it has any."""
    bare = name.removeprefix("chunk.plan(").removesuffix(")")
    known = _OPTIONS.get(bare, ())
    if not known or draw.random() < 0.5:
        return name
    options = " ".join(
        _option(draw, option, 0.1) for option in draw.sample(known, draw.randint(1, len(known)))
    )
    return name.replace(bare, f"{bare}{{{options}}}")


def passes(draw: random.Random) -> list[str]:
    """Pipelines on a module to run one after another: the usual passes in their order, part of them, or any."""
    action = draw.randrange(8)
    if action < 4:
        chosen = list(plan_passes())
        if action == 1:
            chosen = chosen[draw.randrange(len(chosen)) :]
        if action == 2:
            del chosen[draw.randrange(len(chosen))]
        if action == 3:
            chosen += MODULE_PASSES[1:4]
    elif action < 6:
        chosen = [draw.choice(PIPELINES) for _ in range(draw.choice([1, 1, 2]))]
    else:
        chosen = [draw.choice([*plan_passes(), *MODULE_PASSES]) for _ in range(draw.randint(1, 6))]
    return [_with_options(draw, name) for name in chosen]


def pipeline_text(draw: random.Random) -> str:
    """A pipeline as a user writes it, mutated."""
    text = f"builtin.module({','.join(passes(draw))})"
    return mutate(draw, text, [text], most=2).strip()
