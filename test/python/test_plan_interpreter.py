"""The meaning of a plan, and that no pass changes it."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from plan_passes import plan_passes
from random_plans import ALGORITHMS, DIRECTIONS, REALIZATIONS, plans

from syncopate.choices import TileOrder
from syncopate.errors import PlanError, SyncopateError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk
from syncopate.plan.interpreter import interpret_plan
from syncopate.plan.plan_file import OPTIONS

pytestmark = pytest.mark.any_triton

SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def draw_inputs(module, generator):
    """Fresh numbers for every rank's inputs; a whole buffer for a rank with several regions."""
    world = int(np.prod(module.body.operations[0].attributes["mesh"]))
    inputs, sizes = {}, {}
    for op in module.body.operations[0].regions[0].blocks[0].operations:
        if isinstance(op, chunk.BufferOp):
            shape, name = op.results[0].type.shape, op.attributes["name"].value
            inputs[name] = [generator.integers(0, 2**62, shape) for _ in range(world)]
        if isinstance(op, chunk.InputOp):
            place = op.operands[0].owner.attributes["name"].value, op.attributes["rank"].value
            sizes.setdefault(place, []).append(list(op.attributes["sizes"]))
    for (name, rank), regions in sizes.items():
        if len(regions) == 1:
            inputs[name][rank] = generator.integers(0, 2**62, regions[0])
    return inputs


def assert_same(found, expected, what):
    assert found.keys() == expected.keys()
    for name, ranks in expected.items():
        for rank, contents in enumerate(ranks):
            same = (found[name][rank].defined == contents.defined).all()
            same &= np.where(contents.defined, found[name][rank].data == contents.data, True).all()
            assert same, f"{what} changes what {name} of rank {rank} holds"


def with_options(passes, choice):
    return {
        "chunk-decompose-collectives": f"{{algorithm={choice['algorithm']} direction={choice['direction']}}}",
        "chunk-split-transfers": f"{{splits={choice['splits']}}}",
        "chunk-assign-realization": f"{{realization={choice['realization']}}}",
        "chunk-order-tiles": f"{{order={choice['order']}}}",
    }.get(passes, "")


CHOICES = strategies.fixed_dictionaries(
    {
        "algorithm": strategies.sampled_from(ALGORITHMS),
        "direction": strategies.sampled_from(DIRECTIONS),
        "splits": strategies.integers(1, 5),
        "realization": strategies.sampled_from(REALIZATIONS),
        "order": strategies.sampled_from(
            # An order that is given would have to be in the plan.
            [order for order in OPTIONS["order"] if order != TileOrder.GIVEN.value]
        ),
    }
)


def test_the_pipeline_has_the_passes_that_are_looked_at():
    names = [re.sub(r"chunk\.plan\(|\)", "", name) for name in plan_passes()]
    assert names[:2] == ["chunk-expand-spmd", "chunk-decompose-collectives"]
    assert names[-1] == "chunk-check-tables"
    assert len(names) == 17
    for optional in (
        "chunk-split-transfers",
        "chunk-assign-realization",
        "chunk-order-tiles",
    ):
        assert optional in names


@SETTINGS
@given(plans(), CHOICES, strategies.integers(0, 2**32))
def test_no_pass_changes_the_meaning(text, choice, seed):
    module = parse(text, new_context())
    inputs = draw_inputs(module, np.random.default_rng(seed))
    meaning = interpret_plan(module, inputs)
    assert any(contents.defined.all() for contents in meaning["a"])
    before = ""
    for step in plan_passes():
        run_pipeline(
            module, re.sub(r"(chunk-[\w-]+)", lambda m: m[1] + with_options(m[1], choice), step)
        )
        if (text := str(module)) != before:
            assert_same(interpret_plan(module, inputs), meaning, f"{step} with {choice}")
        before = text
    # What is left of collectives are claims, which move nothing.
    body = module.body.operations[0].regions[0].blocks[0].operations
    assert not any(isinstance(op, (chunk.AllGatherOp, chunk.BroadcastOp)) for op in body)
    assert "chunk.schedule" in str(module)


@SETTINGS
@given(plans(gathers=0), strategies.integers(0, 2**32))
def test_another_chunk_is_another_meaning(text, seed):
    """A destination a row higher up is noticed, so the property above says something."""
    module = parse(text, new_context())
    inputs = draw_inputs(module, np.random.default_rng(seed))
    meaning = interpret_plan(module, inputs)
    # Nothing comes to a block's home after the block.
    into_homes = [
        op
        for op in module.body.operations[0].regions[0].blocks[0].operations
        if isinstance(op, (chunk.PutOp, chunk.GetOp))
        and op.operands[1].owner.attributes["name"].value == "a"
    ]
    for op in reversed(into_homes):
        first, *others = op.attributes["dst_offsets"]
        if first > 0:
            with module.context:
                op.attributes["dst_offsets"] = ir.DenseI64ArrayAttr.get([first - 1, *others])
            with pytest.raises(AssertionError, match="changes what a of rank"):
                assert_same(interpret_plan(module, inputs), meaning, "an edit")
            return


def block_of(array, axis, index, members):
    rows = -(-array.shape[axis] // members)
    return np.take(
        array,
        range(min(index * rows, array.shape[axis]), min((index + 1) * rows, array.shape[axis])),
        axis,
    )


@pytest.mark.parametrize(("shape", "axis"), [((7, 5), 0), ((4, 11), 1), ((3, 2, 5), 2), ((9,), 0)])
@pytest.mark.parametrize("group", [[0, 1], [2, 0], [3, 1, 0, 2], [1, 2, 3]])
def test_all_gather_is_what_its_definition_says(shape, axis, group):
    whole = np.random.default_rng().standard_normal(shape)
    kind = f"!chunk.buffer<{'x'.join(map(str, shape))}xf64>"
    lines, given_ = [], [np.zeros(0)] * 4
    for index, member in enumerate(group):
        block = block_of(whole, axis, index, len(group))
        if block.size:
            offsets = [0] * len(shape)
            offsets[axis] = index * -(-shape[axis] // len(group))
            lines.append(f"chunk.input %a{offsets} sizes {list(block.shape)} on {member} : {kind}")
            given_[member] = block
    text = f'chunk.plan @p mesh [4] {{ %a = chunk.buffer "a" : {kind}\n' + "\n".join(lines)
    text += f"\n%t = chunk.all_gather %a axis {axis} group {group} : {kind} }}"
    for rank, contents in enumerate(interpret_plan(text, {"a": given_})["a"]):
        assert contents.defined.all() == (rank in group)
        assert contents.defined.any() == (rank in group)
        if rank in group:
            np.testing.assert_array_equal(contents.data, whole)


CHAIN = """
!b = !chunk.buffer<6x2xi32>
chunk.plan @p mesh [2] {
  %a = chunk.buffer "a" : !b
  %c = chunk.buffer "c" : !b
  %t = chunk.put %a[0, 0] to %c[2, 0] sizes [3, 2] from 0 to 1 : !b to !b
  %u = chunk.put %c[3, 0] to %c[0, 0] sizes [2, 2] from 1 to 1 after(%t) : !b to !b
  %v = chunk.get %c[1, 0] to %a[0, 0] sizes [4, 2] from 1 to 0 after(%u) : !b to !b
  chunk.input %a[0, 0] sizes [2, 2] on 0 : !b
  chunk.input %a[4, 0] sizes [2, 2] on 0 : !b
}
"""


def test_transfers_follow_each_other_and_carry_what_is_undefined():
    whole = np.arange(12).reshape(6, 2)
    memory = interpret_plan(CHAIN, {"a": [whole, np.zeros(0)]})
    at_1 = memory["c"][1]
    assert at_1.defined.all(1).tolist() == [True, False, True, True, False, False]
    assert at_1.data[[0, 2, 3]].tolist() == [[2, 3], [0, 1], [2, 3]]
    at_0 = memory["a"][0]
    assert at_0.defined.all(1).tolist() == [False, True, True, False, True, True]
    assert at_0.data[[1, 2, 4, 5]].tolist() == [[0, 1], [2, 3], [8, 9], [10, 11]]
    assert not memory["a"][1].defined.any()
    assert not memory["c"][0].defined.any()


def test_what_does_not_fit_is_refused():
    with pytest.raises(
        SyncopateError, match="inputs: a: expects one array for each of 2 ranks, but got 1"
    ):
        interpret_plan(CHAIN, {"a": [np.zeros((6, 2))]})
    with pytest.raises(
        SyncopateError, match=r"inputs: a of rank 0: expects shape \[3, 2\], but got \[2, 2\]"
    ):
        one = CHAIN.replace("chunk.input %a[4, 0] sizes [2, 2] on 0 : !b", "").replace(
            "%a[0, 0] sizes [2, 2] on 0", "%a[0, 0] sizes [3, 2] on 0"
        )
        interpret_plan(one, {"a": [np.zeros((2, 2)), np.zeros(0)]})
    with pytest.raises(PlanError, match=r"expects one chunk\.plan, but got 0"):
        interpret_plan("module {}", {})
    dynamic = 'chunk.plan @p mesh [2] { %a = chunk.buffer "a" : !chunk.buffer<?x2xi8> }'
    with pytest.raises(PlanError, match="buffer a: expects known dimensions"):
        interpret_plan(dynamic, {})
