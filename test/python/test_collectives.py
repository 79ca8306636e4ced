"""Collectives: what they mean, whatever the algorithm, and that the compiler proves it."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from syncopate import Plan, PlanError
from syncopate.ir import new_context, parse, run_pipeline
from syncopate.plan.interpreter import interpret_plan

pytestmark = pytest.mark.any_triton

ALGORITHMS = ("direct", "ring", "bidirectional_ring", "hierarchical", "recursive_doubling")
VERBS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}
CHECKS = "chunk.plan(chunk-check-plan,chunk-check-claims)"


def is_grid(mesh, group):
    """Whether ranks are a grid of several rows and columns, by a look at their coordinates."""
    coordinates = np.array([np.unravel_index(rank, mesh) for rank in group])
    distinct = [sorted(set(column)) for column in coordinates.T]
    everyone = {tuple(map(int, place)) for place in itertools.product(*distinct)}
    return {tuple(map(int, row)) for row in coordinates} == everyone and sum(
        len(values) > 1 for values in distinct
    ) >= 2


def applies(verb, algorithm, mesh, group):
    """Whether an algorithm can carry a collective out."""
    if verb == "all_to_all":
        return algorithm == "direct"
    if algorithm == "hierarchical":
        return is_grid(mesh, group)
    if algorithm == "recursive_doubling" and verb != "broadcast":
        return len(group) & (len(group) - 1) == 0
    return True


@strategies.composite
def groups(draw):
    """A mesh, and a group of some of its ranks, every other time a grid, in any order."""
    mesh = tuple(
        draw(
            strategies.sampled_from(
                [(2,), (4,), (5,), (8,), (2, 2), (2, 3), (4, 2), (2, 2, 2), (3, 1, 2)]
            )
        )
    )
    world = math.prod(mesh)
    if draw(strategies.booleans()):
        lines = [
            draw(strategies.lists(strategies.integers(0, size - 1), min_size=1, unique=True))
            for size in mesh
        ]
        ranks = [int(np.ravel_multi_index(place, mesh)) for place in itertools.product(*lines)]
    else:
        ranks = list(range(world))[: draw(strategies.integers(2, world))]
    if len(ranks) < 2:
        ranks = list(range(world))
    return mesh, tuple(draw(strategies.permutations(ranks)))


class Setup:
    """One collective of one plan, what every rank has before it, and what it should have afterwards, by numpy."""

    def __init__(self, draw):
        self.mesh, self.group = draw(groups())
        self.world = math.prod(self.mesh)
        self.shape = tuple(
            draw(strategies.lists(strategies.integers(1, 9), min_size=1, max_size=3))
        )
        self.axis = draw(strategies.integers(0, len(self.shape) - 1))
        self.verb = draw(strategies.sampled_from(VERBS))
        self.kind = draw(strategies.sampled_from(sorted(COMBINE)))
        self.root = draw(strategies.sampled_from(self.group))
        seed = draw(strategies.integers(0, 2**32))
        self.data = np.random.default_rng(seed).integers(-(2**40), 2**40, (self.world, *self.shape))

    def block(self, array, index):
        rows = math.ceil(self.shape[self.axis] / len(self.group))
        return np.moveaxis(array, self.axis, 0)[index * rows : (index + 1) * rows]

    def text(self):
        plan = Plan("p", self.mesh)
        a = plan.buffer("a", self.shape, "i64")
        for rank in range(self.world):
            plan.input(a[()], rank=rank)
        about = {"group": self.group}
        if self.verb == "broadcast":
            plan.broadcast(a, root=self.root, **about)
            return plan.text
        about["axis"] = self.axis
        if self.verb == "all_to_all":
            shape = list(self.shape)
            members = len(self.group)
            shape[self.axis] = math.ceil(shape[self.axis] / members) * members
            plan.all_to_all(a, plan.buffer("b", shape, "i64"), **about)
        elif self.verb == "all_gather":
            plan.all_gather(a, **about)
        else:
            getattr(plan, self.verb)(a, reduction=self.kind, **about)
        return plan.text

    def check(self, memory):
        """Compares the memory of all ranks with what the collective should leave."""
        for rank in set(range(self.world)) - set(self.group):
            assert (memory["a"][rank].data == self.data[rank]).all()
        total = COMBINE[self.kind].reduce(self.data[list(self.group)])
        for member, rank in enumerate(self.group):
            found = memory["a"][rank]
            if self.verb == "broadcast":
                assert (found.data == self.data[self.root]).all()
            elif self.verb == "all_reduce":
                assert (found.data == total).all()
                assert found.defined.all()
            elif self.verb == "reduce_scatter":
                assert (self.block(found.data, member) == self.block(total, member)).all()
                assert self.block(found.defined, member).all()
            elif self.verb == "all_gather":
                for index, owner in enumerate(self.group):
                    assert (
                        self.block(found.data, index) == self.block(self.data[owner], index)
                    ).all()
            else:
                assert (found.data == self.data[rank]).all()
                rows = math.ceil(self.shape[self.axis] / len(self.group))
                for index, sender in enumerate(self.group):
                    sent = self.block(self.data[sender], member)
                    slot = np.moveaxis(memory["b"][rank].data, self.axis, 0)[index * rows :]
                    assert (slot[: len(sent)] == sent).all()
                    state = np.moveaxis(memory["b"][rank].defined, self.axis, 0)[index * rows :]
                    assert state[: len(sent)].all()
                    assert not state[len(sent) : rows].any()


setups = strategies.builds(lambda data: Setup(data.draw), strategies.data())
WAYS = strategies.tuples(
    strategies.sampled_from(ALGORITHMS), strategies.sampled_from(["push", "pull"])
)


@settings(max_examples=250, deadline=None, database=None)
@given(setups, WAYS, strategies.integers(1, 3))
def test_every_algorithm_does_what_numpy_says(setup, way, splits):
    algorithm, direction = way
    text = setup.text()
    setup.check(interpret_plan(text, {"a": list(setup.data)}))
    module = parse(text, new_context())
    decompose = f"chunk-decompose-collectives{{algorithm={algorithm} direction={direction}}}"
    if not applies(setup.verb, algorithm, setup.mesh, setup.group):
        with pytest.raises(PlanError, match=f"algorithm {algorithm}|algorithm direct, but got"):
            run_pipeline(module, f"chunk.plan({decompose})")
        return
    run_pipeline(module, f"chunk.plan({decompose},chunk-split-transfers{{splits={splits}}})")
    run_pipeline(module, CHECKS)
    setup.check(interpret_plan(module, {"a": list(setup.data)}))
    assert ("chunk.get" in str(module)) <= (direction == "pull")
    assert ("chunk.put" in str(module)) <= (direction == "push")


def lower(plan, options):
    module = parse(plan.text, new_context())
    run_pipeline(module, f"chunk.plan(chunk-decompose-collectives{{{options}}})")
    run_pipeline(module, CHECKS)
    return module


def transfers(module):
    """Sender, receiver and rows of each transfer."""
    found = re.findall(r"sizes \[(\d+)[^]]*\] from (\d+) to (\d+)", str(module))
    return [(int(src), int(dst), int(rows)) for rows, src, dst in found]


def gather(mesh, rows, group=None):
    plan = Plan("p", mesh)
    a = plan.buffer("a", (rows, 4), "f32", shard_axis=0)
    plan.all_gather(a, group=group)
    return plan


def test_a_hierarchical_gather_brings_each_block_to_each_node_once():
    between = [
        rows
        for src, dst, rows in transfers(lower(gather((3, 4), 12), "algorithm=hierarchical"))
        if src // 4 != dst // 4
    ]
    assert between == [1] * (12 * 2)


def test_recursive_doubling_takes_as_many_steps_as_the_group_has_bits():
    found = transfers(lower(gather((8,), 16), "algorithm=recursive_doubling"))
    assert sorted(found) == sorted(
        (rank, rank ^ bit, 2 * bit) for rank in range(8) for bit in (1, 2, 4)
    )


def test_a_bidirectional_ring_loads_both_neighbours_alike():
    found = transfers(lower(gather((4,), 16), "algorithm=bidirectional_ring"))
    load = {}
    for src, dst, rows in found:
        load[src, dst] = load.get((src, dst), 0) + rows
    assert load == {(r, (r + way) % 4): 3 * 2 for r in range(4) for way in (1, -1)}


@pytest.mark.parametrize("algorithm", ["direct", "ring", "recursive_doubling"])
@pytest.mark.parametrize("verb", VERBS)
def test_disjoint_groups_in_one_plan(algorithm, verb):
    """Rows and columns of a mesh, each row by itself and then, on another buffer, each column."""
    if verb == "all_to_all" and algorithm != "direct":
        pytest.skip("there is no such algorithm")
    plan = Plan("p", (2, 4))
    a, b = (plan.buffer(name, (8, 3), "i64") for name in "ab")
    outs = {name: plan.buffer(f"{name}_out", (8, 3), "i64") for name in "ab"}
    for rank in range(8):
        plan.input(a[:], rank=rank)
        plan.input(b[:], rank=rank)
    rows = [[0, 1, 2, 3], [7, 5, 6, 4]]
    columns = [[rank, rank + 4] for rank in range(4)]
    for buffer, parts in ((a, rows), (b, columns)):
        for group in parts:
            if verb == "broadcast":
                plan.broadcast(buffer, root=group[-1], group=group)
            elif verb == "all_to_all":
                plan.all_to_all(buffer, outs[buffer.name], group=group)
            else:
                getattr(plan, verb)(buffer, group=group)
    module = lower(plan, f"algorithm={algorithm}")
    data = {name: np.random.default_rng().integers(0, 2**40, (8, 8, 3)) for name in "ab"}
    memory = interpret_plan(module, {name: list(array) for name, array in data.items()})
    for name, parts in (("a", rows), ("b", columns)):
        for group in parts:
            mine = data[name][group]
            height = 8 // len(group)
            blocks = mine.reshape(len(group), len(group), height, 3)
            for member, rank in enumerate(group):
                found = memory[name][rank].data
                if verb == "broadcast":
                    expected = mine[-1]
                elif verb == "all_reduce":
                    expected = mine.sum(0)
                elif verb == "all_gather":
                    expected = np.concatenate([blocks[i, i] for i in range(len(group))])
                elif verb == "all_to_all":
                    found = memory[f"{name}_out"][rank].data
                    expected = np.concatenate([blocks[i, member] for i in range(len(group))])
                else:
                    found = found[member * height : (member + 1) * height]
                    expected = blocks[:, member].sum(0)
                assert (found == expected).all()


@pytest.mark.parametrize("algorithm", ["direct", "ring", "bidirectional_ring"])
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


@pytest.mark.parametrize(
    ("members", "held", "room", "axis"), [(2, 9, 4, 0), (3, 5, 3, 1), (4, 12, 3, 0)]
)
def test_members_may_send_rows_instead_of_blocks(members, held, room, axis):
    """Any rows, in any order, to places of any member, or none."""
    draw = np.random.default_rng()
    rows = np.full((members, members * room), -1)
    for of_member in rows:
        count = draw.integers(0, min(held, members * room) + 1)
        places = draw.permutation(members * room)[:count]
        of_member[places] = draw.permutation(held)[:count]
    plan = Plan("p", [members])
    shape = [(held, 6), (6, held)][axis]
    a = plan.buffer("a", shape, "i64")
    b = plan.buffer("b", tuple(members * room if n == axis else 6 for n in range(2)), "i64")
    for rank in range(members):
        plan.input(a[()], rank=rank)
    plan.all_to_all(a, b, axis=axis, rows=rows.tolist())
    data = [draw.integers(0, 1 << 40, shape) for _ in range(members)]
    module = parse(plan.text, new_context())
    found = [interpret_plan(module, {"a": data})["b"]]
    run_pipeline(module, "chunk.plan(chunk-decompose-collectives)")
    run_pipeline(module, CHECKS)
    found.append(interpret_plan(module, {"a": data})["b"])
    for memory in found:
        for rank, contents in enumerate(memory):
            lies, state = (np.moveaxis(x, axis, 0) for x in (contents.data, contents.defined))
            for sender in range(members):
                sent = rows[sender].reshape(members, room)[rank]
                here = slice(sender * room, (sender + 1) * room)
                right = np.moveaxis(data[sender], axis, 0)[sent]
                assert (state[here] == (sent >= 0)[:, None]).all()
                assert (lies[here][sent >= 0] == right[sent >= 0]).all()


def test_what_is_no_all_to_all_is_refused():
    plan = Plan("p", [3])
    a = plan.buffer("a", (7, 4), "f32")
    with pytest.raises(PlanError, match="expects src and dst to be two buffers"):
        plan.all_to_all(a, a)
    with pytest.raises(PlanError, match=r"expects dst to have shape \[9, 4\], but got \[7, 4\]"):
        plan.all_to_all(a, plan.buffer("b", (7, 4), "f32"))
    with pytest.raises(PlanError, match="dst: expects a buffer of the plan, but got 'b'"):
        plan.all_to_all(a, "b")
    with pytest.raises(PlanError, match="direction: expects one of push, pull, but got 'up'"):
        plan.all_to_all(a, plan.buffer("c", (9, 4), "f32"), direction="up")
    with pytest.raises(PlanError, match="member 2 to send each row once, but got row 3 twice"):
        plan.all_to_all(a, plan.buffer("d", (3, 4), "f32"), rows=[[0, 1, 2], [3, 2, 1], [3, -1, 3]])
    with pytest.raises(PlanError, match="rows: expects"):
        plan.all_to_all(a, plan.buffer("e", (3, 4), "f32"), rows=[0, 1, 2])


def test_the_root_is_a_member():
    plan = Plan("p", [3])
    a = plan.buffer("a", (7, 4), "f32")
    with pytest.raises(PlanError, match=r"expects root to be one of the group \[0, 1\], but got 2"):
        plan.broadcast(a, root=2, group=[0, 1])
    with pytest.raises(PlanError, match="root: expects an integer"):
        plan.broadcast(a, root="0")
