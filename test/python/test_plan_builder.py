"""What the builders refuse, with the argument and the value in the message, and what they keep alive."""

import gc
import re
import sys

import pytest

from syncopate import Plan, PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.plan_file import schedule_plan

pytestmark = pytest.mark.any_triton


def make(name="p"):
    plan = Plan(name, mesh=[2])
    return plan, plan.buffer("a", (8, 8), "f32", shard_axis=0)


def put(plan, a, **changes):
    arguments = {"src": a[0:4], "dst": a[0:4], "src_rank": 0, "dst_rank": 1, **changes}
    return plan.put(arguments.pop("src"), arguments.pop("dst"), **arguments)


@pytest.mark.parametrize("side", ["src", "dst"])
def test_chunk_of_another_plan_is_refused(side):
    plan, a = make("p")
    _, other = make("q")
    with pytest.raises(PlanError, match=f"{side}: expects a buffer of plan p, but got a of plan q"):
        put(plan, a, **{side: other[0:4]})


def test_token_of_another_plan_is_refused():
    plan, a = make("p")
    token = put(*make("q"))
    with pytest.raises(PlanError, match="after: expects tokens of plan p, but got one of plan q"):
        put(plan, a, after=[token])
    with pytest.raises(PlanError, match="after: expects tokens of plan p, but got one of plan q"):
        plan.all_gather(a, after=[token])


def test_buffer_of_another_plan_is_refused():
    plan, _ = make("p")
    _, other = make("p")
    with pytest.raises(PlanError, match="buffer: expects a buffer of plan p, but got a of plan p"):
        plan.all_gather(other)
    with pytest.raises(PlanError, match="chunk: expects a buffer of plan p"):
        plan.input(other[0:4], rank=0)


def test_plan_lives_as_long_as_its_buffers():
    plan, a = make()
    del plan
    gc.collect()
    plan = a.plan
    assert "chunk.put" in (put(plan, a) and plan.text)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("x", "index of buffer a: expects an integer, but got 'x' of type str"),
        (1.5, "index of buffer a: expects an integer, but got 1.5 of type float"),
        (slice("0", 4), "index of buffer a: expects an integer, but got '0' of type str"),
        (slice(5, 3), "index of buffer a: expects slices that begin before they end, but got 5:3"),
        (slice(0, 4, 2), "index of buffer a: expects slices without step, but got 2"),
        (slice(-4, None), "index of buffer a: expects indices counted from the front"),
        ((0, 0, 0), "index of buffer a: expects at most 2 entries, but got 3"),
        (2**64, "index of buffer a: expects an integer of 64 bits"),
    ],
)
def test_bad_index_is_refused(index, said):
    _, a = make()
    with pytest.raises(PlanError, match=re.escape(said)):
        a[index]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"after": "token"}, "after: expects a sequence of tokens, but got a single one"),
        ({"after": ["t"]}, "after: expects tokens of the plan, but got 't' of type str"),
        ({"after": 3}, "after: expects a sequence of tokens, but got 3 of type int"),
        ({"src": "buffer"}, "src: expects a chunk, such as a[0:128], but got"),
        ({"dst": (0, 4)}, "dst: expects a chunk, such as a[0:128], but got (0, 4) of type tuple"),
        ({"src_rank": "0"}, "src_rank: expects an integer, but got '0' of type str"),
        ({"dst_rank": None}, "dst_rank: expects an integer, but got None"),
        ({"dst_rank": 2}, "expects dst rank to be in [0, 2), but got 2"),
        ({"realization": "magic"}, "realization: expects one of"),
    ],
)
def test_bad_argument_of_a_transfer_is_refused(changes, said):
    plan, a = make()
    if changes.get("after") == "token":
        changes = {"after": put(plan, a)}
    if changes.get("src") == "buffer":
        changes = {"src": a}
    with pytest.raises(PlanError, match=re.escape(said)):
        put(plan, a, **changes)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Plan("p", mesh=["x"]), "mesh: expects an integer, but got 'x' of type str"),
        (lambda: Plan("p", mesh=2), "mesh: expects a sequence of integers, but got 2"),
        (lambda: Plan(3, mesh=[2]), "name: expects a string, but got 3 of type int"),
        (lambda: make()[0].buffer("b", (4, "4"), "f32"), "shape: expects an integer, but got '4'"),
        (lambda: make()[0].buffer("b", (4, 4), 32), "dtype: expects a string, but got 32"),
        (lambda: make()[0].buffer("b", (4, 4), "f31"), "dtype: expects an element type"),
        (lambda: make()[0].all_gather("a"), "buffer: expects a buffer of the plan, but got 'a'"),
        (lambda: (lambda p, a: p.all_gather(a, axis="0"))(*make()), "axis: expects an integer"),
        (lambda: (lambda p, a: p.all_gather(a, group="01"))(*make()), "group: expects a sequence"),
        (lambda: (lambda p, a: p.input(a[0:4], rank=0.0))(*make()), "rank: expects an integer"),
    ],
)
def test_bad_argument_is_refused(build, said):
    with pytest.raises(PlanError, match=re.escape(said)):
        build()


def two_ranks():
    plan = Plan("p", [2])
    a = plan.buffer("a", (4, 2), "f32", shard_axis=0)
    tokens = [
        plan.put(a[0:2], a[0:2], src_rank=0, dst_rank=1),
        plan.put(a[2:4], a[2:4], src_rank=1, dst_rank=0),
    ]
    return plan, a, tokens


def test_claim_is_proved():
    plan, a, tokens = two_ranks()
    with plan.claim(after=tokens):
        plan.all_gather(a)
    assert len(plan.tokens) == 2
    run_pipeline(parse(plan.text, new_context()), "chunk.plan(chunk-check-claims)")


def test_claim_that_does_not_hold_is_refused_with_its_line():
    plan, a, tokens = two_ranks()
    line = sys._getframe().f_lineno + 1
    with plan.claim(after=tokens[:1]):
        plan.all_gather(a)
    module = parse(plan.text_with_locations, new_context())
    with pytest.raises(
        PlanError, match=rf"test_plan_builder.py:{line}: .* rank 0 to hold block 1 of rank 1"
    ):
        run_pipeline(module, "chunk.plan(chunk-check-claims)")


def test_claim_holds_one_collective():
    plan, a, tokens = two_ranks()
    before = plan.text
    with pytest.raises(PlanError, match="one collective"), plan.claim(after=tokens):
        pass
    with pytest.raises(PlanError, match="one collective"), plan.claim(after=tokens):
        plan.all_gather(a)
        plan.all_gather(a)
    with pytest.raises(PlanError, match=r"chunk\.plan"), plan.claim(after=tokens):
        plan.put(a[0:1], a[1:2], src_rank=0, dst_rank=1)
    with (
        pytest.raises(PlanError, match="another claim"),
        plan.claim(after=tokens),
        plan.claim(after=tokens),
    ):
        pass
    assert plan.text == before


def test_operations_name_the_line_that_at_says():
    plan = Plan("p", [2])
    a = plan.buffer("a", (4, 8), "f32", shard_axis=0)
    with plan.at("ring.xml", 12):
        token = plan.put(a[0:2], a[0:2], src_rank=0, dst_rank=1)
        with pytest.raises(PlanError, match=r"^ring\.xml:12: .*expects dst rank to be in \[0, 2\)"):
            plan.put(a[0:2], a[0:2], src_rank=0, dst_rank=2)
        with plan.at("inner.xml", 3):
            plan.join([token])
        plan.join([token])
    plan.join([token])
    assert plan.text_with_locations.count('loc("ring.xml":12:1)') == 1
    assert plan.text_with_locations.count('loc("inner.xml":3:1)') == 1
    assert "test_plan_builder.py" in plan.text_with_locations
    with pytest.raises(PlanError, match="line: expects an integer"):
        plan.at("x", "y").__enter__()


def test_plan_itself_can_come_from_a_file():
    plan = Plan("p", [2], place=("ring.xml", 1))
    plan.buffer("a", (4, 8), "f32")
    assert "test_plan_builder.py" not in plan.text_with_locations
    with pytest.raises(PlanError, match=r"^ring\.xml:1: "):
        Plan("p", [0], place=("ring.xml", 1))


def test_bound_tiles_make_a_schedule():
    plan = Plan("p", [2])
    a = plan.buffer("a", (8, 6), "f32", shard_axis=0)
    token = plan.all_gather(a)
    plan.bind_tiles("k", [4, 2], reads={a: (2, 3)}, after=[token], ctas=3)
    schedule = schedule_plan(plan.text)
    assert (schedule.tiles, schedule.num_ctas) == ((4, 2), 3)
    (access,) = schedule.accesses
    assert access.offsets((3, 1)) == (6, 3)
    assert (access.sizes, access.writes) == ((2, 3), False)
    with pytest.raises(PlanError, match="kernel"):
        plan.bind_tiles("again", [4], reads={a: (2, 6)}, after=[token])
    with pytest.raises(PlanError, match="buffer: expects a buffer of plan q, but got a of plan p"):
        Plan("q", [2]).bind_tiles("k", [4], reads={a: (2, 6)})
