"""Templates of all collectives, on meshes of one dimension and more: proved twice, and run."""

import itertools
import math
import random
import re

import numpy as np
import pytest

from syncopate import Plan, PlanError, Strategy
from syncopate.choices import Algorithm, Combine, Direction, Swizzle
from syncopate.importers.steps.read_plan import read_plan
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.catalog import Template, list_templates, make_plan
from syncopate.plan.interpreter import interpret_plan
from syncopate.plan.kinds import Collective
from syncopate.plan.loops import gather, reduce, reverse
from syncopate.plan.mesh import Mesh
from syncopate.plan.moves import Moves
from syncopate.plan.plan_file import decompose_plan
from syncopate.plan.templates import all_reduce_tiles, reduce_scatter_tiles
from syncopate.sim.check import check_plan

pytestmark = pytest.mark.any_triton

CHECKS = (
    "chunk.plan(chunk-expand-spmd,chunk-decompose-collectives,chunk-check-plan,chunk-check-claims)"
)
LINES = [(world,) for world in range(2, 10)]
GRIDS = [(2, 2), (2, 3), (3, 2), (2, 4), (3, 3), (2, 2, 2)]


def prove(template, mesh, **choices):
    """Proves a template by the compiler, on rows that do not divide, and contribution by contribution."""
    world = math.prod(mesh)
    # Calls give back only blocks of one size of an exchange.
    even = template.collective is Collective.ALL_TO_ALL and choices["tiles"]
    ragged = make_plan(template, mesh, (3 * world + (not even), 2), "f32", **choices)
    run_pipeline(parse(ragged.plan.text, new_context()), CHECKS)
    steps = read_plan(make_plan(template, mesh, (2 * world, 2), "f32", **choices).plan.text)
    assert steps.collective is template.collective
    # No block goes anywhere twice.
    into = [(cell[0], cell) for move in steps.moves for cell in move.dst if not move.reduces]
    assert len(into) == len(set(into))


@pytest.mark.parametrize("mesh", LINES + GRIDS, ids=str)
def test_templates_are_the_collective(mesh):
    """Some of each collective's, by chance, fresh ones every time; the slow test takes all."""
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    by_kind = {}
    for template in list_templates(mesh):
        by_kind.setdefault(template.collective, []).append(template)
    for kind, templates in by_kind.items():
        # What the passes make of a collective has tests of its own.
        levels = [each for each in templates if not each.is_operation]
        chosen = [draw.choice(templates), *draw.sample(levels, min(2, len(levels)))]
        for template in chosen:
            choices = {
                "splits": draw.choice([1, 2]),
                "tiles": kind is not Collective.BROADCAST and draw.random() < 0.5,
                "direction": draw.choice(list(Direction)),
                "root": draw.randrange(math.prod(mesh)),
            }
            try:
                prove(template, mesh, **choices)
            except PlanError as error:
                pytest.fail(f"seed {seed}: {template} {choices}: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("mesh", LINES + GRIDS, ids=str)
def test_all_templates_are_the_collective(mesh):
    for template in list_templates(mesh):
        for tiles in (False, True):
            if not tiles or template.collective is not Collective.BROADCAST:
                prove(template, mesh, tiles=tiles, splits=1 + tiles, root=math.prod(mesh) - 1)


@pytest.mark.parametrize("kind", [Collective.REDUCE_SCATTER, Collective.ALL_REDUCE])
def test_tiles_are_summed_alike_by_both_kinds_of_templates(kind):
    flat = [each for each in Algorithm if each is not Algorithm.HIERARCHICAL]
    algorithm = random.SystemRandom().choice(flat)
    made = make_plan(Template(kind, (algorithm,)), (4,), (13, 2), "f32", tiles=True)
    plan = Plan(kind.value, [4])
    add = reduce_scatter_tiles if kind is Collective.REDUCE_SCATTER else all_reduce_tiles
    strategy = Strategy(algorithm=algorithm, combine=Combine.COLLECTIVE)
    add(plan, plan.buffer("data", (13, 2), "f32"), strategy)
    named, chosen = (
        re.findall(r"chunk\.(?:put|produce|output) .*", str(decompose_plan(text, options)))
        for text, options in ((made.plan.text, ""), (plan.text, f"algorithm={algorithm.value}"))
    )
    assert named == chosen and len(named) > 12


def test_direct_along_two_dimensions_is_left_to_the_passes():
    template = Template(Collective.ALL_REDUCE, (Algorithm.DIRECT, Algorithm.DIRECT))
    for mesh, algorithm in (((2, 3), "hierarchical"), ((1, 6), "direct")):
        text = make_plan(template, mesh, (12, 2), "f32").plan.text
        assert f" by {algorithm} push" in text and "chunk.claim" not in text


def test_every_algorithm_and_form_is_there():
    names = [str(template) for template in list_templates((2, 4))]
    assert len(names) == len(set(names))
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "broadcast"):
        for how in ("direct", "ring", "bidirectional_ring", "recursive_doubling", "hierarchical"):
            assert f"{kind} by {how}" in names
        assert sum(name.startswith(f"{kind} by ") and "+" in name for name in names) == 16
    assert "all_to_all by hierarchical" in names
    assert "all_gather by direct, xor" in names
    assert not any(
        "recursive" in str(each) for each in list_templates((3,)) if "cast" not in str(each)
    )


@pytest.mark.parametrize("kind", Collective, ids=lambda kind: kind.value)
def test_results_are_numpys(kind):
    """What the templates' transfers leave, by an interpreter that knows nothing of their claim."""
    world, rows = 6, 19
    draw = np.random.default_rng()
    template = [each for each in list_templates((2, 3)) if each.collective is kind][-4]
    made = make_plan(template, (2, 3), (rows, 2), "i64", root=4)
    block = math.ceil(rows / world)
    whole = draw.integers(-99, 99, (world, rows, 2))
    given = list(whole)
    if kind is Collective.ALL_GATHER:
        given = [whole[0][rank * block : (rank + 1) * block] for rank in range(world)]
    found = interpret_plan(made.plan.text, {made.given.name: given})[made.result.name]
    for rank, contents in enumerate(found):
        mine = slice(rank * block, min((rank + 1) * block, rows))
        match kind:
            case Collective.ALL_GATHER:
                np.testing.assert_array_equal(contents.data, whole[0])
            case Collective.BROADCAST:
                np.testing.assert_array_equal(contents.data, whole[4])
            case Collective.ALL_REDUCE:
                np.testing.assert_array_equal(contents.data, whole.sum(0))
            case Collective.REDUCE_SCATTER:
                np.testing.assert_array_equal(contents.data[mine], whole.sum(0)[mine])
            case Collective.ALL_TO_ALL:
                for sender in range(world):
                    part = whole[sender][mine]
                    got = contents.data[sender * block : sender * block + len(part)]
                    np.testing.assert_array_equal(got, part)


def test_two_level_exchange_sends_whole_messages_between_nodes():
    template = Template(Collective.ALL_TO_ALL, (Algorithm.HIERARCHICAL,))
    steps = read_plan(make_plan(template, (2, 4), (16, 2), "f32").plan.text)
    crossing = [move for move in steps.moves if move.src.rank // 4 != move.dst.rank // 4]
    # One message for each rank of the other node that is at its place: the blocks of all four ranks.
    assert len(crossing) == 8
    assert {move.src.count // steps.chunks for move in crossing} == {4}


def test_grid_crosses_between_nodes_once():
    template = Template(Collective.ALL_GATHER, (Algorithm.DIRECT, Algorithm.RING))
    steps = read_plan(make_plan(template, (2, 4), (16, 2), "f32").plan.text)
    crossing = [move for move in steps.moves if move.src.rank // 4 != move.dst.rank // 4]
    assert len(crossing) == 8


@pytest.mark.parametrize("tiles", [False, True])
def test_blocks_of_two_sizes_are_not_given_back(tiles):
    template = Template(Collective.ALL_TO_ALL, (Algorithm.DIRECT,))
    with pytest.raises(PlanError, match="shape: expects a multiple of 3 rows for tiles"):
        make_plan(template, (3,), (10, 4), "f32", tiles=tiles, kernel=not tiles)


def test_tiles_may_read_what_a_sum_leaves_undefined():
    template = Template(Collective.REDUCE_SCATTER, (Algorithm.RING,))
    report = check_plan(make_plan(template, (3,), (7, 4), "f32", kernel=True).plan.text, seeds=1)
    assert report.ok, report


@pytest.mark.parametrize("tiles", [False, True])
def test_template_runs_in_the_simulator(tiles):
    template = Template(Collective.ALL_REDUCE, (Algorithm.RING, Algorithm.DIRECT))
    made = make_plan(template, (2, 2), (13, 4), "bf16", tiles=tiles, kernel=True, splits=2)
    report = check_plan(made.plan.text, seeds=2)
    assert report.ok, report


@pytest.mark.parametrize(
    ("kind", "algorithms", "choices", "said"),
    [
        ("all_gather", ["ring", "ring", "ring"], {}, "expects one algorithm, or 2"),
        ("broadcast", ["ring"], {"tiles": True}, "tiles: expects False for a broadcast"),
        ("all_gather", ["ring"], {"splits": 0}, "splits: expects a positive number, but got 0"),
        ("all_gather", ["hierarchical", "ring"], {}, "expects one for each dimension"),
        (
            "all_gather",
            ["ring", "recursive_doubling"],
            {},
            "power of two for algorithm .*, but got 3",
        ),
    ],
)
def test_what_does_not_apply_is_refused(kind, algorithms, choices, said):
    template = Template(Collective(kind), tuple(map(Algorithm, algorithms)))
    with pytest.raises(PlanError, match=said):
        make_plan(template, (2, 3), (12, 2), "f32", **choices)


def test_mesh_by_hand():
    grid = Plan("p", [2, 3]).grid
    assert grid == Mesh((2, 3))
    assert [grid.place(rank) for rank in (0, 2, 5)] == [(0, 0), (0, 2), (1, 2)]
    assert all(grid.rank(grid.place(rank)) == rank for rank in range(6))
    assert list(grid.groups(1)) == [(0, 1, 2), (3, 4, 5)]
    assert list(grid.groups(0)) == [(0, 3), (1, 4), (2, 5)]
    assert list(grid.groups(0, 1)) == [tuple(range(6))]
    assert (grid.neighbour(2, 1, 1), grid.neighbour(0, 0, -1)) == (0, 3)
    for wrong in (lambda: grid.place(6), lambda: grid.rank((0, 3)), lambda: list(grid.groups(2))):
        with pytest.raises(PlanError, match="expects one in"):
            wrong()


@pytest.mark.parametrize("swizzle", Swizzle)
@pytest.mark.parametrize("members", [2, 5, 8])
def test_swizzles_hand_everything_over_once(members, swizzle):
    hands = list(gather(members, Algorithm.DIRECT, swizzle))
    pairs = {(hand.src, hand.dst) for hand in hands}
    assert len(hands) == len(pairs) == members * (members - 1)
    assert all(hand.block == hand.src for hand in hands)
    assert reverse(reverse(hands)) == hands


@pytest.mark.parametrize(
    "algorithm", [Algorithm.RING, Algorithm.BIDIRECTIONAL_RING, Algorithm.RECURSIVE_DOUBLING]
)
def test_loops_gather_and_sum(algorithm):
    parts = [0, 1] if algorithm is Algorithm.BIDIRECTIONAL_RING else [None]
    everything = set(itertools.product(range(4), parts))
    held = [{(member, part) for part in parts} for member in range(4)]
    for hand in gather(4, algorithm):
        assert (hand.block, hand.part) in held[hand.src] - held[hand.dst]
        held[hand.dst].add((hand.block, hand.part))
    assert held == [everything] * 4
    # Whose contributions to a block a member has added up.
    for hands in (reduce(4, algorithm), reverse(gather(4, algorithm))):
        added = [{each: {member} for each in everything} for member in range(4)]
        for hand in hands:
            here, there = (added[member][hand.block, hand.part] for member in (hand.src, hand.dst))
            assert here.isdisjoint(there)
            there |= here
        assert all(added[block][block, part] == set(range(4)) for block, part in everything)


def test_moves_come_after_what_they_touch_and_no_more():
    plan = Plan("p", [3])
    a = plan.buffer("a", (8, 2), "f32")
    plan.input(a[:], rank=0)
    moves = Moves(plan)
    moves.copy(a[0:4], 0, 1)
    moves.copy(a[4:8], 0, 1)
    moves.copy(a[2:6], 1, 2)
    # Writes what the third has read, and through it comes after the first two.
    moves.copy(a[0:8], 0, 1)
    # Another part of another rank: after nothing.
    moves.copy(a[0:1], 0, 2)
    puts = [line for line in plan.text.splitlines() if "chunk.put" in line]
    after = [line.split("after(")[1].split(")")[0] if "after(" in line else "" for line in puts]
    names = [line.split(" = ")[0].strip() for line in puts]
    assert after == ["", "", f"{names[0]}, {names[1]}", names[2], ""]


def test_one_rank_has_no_templates():
    assert not list(list_templates((1,))) and not list(list_templates((1, 1)))
