"""Partitioned collectives: primitives in the place of others, in groups, piece by piece."""

import json

import pytest
from import_faults_partitions import GOOD, SCATTER

from syncopate.importers import emit_plan, prove, read_steps
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.sim.check import check_plan

pytestmark = pytest.mark.any_triton

CHECKS = "chunk.plan(chunk-split-transfers,chunk-check-plan,chunk-check-claims)"
INSIDE, ACROSS = [[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]]


def stage(primitive, groups=None, **more):
    return {"primitive": primitive} | ({} if groups is None else {"groups": groups}) | more


def read(collective, stages, ranks=6, **more):
    text = json.dumps({"collective": collective, "ranks": ranks, "stages": stages} | more, indent=1)
    steps = read_steps(text, "partitions-json", "f")
    prove(steps)
    return steps


PARTITIONED = {
    "substitution": ("all_reduce", [("reduce_scatter", None), ("all_gather", None)]),
    "two levels": ("all_reduce", [("reduce_scatter", INSIDE), ("all_reduce", ACROSS), ("all_gather", INSIDE)]),
    "four stages": (
        "all_reduce",
        [
            ("reduce_scatter", INSIDE),
            ("reduce_scatter", ACROSS),
            ("all_gather", ACROSS),
            ("all_gather", INSIDE),
        ],
    ),
    "gather inside first": ("all_gather", [("all_gather", INSIDE), ("all_gather", ACROSS)]),
    "gather across first": ("all_gather", [("all_gather", ACROSS), ("all_gather", INSIDE)]),
    "scatter inside first": ("reduce_scatter", [("reduce_scatter", INSIDE), ("reduce_scatter", ACROSS)]),
    "scatter across first": ("reduce_scatter", [("reduce_scatter", ACROSS), ("reduce_scatter", INSIDE)]),
}  # fmt: skip


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize("order", ["pieces", "stages", "pipeline"])
@pytest.mark.parametrize("name", PARTITIONED)
def test_partition_is_the_collective(name, order, algorithm):
    """Proved on its steps, and by the compiler on the plan."""
    collective, stages = PARTITIONED[name]
    made = [stage(primitive, groups, algorithm=algorithm) for primitive, groups in stages]
    steps = read(collective, made, pieces=2, order=order)
    rows = steps.chunks * (1 if collective == "all_reduce" else steps.ranks)
    text = emit_plan(steps, (2 * rows + 1, 4), "f32").plan.text
    assert "chunk.claim" in text
    run_pipeline(parse(text, new_context()), CHECKS)
    # What a rank sends is as much as without groups, or less where they pass sums on.
    sent = sum(move.src.count for move in steps.moves)
    units = steps.chunks if collective == "all_reduce" else steps.chunks * steps.ranks
    once = units * (steps.ranks - 1)
    assert sent == once * (2 if collective == "all_reduce" else 1)


def test_root_adds_up_and_tells_the_others():
    steps = read("all_reduce", [stage("reduce", root=2), stage("broadcast", root=2)], pieces=3)
    assert len(steps.moves) == 3 * 2 * 5
    assert {move.dst.rank for move in steps.moves if move.reduces} == {2}


def test_broadcasts_make_a_gather():
    steps = read("all_gather", [stage("broadcast", root=root) for root in range(6)])
    assert len(steps.moves) == 6 * 5


def test_exchange_goes_piece_by_piece():
    steps = read("all_to_all", [stage("all_to_all")], ranks=4, pieces=3)
    assert (len(steps.moves), steps.chunks, steps.in_place) == (3 * 4 * 4, 3, False)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("pieces", "00 01 02 10 11 12"),
        ("stages", "00 10 01 11 02 12"),
        # What is nearer to its end goes first.
        ("pipeline", "00 01 10 02 11 12"),
    ],
)
def test_order_says_when_pieces_go_on(order, expected):
    stages = [
        stage("reduce_scatter", INSIDE),
        stage("all_reduce", ACROSS),
        stage("all_gather", INSIDE),
    ]
    steps = read("all_reduce", stages, pieces=2, order=order)
    lines = sorted({move.place.line for move in steps.moves})
    found = [f"{move.src.offset // 6}{lines.index(move.place.line)}" for move in steps.moves]
    assert " ".join(dict.fromkeys(found)) == expected


def test_plan_of_stages_in_groups_is_simulated():
    steps = read_steps(GOOD, "partitions-json")
    text = emit_plan(steps, (2 * steps.chunks, 16), "f32", kernel=True).plan.text
    report = check_plan(text, seeds=1, calls=2)
    assert report.ok, report


@pytest.mark.parametrize("text", [GOOD, SCATTER])
def test_files_of_the_faults_are_right(text):
    steps = read_steps(text, "partitions-json")
    prove(steps)
    assert steps.ranks == 4
