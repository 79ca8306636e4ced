"""Plain executions of imported plans: steps in a legal order that end with what numpy says; on ranks of gloo, too."""

import functools

import numpy as np
import pytest
from studies import load

pytest.importorskip("torch")
from plain_checks import SIZES, check_case, draw, expect, own, read_all
from torch_ranks import run_on_ranks

import syncopate
from syncopate.errors import SyncopateError
from syncopate.kernels import GemmConfig
from syncopate.sim.simulate import simulate

cases = load("common.imported_cases")
plain_plan = load("common.plain_plan")

TINY = GemmConfig(block_m=32, block_n=32, block_k=32, num_warps=4, num_ctas=2)


class Ranks:
    """Ranks that go as far ahead with pieces of the product as steps need, and no farther."""

    def __init__(self, case, plan, given):
        self.case, self.plan, self.given, self.done = case, plan, given, [0] * case.ranks
        self.memory = [
            {name: np.full(shape, np.nan, np.float32) for name, shape in plan.buffers.items()}
            for _ in given
        ]
        self.c = [np.full(case.shape[:2], np.nan, np.float32) for _ in given]
        if case.reads:
            for rank, (a, _) in enumerate(given):
                np.copyto(np.split(self.memory[rank][plan.kernel.buffer], case.ranks)[rank], a)

    def run(self):
        for number, step in enumerate(self.plan.steps):
            for rank, needed in enumerate(self.plan.needed):
                ahead = sum(steps <= number for steps in needed)
                self.compute(rank, ahead if self.case.reads else needed[number])
            self.move(step)
        for rank in range(self.case.ranks):
            self.compute(rank, len(self.plan.kernel.pieces))
            c = self.c[rank] if self.case.reads else self.memory[rank][self.plan.kernel.buffer]
            yield own(self.case, rank, c)

    def compute(self, rank, count):
        kernel, (a, b) = self.plan.kernel, self.given[rank]
        for number in self.plan.orders[rank][self.done[rank] : count]:
            piece, moved = kernel.pieces[number].slices, self.memory[rank][kernel.buffer]
            if kernel.reads:
                self.c[rank][piece[0]] = moved[piece] @ b
            else:
                moved[piece] = a[piece[0]] @ b[:, piece[1]]
        self.done[rank] = max(self.done[rank], count)

    def move(self, step):
        """All of a step is read before any of it is written."""
        values = [self.memory[each.src_rank][each.src][each.src_box.slices].copy() for each in step]
        for each, value in zip(step, values, strict=True):
            place = self.memory[each.dst_rank][each.dst][each.dst_box.slices]
            np.copyto(place, place + value if each.sums else value)


@pytest.mark.any_triton
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", cases.CASES)
def test_steps_end_with_the_product(name, ranks):
    case = cases.make_case(name, ranks, *SIZES)
    given = draw(case)
    for plan in read_all(case):
        for found, right in zip(Ranks(case, plan, given).run(), expect(case, given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3)


@pytest.mark.any_triton
def test_pieces_and_steps_overlap():
    """A ring has a step for each hop; what comes after the first pieces does not wait for the last."""
    ring = cases.make_case("mercury-ring", 4, *SIZES).read(1)
    assert [len(step) for step in ring.steps] == [4, 4, 4]
    assert ring.needed == ((0, 1, 2, 3),) * 4
    assert ring.orders[1] == (1, 0, 3, 2)
    split = cases.make_case("domino", 2, *SIZES).read(1)
    assert len(split.kernel.pieces) == 4 and split.needed[0][:4] == (1, 2, 3, 4)
    whole = cases.make_case("domino", 2, *SIZES).read_sequence()
    assert len(whole.kernel.pieces) == 1 and set(whole.needed[0]) == {1}


@pytest.mark.any_triton
def test_what_has_no_plain_execution_is_refused():
    plan = syncopate.Plan("largest", mesh=[2])
    c = plan.buffer("c", (8, 8), "f32")
    made = [plan.produce(c[:], rank=rank) for rank in range(2)]
    plan.all_reduce(c, reduction="max", after=made)
    with pytest.raises(SyncopateError, match="plan: expects sums, but got #chunk<reduction max>"):
        plain_plan.read_plain_plan(plan.text, plain_plan.cut_kernel("c", (8, 8), False, 2))


@pytest.mark.any_triton
def test_sends_and_receives_end_with_the_product():
    results = run_on_ranks({name: functools.partial(check_case, name) for name in cases.CASES})
    assert {name: texts for name, texts in results.items() if any(texts)} == {}


@pytest.mark.parametrize("name", cases.CASES)
def test_fused_programs_end_with_the_product(name):
    """The same plans, as benchmark/imported_plans.py compiles them."""
    case = cases.make_case(name, 2, *SIZES)
    for of_workload in {False, case.workload is not None}:
        way = cases.Way(syncopate.Strategy(realization="ldst_colocated", splits=2), of_workload)
        program, given_name = case.compile(way, TINY)
        result = simulate(program, calls=2, seed=3)
        assert result.verdict.ok, result.verdict
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            a, b = ([x.astype(np.float32) for x in inputs[key]] for key in (given_name, "b"))
            b = b if case.transpose_b else [x.T for x in b]
            (found,) = outputs.values()
            for c, right in zip(found, expect(case, list(zip(a, b, strict=True))), strict=True):
                assert np.abs(c.astype(np.float32) - right).max() < 2e-2 * np.abs(right).max()
