"""What a case is: the input that its kind and seed name, and what has to hold for it."""

from __future__ import annotations

import collections
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fuzz_api as api
import fuzz_corpus as corpus
import fuzz_importers as importers
import fuzz_readers as readers
import numpy as np
from fuzz_grammar import write_module
from fuzz_mutate import mutate
from fuzz_outcomes import Finding, Outcome
from fuzz_passes import passes, pipeline_text, plan_options
from fuzz_workers import mark

from syncopate.errors import PlanError
from syncopate.ir import new_context, parse, translate_errors
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk
from syncopate.mlir.passmanager import PassManager
from syncopate.plan.affine import to_function

__all__ = ["KINDS", "Finding", "Outcome", "make_input", "run_case"]

CASES_PER_CONTEXT = 50
MOST_TILES = 400_000
"""More tiles than these, on all ranks, take too long to print and lower again and again."""


@dataclass(frozen=True)
class Kind:
    """One kind of cases.

    Attributes:
        make: The input for a random generator.
        run: Treats an input, and raises whatever should not happen.
    """

    make: Callable[[random.Random], Any]
    run: Callable[[random.Random, Any], Outcome]


class _Contexts:
    """A context for several cases, since making one takes longer than parsing."""

    def __init__(self) -> None:
        self._left = 0
        self._context: ir.Context | None = None

    def take(self) -> ir.Context:
        if self._left == 0:
            self._left, self._context = CASES_PER_CONTEXT, new_context()
        self._left -= 1
        return self._context


_contexts = _Contexts()


def _refusal(error: PlanError) -> None:
    """An error has to say something."""
    if not str(error).strip():
        raise Finding("refused without a message")


def parses(text: str) -> ir.Module | None:
    """The module, or None if it is refused."""
    mark("parse")
    try:
        return parse(text, _contexts.take())
    except PlanError as error:
        _refusal(error)
        return None
    finally:
        mark("")


def _without_maps(text: str) -> str:
    """The text without affine maps, whose expressions MLIR simplifies once more each time it parses them."""
    return re.sub(r"affine_map<[^>]*->[^>]*>", "affine_map", text)


_FORMS: tuple[dict[str, bool], ...] = (
    {},
    {"print_generic_op_form": True},
    {"enable_debug_info": True},
)


def check_round_trip(module: ir.Module, forms: Sequence[dict[str, bool]] = _FORMS) -> None:
    """Raises Finding unless the module, printed in each form and parsed again, is the same."""
    text = _without_maps(str(module))
    for form in forms:
        printed = module.operation.get_asm(**form)
        try:
            again = parse(printed, module.context)
        except PlanError as error:
            raise Finding(f"printed with {form}, it is refused: {error}") from None
        if _without_maps(str(again)) != text:
            raise Finding(f"printed with {form} and parsed, it is another module")
        if form.get("enable_debug_info"):
            located = again.operation.get_asm(**form)
            if _without_maps(located) != _without_maps(printed):
                raise Finding("printed and parsed, it has other locations")


def run_verified(module: ir.Module, pipeline: str) -> bool:
    """Runs a pipeline whose result has to verify; False if it is refused."""
    try:
        with module.context, translate_errors():
            manager = PassManager.parse(f"builtin.module({pipeline})")
            # What a pass leaves behind is checked here, where a refusal and a broken result can be told apart.
            manager.enable_verifier(False)
            manager.run(module.operation)
    except PlanError as error:
        _refusal(error)
        return False
    except ValueError as error:
        if not str(error).strip():
            raise Finding("a pipeline is refused without a message") from None
        return False
    try:
        with translate_errors():
            module.operation.verify()
    except PlanError as error:
        raise Finding(f"after {pipeline} the module does not verify: {error}") from None
    return True


def _plans(module: ir.Module) -> list[ir.OpView]:
    return [op for op in module.body.operations if isinstance(op, chunk.PlanOp)]


def _body(plan: ir.OpView) -> list[ir.OpView]:
    return list(plan.regions[0].blocks[0].operations)


def _bytes_of(sizes: Any, kind: Any) -> int:
    total = (
        int(re.search(r"\d+", str(kind.element_type))[0]) // 8
        if "8E" not in str(kind.element_type)
        else 1
    )
    for size in sizes:
        total *= size
    return total


def moved_bytes(plan: ir.OpView) -> collections.Counter[tuple[str, int]] | None:
    """Bytes that a plan brings, by buffer and receiving rank; None if its algorithm decides, as where it reduces."""
    if any(isinstance(op, (chunk.ReduceScatterOp, chunk.AllReduceOp)) for op in _body(plan)):
        return None
    moved: collections.Counter[tuple[str, int]] = collections.Counter()
    for op in _body(plan):
        if isinstance(op, (chunk.PutOp, chunk.GetOp)):
            name = op.dst.owner.attributes["name"].value
            moved[name, op.attributes["dst_rank"].value] += _bytes_of(
                op.attributes["sizes"], op.dst.type
            )
        elif isinstance(op, chunk.SpmdOp):
            _add_spmd(moved, op)
        elif isinstance(op, chunk.BroadcastOp):
            buffer, root = op.operands[0], op.attributes["root"].value
            for rank in op.attributes["group"]:
                if rank != root:
                    name = buffer.owner.attributes["name"].value
                    moved[name, rank] += _bytes_of(buffer.type.shape, buffer.type)
        elif isinstance(op, chunk.AllToAllOp):
            (src, dst, *_), group = op.operands, list(op.attributes["group"])
            axis, shape = op.attributes["axis"].value, list(src.type.shape)
            for rank, rows in zip(group, _arriving_rows(op, len(group)), strict=True):
                sizes = [*shape[:axis], rows, *shape[axis + 1 :]]
                moved[dst.owner.attributes["name"].value, rank] += _bytes_of(sizes, dst.type)
        elif isinstance(op, chunk.AllGatherOp):
            buffer, group = op.operands[0], list(op.attributes["group"])
            name, shape = buffer.owner.attributes["name"].value, list(buffer.type.shape)
            axis = op.attributes["axis"].value
            block = -(-shape[axis] // len(group))
            for member, rank in enumerate(group):
                own = max(0, min(block, shape[axis] - member * block))
                rest = [*shape[:axis], shape[axis] - own, *shape[axis + 1 :]]
                moved[name, rank] += _bytes_of(rest, buffer.type)
    return +moved


def _arriving_rows(op: Any, members: int) -> list[int]:
    """How many rows an all-to-all brings to each member, by blocks or by a list of rows, where -1 is none."""
    if "rows" in op.attributes:
        routed = np.array(op.attributes["rows"]).reshape(members, members, -1)
        return [int(count) for count in (routed >= 0).sum(axis=(0, 2))]
    rows = op.operands[0].type.shape[op.attributes["axis"].value]
    block = -(-rows // members)
    return [members * max(0, min(block, rows - member * block)) for member in range(members)]


def _add_spmd(moved: collections.Counter[tuple[str, int]], op: Any) -> None:
    """Adds the bytes that the members of a rank-affine form bring."""
    group = list(op.attributes["group"])
    for step in op.regions[0].blocks[0].operations:
        src, dst, peer = (
            [to_function(expr) for expr in step.attributes[name].value.results]
            for name in ("src_offsets", "dst_offsets", "peer")
        )
        push = "push" in str(step.attributes["direction"])
        for member, rank in enumerate(group):
            limits = zip(
                step.attributes["sizes"],
                (n - at([member]) for n, at in zip(step.src.type.shape, src, strict=True)),
                (n - at([member]) for n, at in zip(step.dst.type.shape, dst, strict=True)),
                strict=True,
            )
            sizes = [max(0, min(limit)) for limit in limits]
            receiver = group[peer[0]([member])] if push else rank
            moved[step.dst.owner.attributes["name"].value, receiver] += _bytes_of(
                sizes, step.dst.type
            )


def _check_moved(
    module: ir.Module, before: list[collections.Counter[tuple[str, int]] | None]
) -> list[collections.Counter[tuple[str, int]] | None]:
    """What the plans of a module bring; a Finding unless it is as it was before."""
    after = [moved_bytes(plan) for plan in _plans(module)]
    if any(had is not None and had != has for had, has in zip(before, after, strict=True)):
        raise Finding(f"transfers bring {after}, but should {before}")
    return after


def check_lowered(
    module: ir.Module, before: list[collections.Counter[tuple[str, int]] | None]
) -> None:
    """Raises Finding unless a module behind the plan's pipeline passes its checks again and has all transfers."""
    text = str(module)
    if not run_verified(module, "syncopate-check-pipeline"):
        raise Finding("what the pipeline has made does not pass its checks")
    if str(module) != text:
        raise Finding("a check changes the module")
    lowered = _check_moved(module, before)
    if not run_verified(module, "syncopate-plan-pipeline{splits=1}"):
        raise Finding("the pipeline refuses what it has made")
    _check_moved(module, lowered)


def most_tiles(module: ir.Module) -> int:
    """The largest number of tiles that all ranks of a plan compute."""
    numbers = [
        math.prod(plan.attributes["mesh"]) * math.prod(op.attributes["tiles"])
        for plan in _plans(module)
        for op in _body(plan)
        if isinstance(op, chunk.KernelOp)
    ]
    return max(numbers, default=0)


def run_module(draw: random.Random, text: str) -> Outcome:
    """Parses, prints and lowers a module."""
    module = parses(text)
    if module is None:
        return Outcome.REFUSED_AT_ONCE
    check_round_trip(module)
    if draw.random() < 0.5:
        before = [moved_bytes(plan) for plan in _plans(module)]
        if not run_verified(module, f"syncopate-plan-pipeline{{{plan_options(draw, wrong=0.02)}}}"):
            return Outcome.REFUSED_LATER
        if most_tiles(module) <= MOST_TILES:
            check_round_trip(module, [draw.choice(_FORMS)])
            check_lowered(module, before)
        return Outcome.ACCEPTED
    for each in passes(draw):
        if not run_verified(module, each):
            return Outcome.REFUSED_LATER
    if most_tiles(module) <= MOST_TILES:
        check_round_trip(module, [draw.choice(_FORMS)])
    return Outcome.ACCEPTED


def run_pipeline_text(draw: random.Random, pipeline: str) -> Outcome:
    """Parses a pipeline and runs it on an example."""
    with _contexts.take() as context:
        try:
            manager = PassManager.parse(pipeline)
        except ValueError as error:
            if not str(error).strip():
                raise Finding("a pipeline is refused without a message") from None
            return Outcome.REFUSED_AT_ONCE
        module = parse(draw.choice(corpus.examples()), context)
        try:
            with translate_errors():
                manager.run(module.operation)
        except PlanError as error:
            _refusal(error)
            return Outcome.REFUSED_LATER
    check_round_trip(module)
    return Outcome.ACCEPTED


def _mutated(texts: Callable[[], Any]) -> Callable[[random.Random], str]:
    def make(draw: random.Random) -> str:
        found = texts()
        return mutate(draw, draw.choice(found), found)

    return make


def _grown(draw: random.Random) -> str:
    text = write_module(draw)
    return mutate(draw, text, corpus.examples(), most=1) if draw.random() < 0.3 else text


def run_stage(draw: random.Random, text: str) -> Outcome:
    """Like `run_module`, but with the passes that work on a whole program."""
    module = parses(text)
    if module is None:
        return Outcome.REFUSED_AT_ONCE
    if draw.random() < 0.2:
        check_round_trip(module)
    for each in draw.choice([["syncopate-pipeline"], passes(draw)]):
        if not run_verified(module, each):
            return Outcome.REFUSED_LATER
    return Outcome.ACCEPTED


def _stages() -> tuple[str, ...]:
    found = corpus.programs()
    return found["input"] + found["input"] + found["lowered"]


KINDS: dict[str, Kind] = {
    "module": Kind(_mutated(corpus.modules), run_module),
    "grammar": Kind(_grown, run_module),
    "pipeline": Kind(pipeline_text, run_pipeline_text),
    "stage": Kind(_mutated(_stages), run_stage),
    "fused": Kind(readers.make_fused, readers.run_fused),
    "plan_file": Kind(readers.make_plan_file, readers.run_plan_file),
    "command": Kind(readers.make_command, readers.run_command),
    "cache": Kind(readers.make_cache, readers.run_cache),
    "api": Kind(api.make_call, api.run_call),
    "import": Kind(importers.make_import, importers.run_import),
}


def _draw(kind: str, seed: int) -> random.Random:
    return random.Random(f"{kind}:{seed}")


def make_input(kind: str, seed: int) -> Any:
    """The input of a case."""
    return KINDS[kind].make(_draw(kind, seed))


def run_case(kind: str, seed: int, text: Any = None) -> Outcome:
    """Runs one case, or another input in its place.

    Raises:
        Finding: The input was treated wrongly. Any other exception is a finding too.
    """
    made = make_input(kind, seed) if text is None else text
    return KINDS[kind].run(_draw(kind + "!", seed), made)
