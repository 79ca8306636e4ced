"""Reducing collectives: what they mean, whatever the algorithm, and that the compiler proves it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from syncopate import Plan, PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan

ALGORITHMS = ("direct_push", "direct_pull", "ring_push", "ring_pull")
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}
CHECKS = "chunk.plan(chunk-check-plan,chunk-check-claims)"


@strategies.composite
def reductions(draw):
    """A plan with one reduction of the whole buffer of some ranks, what it is, and the data."""
    world = draw(strategies.integers(2, 5))
    group = draw(strategies.permutations(range(world)).map(tuple))
    group = group[: draw(strategies.integers(2, world))]
    shape = tuple(draw(strategies.lists(strategies.integers(1, 7), min_size=1, max_size=3)))
    axis = draw(strategies.integers(0, len(shape) - 1))
    kind = draw(strategies.sampled_from(sorted(COMBINE)))
    verb = draw(strategies.sampled_from(["reduce_scatter", "all_reduce"]))
    plan = Plan("p", [world])
    a = plan.buffer("a", shape, "i64")
    for rank in range(world):
        plan.input(a[()], rank=rank)
    getattr(plan, verb)(a, reduction=kind, axis=axis, group=group)
    seed = draw(strategies.integers(0, 2**32))
    data = np.random.default_rng(seed).integers(-(2**40), 2**40, (world, *shape))
    return plan.text, verb, kind, axis, group, data


@settings(max_examples=60, deadline=None, database=None)
@given(reductions(), strategies.sampled_from(ALGORITHMS), strategies.integers(1, 3))
def test_every_algorithm_does_what_numpy_says(reduction, algorithm, splits):
    text, verb, kind, axis, group, data = reduction
    expected = COMBINE[kind].reduce(data[list(group)])
    module = parse(text, new_context())
    passes = f"chunk-decompose-collectives{{algorithm={algorithm}}},chunk-split-transfers{{splits={splits}}}"
    for step in ("", f"chunk.plan({passes})"):
        if step:
            run_pipeline(module, step)
            run_pipeline(module, CHECKS)
        found = interpret_plan(module, {"a": list(data)})["a"]
        rows = math.ceil(data.shape[1 + axis] / len(group))
        for member, rank in enumerate(group):
            begin = member * rows
            part = slice(begin, begin + rows) if verb == "reduce_scatter" else slice(None)
            box = (slice(None),) * axis + (part,)
            assert found[rank].defined[box].all()
            assert (found[rank].data[box] == expected[box]).all()
        for rank in set(range(len(data))) - set(group):
            assert (found[rank].data == data[rank]).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_a_reduction_leaves_elsewhere_is_undefined(algorithm):
    plan = Plan("p", [3])
    a = plan.buffer("a", (6, 2), "f32")
    for rank in range(3):
        plan.input(a[()], rank=rank)
    plan.reduce_scatter(a, algorithm=algorithm)
    data = [np.full((6, 2), rank, np.float32) for rank in range(3)]
    for rank, contents in enumerate(interpret_plan(plan.text, {"a": data})["a"]):
        rows = np.arange(6) // 2 == rank
        assert (contents.defined == rows[:, None]).all()
        assert (contents.data[rows] == 3).all()


def test_a_chain_of_reducing_puts_claims_to_be_an_all_reduce():
    plan = Plan("p", [3])
    a = plan.buffer("a", (4,), "f32")
    for rank in range(3):
        plan.input(a[:], rank=rank)
    first = plan.put(a[:], a[:], src_rank=0, dst_rank=1, reduction="sum")
    second = plan.put(a[:], a[:], src_rank=1, dst_rank=2, reduction="sum", after=[first])
    back = [plan.put(a[:], a[:], src_rank=2, dst_rank=rank, after=[second]) for rank in range(2)]
    with plan.claim(after=back):
        plan.all_reduce(a)
    run_pipeline(parse(plan.text, new_context()), CHECKS)


@pytest.mark.parametrize("verb", ["reduce_scatter", "all_reduce"])
def test_reductions_are_named(verb):
    plan = Plan("p", [2])
    a = plan.buffer("a", (4,), "f32")
    with pytest.raises(PlanError, match="reduction: expects one of sum, max, min, but got 'mean'"):
        getattr(plan, verb)(a, reduction="mean")
    with pytest.raises(PlanError, match="reduction: expects one of"):
        plan.put(a[:], a[:], src_rank=0, dst_rank=1, reduction="avg")
