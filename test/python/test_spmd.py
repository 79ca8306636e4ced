"""The rank-affine form: built in Python, it means what its expansion means, and what numpy says."""

import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from syncopate import Plan, PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan
from syncopate.sim.check import check_plan

pytestmark = pytest.mark.any_triton

EXPAND = "chunk.plan(chunk-expand-spmd,chunk-check-plan,chunk-check-claims)"


def ring_gather(world, group, rows, *, pull=False, reduction=None):
    """An all_gather of the members' blocks around a ring, or the reduction that comes before one."""
    plan = Plan("p", [world])
    a = plan.buffer("a", (rows, 3), "i64")
    height = math.ceil(rows / len(group))
    for index, rank in enumerate(group):
        if reduction:
            plan.input(a[:], rank=rank)
        elif index * height < rows:
            plan.input(a[index * height : min((index + 1) * height, rows)], rank=rank)
    with plan.spmd(group) as ring:
        last, following = (ring.member - 1) % ring.size, (ring.member + 1) % ring.size
        token = None
        for step in range(ring.size - 1):
            # Of the member that sends; when pulling, that is the one before.
            number = ring.member - step - (1 if reduction else 0) - (1 if pull else 0)
            begin = number % ring.size * height
            block = a[begin : begin + height]
            verb, peer = (ring.get, last) if pull else (ring.put, following)
            after = [(token, last)] if token else []
            token = verb(block, block, peer=peer, reduction=reduction, after=after)
    with plan.claim(after=[ring.token]):
        if reduction:
            plan.reduce_scatter(a, group=group, reduction=reduction)
        else:
            plan.all_gather(a, group=group)
    return plan


@settings(max_examples=40, deadline=None, database=None)
@given(
    strategies.integers(2, 6).flatmap(
        lambda world: strategies.tuples(
            strategies.just(world),
            strategies.permutations(range(world)),
            strategies.integers(2, world),
        )
    ),
    strategies.integers(1, 17),
    strategies.booleans(),
    strategies.sampled_from([None, "sum", "min"]),
)
def test_a_ring_is_what_it_claims_to_be(which, rows, pull, reduction):
    world, order, size = which
    group = order[:size]
    plan = ring_gather(world, group, rows, pull=pull, reduction=reduction)
    data = np.random.default_rng().integers(-(2**40), 2**40, (world, rows, 3))
    height = math.ceil(rows / size)
    blocks = [slice(index * height, (index + 1) * height) for index in range(size)]
    given_ = [np.zeros((0, 3), np.int64)] * world
    for rank, block in zip(group, blocks, strict=True):
        given_[rank] = data[rank] if reduction else data[rank][block]
    combine = {"sum": np.sum, "min": np.min, None: None}[reduction]
    module = parse(plan.text, new_context())
    for step in ("", EXPAND):
        if step:
            run_pipeline(module, step)
            assert "chunk.spmd" not in str(module)
        memory = interpret_plan(module, {"a": given_})["a"]
        for rank, block in zip(group, blocks, strict=True):
            if combine:
                expected = combine(data[group], axis=0)[block]
                assert (memory[rank].data[block] == expected).all()
            else:
                whole = np.concatenate([data[r][b] for r, b in zip(group, blocks, strict=True)])
                assert (memory[rank].data == whole).all()
                assert memory[rank].defined.all()


def test_the_rank_affine_form_grows_with_steps_and_its_expansion_with_ranks():
    plan = ring_gather(8, range(8), 16)
    assert plan.text.count("chunk.transfer") == 7
    module = parse(plan.text, new_context())
    run_pipeline(module, EXPAND)
    assert str(module).count("chunk.put") == 7 * 8


SHIFT = """
!a = !chunk.buffer<100x16xbf16>
#own = affine_map<(i) -> (i * 30, 0)>
#other = affine_map<(i) -> ((i + 1) mod 4 * 30, 0)>
#next = affine_map<(i) -> ((i + 1) mod 4)>
#after_next = affine_map<(i) -> ((i + 2) mod 4)>
chunk.plan @p mesh [4] {
  %a = chunk.buffer "a" : !a
  %b = chunk.buffer "b" : !a
  chunk.input %a[0, 0] sizes [100, 16] on 0 : !a
  chunk.input %a[0, 0] sizes [100, 16] on 1 : !a
  chunk.input %a[0, 0] sizes [100, 16] on 2 : !a
  chunk.input %a[0, 0] sizes [100, 16] on 3 : !a
  %t = chunk.spmd group [0, 1, 2, 3] {
    %0 = chunk.transfer push %a at #own to %b at #own sizes [30, 16] peer #next : !a to !a
    %1 = chunk.transfer pull %b at #other to %b at #other sizes [30, 16] peer #after_next
      after(%0 at #next) : !a to !a
  }
  chunk.kernel @k tiles [1, 1] ctas 1 args(%a as "a") after(%t) : !a {
    chunk.footprint read "a" at affine_map<(m, n) -> (0, 0)> sizes [100, 16]
  }
}
"""


def test_it_goes_through_the_whole_pipeline():
    report = check_plan(SHIFT, "splits=2", seeds=2)
    assert report.ok, str(report)


def small(world=3):
    plan = Plan("p", [world])
    return plan, plan.buffer("a", (6, 2), "f32", shard_axis=0)


def test_errors_have_the_line_and_the_member():
    plan, a = small()
    before = plan.text
    line = sys._getframe().f_lineno + 7
    with (
        pytest.raises(
            PlanError, match=rf"test_spmd.py:{line}: .*peer of member 2 to be in \[0, 3\)"
        ),
        plan.spmd() as each,
    ):
        each.put(a[0:1], a[0:1], peer=each.member + 1)
    assert plan.text == before


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda p, a, s: s.put(a[s.member : 4], a[0:1], peer=0),
            "expects slices of one size for all members",
        ),
        (
            lambda p, a, s: s.put(a[s.member + 2 : s.member], a[0:1], peer=0),
            "begin before they end",
        ),
        (lambda p, a, s: s.put(a[0:2], a[0:1], peer=0), "dst: expects sizes [2, 2], those of src"),
        (lambda p, a, s: s.put(a[0:1], a[0:1], peer="0"), "peer: expects an integer, but got '0'"),
        (lambda p, a, s: s.put(a, a[0:1], peer=0), "src: expects a chunk, such as a[0:128]"),
        (
            lambda p, a, s: s.put(a[0:1], a[1:2], peer=0, after=[3]),
            "after: expects tokens of the plan",
        ),
        (
            lambda p, a, s: s.put(a[0:1], a[1:2], peer=0, after=[(1, 2, 3)]),
            "after: expects a token, or",
        ),
        (
            lambda p, a, s: s.put(a[0:1], a[1:2], peer=0, after=5),
            "after: expects a sequence of tokens",
        ),
        (
            lambda p, a, s: s.get(a[0:1], a[s.member - 1], peer=0),
            "offsets of member 0 not to be negative",
        ),
        (
            lambda p, a, s: s.put(a[0:1], a[1:2], peer=0, reduction="mean"),
            "reduction: expects one of",
        ),
        (
            lambda p, a, s: s.put(a[0:1], a[1:2], peer=0, after=[p.tokens[0]]),
            "transfers of the same chunk.spmd",
        ),
        (lambda p, a, s: p.put(a[0:1], a[1:2], src_rank=0, dst_rank=1), "chunk.plan"),
        (lambda p, a, s: p.spmd().__enter__(), "spmd: expects to stand in a plan"),
        (lambda p, a, s: p.claim([]).__enter__(), "expects to stand in a plan"),
        (lambda p, a, s: None, "expects at least one transfer in its body"),
    ],
)
def test_what_is_wrong_inside_is_refused_and_taken_back(build, said):
    plan, a = small()
    plan.put(a[0:1], a[0:1], src_rank=0, dst_rank=1)
    before, tokens = plan.text, list(plan.tokens)
    with pytest.raises(PlanError, match=re.escape(said)), plan.spmd() as each:
        build(plan, a, each)
    assert plan.text == before
    assert plan.tokens == tokens
    plan.put(a[0:1], a[0:1], src_rank=0, dst_rank=2)


def test_tokens_stay_inside():
    plan, a = small()
    kept = []
    with pytest.raises(KeyError), plan.spmd() as broken:
        kept.append(broken.put(a[0:1], a[1:2], peer=broken.member))
        with pytest.raises(PlanError, match="expects its token to be used behind its with block"):
            _ = broken.token
        raise KeyError
    with pytest.raises(PlanError, match="expects its token to be used behind its with block"):
        _ = broken.token
    with plan.spmd() as each:
        kept.append(each.put(a[0:1], a[1:2], peer=each.member))
        with pytest.raises(PlanError, match=r"inside of a plan\.spmd"):
            each.put(a[0:1], a[1:2], peer=0, after=[kept[0]])
    for token in kept:
        with pytest.raises(PlanError, match=r"inside of a plan\.spmd"):
            plan.put(a[0:1], a[1:2], src_rank=0, dst_rank=1, after=[token])
    plan.put(a[0:1], a[1:2], src_rank=0, dst_rank=1, after=[each.token])


def test_members_stay_inside():
    plan, a = small()
    with plan.spmd([0, 1]) as each:
        own = each.member * 2
        each.put(a[own : own + 2], a[own : own + 2], peer=1 - each.member)
    with pytest.raises(PlanError, match="inside of its with block, but it has ended"):
        each.put(a[0:1], a[0:1], peer=0)
    with (
        pytest.raises(PlanError, match="inside of its with block, but it has ended"),
        plan.spmd([0, 2]),
    ):
        each.put(a[0:1], a[0:1], peer=0)
    with pytest.raises(PlanError, match=r"src: .*belongs into a transfer of plan\.spmd"):
        plan.put(a[own : own + 2], a[0:2], src_rank=0, dst_rank=1)
    with pytest.raises(PlanError, match="group: expects at least one rank"), plan.spmd([]):
        pass
    with (
        pytest.raises(PlanError, match=r"expects dst rank to be in \[0, 3\), but got 7"),
        plan.spmd([0, 7]) as each,
    ):
        each.put(a[0:1], a[1:2], peer=1 - each.member)
