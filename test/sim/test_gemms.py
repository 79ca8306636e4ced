"""GEMMs of every element type and layout, with an epilogue, run in programs on the simulator: sound, and right."""

import pytest
from fused_edits import block_of, change, constant, kernel
from sim_gemms import GEMMS, GemmCase, Program
from sim_table import options_of

from syncopate.sim.simulate import simulate

SEEDS = (0, 3)


@pytest.mark.parametrize("case", GEMMS, ids=lambda case: case.name)
def test_program_is_sound_and_right(case):
    for seed in SEEDS:
        options = options_of(seed)
        result = simulate(case.build(), **options)
        assert result.verdict.ok, result.verdict
        assert len(result.outputs) == options["calls"]
        for inputs, outputs in zip(result.inputs, result.outputs, strict=True):
            error = case.error(inputs, outputs)
            assert error < case.tolerance, f"seed {seed}: {error}"


ADDING = GemmCase(Program.AR)
RELAXED = 1
"""Triton's number of that memory order."""


def _adding_branches(fused):
    """The branches in which tiles add to what is there: they extend what they have loaded."""
    extensions = fused.find(r"arith\.extf", where=lambda op: op.operation.parent.name == "scf.if")
    return [op.operation.parent for op in extensions]


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


def _count_before_storing(fused):
    """A tile is counted before it is stored."""
    for op in fused.find(r"tt\.store", innermost="_store"):
        op.move_before(block_of(op)[-1])


FAULTS = {
    "counted before it is stored": _count_before_storing,
    "the count releases nothing": change(
        r"tt\.atomic_rmw", "sem", RELAXED, innermost="finish_tile"
    ),
    "added without a wait": _add_without_waiting,
    "never added": _never_add,
}
"""Edits of the code that the passes put at stores by pointers."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault_at_stores_by_pointers_is_found(fault):
    broken = kernel(fault)(ADDING.build())
    findings, errors = [], []
    for seed in range(6):
        result = simulate(broken, **options_of(seed))
        findings += result.verdict.findings
        errors += map(ADDING.error, result.inputs, result.outputs)
    assert findings or not all(error < ADDING.tolerance for error in errors)
