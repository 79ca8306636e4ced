"""Programs whose tiles compute parts of a sum run on the simulator: sound, and right, whatever the interleaving."""

import numpy as np
import pytest
from edited_tables import refuse_tables
from faults_tables import tables
from fused_edits import change, constant, drop, kernel
from sim_sums import SUMS, Collective, SumCase
from sim_table import options_of

from syncopate.abi import CommandReduction
from syncopate.choices import Combine, Direction, Realization
from syncopate.sim.findings import Kind
from syncopate.sim.simulate import simulate

SEEDS = (0, 1, 3)
"""A sample: two policies, and signals that wrap around."""


@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(case.build(), **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        error = case.error(result)
        assert np.isfinite(error), f"seed {seed}"
        assert error < case.tolerance, f"seed {seed}: {error}"


def _ints(draw, shape):
    return draw.integers(-255, 256, shape).astype(np.float32)


@pytest.mark.parametrize("collective", [Collective.REDUCE_SCATTER, Collective.ALL_REDUCE_ONCE])
def test_sum_of_eight_parts_is_rounded_once(collective):
    """Every part is a number of bf16 and every sum one of float32, so nothing but the end can be rounded."""
    world, (m, n, k) = 8, (512, 64, 32)
    case = SumCase(
        collective,
        Combine.ROLE,
        Direction.PUSH,
        Realization.LDST_COLOCATED,
        world=world,
        shape=(m, n, k),
    )
    draw = np.random.default_rng()
    a = [np.zeros((m, k), np.float32) for _ in range(world)]
    for block in a:
        block[:, 0] = _ints(draw, m)
    b = [(2.0 ** draw.integers(-4, 5, (n, k))).astype(np.float32) for _ in range(world)]
    result = simulate(case.build(), {"a": a, "b": b})
    assert result.verdict.ok, result.verdict
    total = sum(x.astype(np.float64) @ y.astype(np.float64).T for x, y in zip(a, b, strict=True))
    found = result.outputs[0]["c"]
    whole = np.concatenate(found) if collective is Collective.REDUCE_SCATTER else found[0]
    exponents = np.frexp(total)[1]
    assert (np.abs(whole.astype(np.float64) - total) <= np.ldexp(0.5, exponents - 8)).all()


def test_one_shot_gives_all_ranks_the_same_bits():
    case = SumCase(
        Collective.ALL_REDUCE_ONCE,
        Combine.ROLE,
        Direction.PUSH,
        Realization.LDST_COLOCATED,
        world=4,
        shape=(72, 64, 32),
        dtype="f32",
    )
    for outputs in simulate(case.build(), **options_of(0)).outputs:
        for other in outputs["c"][1:]:
            assert np.array_equal(outputs["c"][0], other)


ADDING = SumCase(Collective.ALL_REDUCE, Combine.TILES, Direction.PUSH, Realization.LDST_COLOCATED)
RELAXED = 1
"""Triton's number of that memory order."""


def _adding_branches(fused):
    """The branches in which tiles add to what is there."""
    return [op.operation.parent for op in fused.find(r"ttng\.async_tma_reduce")]


def _add_without_waiting(fused):
    """The flags that an adding tile waits for are not looked at."""
    for branch in _adding_branches(fused):
        for op in branch.regions[0].blocks[0].operations:
            if op.operation.name == "scf.if":
                op.operation.operands[0] = constant(False, "i1", op.operation)


def _never_add(fused):
    """Tiles overwrite what has arrived."""
    for branch in _adding_branches(fused):
        branch.operands[0] = constant(False, "i1", branch)


FAULTS = {
    "stores are not complete": drop(
        r"tt\.elementwise_inline_asm", "finish_tile", innermost="wait_for_tma_stores"
    ),
    "the count releases nothing": change(
        r"tt\.atomic_rmw", "sem", RELAXED, innermost="finish_tile"
    ),
    "added without a wait": _add_without_waiting,
    "never added": _never_add,
}
"""Edits of the code that the passes put at a tile's stores."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault_at_the_stores_of_tiles_is_found(fault):
    broken = kernel(fault)(ADDING.build())
    findings, wrong = [], False
    for seed in range(6):
        result = simulate(broken, **options_of(seed))
        findings += result.verdict.findings
        wrong = wrong or ADDING.error(result) > ADDING.tolerance
    assert findings or wrong


THERE = SumCase(
    Collective.REDUCE_SCATTER,
    Combine.DESTINATION,
    Direction.PUSH,
    Realization.LDST_COLOCATED,
    world=3,
    shape=(192, 64, 64),
)
GPU_SCOPE = 1
"""Triton's number of that scope."""


def test_additions_that_leave_other_gpus_out_are_found():
    broken = kernel(change(r"tt\.atomic_rmw", "scope", GPU_SCOPE, innermost="add_region"))
    verdict = simulate(broken(THERE.build()), **options_of(0)).verdict
    assert any(finding.kind is Kind.RACE for finding in verdict.findings)


def test_additions_that_release_nothing_are_found():
    broken = kernel(change(r"tt\.atomic_rmw", "sem", RELAXED, innermost="run_commands_ldst"))
    assert not simulate(broken(THERE.build()), **options_of(0)).verdict.ok


SUMMING = SumCase(
    Collective.REDUCE_SCATTER,
    Combine.ROLE,
    Direction.PUSH,
    Realization.LDST_COLOCATED,
    world=4,
    shape=(256, 64, 64),
)


@pytest.mark.parametrize(
    ("column", "value"), [("parts", 2), ("part_stride", 0), ("reduction", CommandReduction.MAX)]
)
def test_wrong_reductions_are_found(column, value):
    """By their results, and by the static check."""

    def edit(_, rank, columns):
        commands = columns["commands"]
        adds = commands["reduction"] != CommandReduction.NONE
        commands[column][adds] = value
        return adds.any()

    broken = tables(edit)(SUMMING.build())
    assert refuse_tables(broken)
    result = simulate(broken, **options_of(0))
    assert not result.verdict.ok or SUMMING.error(result) > SUMMING.tolerance


SPREADING = SumCase(
    Collective.ALL_REDUCE,
    Combine.DESTINATION,
    Direction.PUSH,
    Realization.LDST_COLOCATED,
    world=3,
    shape=(192, 64, 64),
)


@pytest.mark.parametrize("adds", [True, False], ids=["first value", "all additions"])
def test_no_wait_before_or_behind_additions_is_found(adds):
    """By the static check, and as a race or a wrong result in some interleaving."""

    def edit(_, rank, columns):
        commands = columns["commands"]
        these = (commands["reduction"] == CommandReduction.UNORDERED_SUM) == adds
        commands["wait_end"][these] = commands["wait_begin"][these]
        return these.any()

    broken = tables(edit)(SPREADING.build())
    assert refuse_tables(broken)
    results = [simulate(broken, **options_of(seed)) for seed in range(4)]
    assert any(
        finding.kind is Kind.RACE for result in results for finding in result.verdict.findings
    )
